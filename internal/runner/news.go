package runner

import (
	"time"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/store"
)

// News is what a turn has to report besides what stands in it.
type News struct {
	Failed  []attempts.Failed // attempts that have failed, and that others follow
	At      string            // the location at which the run stalls; "": none is known
	Paused  string            // why the run is paused without a request; "": it is not
	Resumed store.Time        // as in journal.Journal
	Woken   bool              // a timer has acted
	Late    time.Duration     // by how much the timers were late that have, at most
}

// NewsOf returns the news of the turn that Take has just returned, and forgets them.
func NewsOf(r *Interpreter, t *store.Turn) News {
	news := News{Failed: r.steps.TakeFailed(), Resumed: journal.Resumed(r.j)}
	news.Late, news.Woken = r.j.Timers.TakeLate()
	switch {
	case r.over == nil:
	case r.over.Stall != nil:
		news.At = r.over.Stall.Location
	case r.over.At != "":
		news.At = r.over.At.String()
	}
	if u := t.Update; u != nil && !u.Status.Terminal() && u.Marks&store.Paused != 0 && r.pause != nil && r.pause.No == 0 {
		news.Paused = string(r.pause.Value)
	}
	return news
}

// Executing records that an attempt has been executing for some time, since started.
func Executing(r *Interpreter, id int64, attempt int, started store.Time) {
	r.steps.Executing(id, attempt, started)
}

// Began records that the body of an operation had begun, at started, when the operation was withdrawn or the run ended.
// It is called before the turn is taken. What was not withdrawn is left alone.
func Began(r *Interpreter, id int64, started store.Time) {
	r.steps.Began(id, started, r.over != nil && r.over.Status.Terminal())
}

// Withdrawn returns, once, the tasks that the turn gives back which Take has just returned: those of steps that are
// withdrawn, or were open as the run ended.
func Withdrawn(r *Interpreter) []permit.Withdrawn { return r.steps.TakeWithdrawn() }

// Repeats reports whether the turn that Take has just returned has only what an activation does
// each time, until something is recorded that comes after: it looks at new items, shows values and
// tags, and says which bodies execute. A run that kills its process has got no further with it. r is
// nil if the turn is an entity's.
func Repeats(r *Interpreter, t *store.Turn) bool {
	for i := range t.Entries {
		e := &t.Entries[i]
		if r == nil || r.turns.progressed || e.State != store.Open || e.Kind != store.KindStep && !e.Kind.Undoes() {
			return false
		}
	}
	return !t.Rewound && t.Update == nil && len(t.Prune)+len(t.Rewrites)+len(t.Consumed)+len(t.Returned)+
		len(t.Answers)+len(t.Appends)+len(t.Dead)+len(t.Refused)+len(t.Audit)+len(t.Sends) == 0
}

// Emission is an item that a body adds to a stream of its run.
type Emission = attempts.Emission

// Emit adds the items that an attempt has emitted to streams of the run.
func Emit(r *Interpreter, id int64, attempt int, items []Emission) {
	r.steps.Emit(id, attempt, items)
}
