package runner

import (
	"encoding/hex"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Publish publishes an event in the turn.
//
// It takes effect when it is asked for, like the start of a child, and ends with
// that: its entry, without a number, says that it was sent. A replay sends nothing
// again; what is taken back by a rewind was published all the same.
type Publish struct {
	Call        Call
	Topic       string
	ID          string // "": derived
	Publication event.Publication
	Headers     []byte
}

// Publish publishes an event and returns its ID.
func (b *Branch) Publish(p Publish) (eventID string, err error) {
	if err := b.Enter(p.Call); err != nil {
		return "", err
	}
	o := b.request(new(op), p.Call, store.KindPublish)
	o.publish = &p
	if o.rec != nil {
		said, err := stored.DecodePublished(o.rec.Value)
		if err != nil {
			b.run.damaged(o.loc, err)
			b.Halt()
		}
		return said.ID, nil
	}
	r := b.run
	if p.ID == "" {
		h := r.derive("event", r.cfg.Run.Generation, o.loc, 0)
		p.ID = hex.EncodeToString(h[:16])
	}
	if !r.live {
		o.early = r.remaining()
	}
	r.expect(o)
	return p.ID, nil
}

// startPublish sends the event. The run is live.
func (r *Run) startPublish(o *op) {
	p := o.publish
	r.write(o, store.Entry{State: store.Done, Started: r.now, Ended: r.now, Value: stored.EncodePublished(p.Topic, p.ID)})
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	origin := r.derive("publication", r.cfg.Run.Generation, o.loc, 0)
	r.log.SendLarge(event.Publish(p.Topic, p.ID, hex.EncodeToString(origin[:16]), &p.Publication, p.Headers), len(p.Publication.Value))
	o.publish = &Publish{} // its value is sent
}
