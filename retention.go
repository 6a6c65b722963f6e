package stet

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

// AtOnce as a retention has runs deleted as soon as can be after their end: a
// minute or two later.
const AtOnce time.Duration = -2

// Retention says how long runs are kept after their end, by how they ended. It is
// an option of Define, for the runs of a workflow, and a field of Config, for all; and one
// of Start, Go, Call, Detach and Schedule, for one run or those of the schedule. A field
// that is zero takes the value of the next outer one, and in the end 30 days.
// None keeps them for ever, AtOnce deletes them at once.
//
// With a run goes all that belongs to it: history, messages, dead letters, values
// and streams, and the memory of its ID, so that ErrNotFound is what others get
// and a start with its ID makes a new run. A run that has ended within the last
// minute is not deleted, nor is one that a run that has not ended refers to as its
// child. The process that executes runs deletes them, in small commits between
// those of the runs; it decides by what it knows now, so another retention counts
// for runs that have ended before as well. Runs of workflows whose code no process
// has are kept. But a retention that one run was started with is fixed when the run ends,
// and counts whatever code is there; it stays with the run as policies do, see RunPolicy.
type Retention struct {
	Succeeded time.Duration
	Failed    time.Duration
	Cancelled time.Duration // terminated runs are cancelled too
}

// KeepFor is the same retention for runs that ended in any way.
func KeepFor(d time.Duration) Retention { return Retention{d, d, d} }

var defaultRetention = KeepFor(30 * 24 * time.Hour)

func (r Retention) applyDefine(o *defineOptions) { o.retention = r }

// over returns r with outer's values in the place of zeros.
func (r Retention) over(outer Retention) Retention {
	pick(&r.Succeeded, outer.Succeeded)
	pick(&r.Failed, outer.Failed)
	pick(&r.Cancelled, outer.Cancelled)
	return r
}

// check reports the first field that is not allowed.
func (r Retention) check() error {
	for _, f := range []struct {
		name string
		keep time.Duration
	}{{"Succeeded", r.Succeeded}, {"Failed", r.Failed}, {"Cancelled", r.Cancelled}} {
		if f.keep < 0 && f.keep != None && f.keep != AtOnce {
			return fmt.Errorf("field %s of Retention: expected a positive duration, None or AtOnce, found %s: %w", f.name,
				f.keep, ErrInvalid)
		}
	}
	return nil
}

// texts returns the retention of one run for people.
func (r Retention) texts() (all []string) {
	keep := func(how string, d time.Duration) {
		switch {
		case d == None:
			all = append(all, "kept for ever"+how)
		case d == AtOnce:
			all = append(all, "deleted at once"+how)
		case d != 0:
			all = append(all, "kept "+d.String()+how)
		}
	}
	if r.Succeeded == r.Failed && r.Succeeded == r.Cancelled {
		keep(" after its end", r.Succeeded)
		return all
	}
	keep(" if it succeeds", r.Succeeded)
	keep(" if it fails", r.Failed)
	keep(" if it is cancelled", r.Cancelled)
	return all
}

// rules returns the retention of a workflow's runs as the store takes it.
func (r Retention) rules(workflow string) []store.Retention {
	var rules []store.Retention
	for _, f := range []struct {
		status store.Status
		keep   time.Duration
	}{{store.Succeeded, r.Succeeded}, {store.Failed, r.Failed}, {store.Cancelled, r.Cancelled}} {
		if f.keep == None {
			continue
		}
		rules = append(rules, store.Retention{Workflow: workflow, Status: f.status,
			Keep: store.Delay(max(f.keep, 0).Microseconds())})
	}
	return rules
}
