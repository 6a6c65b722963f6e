package history

import (
	"encoding/hex"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// awaited is another run whose end this run awaits. It takes effect when it is
// requested.
type awaited struct{ ordinary }

func (awaited) redone(bool) bool { return false }

// One that is open again asks again how the other run has ended; if that is gone, what was
// recorded stands. It goes if nothing was begun.
func (awaited) reopen(e *store.Entry, _ store.Time) (store.Entry, error) {
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil {
		return store.Entry{}, damaged(e, err)
	}
	if l.RunID == "" {
		return store.Entry{}, nil
	}
	stands, err := stored.EndOf(e.State, e.Value)
	if err != nil {
		return store.Entry{}, damaged(e, err)
	}
	if stands == nil {
		stands = l.Stands
	}
	open := reopened(e)
	open.State, open.Value = store.Withdrawn, stored.Link{
		RunID: l.RunID, Workflow: l.Workflow, Leave: l.Leave, Detached: l.Detached,
		Key: l.Key, Again: l.Again, Former: l.Former, Stands: stands, Fails: l.Fails, Named: l.Named,
	}.Encode()
	return open, nil
}

// Both runs await it, and it is not cancelled with the new one. A child that will be
// begun again is the fork's own.
func (awaited) share(e *store.Entry) error {
	if e.State != store.Open && e.State != store.Withdrawn {
		return nil
	}
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil {
		return damaged(e, err)
	}
	if l.Detached {
		return nil
	}
	l.Leave = l.Former == ""
	e.State, e.Value = store.Withdrawn, l.Encode()
	return nil
}

// child is a run that this one has started.
type child struct{ awaited }

// A child that was cancelled after the cut, because nobody waited for it any more, is
// begun again when it is awaited again.
func (child) trim(_ *history, e *store.Entry, cut int64) (store.Entry, error) {
	if e.State != store.Withdrawn {
		return store.Entry{}, nil
	}
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil {
		return store.Entry{}, damaged(e, err)
	}
	if l.Dropped <= cut {
		return store.Entry{}, nil
	}
	again := *e
	again.Size, again.Value = 0, stored.Link{
		Workflow: l.Workflow, Again: l.Again + 1, Former: l.RunID, Fails: l.Fails, Named: l.Named, Key: l.Key,
	}.Encode()
	return again, nil
}

func (child) giveBack(r *Revert, e *store.Entry, worthless bool) error {
	if !worthless || e.State != store.Open {
		return nil
	}
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil {
		return damaged(e, err)
	}
	if !l.Leave && !l.Detached {
		r.Children = append(r.Children, l.RunID)
	}
	return nil
}

// Nobody awaits a child that Orphans cancels.
func (child) forsake(e *store.Entry, last int64) (store.Entry, []store.Command, bool) {
	if e.State != store.Open {
		return store.Entry{}, nil, false
	}
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil || l.Leave {
		return store.Entry{}, nil, false
	}
	l.Dropped = stored.DroppedAtEnd(last)
	ended := Withdrawn(e)
	ended.Value = l.Encode()
	return ended, nil, true
}

// Orphans returns the commands that cancel the children in a history that end with
// their run: those for which want reports true, or all if want is nil.
func Orphans(run *store.Run, entries []store.Entry, want func(*store.Entry) bool) []store.Command {
	var sends []store.Command
	for i := range entries {
		e := &entries[i]
		if e.Kind != store.KindChild || e.State != store.Open || want != nil && !want(e) {
			continue
		}
		if l, err := stored.DecodeLink(e.State, e.Value); err == nil && !l.Leave {
			sends = append(sends, Orphan(run, place(e), l.RunID))
		}
	}
	return sends
}

// Orphan returns the command that cancels a child because its parent ends.
func Orphan(run *store.Run, loc location.Loc, childID string) store.Command {
	return CancelChild(run, loc, childID, "its parent has ended")
}

// CancelChild returns the command that cancels the child that was started at a
// location. Within a generation it is the same item each time.
func CancelChild(run *store.Run, loc location.Loc, childID, why string) store.Command {
	h := stored.Derive(run.Seed, "cancel", run.Generation, loc, 0)
	return cancelChild(run.No, childID, hex.EncodeToString(h[:16]), why)
}

// cancelChild returns the command with which a run cancels its child by an item with the given ID.
func cancelChild(parent store.RunNo, childID, id, why string) store.Command {
	return store.Command{RunID: childID, Item: &store.Item{
		Kind: store.ItemCancel, ID: id, Origin: id, Value: []byte(why), Headers: stored.FromParent(parent),
	}}
}
