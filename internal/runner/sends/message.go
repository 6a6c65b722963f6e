package sends

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Send sends a message, an update or a resolution to another run in the turn. It takes effect
// and is recorded like a publication.
type Send struct {
	Call sched.Call
	To   string // ID of the run
	// Item is what is sent. What names the act is its Origin if that is "", and is added to the end
	// of its ID, except that of a resolution.
	Item store.Item
	// Find completes the item by what stands in the store, or says why it cannot be sent: there is
	// no room, or no such promise. An error breaks the activation. nil: neither.
	Find func(context.Context, *store.Item) (refused *stored.Failure, err error)
}

// message is the sending of an item.
type message struct {
	journal.Op
	of   *Sends
	spec Send
}

// Send sends an item to another run. It returns the key of an update, which is a part of its
// ID. Failures are those of Find. The branch has entered the call.
func (s *Sends) Send(b *sched.Branch, m Send) (key string, err error) {
	o := &message{of: s, spec: m}
	update := m.Item.Kind == store.ItemUpdate
	s.j.Declare(b, &o.Op, o, m.Call, store.KindSend)
	if o.Rec != nil {
		value := o.Rec.Value
		if o.Rec.State != store.Done || o.Rec.Numbered() {
			if err := o.Wait(b, m.Call); err != nil {
				return "", err
			}
			value = o.Value
		}
		if !update {
			return "", nil
		}
		sent, err := stored.DecodeSent(value)
		if err != nil {
			s.j.Owner.Damaged(o.Loc, err)
			b.Halt()
		}
		return sent.Key, nil
	}
	if !o.admit() {
		b.Halt()
	}
	if o.Failure != nil {
		return "", o.Wait(b, m.Call)
	}
	sent := o.sent()
	o.TakeEffectAtOnce()
	return sent.Key, nil
}

// act names the act of the operation: a repeat of the turn is a repeat of it.
func (o *message) act() string {
	h := o.J.Derive("message", o.Loc, 0)
	return hex.EncodeToString(h[:16])
}

// sent returns what is recorded.
func (o *message) sent() stored.Sent {
	it := &o.spec.Item
	sent := stored.Sent{Run: o.spec.To, Name: it.Name}
	switch it.Kind {
	case store.ItemUpdate:
		sent.Key = o.act()
	case store.ItemResolution:
		sent.Name = location.Loc(it.Loc).String()
	}
	return sent
}

// admit sets the failure of an item that cannot be sent, because the inbox is full or there is
// no such promise. It is a completion like any other: the code goes on because of it, and what
// it does then must come again in a replay. It reports false if nobody knows: the activation is
// over then.
func (o *message) admit() bool {
	refused, err := o.refused()
	switch {
	case err != nil:
		o.J.Owner.Break(fmt.Errorf("look whether %s can be sent: %w", o.Loc, err))
		return false
	case refused != nil:
		refused.Location = o.Loc.String()
		o.Failure = refused
	}
	return true
}

func (o *message) refused() (refused *stored.Failure, err error) {
	if o.spec.Find == nil || o.of.look == nil {
		return nil, nil
	}
	err = o.of.look(func(ctx context.Context) (err error) {
		refused, err = o.spec.Find(ctx, &o.spec.Item)
		return err
	})
	return refused, err
}

// Wanted, IsLate and Take are those of an item whose sending is a completion. It has
// arrived at once.
func (o *message) Wanted() bool { return o.IsAwaited() }
func (o *message) IsLate() bool { return false }

func (o *message) Take() {
	switch {
	case o.Failure != nil:
	case o.isSent():
		o.Value = o.Rec.Value
	default:
		o.Value = o.sent().Encode()
		o.dispatch()
	}
	o.HandOver()
}

// Start sends the item.
//
// One whose refusal was reverted is open: the code has waited for it, and completions that
// stand may have come meanwhile. So this time, too, it is a completion, sent or refused. If
// that is reverted again, what was sent stands.
func (o *message) Start() {
	if !o.StartsNow() {
		return
	}
	open := o.Rec != nil
	if open && !o.isSent() && !o.admit() {
		return
	}
	if open || o.Failure != nil {
		o.of.completing.Add(o)
		return
	}
	now := o.J.Now()
	o.Write(store.Entry{State: store.Done, Started: now, Ended: now, Value: o.sent().Encode()})
	o.dispatch()
}

// isSent reports whether the item was sent before its completion was reverted.
func (o *message) isSent() bool { return o.Rec != nil && o.Rec.Size > 0 }

// dispatch adds the item to the turn.
func (o *message) dispatch() {
	it, act := o.spec.Item, o.act()
	if it.Kind != store.ItemResolution {
		it.ID += act
	}
	it.Origin = cmp.Or(it.Origin, act)
	o.J.Log.SendLarge(store.Command{RunID: o.spec.To, Item: &it}, len(it.Value))
	o.spec = Send{} // its value is sent
}
