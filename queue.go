package stet

import (
	"context"
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// OnQueue starts a run on a queue: it is queued until it has a permit of the queue,
// and gives that back when it ends. Given to Schedule it is for all runs of the
// schedule. Given to Define it is for every start of the
// workflow, by a process that has its code, that does not say otherwise; a start that
// names a queue, or gives OnQueue{}, says so.
type OnQueue struct {
	// Name of the queue; "": none. A start on one that does not exist is ErrNoQueue. A child
	// is started by code that nobody waits for: it waits until the queue is created, in the
	// group of its parent.
	Name string
	// Key says whom the run is for: a tenant, an account. Keys take turns, and may
	// have a limit each. At most 200 bytes. Default: none.
	Key string
	// Priority: runs of a higher one begin before others, however long those wait.
	// From -1,000 to 1,000; default 0.
	Priority int
}

func (q OnQueue) applyStart(o *startOptions) error {
	o.queue = &q
	return q.check()
}

func (q OnQueue) applyChild(o *childOptions) { o.queue = &q }

func (q OnQueue) applySchedule(o *scheduleOptions) error {
	o.queue = &q
	return q.check()
}

func (q OnQueue) applyDefine(o *defineOptions) { o.queue = &q }

const (
	maxQueueKey = 200
	maxPriority = 1000
)

func (q *OnQueue) check() error {
	if (*q == OnQueue{}) {
		return nil
	}
	return checkPlace("OnQueue", q.Name, q.Key, q.Priority)
}

// checkPlace checks what an option says of a queue.
func checkPlace(option, queue, key string, priority int) error {
	switch {
	case queue == "":
		return fmt.Errorf("%s: expected the name of a queue, found none: %w", option, ErrInvalid)
	case len(key) > maxQueueKey:
		return fmt.Errorf("%s: expected a key of at most %d bytes, found %d: %w", option, maxQueueKey, len(key), ErrInvalid)
	case priority < -maxPriority || priority > maxPriority:
		return fmt.Errorf("%s: expected a priority of -%d to %d, found %d: %w", option, maxPriority, maxPriority, priority,
			ErrInvalid)
	}
	if err := location.CheckName(queue); err != nil {
		return fmt.Errorf("%s: queue: %w: %w", option, err, ErrInvalid)
	}
	return nil
}

// over returns the queue, or that of the definition where a start says nothing; nil:
// none.
func (q *OnQueue) over(definition *OnQueue) *OnQueue {
	if q == nil {
		q = definition
	}
	if q == nil || q.Name == "" {
		return nil
	}
	return q
}

func (q *OnQueue) place() permit.Place {
	return permit.Place{Queue: q.Name, Key: q.Key, Priority: q.Priority}
}

// enqueue puts a start on a queue, if it is to be on one.
func (e *Engine) enqueue(ctx context.Context, start *store.Start, q *OnQueue) error {
	if q == nil {
		return nil
	}
	if err := e.inner.Queues().Enqueue(ctx, start, q.place()); err != nil {
		return queueError(q.Name, err)
	}
	return nil
}
