package stored

import "github.com/stet-run/stet/internal/event"

// published is the value of the entry of a publication.
type published struct {
	Topic string `cbor:"1,keyasint"`
	ID    string `cbor:"2,keyasint"`
}

// Published is the event that a run has published. ID is as users know it.
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

// DecodeEvent reads the value of the entry of a wait that ended with an event. It
// returns the event's topic, its ID there, and its value. The error wraps
// store.ErrDamaged.
func DecodeEvent(data []byte) (topic, id string, value []byte, err error) {
	var d event.Delivery
	err = event.Decode(data, &d)
	return d.Topic, event.PublicID(d.Event.ID), d.Event.Value, err
}
