package stored

import (
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// Progress is the value of an open step: the results of its former attempts.
type Progress struct {
	Causes []*Failure `cbor:"1,keyasint,omitempty"` // failures of the attempts, the oldest first
	Detail []byte     `cbor:"2,keyasint,omitempty"` // of the last heartbeat
	Former int        `cbor:"3,keyasint,omitempty"` // attempts of former rounds
	// Since is when this round of attempts began; 0: it is the first, and began when the
	// step was requested.
	Since store.Time `cbor:"4,keyasint,omitempty"`
	// Pause says that the run is to be paused for the step's failures, and was not yet.
	Pause bool `cbor:"5,keyasint,omitempty"`
	// Permit is the permit that the next attempt needs and has asked for; nil: none.
	Permit *permit.Place `cbor:"6,keyasint,omitempty"`
	// Unsure says that a body was lost with its process, and may have had an effect.
	Unsure bool `cbor:"7,keyasint,omitempty"`
	// Begun is when the attempt began that is executing, once it has executed for some
	// time; 0: none has. After a crash it is of the attempt that was lost.
	Begun store.Time `cbor:"8,keyasint,omitempty"`
	// Emitted are the streams to which bodies of the step have emitted items.
	Emitted []string `cbor:"9,keyasint,omitempty"`
	// Task is the name of the task that the attempt was offered as with the ticket of Permit,
	// and Input what it is given; "": the node of the run executes the body.
	Task  string `cbor:"10,keyasint,omitempty"`
	Input []byte `cbor:"11,keyasint,omitempty"`
	// Lease is the number of the worker's lease that has added to streams last, and Own are
	// those to which it has; 0: none has, or the last were of a body of the run's node.
	Lease int64    `cbor:"12,keyasint,omitempty"`
	Own   []string `cbor:"13,keyasint,omitempty"`
	// Succeeded says of a withdrawn step that the body which was cut has returned without an error.
	Succeeded bool `cbor:"14,keyasint,omitempty"`
	// Asked is when the next attempt asked for Permit, or was offered; 0: it did not, or that is not known.
	Asked store.Time `cbor:"15,keyasint,omitempty"`
}

// Encode returns the stored form of p.
func (p Progress) Encode() []byte { return encode(p) }

// DecodeProgress is the inverse of Encode. No value is the zero Progress. The error
// wraps store.ErrDamaged.
func DecodeProgress(data []byte) (p Progress, err error) {
	if data != nil {
		err = decode(data, &p)
	}
	return p, err
}

// CutOff returns the entry of a step that was withdrawn while an attempt executed that had begun at a time. The error
// wraps store.ErrDamaged.
func CutOff(e *store.Entry, begun store.Time) (store.Entry, error) {
	p, err := DecodeProgress(e.Value)
	if err != nil {
		return *e, err
	}
	p.Begun = begun
	cut := p.WithoutPermit(e)
	cut.State, cut.Attempt, cut.Ended, cut.Wake = store.Withdrawn, e.Attempt+1, 0, 0
	if cut.Started == 0 {
		cut.Started = begun
	}
	return cut, nil
}

// WithoutPermit returns the entry e of an open step, of which p is the value, without
// the permit.
func (p Progress) WithoutPermit(e *store.Entry) store.Entry {
	p.Permit, p.Task, p.Input, p.Asked = nil, "", nil, 0
	c := *e
	c.Size, c.Value = 0, p.Encode()
	return c
}

// Offered returns the tasks of open steps. Of an entry without its value it is not known.
func Offered(entries []store.Entry) (tasks []permit.Withdrawn) {
	for i := range entries {
		e := &entries[i]
		if e.Kind != store.KindStep || e.State != store.Open || e.Value == nil {
			continue
		}
		if p, err := DecodeProgress(e.Value); err == nil && p.Permit != nil && p.Task != "" {
			tasks = append(tasks, permit.Withdrawn{Queue: p.Permit.Queue, Ticket: p.Permit.Ticket, Loc: e.Loc})
		}
	}
	return tasks
}
