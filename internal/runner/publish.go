package runner

import (
	"encoding/hex"

	"github.com/stet-run/stet/internal/event"
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

// published is the value of the entry.
type published struct {
	Topic string `cbor:"1,keyasint"`
	ID    string `cbor:"2,keyasint"`
}

// Published is what the entry of a publication says.
type Published struct{ Topic, ID string }

// EncodePublished returns the value of the entry of a publication. id is that of the
// event's item.
func EncodePublished(topic, id string) []byte { return encode(published{topic, id}) }

// DecodePublished reads the value of the entry of a publication. The error wraps
// store.ErrDamaged.
func DecodePublished(data []byte) (Published, error) {
	var p published
	err := decode(data, &p)
	return Published{p.Topic, event.PublicID(p.ID)}, err
}

// Publish publishes an event and returns its ID.
func (b *Branch) Publish(p Publish) (eventID string, err error) {
	if err := b.enter(p.Call); err != nil {
		return "", err
	}
	o := b.request(new(op), p.Call, store.KindPublish)
	o.publish = &p
	if o.rec != nil {
		said, err := DecodePublished(o.rec.Value)
		if err != nil {
			b.run.damaged(o.loc, err)
			b.halt()
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
	r.write(o, store.Entry{State: store.Done, Started: r.now, Ended: r.now, Value: EncodePublished(p.Topic, p.ID)})
	// The act is known by the entry: a repeat of the turn is a repeat of it.
	origin := r.derive("publication", r.cfg.Run.Generation, o.loc, 0)
	r.log.send(event.Publish(p.Topic, p.ID, hex.EncodeToString(origin[:16]), &p.Publication, p.Headers))
	r.log.bytes += len(p.Publication.Value)
	o.publish = &Publish{} // its value is sent
}
