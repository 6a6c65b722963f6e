package stored

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// End is the value of an inbox item that tells how a run has ended.
type End struct {
	RunID  string       `cbor:"1,keyasint"`
	Status store.Status `cbor:"2,keyasint"` // 0: there is no such run
	Output []byte       `cbor:"3,keyasint"` // result, or failure record
	Reason string       `cbor:"4,keyasint,omitempty"`
}

// Encode returns the stored form of e.
func (e End) Encode() []byte { return encode(e) }

// DecodeEnd is the inverse of Encode. The error wraps store.ErrDamaged.
func DecodeEnd(data []byte) (e End, err error) {
	err = decode(data, &e)
	return e, err
}

// watcher is the value of an inbox item Watch.
type watcher struct {
	Run store.RunNo `cbor:"1,keyasint"` // that is to be notified
}

// Link is the value of the entry of a child or an awaited run, and the details of
// its failure.
type Link struct {
	RunID    string `cbor:"1,keyasint"`
	Workflow string `cbor:"2,keyasint,omitempty"` // of a child
	Leave    bool   `cbor:"3,keyasint,omitempty"` // it is not cancelled with its parent
	Detached bool   `cbor:"4,keyasint,omitempty"` // nobody awaits it
	Key      string `cbor:"5,keyasint,omitempty"` // of a watch
	// Of one that has ended:
	Status store.Status `cbor:"6,keyasint,omitempty"`
	Reason string       `cbor:"7,keyasint,omitempty"`
	Output []byte       `cbor:"8,keyasint"`           // of one that has succeeded
	Item   store.ItemNo `cbor:"9,keyasint,omitempty"` // that brought the end
	ItemID string       `cbor:"10,keyasint,omitempty"`

	// Dropped says of a child that it was cancelled because nobody waited for it any
	// more. It is one more than the completion after which that happened.
	Dropped int64 `cbor:"11,keyasint,omitempty"`
	// Again says of a child that is begun again, after such a cancel was reverted, how
	// often that happened. Former is the ID of the former child, until the new one is
	// begun, or if the former one has ended otherwise. If RunID is empty, it follows from
	// Again.
	Again  int64  `cbor:"12,keyasint,omitempty"`
	Former string `cbor:"13,keyasint,omitempty"`
	// Stands is the End that was recorded before a retry, rewind or fork has reverted it.
	// It stands if there is no such run any more.
	Stands []byte `cbor:"14,keyasint,omitempty"`
	// Fails says of a child that its end fails the scope which has started it, unless it
	// has succeeded.
	Fails bool `cbor:"15,keyasint,omitempty"`
	// Since is the number of the request that has retried the child with its run: ends that were
	// told before are reverted. 0: it was not.
	Since store.ItemNo `cbor:"16,keyasint,omitempty"`
	// Named says of a child that its code has given its ID, which other runs may have had or
	// have. The end comes as the answer to a watch, with Key, and never by the ID.
	Named bool `cbor:"17,keyasint,omitempty"`
	// Differs says of a Former child of a Named one that it has another input: its end is not that
	// of the new one.
	Differs bool `cbor:"18,keyasint,omitempty"`
}

// EndOf returns the recorded end of the entry of a child or an awaited run as Link.Stands
// has it, or nil if it has none, or that there was no such run. The error wraps
// store.ErrDamaged.
func EndOf(state store.EntryState, value []byte) ([]byte, error) {
	l, err := DecodeLink(state, value)
	if err != nil || !l.Status.Terminal() {
		return nil, err
	}
	end := End{RunID: l.RunID, Status: l.Status, Output: l.Output, Reason: l.Reason}
	if state == store.FailedEntry {
		f, err := DecodeFailure(value)
		if err != nil {
			return nil, err
		}
		if f.Cause != nil {
			end.Output = EncodeFailure(f.Cause)
		}
	}
	return end.Encode(), nil
}

// DroppedAtEnd returns Link.Dropped of a child that is cancelled because the run ends,
// and not by its code: every retry or rewind reverts that.
func DroppedAtEnd(last int64) int64 { return last + 2 }

// Encode returns the stored form of l.
func (l Link) Encode() []byte { return encode(l) }

// Name returns the name of the inbox item that brings the end.
func (l *Link) Name() string { return cmp.Or(l.Key, l.Former, l.RunID) }

// DecodeLink reads the value of the entry of a child or an awaited run. Of a failed
// one without a run the link is empty. The error wraps store.ErrDamaged.
func DecodeLink(state store.EntryState, value []byte) (l Link, err error) {
	if state != store.FailedEntry {
		err = decode(value, &l)
		return l, err
	}
	f, err := DecodeFailure(value)
	if err != nil || f.Details == nil {
		return l, err
	}
	return f.Link()
}

// Link returns what a failure with CodeRun says of the run. The error wraps
// store.ErrDamaged.
func (f *Failure) Link() (l Link, err error) {
	err = decode(f.Details, &l)
	return l, err
}

// RunFailure returns the failure of an operation that awaits a run which has not
// succeeded.
func RunFailure(e *End) *Failure {
	f := &Failure{Code: CodeRun, Details: Link{RunID: e.RunID, Status: e.Status, Reason: e.Reason}.Encode()}
	switch e.Status {
	case 0:
		f.Code, f.Message = CodeNotFound, fmt.Sprintf("run %q: not found", e.RunID)
	case store.Failed:
		cause, err := DecodeFailure(e.Output)
		if err != nil {
			cause = &Failure{Code: CodeEncoding, Message: err.Error()}
		}
		f.Cause, f.Message = cause, fmt.Sprintf("run %q failed: %s", e.RunID, cause.Message)
	default:
		f.Message = fmt.Sprintf("run %q is %s: %s", e.RunID, e.Status, e.Reason)
	}
	return f
}

// Watching returns the command by which a run requests to be notified of the end of
// another one, by an item End with the name. A repeat with the same id changes nothing.
func Watching(watching store.RunNo, runID, name, id string) store.Command {
	return store.Command{RunID: runID, Item: &store.Item{
		Kind: store.ItemWatch, ID: id, Origin: id, Name: name, Value: encode(watcher{Run: watching}),
	}}
}

// watchedByParent reports whether the parent of a run waits for its end by a watch where it has
// started the run, as it does if its code has given the ID.
func watchedByParent(run *store.Run, watches []store.Item) bool {
	return slices.ContainsFunc(watches, func(it store.Item) bool {
		var w watcher
		return it.Loc == run.ParentLoc && it.Name != run.ID && decode(it.Value, &w) == nil && w.Run == run.Parent
	})
}

// Notify returns the commands that notify the parent of a run, and the runs that watch
// it, of its end. run is as it will be; newID makes IDs of items.
func Notify(run *store.Run, watches []store.Item, newID func() string) []store.Command {
	var sends []store.Command
	end := End{RunID: run.ID, Status: run.Status, Output: run.Output, Reason: run.Reason}
	if end.Status == store.Cancelled {
		end.Output = nil // what it owes is not for other runs
	}
	value := end.Encode()
	notify := func(to store.RunNo, name string, incarnation int, loc string) {
		id := newID()
		sends = append(sends, store.Command{RunNo: to, Item: &store.Item{
			Kind: store.ItemEnd, ID: id, Origin: id, Name: name, Incarnation: incarnation, Loc: loc, Value: value,
		}})
	}
	if run.Parent != 0 && run.ParentLoc != "" && !watchedByParent(run, watches) {
		notify(run.Parent, run.ID, 0, run.ParentLoc)
	}
	for i := range watches {
		var w watcher
		if it := &watches[i]; decode(it.Value, &w) == nil && w.Run > 0 {
			notify(w.Run, it.Name, it.Incarnation, it.Loc)
		}
	}
	return sends
}
