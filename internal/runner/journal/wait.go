package journal

import (
	"encoding/json"
	"iter"
	"time"

	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/store"
)

// Wait describes something that a suspended run waits for.
type Wait struct {
	Location string   `json:"location"`
	Kind     string   `json:"kind"`
	Names    []string `json:"names,omitempty"` // of messages, or of updates
	Update   bool     `json:"update,omitempty"`
	Run      string   `json:"run,omitempty"`   // of a child or an awaited run, its ID
	Topic    string   `json:"topic,omitempty"` // of an event
	Queue    string   `json:"queue,omitempty"` // of a step that waits for a permit
	// Task is the name of a task that the queue offers to workers, or a worker executes. The queue knows it by Ticket.
	Task   string     `json:"task,omitempty"`
	Ticket string     `json:"ticket,omitempty"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty"` // deadline, end of a sleep, next attempt
	// Failed is how many attempts of a step have failed since then, and Error the last failure's
	// text.
	Failed int    `json:"failed,omitempty"`
	Error  string `json:"error,omitempty"`
}

// EndsAt describes that the wait ends at a time; 0: none.
func (w *Wait) EndsAt(at store.Time) {
	if at != 0 {
		t := at.Time()
		w.Until = &t
	}
}

// maxWaits bounds the waits that a run's row describes.
const maxWaits = 10

// Awaited yields the operations in which a branch is blocked.
func Awaited(b *sched.Branch) iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		for o := range b.AwaitedOperations() {
			if !yield(o.(*Op)) {
				return
			}
		}
	}
}

// Waits describes what the run waits for, and says how often in a row the step of it has failed that has failed most.
func (j *Journal) Waits() (waits []byte, failed int) {
	var list []Wait
	for _, b := range j.Scheduler.Branches() {
		if b.Dropped() {
			continue
		}
		list = append(list, waitsOf(b)...)
		if len(list) >= maxWaits {
			break
		}
	}
	for i := range list {
		failed = max(failed, list[i].Failed)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, failed // names that are no text; what a run waits for is only shown
	}
	return data, failed
}

// waitsOf describes what a branch waits for. The deadline of a wait is no wait of its own,
// unless the branch waits for no other operation.
func waitsOf(b *sched.Branch) []Wait {
	var list, timers []Wait
	var deadline store.Time
	for o := range Awaited(b) {
		w := Wait{Location: o.Loc.String(), Kind: o.Kind.String(), Since: o.Asked.Time()}
		o.Is.Show(&w)
		if o.Kind != store.KindTimer {
			list = append(list, w)
		} else if deadline == 0 || o.Deadline < deadline {
			deadline, timers = o.Deadline, []Wait{w}
		}
	}
	if len(list) == 0 {
		return timers
	}
	for i := range list {
		if w := &list[i]; w.Until == nil || deadline != 0 && w.Until.After(deadline.Time()) {
			w.EndsAt(deadline)
		}
	}
	return list
}
