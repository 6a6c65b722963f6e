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
	if o.Rec != nil && o.Rec.State != store.FailedEntry {
		o.spec = Send{}
		return nil
	}
	if o.Rec == nil {
		o.Failure = b.refusal(o)
	}
	if o.Rec != nil || o.Failure != nil {
		return o.Wait(&b.Branch, s.Call)
	}
	o.TakeEffectAtOnce()
	return nil
}

// refusal returns the failure of a message to a run whose inbox is full, or nil. It is a
// completion like any other: the code goes on because of it, and what it does then must
// come again in a replay.
func (b *Branch) refusal(o *sendOp) *stored.Failure {
	cfg := &b.run.cfg
	if cfg.Admit == nil {
		return nil
	}
	full, err := cfg.Admit(o.spec.To, &store.Item{Kind: store.ItemMessage, Value: o.spec.Value})
	switch {
	case err != nil:
		b.run.broken = fmt.Errorf("look for room for %s: %w", o.Loc, err)
		b.Halt()
	case full != nil:
		return &stored.Failure{Code: stored.CodeInboxFull, Location: o.Loc.String(), Message: full.Error()}
	}
	return nil
}

// Wanted, IsLate and Take are those of a refused message, which has arrived at once.
func (o *sendOp) Wanted() bool { return o.IsAwaited() }
func (o *sendOp) IsLate() bool { return false }
func (o *sendOp) Take()        { o.HandOver() }

// Start sends the message.
func (o *sendOp) Start() {
	if o.Failure != nil {
		o.run.refused.Add(o)
		return
	}
	if !o.StartsNow() {
		return
	}
	s, r := &o.spec, o.run
	o.Write(store.Entry{
		State: store.Done, Started: r.j.Now(), Ended: r.j.Now(), Value: stored.EncodeSent(s.To, s.Name),
	})
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	h := r.j.Derive("message", o.Loc, 0)
	id := hex.EncodeToString(h[:16])
	r.j.Log.SendLarge(store.Command{RunID: s.To, Item: &store.Item{
		Kind: store.ItemMessage, Name: s.Name, ID: id, Origin: id, Value: s.Value, Headers: s.Headers,
	}}, len(s.Value))
	o.spec = Send{} // its value is sent
}
