package history

import (
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// receive is a wait for messages and updates.
type receive struct{ ordinary }

func (receive) giveBack(r *Revert, e *store.Entry, _ bool) error {
	if e.State != store.Done {
		return nil
	}
	messages, err := stored.DecodeReceipt(e.Value)
	if err != nil {
		return damaged(e, err)
	}
	for _, m := range messages {
		kind := store.ItemMessage
		if m.Update {
			kind = store.ItemUpdate
		}
		r.Returned = append(r.Returned, store.Item{
			Kind: kind, No: m.No, Name: m.Name, ID: m.ID, Sent: m.Sent, Value: m.Value, Headers: m.Headers,
		})
	}
	return nil
}

func (receive) consumed(e *store.Entry) ([]store.Item, error) {
	if e.State != store.Done {
		return nil, nil
	}
	messages, err := stored.DecodeReceipt(e.Value)
	if err != nil {
		return nil, damaged(e, err)
	}
	items := make([]store.Item, len(messages))
	for i, m := range messages {
		items[i] = store.Item{Kind: store.ItemMessage, No: m.No, Name: m.Name, ID: m.ID, Sent: m.Sent}
	}
	return items, nil
}

// promise is assigned once, from outside. It takes effect when it is requested.
type promise struct{ ordinary }

func (promise) redone(bool) bool { return false }

func (promise) giveBack(r *Revert, e *store.Entry, worthless bool) error {
	if worthless || !assigned(e) {
		return nil // its resolution was for a token that nobody awaits
	}
	it := store.Item{
		Kind: store.ItemResolution, Generation: e.Generation, Loc: e.Loc,
		Failed: e.State == store.FailedEntry, Sent: e.At, Value: e.Value,
	}
	if it.Failed {
		if failure, err := stored.DecodeFailure(e.Value); err == nil { // otherwise it is of an older form
			it.Headers = failure.Headers
		}
	} else {
		var err error
		if it.Headers, it.Value, err = stored.SplitHeaders(e.Value); err != nil {
			return damaged(e, err)
		}
	}
	r.Returned = append(r.Returned, it)
	return nil
}

func (promise) consumed(e *store.Entry) ([]store.Item, error) {
	if !assigned(e) {
		return nil, nil
	}
	return []store.Item{{
		Kind: store.ItemResolution, ID: stored.ResolutionID(e.Loc, 0, 0), Loc: e.Loc, Sent: e.At,
	}}, nil
}

// assigned reports whether the entry of a promise has its outcome.
func assigned(e *store.Entry) bool { return e.State == store.Done || e.State == store.FailedEntry }

// wait is a wait for an event of a topic.
type wait struct{ ordinary }

// One that is open again is registered again.
func (wait) reopen(e *store.Entry, _ store.Time) (store.Entry, error) {
	open := reopened(e)
	open.State = store.Withdrawn
	return open, nil
}

func (wait) giveBack(r *Revert, e *store.Entry, _ bool) error {
	var d event.Delivery
	var w event.Wait
	var err error
	switch e.State {
	case store.Done:
		if err = event.Decode(e.Value, &d); err == nil && (d.Key != "" || d.Event.Mode == event.Broadcast) {
			r.events = append(r.events, d)
		}
	case store.Open:
		if err = event.Decode(e.Value, &w); err == nil {
			r.Sends = append(r.Sends, event.Withdraw(w.Topic, w.Key))
		}
	}
	if err != nil {
		return damaged(e, err)
	}
	return nil
}

// The forked run registers a wait of its own, and the other run has taken the event.
func (wait) share(e *store.Entry) error {
	switch e.State {
	case store.Open:
		e.State, e.Value = store.Withdrawn, nil
	case store.Done:
		var d event.Delivery
		if err := event.Decode(e.Value, &d); err != nil {
			return damaged(e, err)
		}
		d.Key = ""
		e.Value = event.Encode(&d)
	}
	return nil
}

// A wait whose value cannot be read is registered nowhere that anybody could find out.
func (wait) forsake(e *store.Entry, _ int64) (store.Entry, []store.Command, bool) {
	var w event.Wait
	if e.State != store.Open || event.Decode(e.Value, &w) != nil {
		return store.Entry{}, nil, false
	}
	return Withdrawn(e), []store.Command{event.Withdraw(w.Topic, w.Key)}, true
}
