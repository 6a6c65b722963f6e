package store

import (
	"slices"
	"time"
)

const (
	// SweepRows is the most rows that one Sweep deletes, unless its request says otherwise:
	// entries, items, values, items of streams, audits and runs together.
	SweepRows = 500
	// MaxSweepRows is the most rows that a request may ask for.
	MaxSweepRows = 4000
	// MinKeep is how long an ended run stays, whatever its retention.
	MinKeep = Delay(time.Minute / time.Microsecond)
	// DedupWindow is how long after its sending a consumed item stays, so that a repeated
	// send is recognised.
	DedupWindow = Delay(24 * time.Hour / time.Microsecond)
	// RepeatWindow is that of a message without a key of its sender's (Item.Keyed): only
	// the act that has sent it can repeat it, and does so within minutes.
	RepeatWindow = Delay(10 * time.Minute / time.Microsecond)
	// KeepForever as Update.Keep, and Never as Run.Expires, say that no pass deletes the run.
	KeepForever Delay = -1
	Never       Time  = -1
)

// Retention says how long runs of a workflow that ended with a status are kept.
type Retention struct {
	Workflow string
	Status   Status // a terminal one
	Keep     Delay  // after the end; 0: MinKeep
}

// SweepRequest requests one part of a pass over the rows that may be deleted, or the
// deletion of Runs.
type SweepRequest struct {
	// Runs are at most SweepRows runs to be deleted. Then all other fields are zero, and the
	// caller repeats the request until it is Done.
	Runs   []RunNo
	Leases []Lease
	// Rules say which ended runs are deleted, of those without a retention of their own; runs
	// without a rule are kept. They are the same in all parts of a pass.
	Rules []Retention
	Items bool // look for consumed items as well
	From  SweepPlace
	// Most is how many rows this part deletes at most, to MaxSweepRows; 0: SweepRows. Others
	// may have to wait for a part.
	Most int
}

// Bound returns how many rows the part deletes at most.
func (r *SweepRequest) Bound() int {
	if r.Most == 0 {
		return SweepRows
	}
	return r.Most
}

// SweepPlace is the point from which a pass continues. The zero SweepPlace is the start.
type SweepPlace struct {
	Stage int  // 0: ended runs, 1: former incarnations, 2: consumed items
	Rule  int  // the number of rules: runs with a retention of their own
	Ended Time // of these Expires
	No    int64
}

// Swept is the result of one part of a pass.
type Swept struct {
	Rows   int     // deleted, as SweepRows counts them
	Runs   int     // of these
	Fenced []Shard // whose lease was not current; nothing was deleted in them
	Next   SweepPlace
	Done   bool // the pass is over
	// Kept are those of the request's Runs that law 24 keeps, in their order. It is complete
	// once Done.
	Kept []RunNo
}

// Validate reports whether the request keeps the contract. The error wraps
// ErrInvalid.
func (r *SweepRequest) Validate() error {
	if len(r.Runs) > 0 && (len(r.Leases) > 0 || len(r.Rules) > 0 || r.Items || r.From != SweepPlace{} || r.Most != 0) {
		return invalid("sweep: expected Runs, or Leases with Rules, found both")
	}
	if len(r.Runs) > SweepRows || slices.ContainsFunc(r.Runs, func(no RunNo) bool { return no <= 0 }) {
		return invalid("sweep: expected at most %d positive numbers of runs, found %d, beginning with %v",
			SweepRows, len(r.Runs), r.Runs[:min(len(r.Runs), 3)])
	}
	if r.Most < 0 || r.Most > MaxSweepRows {
		return invalid("sweep: expected 0 to %d rows at most, found %d", MaxSweepRows, r.Most)
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		if err := checkText("workflow", rule.Workflow, MaxName, false); err != nil {
			return err
		}
		if !rule.Status.Terminal() || rule.Keep < 0 || rule.Keep > MaxDelay {
			return invalid("sweep: expected a terminal status and 0 to %d µs, found %s and %d", MaxDelay, rule.Status, rule.Keep)
		}
	}
	if p := r.From; p.Stage < 0 || p.Stage > 2 || p.Rule < 0 || p.Rule > len(r.Rules) {
		return invalid("sweep: expected the place where a former part has ended, found %+v", p)
	}
	return checkLeases(r.Leases)
}

// Expires returns when a run that ends at a time with an Update may be deleted, as Run.Expires
// says it.
func (u *Update) Expires(ended Time) Time {
	switch {
	case u.Keep == 0 || !u.Status.Terminal():
		return 0
	case u.Keep < 0:
		return Never
	}
	return ended + Time(max(u.Keep, MinKeep))
}

// Before returns the time before which a run must have ended to be deleted at now.
func (r *Retention) Before(now Time) Time { return now - Time(max(r.Keep, MinKeep)) }
