package history

import (
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// kind answers what a change of a history must know of an entry by its kind of
// operation. A value of kind has no state. Errors say that the entry's value cannot be
// read, or are a Refusal.
type kind interface {
	// redone reports whether a rewind to before a place deletes the entry if it is
	// inside that place. whole: the place is all of the run.
	redone(whole bool) bool
	// reopen returns an entry as it was before it completed, with what it had handed
	// out, or an empty one if it goes with its completion.
	reopen(e *store.Entry, now store.Time) (store.Entry, error)
	// trim returns an entry that stands as it was at the cut, or an empty one if it
	// stays as it is.
	trim(h *history, e *store.Entry, cut int64) (store.Entry, error)
	// giveBack notes in r what a reverted entry has consumed and begun. worthless says
	// that nobody will use again what the entry had handed out.
	giveBack(r *Revert, e *store.Entry, worthless bool) error
	// consumed returns the items that an entry has consumed, without their contents.
	consumed(e *store.Entry) ([]store.Item, error)
	// share changes an entry of another run into one that a forked run has too.
	share(e *store.Entry) error
	// edit returns an entry with another outcome, and what the turn sends with it.
	edit(h *history, e *store.Entry, q *stored.Request, now store.Time) (store.Entry, []store.Command, error)
	// forsake returns an entry as it is when its run has ended, and what the turn sends
	// with it. last is the run's last completion number. ok is false if the entry stays
	// as it is.
	forsake(e *store.Entry, last int64) (ended store.Entry, sends []store.Command, ok bool)
}

// kinds has a value for each kind of operation.
var kinds = [...]kind{
	store.KindStep:    step{},
	store.KindSleep:   ordinary{},
	store.KindReceive: receive{},
	store.KindPromise: promise{},
	store.KindTimer:   ordinary{},
	store.KindCancel:  cancel{},
	store.KindWait:    ordinary{},
	store.KindUndo:    undo{},
	store.KindLoop:    loop{},
	store.KindChild:   child{},
	store.KindRun:     awaited{},
	store.KindVersion: version{},
	store.KindShown:   ordinary{},
	store.KindEntity:  ordinary{},
	store.KindEvent:   wait{},
	store.KindPublish: publication{},
	store.KindSend:    publication{},

	store.KindSagaUndo: undo{},
}

// of returns what is known of the entry's kind. An unknown kind is an ordinary one.
func of(e *store.Entry) kind {
	if int(e.Kind) < len(kinds) && kinds[e.Kind] != nil {
		return kinds[e.Kind]
	}
	return ordinary{}
}

// ordinary is the kind of an operation that hands out nothing, consumes nothing and is
// requested again by the code that stands. The other kinds embed it.
type ordinary struct{}

func (ordinary) redone(bool) bool { return true }

func (ordinary) reopen(e *store.Entry, _ store.Time) (store.Entry, error) { return reopened(e), nil }

func (ordinary) trim(*history, *store.Entry, int64) (store.Entry, error) { return store.Entry{}, nil }

func (ordinary) giveBack(*Revert, *store.Entry, bool) error { return nil }

func (ordinary) consumed(*store.Entry) ([]store.Item, error) { return nil, nil }

func (ordinary) share(*store.Entry) error { return nil }

func (ordinary) edit(
	_ *history, e *store.Entry, q *stored.Request, _ store.Time,
) (store.Entry, []store.Command, error) {
	return store.Entry{}, nil, refuseTo("%s is a %s: only the outcome of a step can be edited", place(e), e.Kind)
}

func (ordinary) forsake(*store.Entry, int64) (store.Entry, []store.Command, bool) {
	return store.Entry{}, nil, false
}

// reopened returns an entry as an open one of its kind begins.
func reopened(e *store.Entry) store.Entry {
	return store.Entry{
		Loc: e.Loc, Kind: e.Kind, State: store.Open, Born: e.Born, Generation: e.Generation, Started: e.Started,
	}
}

// Withdrawn returns an open entry, without its value, as it is when nobody waits for
// it any more.
func Withdrawn(e *store.Entry) store.Entry {
	return store.Entry{Loc: e.Loc, Kind: e.Kind, State: store.Withdrawn, Born: e.Born, Generation: e.Generation}
}

// cancel is the cancel of the whole run. It goes with its completion.
type cancel struct{ ordinary }

func (cancel) reopen(*store.Entry, store.Time) (store.Entry, error) { return store.Entry{}, nil }

// version is which version of a change the run takes. It takes effect when it is
// requested: of a place that is redone the versions stay.
type version struct{ ordinary }

func (version) redone(whole bool) bool { return whole }

// edit gives the run another version, whose code was replayed against its history.
func (version) edit(
	_ *history, e *store.Entry, q *stored.Request, _ store.Time,
) (store.Entry, []store.Command, error) {
	if _, err := stored.DecodeVersion(q.Value); err != nil || q.Failed {
		return store.Entry{}, nil, refuseTo("%s is the version of a change: it is edited by a move to another one", place(e))
	}
	edited := *e
	edited.Size, edited.Value = 0, q.Value
	return edited, nil, nil
}

// publication is an event that the run has published, or a message that it has sent. It
// takes effect when it is requested.
type publication struct{ ordinary }

func (publication) redone(bool) bool { return false }

// reopen keeps the value of a message that was sent: it is not sent again.
func (publication) reopen(e *store.Entry, _ store.Time) (store.Entry, error) {
	open := reopened(e)
	if e.State == store.Done {
		open.Value = e.Value
	}
	return open, nil
}
