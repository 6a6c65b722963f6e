package planner

import (
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/schedule"
	"github.com/stet-run/stet/store"
)

// Overlap says what becomes of an instant while a run of the schedule has not
// ended. The numbers are stored.
type Overlap uint8

const (
	Skip           Overlap = 1 // it is skipped
	BufferOne      Overlap = 2 // the first one is started when the run has ended, others are skipped
	Allow          Overlap = 3 // a run is started beside it
	CancelPrevious Overlap = 4 // the run is cancelled, and the last instant is started when it has ended
)

// Valid reports whether o is one of the policies above.
func (o Overlap) Valid() bool { return o >= Skip && o <= CancelPrevious }

// Config is what a schedule is. The records of this package are stored: keys keep
// their numbers for ever.
type Config struct {
	Cron     string        `cbor:"1,keyasint,omitempty"`
	Zone     string        `cbor:"2,keyasint,omitempty"`
	Every    time.Duration `cbor:"3,keyasint,omitempty"`
	Offset   time.Duration `cbor:"4,keyasint,omitempty"`
	Workflow string        `cbor:"5,keyasint"`
	Input    []byte        `cbor:"6,keyasint"` // encoded; nil: no value
	Headers  []byte        `cbor:"7,keyasint,omitempty"`
	Tags     []store.Pair  `cbor:"8,keyasint,omitempty"`
	Overlap  Overlap       `cbor:"9,keyasint"`
	// CatchUp is how late an instant may be started; negative: however late.
	CatchUp store.Delay `cbor:"10,keyasint"`
	Paused  bool        `cbor:"11,keyasint,omitempty"` // when it is made
	// Queue is where its runs stand, without a ticket; nil: nowhere.
	Queue *permit.Place `cbor:"12,keyasint,omitempty"`
}

// Spec returns the times of the schedule.
func (c *Config) Spec() schedule.Spec {
	return schedule.Spec{Cron: c.Cron, Zone: c.Zone, Every: c.Every, Offset: c.Offset}
}

// State is how far a schedule has come.
type State struct {
	At       store.Time `cbor:"1,keyasint"`           // the last instant that was decided
	Buffered store.Time `cbor:"2,keyasint,omitempty"` // waits for a run to end; 0: none
	Paused   bool       `cbor:"3,keyasint,omitempty"`
	PausedAt store.Time `cbor:"4,keyasint,omitempty"`
	Reason   string     `cbor:"5,keyasint,omitempty"` // of the pause
	Quiet    store.Time `cbor:"6,keyasint,omitempty"` // instants until then passed while it was paused
	Manual   store.Time `cbor:"7,keyasint,omitempty"` // the last instant at which it was triggered
	Started  int64      `cbor:"8,keyasint,omitempty"`
	Skipped  int64      `cbor:"9,keyasint,omitempty"`
	Past     int64      `cbor:"10,keyasint,omitempty"` // number of the last decision
	Fills    int64      `cbor:"11,keyasint,omitempty"` // number of the last backfill
	Made     store.Time `cbor:"12,keyasint,omitempty"` // when the schedule was made
}

// Running is a run that was started and has not ended as far as is known.
type Running struct {
	RunID     string     `cbor:"-"`
	Instant   store.Time `cbor:"1,keyasint"`
	Cancelled bool       `cbor:"2,keyasint,omitempty"` // it was asked to cancel
}

// Fill is a backfill that has not come to its end.
type Fill struct {
	After store.Time `cbor:"1,keyasint"` // what comes after this
	To    store.Time `cbor:"2,keyasint"` // and before this
}

// Decision is what became of an instant, or of several.
type Decision struct {
	From   store.Time `cbor:"1,keyasint"`           // the first instant
	To     store.Time `cbor:"2,keyasint"`           // the last one
	Count  int64      `cbor:"3,keyasint"`           // of instants
	At     store.Time `cbor:"4,keyasint"`           // when it was decided, for the last one
	RunID  string     `cbor:"5,keyasint,omitempty"` // that was started; "": skipped
	Reason string     `cbor:"6,keyasint,omitempty"` // why it was skipped
}

// Why an instant was skipped.
const (
	Overlapped = "a run of the schedule had not ended"
	Replaced   = "a later instant took its place"
	Missed     = "it came too late for the catch-up window"
	WasPaused  = "the schedule was paused"
	NoQueue    = "the queue of the schedule was not there"
)

// The names of the items that a schedule takes: Set is a message or an update, the
// others are updates.
const (
	ItemSet      = "set"
	ItemPause    = "pause"
	ItemResume   = "resume"
	ItemTrigger  = "trigger"
	ItemBackfill = "backfill"
	ItemDelete   = "delete"
)

// Set is the value of ItemSet.
type Set struct {
	Config Config `cbor:"1,keyasint"`
	New    bool   `cbor:"2,keyasint,omitempty"` // refused if there is another one
}

// Answer is the verdict on an update.
type Answer struct {
	OK      bool   `cbor:"1,keyasint"`
	Missing bool   `cbor:"2,keyasint,omitempty"` // there is no schedule of the name
	Exists  bool   `cbor:"3,keyasint,omitempty"` // there is one, and it is another
	Reason  string `cbor:"4,keyasint,omitempty"`
	RunID   string `cbor:"5,keyasint,omitempty"`
}

var (
	encoder = must(cbor.CoreDetEncOptions().EncMode())
	decoder = must(cbor.DecOptions{MaxNestedLevels: 8, MaxArrayElements: 1 << 16, MaxMapPairs: 1 << 10,
		DupMapKey: cbor.DupMapKeyEnforcedAPF}.DecMode())
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err) // the options above are constants
	}
	return x
}

// Encode returns the stored form of one of the records above.
func Encode(v any) []byte { return must(encoder.Marshal(v)) }

// Decode is the inverse of Encode. The error wraps store.ErrDamaged.
func Decode(data []byte, v any) error {
	if err := decoder.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return nil
}
