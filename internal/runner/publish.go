package runner

import (
	"encoding/hex"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Publish publishes an event in the turn.
//
// It takes effect when it is called, like the start of a child, and ends with
// that: its entry, without a number, proves that it was sent. A replay sends nothing
// again; what a rewind reverts was published all the same.
type Publish struct {
	Call        Call
	Topic       string
	ID          string // "": derived
	Publication event.Publication
	Headers     []byte
}

// publishOp is the publication of an event.
type publishOp struct {
	op
	spec Publish
}

// Publish publishes an event and returns its ID.
func (b *Branch) Publish(p Publish) (eventID string, err error) {
	if err := b.Enter(p.Call); err != nil {
		return "", err
	}
	o := &publishOp{}
	b.declare(&o.op, o, p.Call, store.KindPublish)
	if o.Rec != nil {
		said, err := stored.DecodePublished(o.Rec.Value)
		if err != nil {
			b.run.damaged(o.Loc, err)
			b.Halt()
		}
		return said.ID, nil
	}
	if r := b.run; p.ID == "" {
		h := r.j.Derive("event", o.Loc, 0)
		p.ID = hex.EncodeToString(h[:16])
	}
	o.spec = p
	o.TakeEffectAtOnce()
	return p.ID, nil
}

// start sends the event.
func (o *publishOp) Start() {
	if !o.StartsNow() {
		return
	}
	p, r := &o.spec, o.run
	o.Write(store.Entry{
		State: store.Done, Started: r.j.Now(), Ended: r.j.Now(), Value: stored.EncodePublished(p.Topic, p.ID),
	})
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	origin := r.j.Derive("publication", o.Loc, 0)
	publish := event.Publish(p.Topic, p.ID, hex.EncodeToString(origin[:16]), &p.Publication, p.Headers)
	r.j.Log.SendLarge(publish, len(p.Publication.Value))
	o.spec = Publish{} // its value is sent
}
