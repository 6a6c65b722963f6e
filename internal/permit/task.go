package permit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/stet-run/stet/store"
)

// This file is about tasks: steps whose body is executed by a worker elsewhere. The queue
// grants the permit of such an attempt to a worker instead of the run: that is a lease.
//
//	run                     queue                           worker
//	 │  ask, with a task      │                                │
//	 ├───────────────────────►│ offered    lease (names, max)  │
//	 │                        │◄───────────────────────────────┤
//	 │                        │ leased     leases, with secrets│
//	 │                        ├───────────────────────────────►│
//	 │                        │            beat …              │  renews
//	 │                        │◄───────────────────────────────┤
//	 │  items (ticket)        │            append (items) …    │
//	 │◄───────────────────────┤◄───────────────────────────────┤
//	 │                        │            end (secret)        │
//	 │  outcome (ticket)      │◄───────────────────────────────┤
//	 │◄───────────────────────┤ forgets the permit, in the same turn
//
// An attempt is offered, leased, and in the end has an outcome, unless it is cancelled:
//
//	offered   → leased     a worker's lease, as far as the queue's limits allow
//	leased    → offered    released, or expired: the same attempt, first in its line
//	leased    → completed  the worker says so
//	leased    → failed     the worker says so; its time is over; it has expired too often
//	any       → cancelled  the run gives the permit back, or takes the ask back
//
// What crosses, and what becomes of it:
//
//	lease, end repeated    the same item: the same answer
//	end of an expired      counts while nobody else has the attempt; of one that somebody else
//	lease                  has, or that was released, it is gone
//	append repeated        the same item of the queue, by its number: the items are sent once
//	append of an expired   as its end: it counts while nobody else has the attempt
//	lease
//	append, then end       both go from the queue to the run, in this order
//	append, run over       consumed, or answered by nobody
//	cancel, once leased    the run reads the lease before its turn, and records that the body had begun
//	end, then cancel       the outcome arrives at a run that does not wait: it is consumed
//	cancel, then end       cancelled; the worker is told by its heartbeats and its next lease
//	recall, never leased   outcome "never": the step has not begun
//	recall, leased         the worker is told; its end is the outcome
//	recall, once expired   offered again: only its end tells whether it had an effect
//	recall, once released  offered again: a worker that stops releases what it executes
//	other owner of a queue all stands in its entries; leases that wait are items that it keeps
//	other owner of a run   the ticket is in the step's entry, the outcome in the inbox

// TaskQueue is the queue of tasks that name none. It is made at first use.
const TaskQueue = "tasks"

// MaxLost is how many expired leases of one attempt are its failure.
const MaxLost = 5

// Task is what an ask says of a step whose body is executed elsewhere.
type Task struct {
	Name    string      `cbor:"1,keyasint"`
	Attempt int         `cbor:"2,keyasint"`           // from 1
	Timeout store.Delay `cbor:"3,keyasint,omitempty"` // of the attempt, renewed by a heartbeat; 0: none
	Last    bool        `cbor:"4,keyasint,omitempty"` // no attempt follows
}

// The names of the updates by which workers use a queue.
const (
	LeaseTasks   = "lease"
	BeatTasks    = "beat"
	EndTask      = "end"
	AppendTask   = "append"
	ReleaseTasks = "release"
	ForgetLease  = "forget"
)

// Lease is the value of LeaseTasks.
type Lease struct {
	Worker string      `cbor:"1,keyasint,omitempty"`
	Names  []string    `cbor:"2,keyasint"`
	Max    int         `cbor:"3,keyasint"`
	Wait   store.Delay `cbor:"4,keyasint,omitempty"` // for the first task
	For    store.Delay `cbor:"5,keyasint"`
	Seed   []byte      `cbor:"6,keyasint"` // of the secrets
}

// WorkerOf returns the name by which a queue knows a worker: by tells workers that have the same name from each other.
func WorkerOf(name, by string) string {
	if by == "" {
		return name
	}
	sum := sha256.Sum256([]byte(by))
	return name + "\x00" + hex.EncodeToString(sum[:byBytes])
}

// byBytes is how much of a hash tells workers of one name from each other.
const byBytes = 12

// WorkerName returns the name that a worker has given itself, which may have any characters.
func WorkerName(worker string) string {
	at := len(worker) - 2*byBytes - 1
	if at < 0 || worker[at] != 0 {
		return worker
	}
	if _, err := hex.DecodeString(worker[at+1:]); err != nil {
		return worker
	}
	return worker[:at]
}

// Leased is a task that a worker has got.
type Leased struct {
	Secret  string     `cbor:"1,keyasint"`
	RunID   string     `cbor:"2,keyasint"`
	Loc     string     `cbor:"3,keyasint"`
	Name    string     `cbor:"4,keyasint"`
	Attempt int        `cbor:"5,keyasint"`
	Until   store.Time `cbor:"6,keyasint"`
	Detail  []byte     `cbor:"7,keyasint,omitempty"` // of the heartbeats of an expired lease
	Ticket  string     `cbor:"8,keyasint"`
}

// Leases is the answer to LeaseTasks.
type Leases struct {
	Tasks     []Leased `cbor:"1,keyasint,omitempty"`
	Cancelled []string `cbor:"2,keyasint,omitempty"` // secrets of the worker's leases that are wanted no more
}

// Beat is the value of BeatTasks.
type Beat struct {
	Secrets []string    `cbor:"1,keyasint"`
	Details [][]byte    `cbor:"2,keyasint,omitempty"` // as many as secrets, or none
	For     store.Delay `cbor:"3,keyasint"`
}

// Standings of a lease, as the answers to BeatTasks, ReleaseTasks and EndTask say them.
const (
	LeaseHeld      = 'h'
	LeaseCancelled = 'c'
	LeaseGone      = 'g'
)

// Beats is the answer to BeatTasks: as many as secrets.
type Beats struct {
	Standing []byte       `cbor:"1,keyasint"`
	Until    []store.Time `cbor:"2,keyasint"`
}

// LeaseList is the value of ReleaseTasks. The answer is a standing for each: those that are
// held are released.
type LeaseList struct {
	Secrets []string `cbor:"1,keyasint"`
}

// End is the value of EndTask. The answer is an Ended.
type End struct {
	Secret  string      `cbor:"1,keyasint"`
	Result  []byte      `cbor:"2,keyasint,omitempty"`
	Failure []byte      `cbor:"3,keyasint,omitempty"` // a failure record; nil: it is completed
	Final   bool        `cbor:"4,keyasint,omitempty"` // no attempt may follow the failure
	After   store.Delay `cbor:"5,keyasint,omitempty"` // of a failure: the least delay before the next attempt
}

// Ended is the answer to EndTask.
type Ended struct {
	Standing byte `cbor:"1,keyasint"` // LeaseHeld: this end counts
	Failed   bool `cbor:"2,keyasint,omitempty"`
	Retry    bool `cbor:"3,keyasint,omitempty"` // another attempt follows, as far as the queue knows
}

// Append is the value of AppendTask. The answer is an Appended.
type Append struct {
	Secret string `cbor:"1,keyasint"`
	Number int64  `cbor:"2,keyasint"` // of the request, in its lease, from 1
	Items  []byte `cbor:"3,keyasint"` // as EncodeItems returns them: a queue does not look at them
}

// Appended is the answer to AppendTask.
type Appended struct {
	Standing byte   `cbor:"1,keyasint"`           // LeaseHeld: the items are on their way
	RunID    string `cbor:"2,keyasint,omitempty"` // to this run
}

// Item is an item that a worker adds to a stream of the run whose task it has.
type Item struct {
	Stream string `cbor:"1,keyasint"`
	Value  []byte `cbor:"2,keyasint,omitempty"`
	Keep   int64  `cbor:"3,keyasint,omitempty"` // how many of the newest items the stream keeps; 0: all
}

// EncodeItems returns the stored form of items.
func EncodeItems(items []Item) []byte { return encode(items) }

// Added are the items of one request, as the queue sends them to the run.
type Added struct {
	// Lease is the number of the worker's permit. Each lease of an attempt has another one.
	Lease int64  `cbor:"1,keyasint"`
	Items []byte `cbor:"2,keyasint"`
}

// Outcome is how an attempt has ended, as the queue sends it to the run.
type Outcome struct {
	How     byte        `cbor:"1,keyasint"`
	Result  []byte      `cbor:"2,keyasint,omitempty"`
	Failure []byte      `cbor:"3,keyasint,omitempty"`
	Final   bool        `cbor:"4,keyasint,omitempty"`
	After   store.Delay `cbor:"5,keyasint,omitempty"`
	Detail  []byte      `cbor:"6,keyasint,omitempty"` // of the last heartbeat
	Started store.Time  `cbor:"7,keyasint,omitempty"`
	Ended   store.Time  `cbor:"8,keyasint,omitempty"`
	Worker  string      `cbor:"9,keyasint,omitempty"`
}

// How an attempt has ended.
const (
	TaskCompleted = 'c'
	TaskFailed    = 'f'
	TaskTimeout   = 't'
	TaskLost      = 'l' // its lease has expired too often
	TaskNever     = 'n' // it was recalled before any worker had it
)

// Withdrawn is a task whose step was withdrawn, or whose run has ended, before it had an outcome.
type Withdrawn struct{ Queue, Ticket, Loc string }

// TaskCount is how many tasks of a name a queue has.
type TaskCount struct {
	Name    string `cbor:"1,keyasint"`
	Offered int    `cbor:"2,keyasint,omitempty"` // and due
	Leased  int    `cbor:"3,keyasint,omitempty"`
}

const (
	endPrefix    = "end "
	addPrefix    = "add "
	recallPrefix = "recall "
	recallName   = "recall"
)

// Outcome returns the command that says to a run how the attempt of a step has ended that
// had asked with a ticket.
func (o *Outcome) Command(queue, ticket, runID, loc string) store.Command {
	return store.Command{RunID: runID, Item: &store.Item{Kind: store.ItemGrant, ID: endPrefix + ticket, Origin: ticket,
		Name: queue, Loc: loc, Value: encode(o)}}
}

// OutcomeOf returns the outcome that an item is; ok is false if it is a grant. The error wraps
// store.ErrDamaged.
func OutcomeOf(it *store.Item) (o Outcome, ok bool, err error) {
	if it.Kind != store.ItemGrant || !strings.HasPrefix(it.ID, endPrefix) {
		return o, false, nil
	}
	return o, true, decode(it.Value, &o, "the outcome of a task")
}

// Add returns the command that gives items to a run, of the step that had asked with a ticket.
func (a *Append) Add(queue, ticket, runID, loc string, lease int64) store.Command {
	return store.Command{RunID: runID, Item: &store.Item{Kind: store.ItemGrant, Origin: ticket, Name: queue, Loc: loc,
		ID: fmt.Sprintf("%s%s %d %d", addPrefix, ticket, lease, a.Number), Value: encode(Added{lease, a.Items})}}
}

// Adds reports whether an item has items for streams, and is no grant.
func Adds(it *store.Item) bool {
	return it.Kind == store.ItemGrant && strings.HasPrefix(it.ID, addPrefix)
}

// AddedOf returns the items for streams that an item has, and the lease of the worker. The
// error wraps store.ErrDamaged.
func AddedOf(it *store.Item) (items []Item, lease int64, err error) {
	var a Added
	if err = decode(it.Value, &a, "what a worker adds to streams"); err == nil {
		err = decode(a.Items, &items, "items of a worker")
	}
	return items, a.Lease, err
}

// Recall returns the command that asks for the end of a task that nobody wants any more, but
// of which the run has to know whether it had an effect.
func (p *Place) Recall() store.Command {
	return store.Command{RunID: EntityID(p.Queue), Item: &store.Item{
		Kind: store.ItemGiveBack, ID: recallPrefix + p.Ticket, Origin: p.Ticket, Name: recallName}}
}

// IsRecall reports whether an item that gives back is a recall.
func IsRecall(it *store.Item) bool { return it.Kind == store.ItemGiveBack && it.Name == recallName }

// Secret returns what a lease is known by in its queue: 128 bits that nobody can guess.
func (l *Lease) Secret(ticket string) string {
	h := hmac.New(sha256.New, l.Seed)
	h.Write([]byte(ticket))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// LeaseToken returns the text by which a worker knows a lease: the secret, and whose it is.
func LeaseToken(queue, secret string) string {
	return secret + "." + base64.RawURLEncoding.EncodeToString([]byte(queue))
}

// ParseLeaseToken is the inverse of LeaseToken.
func ParseLeaseToken(token string) (queue, secret string, ok bool) {
	secret, rest, ok := strings.Cut(token, ".")
	name, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if raw, bad := hex.DecodeString(secret); bad != nil || len(raw) != 16 || err != nil || len(name) == 0 {
		return "", "", false
	}
	return string(name), secret, ok
}

// Answer returns the stored form of what a queue answers a worker.
func Answer(v any) []byte { return append([]byte{Yes}, encode(v)...) }

// ReadAnswer reads an answer into v. ok is false if the queue has refused, with a reason. The
// error wraps store.ErrDamaged.
func ReadAnswer(verdict []byte, v any) (reason string, ok bool, err error) {
	if len(verdict) == 0 {
		return "", false, decode(nil, v, "an empty answer of a queue")
	}
	if verdict[0] != Yes {
		return string(verdict[1:]), false, nil
	}
	return "", true, decode(verdict[1:], v, "the answer of a queue")
}

// Encode returns the stored form.
func Encode(v any) []byte { return encode(v) }

// Decode is the inverse of Encode. The error wraps store.ErrDamaged.
func Decode(data []byte, v any) error { return decode(data, v, "what a worker says") }
