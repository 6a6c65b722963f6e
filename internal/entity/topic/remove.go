package topic

import (
	"context"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// itemRemove is the name of an update that takes an event out of the topic.
const itemRemove = "remove"

// removal is its value.
type removal struct {
	ID  string `cbor:"1,keyasint"` // as users know it
	By  string `cbor:"2,keyasint,omitempty"`
	Why string `cbor:"3,keyasint,omitempty"`
}

// removed is the answer.
type removed struct {
	Found bool `cbor:"1,keyasint,omitempty"`
}

// Remove takes the event with the ID out of a topic, and reports whether there was one. The
// entity of the topic is there.
func Remove(ctx context.Context, c entity.Client, topic, id string, r *acts.Record) (found bool, err error) {
	verdict, err := entity.AskWith(ctx, c, event.EntityID(topic), itemRemove,
		event.Encode(&removal{id, r.By, r.Why}), r.Encode())
	if err != nil {
		return false, err
	}
	var answer removed
	err = event.Decode(verdict, &answer)
	return answer.Found, err
}

// request carries out a removal: nobody gets the event from now on. One that is on its way to a
// run is not called back, and lapses when it is returned.
func (r *Rules) request(it *store.Item, now store.Time, w *entity.Writer) []byte {
	var q removal
	if err := event.Decode(it.Value, &q); err != nil || it.Name != itemRemove {
		return event.Encode(&removed{}) // nobody of ours has written it
	}
	for _, e := range r.events {
		if event.PublicID(e.ID) != q.ID {
			continue
		}
		w.Note("an event was taken out of its topic", "topic", r.name, "event", q.ID, "by", q.By, "why", q.Why)
		acts.CarriedOut(it, w)
		if e.to == "" {
			r.lapse(e, w)
			return event.Encode(&removed{true})
		}
		e.Expires = now
		w.Put(at(eventLoc, e.Number), event.Encode(&e.Event))
		return event.Encode(&removed{true})
	}
	return event.Encode(&removed{})
}
