package runner

import (
	"encoding/hex"

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

// Send sends a message to another run.
func (b *Branch) Send(s Send) error {
	if err := b.Enter(s.Call); err != nil {
		return err
	}
	o := &sendOp{spec: s}
	b.declare(&o.op, o, s.Call, store.KindSend)
	if o.Rec != nil {
		o.spec = Send{}
		return nil
	}
	o.TakeEffectAtOnce()
	return nil
}

// Start sends the message.
func (o *sendOp) Start() {
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
