package judge

import (
	"slices"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
)

// limits counts the bodies that are at work on queues.
//
// A body has its permit until its attempt has ended. It counts no more when its context has
// ended, when another execution of its attempt has begun, when its node has died, and when
// another node has taken its run over: the body of the former node may go on, without a permit.
type limits struct {
	*oracle
	work  map[string]*permitted // by execution
	runs  map[string]plan.Run   // that hold a permit of the queue of runs
	taken map[string]int        // units of rates, by queue, and by queue and key
	units map[attempted]bool    // what is counted in taken
	first time.Duration         // when the first run was asked for
}

// attempted is an attempt of a step, whichever process executes it.
type attempted struct {
	operation
	no int
}

func newLimits(o *oracle) *limits {
	return &limits{o, map[string]*permitted{}, map[string]plan.Run{}, map[string]int{}, map[attempted]bool{}, -1}
}

// asked takes the request to start a run.
func (l *limits) asked() {
	if l.first < 0 {
		l.first = l.now()
	}
}

// executes takes the begin of a run's code, or of its replay.
func (l *limits) executes(run string) {
	i := slices.IndexFunc(l.plan.Runs, func(r plan.Run) bool { return r.ID == run })
	if i < 0 || l.plan.Runs[i].Queue == "" || l.changed[run] || l.ends.known(run) {
		return
	}
	r := l.plan.Runs[i]
	q, known := l.queue(r.Queue)
	if !known || q.Release {
		return
	}
	l.runs[run] = r
	all, same := 0, 0
	for id, other := range l.runs {
		if l.ends.known(id) || l.changed[id] {
			delete(l.runs, id)
			continue
		}
		all++
		if other.Key == r.Key && r.Key != "" {
			same++
		}
	}
	if q.Concurrency > 0 && all == q.Concurrency {
		l.count("queue of runs is full")
	}
	if q.Concurrency > 0 && all > q.Concurrency {
		l.violated("queue: %d runs execute on %s at once, of %d, with %s", all, r.Queue, q.Concurrency, run)
	}
	if q.PerKey > 0 && same > q.PerKey {
		l.violated("queue: %d runs with the key %s execute on %s at once, of %d, with %s",
			same, r.Key, r.Queue, q.PerKey, run)
	}
}

// rates counts the units of a rate that an attempt takes. A permit is granted before its body
// begins, so that there are no more since the first request than the rate allows in that time.
func (l *limits) rates(n plan.Note, q plan.Queue) {
	at := attempted{operation{n.Run, n.Op}, n.Attempt}
	if l.units[at] || l.changed[n.Run] || q.Per == 0 {
		return // the permit of an attempt that was lost with its process is still its own
	}
	l.units[at] = true
	check := func(of string, rate int) {
		if rate == 0 {
			return
		}
		l.taken[of] += n.Units
		if most := rate * (int((l.now()+l.ahead()-l.first)/q.Per) + 1); l.taken[of] > most {
			l.violated("30: %d units of %s were granted by %s, of %d each %s since %s, with %s of %s",
				l.taken[of], of, l.now(), rate, q.Per, l.first, n.Op, n.Run)
		} else if l.taken[of] == most {
			l.count("rate is used up")
		}
	}
	check(n.Queue, q.Rate)
	if n.PermitKey != "" {
		check(n.Queue+" key "+n.PermitKey, q.RatePerKey)
	}
}

type permitted struct {
	operation
	attempt    int
	node       string
	queue, key string
	begun      time.Duration
}

// begins takes the begin of a body on a queue.
func (l *limits) begins(n plan.Note) {
	if n.Queue == "" {
		return
	}
	at := operation{n.Run, n.Op}
	for exec, p := range l.work {
		if p.operation == at {
			delete(l.work, exec)
		}
	}
	p := &permitted{at, n.Attempt, n.Node, n.Queue, n.PermitKey, l.now()}
	l.work[n.Exec] = p
	q, known := l.queue(n.Queue)
	if !known {
		l.violated("queue: %s of %s begins on %s, which does not exist", n.Op, n.Run, n.Queue)
		return
	}
	l.rates(n, q)
	all, same := 0, 0
	for _, other := range l.work {
		if other.queue != p.queue {
			continue
		}
		all++
		if p.key != "" && other.key == p.key {
			same++
		}
	}
	if q.Concurrency > 0 && all == q.Concurrency {
		l.count("queue is full")
	}
	if q.Concurrency > 0 && all > q.Concurrency {
		l.violated("queue: %d bodies are at work on %s at once, of %d, with %s of %s at %s",
			all, p.queue, q.Concurrency, n.Op, n.Run, l.now())
	}
	if q.PerKey > 0 && same > q.PerKey {
		l.violated("queue: %d bodies with the key %s are at work on %s at once, of %d, with %s of %s at %s",
			same, p.key, p.queue, q.PerKey, n.Op, n.Run, l.now())
	}
}

// queue returns the widest limits that a queue has had.
func (l *limits) queue(name string) (q plan.Queue, ok bool) {
	i := slices.IndexFunc(l.plan.Queues, func(q plan.Queue) bool { return q.Name == name })
	if i < 0 {
		return q, false
	}
	q = l.plan.Queues[i]
	for _, a := range l.plan.Acts {
		if a.Kind == plan.SetQueue && a.Name == name && l.acts[a.No] != nil {
			q.PerKey, q.Rate, q.RatePerKey = 0, 0, 0 // the act clears them
			if q.Concurrency > 0 {
				q.Concurrency = max(q.Concurrency, a.Count)
			}
		}
	}
	return q, true
}

// over takes the end of a body, or of its context.
func (l *limits) over(exec string) { delete(l.work, exec) }

// died takes the death of a node.
func (l *limits) died(node string) {
	for exec, p := range l.work {
		if p.node == node {
			delete(l.work, exec)
		}
	}
}

// moved takes the takeover of a run.
func (l *limits) moved(run string) {
	for exec, p := range l.work {
		if p.run == run {
			delete(l.work, exec)
			l.count("run taken over from a body on a queue")
		}
	}
}

// freed takes an act of an operator that gives the permits of a run back.
func (l *limits) freed(run string) { l.moved(run) }
