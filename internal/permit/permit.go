package permit

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/store"
)

// Workflow is the reserved name of the records that are queues.
const Workflow = "stet.queue"

const recordPrefix = Workflow + "/"

// RecordID returns the ID of a queue's record.
func RecordID(queue string) string { return recordPrefix + queue }

// Queue is the inverse of RecordID; ok is false if no queue's record has the ID.
func Queue(recordID string) (queue string, ok bool) { return strings.CutPrefix(recordID, recordPrefix) }

// Place is where a run stands in its queue. It is the value of store.Run.Queue.
type Place struct {
	Queue    string `cbor:"1,keyasint"`
	Key      string `cbor:"2,keyasint,omitempty"`
	Priority int    `cbor:"3,keyasint,omitempty"`
	// Ticket is what the run has asked with last; "": it holds no permit and has not
	// asked for the next one.
	Ticket string `cbor:"4,keyasint,omitempty"`
	// Release has the run hold no permit while it is suspended.
	Release bool `cbor:"5,keyasint,omitempty"`
}

// Ask is what a run says of itself when it asks for a permit.
type Ask struct {
	RunID    string      `cbor:"1,keyasint"`
	Key      string      `cbor:"2,keyasint,omitempty"`
	Priority int         `cbor:"3,keyasint,omitempty"`
	At       store.Time  `cbor:"4,keyasint,omitempty"` // not before; 0: now
	After    store.Delay `cbor:"5,keyasint,omitempty"` // not before this much after the ask
	Loc      string      `cbor:"6,keyasint,omitempty"` // of the run's step that asks; "": the run does
}

// Settings of a queue. 0 is no limit.
type Settings struct {
	Concurrency int         `cbor:"1,keyasint,omitempty"`
	PerKey      int         `cbor:"2,keyasint,omitempty"`
	Rate        int         `cbor:"3,keyasint,omitempty"` // permits granted
	Per         store.Delay `cbor:"4,keyasint,omitempty"`
	Group       string      `cbor:"5,keyasint,omitempty"`
	Release     bool        `cbor:"6,keyasint,omitempty"`
}

// State is what a queue shows of itself, as its value StateValue.
type State struct {
	Settings Settings `cbor:"1,keyasint"`
	Exists   bool     `cbor:"2,keyasint,omitempty"`
	Paused   bool     `cbor:"3,keyasint,omitempty"`
	Waiting  int      `cbor:"4,keyasint,omitempty"` // asks that are due
	Delayed  int      `cbor:"5,keyasint,omitempty"` // asks that are not
	Held     int      `cbor:"6,keyasint,omitempty"` // permits
	Granted  int64    `cbor:"7,keyasint,omitempty"` // permits, ever
}

// StateValue names the value that holds a queue's State.
const StateValue = "state"

// The names of the updates by which a queue is managed. The values of Create and
// Set are Settings, those of the others nothing.
const (
	Create = "create"
	Set    = "set"
	Pause  = "pause"
	Resume = "resume"
	Delete = "delete"
)

// The first byte of a queue's answer to an update; more is a text for people.
const (
	Yes     = 'y'
	No      = 'n' // it cannot be
	Exists  = 'e' // Create: there is one with other settings
	Missing = 'm' // there is no such queue
)

// NewTicket returns a ticket that nobody else has.
func NewTicket() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const (
	askPrefix   = "ask "
	grantPrefix = "grant "
	backPrefix  = "back "
)

// AskFor returns what asks for the permit of the place's ticket.
func (p *Place) AskFor(a Ask) store.Command {
	a.Key, a.Priority = p.Key, p.Priority
	return store.Command{RunID: RecordID(p.Queue), Item: &store.Item{
		Kind: store.ItemAsk, ID: askPrefix + p.Ticket, Origin: p.Ticket, Value: encode(a)}}
}

// GiveBack returns what gives the permit of the place's ticket back, or takes back
// that it was asked for.
func (p *Place) GiveBack() store.Command {
	return store.Command{RunID: RecordID(p.Queue), Item: &store.Item{
		Kind: store.ItemGiveBack, ID: backPrefix + p.Ticket, Origin: p.Ticket}}
}

// Grant returns what tells a run that it has the permit of a ticket.
func Grant(runID, ticket string) store.Command {
	return store.Command{RunID: runID, Item: &store.Item{Kind: store.ItemGrant, ID: grantPrefix + ticket, Origin: ticket}}
}

// Answer returns what tells a step that it has the permit of a ticket, or, if there is
// no such queue, that nobody has one.
func Answer(queue, ticket string, a *Ask, granted bool) store.Command {
	c := Grant(a.RunID, ticket)
	c.Item.Name, c.Item.Loc, c.Item.Failed = queue, a.Loc, !granted
	return c
}

// OfStep reports whether a grant is for a step of its run.
func OfStep(it *store.Item) bool { return it.Kind == store.ItemGrant && it.Loc != "" }

// Return returns what gives a step's permit back that nobody waits for any more.
func Return(it *store.Item) store.Command {
	p := Place{Queue: it.Name, Ticket: Ticket(it)}
	return p.GiveBack()
}

// Ticket returns which ticket an ask, a grant or a give back is about.
func Ticket(it *store.Item) string { return it.Origin }

// Granted reports whether the run's inbox, as far as it is not consumed, holds the
// grant of the place's ticket.
func (p *Place) Granted(items []store.Item) bool {
	for i := range items {
		if it := &items[i]; p.Ticket != "" && it.Kind == store.ItemGrant && !OfStep(it) && Ticket(it) == p.Ticket {
			return true
		}
	}
	return false
}

// Encode returns the stored form.
func (p *Place) Encode() []byte { return encode(p) }

// DecodePlace is the inverse of Encode; nil is no place: ok is false.
func DecodePlace(data []byte) (p Place, ok bool, err error) {
	if len(data) == 0 {
		return p, false, nil
	}
	err = decode(data, &p, "a run's place in a queue")
	return p, err == nil, err
}

// DecodeAsk reads the value of an ask.
func DecodeAsk(data []byte) (a Ask, err error) { return a, decode(data, &a, "what a queue was asked") }

// Encode returns the stored form.
func (s Settings) Encode() []byte { return encode(s) }

// DecodeSettings is the inverse of Settings.Encode.
func DecodeSettings(data []byte) (s Settings, err error) {
	return s, decode(data, &s, "the settings of a queue")
}

// Encode returns the stored form.
func (s *State) Encode() []byte { return encode(s) }

// DecodeState is the inverse of State.Encode.
func DecodeState(data []byte) (s State, err error) {
	return s, decode(data, &s, "the state of a queue")
}

func encode(v any) []byte {
	data, err := cbor.Marshal(v)
	if err != nil {
		panic(err) // plain values always encode
	}
	return data
}

func decode(data []byte, v any, what string) error {
	if err := cbor.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %s cannot be read: %w", store.ErrDamaged, what, err)
	}
	return nil
}
