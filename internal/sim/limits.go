package sim

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
	work map[string]*permitted // by execution
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
			q.PerKey, q.Rate = 0, 0 // the act clears them
			if q.Concurrency > 0 {
				q.Concurrency = max(q.Concurrency, a.Count)
			}
		}
	}
	return q, true
}

// ends takes the end of a body, or of its context.
func (l *limits) ends(exec string) { delete(l.work, exec) }

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
