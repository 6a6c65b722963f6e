// Package observe reports what an engine does to functions that the application has given,
// as it happens and once it is durable. It is the port behind stet.Observer: package report
// calls it about turns and runs, the engine about leases, and the store that Store returns
// about what is written and claimed.
//
// Nothing is reported in a replay: a turn holds what is new, and nothing else is reported of
// a run.
package observe

import (
	"time"

	"github.com/stet-run/stet/store"
)

// Port is functions of the application. Each may be nil. They are called concurrently, by
// the goroutines that work, and return soon; they do not panic. What they are given must not
// be changed, and not be kept.
type Port struct {
	RunBegan   func(run *store.Run) // its first turn
	RunEnded   func(run *store.Run)
	RunStalled func(run *store.Run)

	// Turn is called for each turn that stands, before the functions below, and Waited for
	// each entry of it that ends a wait. Sent is called for each message to another run. resumed
	// is when the run has last gone on after a long pause; 0: it has had none.
	Turn   func(run *store.Run, turn *store.Turn)
	Waited func(run *store.Run, e *store.Entry, resumed store.Time)
	Sent   func(run *store.Run, c *store.Command, resumed store.Time)
	// Woken is called for each timer of a run, with the time by which it was handed over late.
	Woken func(run *store.Run, late time.Duration)

	Committed  func(Commit)
	Claimed    func(Claim)
	Value      func(kind string, bytes int)
	StoreError func(act string, err error)

	Lease func(event LeaseEvent, shards []store.Shard)
}

// LeaseEvent says what has become of leases. The texts are those that users see.
type LeaseEvent string

// The events of leases.
const (
	LeaseTaken    LeaseEvent = "taken"
	LeaseReleased LeaseEvent = "released" // given back
	LeaseLost     LeaseEvent = "lost"     // not renewed in time, or taken by another node
	LeaseFenced   LeaseEvent = "fenced"   // the store has refused what was written under it
)

// Leases reports what has become of the leases of shards. The port may be nil.
func (p *Port) Leases(event LeaseEvent, shards []store.Shard) {
	if p != nil && p.Lease != nil && len(shards) > 0 {
		p.Lease(event, shards)
	}
}

// Commit is one call of Store.Commit that has written its batch.
type Commit struct {
	Took     time.Duration
	Turns    int
	Commands int
	Bytes    int // of values
}

// Claim is one call of Store.Claim that was answered.
type Claim struct {
	Took time.Duration
	Runs int // newly claimed
	Lags []Lag
}

// Lag is how long a run of the group was ready before it was claimed. It is counted from the
// claim before at the earliest, unless that one has left some.
type Lag struct {
	Group string
	Lag   time.Duration
}
