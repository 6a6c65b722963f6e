package event

import (
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/store"
)

// Workflow is the reserved name of the entities that are topics.
const Workflow = "stet.topic"

// MaxTopic is the length of a topic's name in bytes, at most.
const MaxTopic = 200

const entityPrefix = Workflow + "/"

// EntityID returns the ID of a topic's entity.
func EntityID(topic string) string { return entityPrefix + topic }

// Topic is the inverse of EntityID. ok is false if the ID is not that of a topic.
func Topic(entityID string) (topic string, ok bool) { return strings.CutPrefix(entityID, entityPrefix) }

// Mode says which runs get an event. The numbers are stored.
type Mode uint8

const (
	// Broadcast events go to every run that may see them, once.
	Broadcast Mode = 1
	// Consumed events go to exactly one of the runs that may see them.
	Consumed Mode = 2
)

// String returns the mode as users see it.
func (m Mode) String() string {
	switch m {
	case Broadcast:
		return "broadcast"
	case Consumed:
		return "consumed"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Settings are a topic's configuration. They travel with each publication, because a
// topic is configured nowhere else. Durations are in microseconds; each is positive, or
// Never.
type Settings struct {
	Mode      Mode        `cbor:"1,keyasint"`
	Expiry    store.Delay `cbor:"2,keyasint"`           // of the event
	Retention store.Delay `cbor:"3,keyasint"`           // of all events
	Cap       int         `cbor:"4,keyasint"`           // of pending events; negative: none
	CapBytes  int64       `cbor:"5,keyasint,omitempty"` // of the events that are held, see [Event.Size]; 0: none
}

// Never is a Delay without an end.
const Never store.Delay = -1

// Publication is the value of an event's item.
type Publication struct {
	Settings Settings `cbor:"1,keyasint"`
	// Refused counts publications that were refused because of Cap and not reported
	// yet. With Only the item reports them and is no event.
	Refused int64  `cbor:"2,keyasint,omitempty"`
	Only    bool   `cbor:"3,keyasint,omitempty"`
	Value   []byte `cbor:"4,keyasint"`
}

// Registration is the value of a wait's item.
type Registration struct {
	Run store.RunNo `cbor:"1,keyasint"`
	// Since is a time: events published before it are not for this wait.
	Since store.Time `cbor:"2,keyasint,omitempty"`
	// After is the number of the last broadcast event that the run has taken. A topic
	// that does not know the run relies on it.
	After store.ItemNo `cbor:"3,keyasint,omitempty"`
	// Open are the keys of the other waits of the run at this topic. All waits that are
	// not listed are over: the run has acknowledged or withdrawn them.
	Open []string `cbor:"4,keyasint,omitempty"`
}

// Event is an event as its topic keeps it. Events are ordered by their numbers.
type Event struct {
	Number  store.ItemNo `cbor:"1,keyasint"`
	ID      string       `cbor:"2,keyasint"`
	Mode    Mode         `cbor:"3,keyasint"`
	Sent    store.Time   `cbor:"4,keyasint"`
	Expires store.Time   `cbor:"5,keyasint,omitempty"` // 0: never
	Value   []byte       `cbor:"6,keyasint"`
	Headers []byte       `cbor:"7,keyasint,omitempty"`
}

// Size returns the size of what the publisher has given, in bytes.
func (e *Event) Size() int64 { return int64(len(e.Value) + len(e.Headers)) }

// Delivery is the value of a delivery, and of the entry of a wait that has ended
// with an event.
type Delivery struct {
	Topic string `cbor:"1,keyasint"`
	// Key is that of the wait. "": the run from which this one was forked has taken it.
	Key   string `cbor:"2,keyasint,omitempty"`
	Event Event  `cbor:"3,keyasint"`
}

// Return is the value of a return.
type Return struct {
	Run   store.RunNo `cbor:"1,keyasint"`
	Event Event       `cbor:"2,keyasint"` // of a broadcast one without its value
	// Inherited says of a broadcast event that the run from which this one was forked
	// got it.
	Inherited bool `cbor:"3,keyasint,omitempty"`
}

// Ended is the value of a withdrawal of whatever runs that have ended may still want. A
// run that registers again wants it again.
type Ended struct {
	Runs []store.RunNo `cbor:"1,keyasint"`
}

// Wait is the value of the entry of a wait that is open.
type Wait struct {
	Topic string `cbor:"1,keyasint"`
	Key   string `cbor:"2,keyasint"`
	// Refused is the number of a broadcast event that the wait was given and that did not
	// decode: the run has had it. 0: none.
	Refused store.ItemNo `cbor:"3,keyasint,omitempty"`
}

var (
	encoder = must(cbor.CoreDetEncOptions().EncMode())
	decoder = must(cbor.DecOptions{
		MaxNestedLevels: 8, MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 10, DupMapKey: cbor.DupMapKeyEnforcedAPF,
	}.DecMode())
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err) // the options above are constants
	}
	return x
}

// Encode returns the stored form of one of the types above.
func Encode(v any) []byte { return must(encoder.Marshal(v)) }

// Decode is the inverse of Encode. The error wraps store.ErrDamaged.
func Decode(data []byte, v any) error {
	if err := decoder.Unmarshal(data, v); err != nil {
		return fmt.Errorf("record of %d bytes: %w (%w)", len(data), store.ErrDamaged, err)
	}
	return nil
}

func command(topic string, kind store.ItemKind, id, key string, value []byte) store.Command {
	return store.Command{RunID: EntityID(topic), Item: &store.Item{
		Kind: kind, ID: id, Origin: id, Name: key, Value: value,
	}}
}

// KeyKind begins the ID of the item of an event with an idempotency key. A colon and
// the key follow.
const KeyKind = "k"

// PublicID returns the ID of an event as users know it: its idempotency key if the
// item's ID has one, otherwise the item's ID.
func PublicID(itemID string) string {
	if key, ok := strings.CutPrefix(itemID, KeyKind+":"); ok {
		return key
	}
	return itemID
}

// Publish returns the command that publishes an event. id is unique to the event, or
// its idempotency key; origin names the act.
func Publish(topic, id, origin string, p *Publication, headers []byte) store.Command {
	c := command(topic, store.ItemEvent, id, "", Encode(p))
	c.Item.Origin, c.Item.Headers = origin, headers
	return c
}

// Register returns the command that registers a wait.
func Register(topic, key string, r *Registration) store.Command {
	return command(topic, store.ItemWait, "w:"+key, key, Encode(r))
}

// Withdraw returns the command that ends a wait.
func Withdraw(topic, key string) store.Command {
	return command(topic, store.ItemWithdraw, "x:"+key, key, nil)
}

// Leave returns the command that notifies a topic of runs that have ended. id is unique.
func Leave(topic, id string, runs []store.RunNo) store.Command {
	return command(topic, store.ItemWithdraw, "l:"+id, "", Encode(&Ended{runs}))
}

// Ack returns the command by which a run acknowledges the event that a wait was given.
func Ack(topic, key string) store.Command {
	return command(topic, store.ItemAck, "a:"+key, key, nil)
}

// GiveBack returns the command by which a run returns an event that it has taken. Of
// the events that it has inherited, it may return broadcast ones only.
func GiveBack(run *store.Run, d *Delivery) store.Command {
	r := Return{Run: run.No, Event: d.Event, Inherited: d.Key == ""}
	id := "r:" + d.Key
	if r.Inherited {
		id += fmt.Sprintf("%d:%d:%d", run.No, run.Generation, d.Event.Number)
	}
	if r.Event.Mode == Broadcast {
		r.Event.Value, r.Event.Headers = nil, nil
	}
	return command(d.Topic, store.ItemReturn, id, d.Key, Encode(&r))
}

// Deliver returns the command that gives an event to a wait.
func Deliver(run store.RunNo, d *Delivery) store.Command {
	id := "e:" + d.Key
	return store.Command{RunNo: run, Item: &store.Item{
		Kind: store.ItemDelivery, ID: id, Origin: id, Name: d.Key, Value: Encode(d),
	}}
}
