package permit

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/store"
)

// Workflow is the reserved name of the entities that are queues.
const Workflow = "stet.queue"

const entityPrefix = Workflow + "/"

// EntityID returns the ID of a queue's entity.
func EntityID(queue string) string { return entityPrefix + queue }

// Queue is the inverse of EntityID. ok is false if the ID is not that of a queue.
func Queue(entityID string) (queue string, ok bool) { return strings.CutPrefix(entityID, entityPrefix) }

// Place is how a run or a step uses a queue. Encoded it is the value of a run's row.
type Place struct {
	Queue    string `cbor:"1,keyasint"`
	Key      string `cbor:"2,keyasint,omitempty"`
	Priority int    `cbor:"3,keyasint,omitempty"`
	// Ticket is the ticket of the last ask; "": there is no permit, and no ask for the
	// next one.
	Ticket string `cbor:"4,keyasint,omitempty"`
	// Release says that the run holds no permit while it is suspended.
	Release bool `cbor:"5,keyasint,omitempty"`
	// Cost is how many units of a rate the permit takes; 0: 1.
	Cost int `cbor:"6,keyasint,omitempty"`
	// Above are the IDs of the run's ancestors that are on a queue, the nearest first: they may wait for it.
	Above []string `cbor:"7,keyasint,omitempty"`
	// InLine says that the run waits in its row, and has its permit by the mark store.Admitted. It has no ticket.
	InLine bool `cbor:"8,keyasint,omitempty"`
}

// Ask is the value of an ask.
type Ask struct {
	RunID    string      `cbor:"1,keyasint"`
	Key      string      `cbor:"2,keyasint,omitempty"`
	Priority int         `cbor:"3,keyasint,omitempty"`
	At       store.Time  `cbor:"4,keyasint,omitempty"`  // not before; 0: now
	After    store.Delay `cbor:"5,keyasint,omitempty"`  // not before this much after the ask
	Loc      string      `cbor:"6,keyasint,omitempty"`  // of the step that asks; "": the run itself asks
	More     []MoreAsk   `cbor:"7,keyasint,omitempty"`  // of further steps of the run
	Cost     int         `cbor:"8,keyasint,omitempty"`  // in units of a rate; 0: 1
	Task     *Task       `cbor:"9,keyasint,omitempty"`  // a worker is to execute the body; nil: the node of the run
	Above    []string    `cbor:"11,keyasint,omitempty"` // as in Place
}

// MoreAsk is the ask of a further step in an item of several.
type MoreAsk struct {
	Ticket   string `cbor:"1,keyasint"`
	Loc      string `cbor:"2,keyasint"`
	Key      string `cbor:"3,keyasint,omitempty"`
	Priority int    `cbor:"4,keyasint,omitempty"`
	Cost     int    `cbor:"5,keyasint,omitempty"`
	Task     *Task  `cbor:"6,keyasint,omitempty"`
}

// Settings of a queue. 0 is no limit.
type Settings struct {
	Concurrency int         `cbor:"1,keyasint,omitempty"`
	PerKey      int         `cbor:"2,keyasint,omitempty"`
	Rate        int         `cbor:"3,keyasint,omitempty"` // units granted within Per
	Per         store.Delay `cbor:"4,keyasint,omitempty"`
	Group       string      `cbor:"5,keyasint,omitempty"`
	Release     bool        `cbor:"6,keyasint,omitempty"`
	RatePerKey  int         `cbor:"7,keyasint,omitempty"` // … for one key
}

// Change is the value of the updates Create and Set: settings, and where they come from.
type Change struct {
	Settings Settings `cbor:"1,keyasint"`
	By       string   `cbor:"2,keyasint,omitempty"`
	Why      string   `cbor:"3,keyasint,omitempty"` // of Set
	Build    string   `cbor:"4,keyasint,omitempty"` // of Create: the build that declares them
}

// Source is where settings come from.
type Source struct {
	By    string     `cbor:"1,keyasint,omitempty"`
	Why   string     `cbor:"2,keyasint,omitempty"`
	Build string     `cbor:"3,keyasint,omitempty"`
	At    store.Time `cbor:"4,keyasint"`
}

// Override is settings that a person has given, which count in place of those that the
// code declares until they are reset.
type Override struct {
	Settings Settings `cbor:"1,keyasint"`
	Source   Source   `cbor:"2,keyasint"`
}

// Limits are the settings of a queue as the code declares them and as a person has
// overridden them.
type Limits struct {
	Declared Settings  `cbor:"1,keyasint"`
	Source   *Source   `cbor:"2,keyasint,omitempty"` // of the declared ones; nil: not known
	Override *Override `cbor:"3,keyasint,omitempty"`
}

// Count returns the settings that count.
func (l *Limits) Count() *Settings {
	if l.Override != nil {
		return &l.Override.Settings
	}
	return &l.Declared
}

// State is the public state of a queue, kept as its value StateValue.
type State struct {
	Settings Settings `cbor:"1,keyasint"` // that count
	Exists   bool     `cbor:"2,keyasint,omitempty"`
	Paused   bool     `cbor:"3,keyasint,omitempty"`
	Waiting  int      `cbor:"4,keyasint,omitempty"` // asks that are due
	Delayed  int      `cbor:"5,keyasint,omitempty"` // asks that are not
	Held     int      `cbor:"6,keyasint,omitempty"` // permits
	Granted  int64    `cbor:"7,keyasint,omitempty"` // permits, ever
	Limits   *Limits  `cbor:"8,keyasint,omitempty"` // nil: only Settings are known
	// Tasks are how many of each name are offered and leased, by name; Told are workers that
	// are to be told that leases of theirs are cancelled, at most 100.
	Tasks []TaskCount `cbor:"9,keyasint,omitempty"`
	Told  []string    `cbor:"10,keyasint,omitempty"`
	// PausedBy says who has paused it, and why; nil: it is not paused, or nobody knows.
	PausedBy *Source `cbor:"11,keyasint,omitempty"`
	Locks    []Lock  `cbor:"12,keyasint,omitempty"` // at most MaxLocks
}

// Lock is a limit whose permits are all held by runs that have descendants which wait for them. Where the
// holders only wait, nothing goes on.
type Lock struct {
	Key     string   `cbor:"1,keyasint,omitempty"` // whose permits are all held; "": those of the whole queue
	Held    int      `cbor:"2,keyasint"`           // permits
	Holders []string `cbor:"3,keyasint"`           // IDs of runs, at most MaxLockHolders
	Waiting []string `cbor:"4,keyasint"`           // IDs of the descendants, at most MaxLockWaiting, the first first
}

// A queue shows no more of its locks than this.
const (
	MaxLocks       = 20
	MaxLockHolders = 20
	MaxLockWaiting = 50
)

// StateValue names the value that holds a queue's State.
const StateValue = "state"

// The names of the updates by which a queue is managed. Create and Set have a Change as
// their value, Pause one of which By and Why count, or none, the others none.
const (
	Create = "create"
	Set    = "set"
	Reset  = "reset"
	Pause  = "pause"
	Resume = "resume"
	Delete = "delete"
)

// The first byte of a queue's answer to an update. A text for people may follow.
const (
	Yes     = 'y'
	No      = 'n' // it is not possible
	Missing = 'm' // there is no such queue
)

// NewTicket returns a ticket that is used nowhere else.
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

// AskFor returns the command that asks for the permit of the place's ticket.
func (p *Place) AskFor(a Ask) store.Command {
	a.Key, a.Priority, a.Cost, a.Above = p.Key, p.Priority, p.Cost, p.Above
	return store.Command{RunID: EntityID(p.Queue), Item: &store.Item{
		Kind: store.ItemAsk, ID: askPrefix + p.Ticket, Origin: p.Ticket, Value: encode(a)}}
}

// GiveBack returns the command that gives back the permit of the place's ticket, or
// revokes the ask for it.
func (p *Place) GiveBack() store.Command {
	return store.Command{RunID: EntityID(p.Queue), Item: &store.Item{
		Kind: store.ItemGiveBack, ID: backPrefix + p.Ticket, Origin: p.Ticket}}
}

// Grant returns the command that grants a run the permit of a ticket.
func Grant(runID, ticket string) store.Command {
	return store.Command{RunID: runID, Item: &store.Item{Kind: store.ItemGrant, ID: grantPrefix + ticket, Origin: ticket}}
}

// GrantStep returns the command that grants a step of a run the permit of a ticket.
func GrantStep(queue, ticket, runID, loc string) store.Command {
	c := Grant(runID, ticket)
	c.Item.Name, c.Item.Loc = queue, loc
	return c
}

// OfStep reports whether a grant is for a step of its run.
func OfStep(it *store.Item) bool { return it.Kind == store.ItemGrant && it.Loc != "" }

// Return returns the command that gives back the permits of a grant for which no step
// waits any more.
func Return(it *store.Item) store.Command { return Back(it.Name, Tickets(it)) }

// Ticket returns the ticket of an ask, a grant or a give back; the first one of several.
func Ticket(it *store.Item) string { return it.Origin }

// Granted reports whether the items, which are those of the run's inbox that are not
// consumed, hold the grant of the place's ticket.
func (p *Place) Granted(items []store.Item) bool {
	for i := range items {
		if it := &items[i]; p.Ticket != "" && it.Kind == store.ItemGrant && !OfStep(it) && Ticket(it) == p.Ticket {
			return true
		}
	}
	return false
}

// Has reports whether a claimed run may execute as far as its queue is concerned.
func Has(run *store.Run, items []store.Item) bool {
	if run.Queue == nil {
		return true
	}
	p, _, err := DecodePlace(run.Queue)
	return err == nil && p.HeldBy(run, items)
}

// HeldBy reports whether a run, which has the place, holds a permit. items are as in Granted.
func (p *Place) HeldBy(run *store.Run, items []store.Item) bool {
	if p.InLine {
		return run.Marks&store.Admitted != 0
	}
	return p.Granted(items)
}

// GaveBack reports whether an update of a run, which had the place, has given back its permit.
func GaveBack(run *store.Run, u *store.Update) bool {
	return run.Marks&store.Admitted != 0 && u.MarksOver(store.Admitted)&store.Admitted == 0
}

// Encode returns the stored form.
func (p *Place) Encode() []byte { return encode(p) }

// DecodePlace is the inverse of Encode. ok is false if there is no data, and so no
// place. The error wraps store.ErrDamaged.
func DecodePlace(data []byte) (p Place, ok bool, err error) {
	if len(data) == 0 {
		return p, false, nil
	}
	err = decode(data, &p, "a run's place in a queue")
	return p, err == nil, err
}

// DecodeAsk reads the value of an ask. The error wraps store.ErrDamaged.
func DecodeAsk(data []byte) (a Ask, err error) { return a, decode(data, &a, "what a queue was asked") }

// Encode returns the stored form.
func (c *Change) Encode() []byte { return encode(c) }

// DecodeChange is the inverse of Change.Encode. The error wraps store.ErrDamaged.
func DecodeChange(data []byte) (c Change, err error) {
	return c, decode(data, &c, "the new settings of a queue")
}

// Encode returns the stored form.
func (s *State) Encode() []byte { return encode(s) }

// DecodeState is the inverse of State.Encode. The error wraps store.ErrDamaged.
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
