package judge

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
)

// tasks judges what workers do, and what becomes of it: each attempt of a task ends once, by the
// worker that has it.
//
// Which of two leases of an attempt is the later one is known only if it was asked for when the other
// had been got: an answer may be long on its way. What was asked for, and not yet got, counts for nothing.
type tasks struct {
	*oracle
	asked  map[string]int           // requests for tasks: the number of tasks that had ended when they were sent
	first  map[string]time.Duration // … and when they were sent first
	ended  int
	leases map[string]*lease    // by execution
	of     map[attempted]*turns // attempts
	whole  map[operation]string // executions whose result was accepted
}

// turns are the leases of an attempt.
type turns struct {
	last  string        // the execution of the lease that was got last
	since time.Duration // when the lease was asked for that was asked for last
	ended string        // the execution whose answer was accepted
	at    int           // which end of a task that was
	fails bool
}

// lease is an execution of a task.
type lease struct {
	operation
	attempt int
	got     time.Duration
	late    bool // another worker had the attempt when it answered last
	answers int  // that it gave
	unsure  bool // it has answered more than once, or not as before
	refused bool // its one answer was
}

func newTasks(o *oracle) *tasks {
	return &tasks{
		o, map[string]int{}, map[string]time.Duration{}, 0, map[string]*lease{}, map[attempted]*turns{},
		map[operation]string{},
	}
}

// note takes what a worker says.
func (t *tasks) note(n plan.Note) {
	if n.Kind == plan.Asks {
		t.asked[n.Exec] = t.ended
		if _, again := t.first[n.Exec]; !again {
			t.first[n.Exec] = t.now()
		}
		return
	}
	at := attempted{operation{n.Run, n.Op}, n.Attempt}
	all := t.of[at]
	if all == nil {
		all = &turns{}
		t.of[at] = all
	}
	if n.Kind == plan.Leased {
		t.keyed(at.operation, n.Attempt, n.Key)
		if all.last != "" {
			t.count("task leased again")
		}
		if all.ended != "" && t.asked[n.Value] >= all.at && !t.changed[n.Run] {
			t.violated("3: attempt %d of %s of %s is leased as %s, and had ended as %s",
				n.Attempt, n.Op, n.Run, n.Exec, all.ended)
		}
		all.last, all.since = n.Exec, max(all.since, t.first[n.Value])
		t.leases[n.Exec] = &lease{operation: at.operation, attempt: n.Attempt, got: t.now()}
		return
	}
	l := t.leases[n.Exec]
	switch n.Kind {
	case plan.Answers:
		l.late = all.since > l.got
		if l.answers++; l.answers > 1 {
			l.unsure = true
			t.count("task answered twice")
		}
		if l.late {
			t.count("task answered late")
		}
	case plan.NotWanted:
		t.count("task not wanted")
		l.refused = true
	case plan.Accepted:
		t.accepted(n, l, all)
	}
}

func (t *tasks) accepted(n plan.Note, l *lease, all *turns) {
	t.count("task accepted")
	l.refused = false
	if n.Err != "" {
		t.count("task failed")
	}
	switch {
	case t.changed[n.Run]:
	case all.ended != "" && all.ended != n.Exec:
		t.violated("3: attempt %d of %s of %s has ended as %s, and as %s", n.Attempt, n.Op, n.Run, all.ended, n.Exec)
	case all.ended != "" && all.fails != (n.Err != ""):
		t.violated("3: attempt %d of %s of %s has ended as %s in two ways", n.Attempt, n.Op, n.Run, n.Exec)
	case l.late && all.ended == "":
		t.violated("9: attempt %d of %s of %s ends as %s, whose lease had expired: %s had got it",
			n.Attempt, n.Op, n.Run, n.Exec, all.last)
	}
	if all.ended == "" {
		t.ended++
		all.ended, all.at, all.fails = n.Exec, t.ended, n.Err != ""
	}
	if n.Err == "" {
		t.whole[l.operation] = n.Exec
	}
}

// result returns what is wrong with a result of a task, or "".
func (t *tasks) result(by, run, name string, op plan.Op) string {
	l := t.leases[by]
	switch {
	case l == nil:
		return fmt.Sprintf("%s is the result of an execution that never began: %q", name, by)
	case l.op != name:
		return fmt.Sprintf("%s has the result of %s of %s", name, l.op, l.run)
	case l.answers == 0:
		return fmt.Sprintf("%s has the result of an execution that has given none: %s", name, by)
	case l.refused && !l.unsure:
		return fmt.Sprintf("%s has a result that was refused: %s", name, by)
	case l.attempt <= op.Body.Fails:
		return fmt.Sprintf("%s has succeeded in attempt %d, and fails %d times", name, l.attempt, op.Body.Fails)
	}
	if whole, ok := t.whole[l.operation]; ok && whole != by && !t.changed[l.run] {
		return fmt.Sprintf("%s has the result of %s, and that of %s was accepted", name, by, whole)
	}
	return ""
}
