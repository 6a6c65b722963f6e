package sends

import (
	"encoding/hex"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Publish publishes an event in the turn.
//
// It takes effect when it is called, like the start of a child, and ends with
// that: its entry, without a number, proves that it was sent. A replay sends nothing
// again; what a rewind reverts was published all the same.
type Publish struct {
	Call        sched.Call
	Topic       string
	ID          string // "": derived
	Publication event.Publication
	Headers     []byte
}

// publication is the publication of an event.
type publication struct {
	journal.Op
	spec Publish
}

// Publish publishes an event and returns its ID. The branch has entered the call.
func (s *Sends) Publish(b *sched.Branch, p Publish) (eventID string, err error) {
	o := &publication{}
	s.j.Declare(b, &o.Op, o, p.Call, store.KindPublish)
	if o.Rec != nil {
		said, err := stored.DecodePublished(o.Rec.Value)
		if err != nil {
			s.j.Owner.Damaged(o.Loc, err)
			b.Halt()
		}
		return said.ID, nil
	}
	if p.ID == "" {
		h := s.j.Derive("event", o.Loc, 0)
		p.ID = hex.EncodeToString(h[:16])
	}
	o.spec = p
	o.TakeEffectAtOnce()
	return p.ID, nil
}

// Start sends the event.
func (o *publication) Start() {
	if !o.StartsNow() {
		return
	}
	p, now := &o.spec, o.J.Now()
	o.Write(store.Entry{
		State: store.Done, Started: now, Ended: now, Value: stored.EncodePublished(p.Topic, p.ID),
	})
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	origin := o.J.Derive("publication", o.Loc, 0)
	publish := event.Publish(p.Topic, p.ID, hex.EncodeToString(origin[:16]), &p.Publication, p.Headers)
	o.J.Log.SendLarge(publish, len(p.Publication.Value))
	o.spec = Publish{} // its value is sent
}
