package runner

import (
	"encoding/hex"
	"fmt"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Send sends a message to another run in the turn. It takes effect and is recorded like a
// publication.
type Send struct {
	Call    Call
	To      string // ID of the run
	Name    string // of the message
	Value   []byte
	Headers []byte
}

// sendOp is the sending of a message.
type sendOp struct {
	op
	spec Send
}

// Send sends a message to another run. A failure with CodeInboxFull says that its inbox is
// full.
func (b *Branch) Send(s Send) error {
	if err := b.Enter(s.Call); err != nil {
		return err
	}
	o := &sendOp{spec: s}
	b.declare(&o.op, o, s.Call, store.KindSend)
	if o.Rec != nil {
		if o.Rec.State == store.Done && !o.Rec.Numbered() {
			return nil
		}
		return o.Wait(&b.Branch, s.Call)
	}
	if o.Failure = b.run.refusal(o); b.run.broken != nil {
		b.Halt()
	}
	if o.Failure != nil {
		return o.Wait(&b.Branch, s.Call)
	}
	o.TakeEffectAtOnce()
	return nil
}

// refusal returns the failure of a message to a run whose inbox is full, or nil. It is a
// completion like any other: the code goes on because of it, and what it does then must
// come again in a replay.
func (r *Interpreter) refusal(o *sendOp) *stored.Failure {
	if r.cfg.Admit == nil {
		return nil
	}
	full, err := r.cfg.Admit(o.spec.To, &store.Item{Kind: store.ItemMessage, Value: o.spec.Value})
	switch {
	case err != nil:
		r.broken = fmt.Errorf("look for room for %s: %w", o.Loc, err)
	case full != nil:
		return &stored.Failure{Code: stored.CodeInboxFull, Location: o.Loc.String(), Message: full.Error()}
	}
	return nil
}

// Wanted, IsLate and Take are those of a message whose sending is a completion. It has
// arrived at once.
func (o *sendOp) Wanted() bool { return o.IsAwaited() }
func (o *sendOp) IsLate() bool { return false }

func (o *sendOp) Take() {
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
func (o *sendOp) Start() {
	if !o.StartsNow() {
		return
	}
	open := o.Rec != nil
	if open && !o.isSent() {
		if o.Failure = o.run.refusal(o); o.run.broken != nil {
			return
		}
	}
	if open || o.Failure != nil {
		o.run.sendings.Add(o)
		return
	}
	now := o.run.j.Now()
	o.Write(store.Entry{
		State: store.Done, Started: now, Ended: now, Value: stored.EncodeSent(o.spec.To, o.spec.Name),
	})
	o.dispatch()
}

// isSent reports whether the message was sent before its completion was reverted.
func (o *sendOp) isSent() bool { return o.Rec != nil && o.Rec.Size > 0 }

// dispatch adds the message to the turn.
func (o *sendOp) dispatch() {
	s, r := &o.spec, o.run
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	h := r.j.Derive("message", o.Loc, 0)
	id := hex.EncodeToString(h[:16])
	r.j.Log.SendLarge(store.Command{RunID: s.To, Item: &store.Item{
		Kind: store.ItemMessage, Name: s.Name, ID: id, Origin: id, Value: s.Value, Headers: s.Headers,
	}}, len(s.Value))
	o.spec = Send{} // its value is sent
}
