package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Revert is what a retry or a rewind undoes of a history.
//
// # What goes, what opens, what stands
//
// The cut is a completion number: completions below it stand, the others are
// reverted. Of the entries
//
//   - one that was requested at or after the cut (Born) is gone: code that stands
//     does not request it;
//   - one that was requested before the cut and completed at or after it is open
//     again, with what it had handed out (key, token, child), because code that
//     stands requests it;
//   - the others stay as they are; but a child that was cancelled after the cut,
//     because nobody waited for it any more, is begun again when it is awaited
//     again, unless it has ended otherwise.
//
// A rewind to a location reverts that place completely: its own entry and what is
// inside it is gone as well, so that it is redone from scratch. An exception is what
// takes effect when it is requested and not when it completes (promises, children,
// watches, versions): of these, those that the standing code requests are kept, or open
// again. A replay could not tell a new one from one that was inserted.
//
// A retry cuts at the failed entry, and opens that too.
type Revert struct {
	Cut      int64
	Prune    []store.Span
	Rewrites []store.Entry
	Returned []store.Item // what the reverted part has consumed, by number
	Children []string     // IDs of those begun there that end with their parent
	// Failed are the IDs of the children whose failures a retry reverts, in the order of their
	// ends: they are to be retried, too. Of a rewind there are none.
	Failed []string
	// Sends is for topics and queues: events that were taken, waits that stood, and
	// permits. ForRun adds those that depend on the run.
	Sends  []store.Command
	events []event.Delivery // that were taken

	Completions int // reverted
	Deleted     int // entries
	Reopened    int
}

// Retry returns what a retry of a failed run reverts: the entry that its failure wraps, or
// otherwise the first failed one to which the code has not reacted, and all that completed
// since. It also returns the location of that entry. If there is none the function has
// failed by itself: nothing is reverted, and the location is "". A Refusal says why the
// run cannot be retried.
func Retry(run *store.Run, entries []store.Entry, now store.Time) (*Revert, location.Loc, error) {
	h, err := newHistory(entries)
	if err != nil {
		return nil, "", err
	}
	if run.Marks&store.Undoing != 0 || slices.ContainsFunc(entries, endsRun) {
		return nil, "", Refusal("its undoing has begun: it can be rewound to before what is undone, and not retried")
	}
	cut, at := h.last+1, location.Loc("")
	if failed := h.failed(run); failed != nil {
		cut, at = failed.Seq, place(failed)
		if err := h.allows(cut, at); err != nil {
			return nil, "", err
		}
	}
	r, err := h.revert(cut, now, func(*store.Entry) bool { return false }, true)
	return r, at, err
}

// Rewind returns what a rewind to before a location reverts; the root is all of the
// run. entries are those of the run's incarnation in the order of locations, with
// values. A Refusal says why the run cannot be rewound to there; another error, that
// something cannot be read.
func Rewind(entries []store.Entry, at location.Loc, now store.Time) (*Revert, error) {
	h, err := newHistory(entries)
	if err != nil {
		return nil, err
	}
	inside := func(e *store.Entry) bool { return e.Loc == string(at) || at == "" || at.Contains(place(e)) }
	cut, err := h.cutAt(at, inside)
	if err != nil {
		return nil, err
	}
	if err := h.allows(cut, at); err != nil {
		return nil, err
	}
	return h.revert(cut, now, func(e *store.Entry) bool {
		entered := e.Loc == string(at) && isIteration(e)
		return inside(e) && !entered && of(e).redone(at == "")
	}, false)
}

// revert reverts what is not below the cut, and the entries for which also reports
// true. same says that what is redone keeps the identity that it had.
func (h *history) revert(cut int64, now store.Time, also func(*store.Entry) bool, same bool) (*Revert, error) {
	r := &Revert{Cut: cut}
	kept := true // the entry before
	var failed []*store.Entry
	for i := range h.entries {
		e := &h.entries[i]
		completed := e.Seq >= cut
		gone := e.Born >= cut || also(e)
		var open store.Entry
		var err error
		switch {
		case gone:
		case completed:
			open, err = of(e).reopen(e, now)
			gone = open.Loc == ""
		default:
			open, err = of(e).trim(h, e, cut)
		}
		if err == nil && (gone || completed) {
			err = of(e).giveBack(r, e, gone && !same)
		}
		if same && e.Kind == store.KindChild {
			again := !gone && !completed && open.Loc != "" // was to be cancelled, and may have failed before
			if again || completed && e.State == store.FailedEntry {
				failed = append(failed, e)
			}
		}
		if err != nil {
			return nil, err
		}
		switch {
		case gone && kept:
			r.Prune = append(r.Prune, spanOf(e.Loc))
		case gone:
			r.Prune[len(r.Prune)-1].To = spanOf(e.Loc).To
		case open.Loc != "":
			r.Rewrites = append(r.Rewrites, open)
		}
		if completed {
			r.Completions++
		}
		if gone {
			r.Deleted++
		} else if completed {
			r.Reopened++
		}
		kept = !gone
	}
	if err := r.retryToo(failed); err != nil {
		return nil, err
	}
	slices.SortFunc(r.Returned, func(a, b store.Item) int { return int(a.No - b.No) })
	return r, nil
}

// retryToo notes the children of failed entries.
func (r *Revert) retryToo(failed []*store.Entry) error {
	slices.SortFunc(failed, func(a, b *store.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range failed {
		l, err := stored.DecodeLink(e.State, e.Value)
		switch {
		case err != nil:
			return damaged(e, err)
		case l.RunID != "":
			r.Failed = append(r.Failed, l.RunID)
		}
	}
	return nil
}

// Retries returns the commands that retry Failed. Each is a request like that for the run
// itself: by the same person, and with the same value. Ends of these children that were told
// before that do not count any more: some are still in the inbox.
func (r *Revert) Retries(request *store.Item, newID func() string) ([]store.Command, error) {
	for i := range r.Rewrites {
		e := &r.Rewrites[i]
		if e.Kind != store.KindChild {
			continue
		}
		l, err := stored.DecodeLink(e.State, e.Value)
		if err != nil {
			return nil, damaged(e, err)
		}
		if slices.Contains(r.Failed, cmp.Or(l.Former, l.RunID)) {
			l.Since = request.No
			e.Value = l.Encode()
		}
	}
	var retries []store.Command
	for _, child := range r.Failed {
		id := newID()
		retries = append(retries, store.Command{RunID: child, Item: &store.Item{
			Kind: store.ItemRetry, ID: id, Origin: id, Name: request.Name, Value: request.Value,
		}})
	}
	return retries, nil
}

// spanOf returns the span of one location without what is inside it.
func spanOf(loc string) store.Span {
	if len(loc) < store.MaxLocation {
		return store.Span{From: loc, To: loc + "\x00"}
	}
	b := []byte(loc) // nothing is inside it; no location ends with the highest byte
	b[len(b)-1]++
	return store.Span{From: loc, To: string(b)}
}

// ForRun fills in what depends on the run and its incarnation.
func (r *Revert) ForRun(run *store.Run) *Revert {
	for i := range r.events {
		r.Sends = append(r.Sends, event.GiveBack(run, &r.events[i]))
	}
	for i := range r.Returned {
		if it := &r.Returned[i]; it.Kind == store.ItemResolution {
			it.Incarnation = run.Incarnation
			it.ID = stored.ResolutionID(it.Loc, run.Incarnation, it.Generation)
		}
	}
	return r
}

// Apply returns the history as it is afterwards.
func (r *Revert) Apply(entries []store.Entry) []store.Entry {
	rewritten := map[string]store.Entry{}
	for _, e := range r.Rewrites {
		rewritten[e.Loc] = e
	}
	var stands []store.Entry
	for _, e := range entries {
		if slices.ContainsFunc(r.Prune, func(s store.Span) bool { return s.Contains(e.Loc) }) {
			continue
		}
		if r, ok := rewritten[e.Loc]; ok {
			e = r
			e.Size = len(e.Value)
		}
		stands = append(stands, e)
	}
	return stands
}

// Cancels returns the commands with which their parent cancels Children. newID makes IDs of items.
func (r *Revert) Cancels(parent store.RunNo, newID func() string) []store.Command {
	var cancels []store.Command
	for _, child := range r.Children {
		cancels = append(cancels, cancelChild(parent, child, newID(), "its parent was rewound to before it"))
	}
	return cancels
}

// String says in words what is reverted.
func (r *Revert) String() string {
	text := fmt.Sprintf("%d completions from number %d on, %d entries deleted, %d open again",
		r.Completions, r.Cut, r.Deleted, r.Reopened)
	if n := len(r.Returned); n > 0 {
		text += fmt.Sprintf(", %d items back in the inbox", n)
	}
	if n := len(r.events); n > 0 {
		text += fmt.Sprintf(", %d events back at their topics", n)
	}
	if n := len(r.Failed); n > 0 {
		text += fmt.Sprintf(", %d children retried as far as they have failed", n)
	}
	if n := len(r.Children); n > 0 {
		text += fmt.Sprintf(", %d children cancelled", n)
	}
	return text
}
