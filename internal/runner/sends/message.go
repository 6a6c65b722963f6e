package sends

import (
	"encoding/hex"
	"fmt"

	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Send sends a message to another run in the turn. It takes effect and is recorded like a
// publication.
type Send struct {
	Call    sched.Call
	To      string // ID of the run
	Name    string // of the message
	Value   []byte
	Headers []byte
}

// message is the sending of a message.
type message struct {
	journal.Op
	of   *Sends
	spec Send
}

// Send sends a message to another run. A failure with CodeInboxFull says that its inbox is
// full. The branch has entered the call.
func (s *Sends) Send(b *sched.Branch, m Send) error {
	o := &message{of: s, spec: m}
	s.j.Declare(b, &o.Op, o, m.Call, store.KindSend)
	if o.Rec != nil {
		if o.Rec.State == store.Done && !o.Rec.Numbered() {
			return nil
		}
		return o.Wait(b, m.Call)
	}
	if !o.admit() {
		b.Halt()
	}
	if o.Failure != nil {
		return o.Wait(b, m.Call)
	}
	o.TakeEffectAtOnce()
	return nil
}

// admit sets the failure of a message to a run whose inbox is full. It is a completion like
// any other: the code goes on because of it, and what it does then must come again in a
// replay. It reports false if nobody knows how full the inbox is: the activation is over then.
func (o *message) admit() bool {
	if o.of.admit == nil {
		return true
	}
	full, err := o.of.admit(o.spec.To, &store.Item{Kind: store.ItemMessage, Value: o.spec.Value})
	switch {
	case err != nil:
		o.J.Owner.Break(fmt.Errorf("look for room for %s: %w", o.Loc, err))
		return false
	case full != nil:
		o.Failure = &stored.Failure{Code: stored.CodeInboxFull, Location: o.Loc.String(), Message: full.Error()}
	}
	return true
}

// Wanted, IsLate and Take are those of a message whose sending is a completion. It has
// arrived at once.
func (o *message) Wanted() bool { return o.IsAwaited() }
func (o *message) IsLate() bool { return false }

func (o *message) Take() {
	if o.Failure == nil {
		o.Value = stored.EncodeSent(o.spec.To, o.spec.Name)
		if !o.isSent() {
			o.dispatch()
		}
	}
	o.HandOver()
}

// Start sends the message.
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
	o.Write(store.Entry{
		State: store.Done, Started: now, Ended: now, Value: stored.EncodeSent(o.spec.To, o.spec.Name),
	})
	o.dispatch()
}

// isSent reports whether the message was sent before its completion was reverted.
func (o *message) isSent() bool { return o.Rec != nil && o.Rec.Size > 0 }

// dispatch adds the message to the turn.
func (o *message) dispatch() {
	m := &o.spec
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	h := o.J.Derive("message", o.Loc, 0)
	id := hex.EncodeToString(h[:16])
	o.J.Log.SendLarge(store.Command{RunID: m.To, Item: &store.Item{
		Kind: store.ItemMessage, Name: m.Name, ID: id, Origin: id, Value: m.Value, Headers: m.Headers,
	}}, len(m.Value))
	o.spec = Send{} // its value is sent
}
