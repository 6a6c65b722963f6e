package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// The jobs at a time of the figures.
const (
	someAtATime = 100
	fewAtATime  = 10
	manyAtATime = 2_000
)

// warmJobs is how many jobs are executed before the first figure.
func (s *spec) warmJobs() int { return min(200, s.Jobs) }

// queueRun is a measurement of the queue. Jobs have numbers in the order in which they are put in.
type queueRun struct {
	spec     *spec
	sub      subject
	work     *work
	out      *outcome
	next     int  // number of the next job
	finished int  // jobs that were executed when the last figure was taken
	cut      bool // a figure has reached its limit, so that jobs are left over
}

func measureQueue(ctx context.Context, s *spec, sub subject, w *work, out *outcome) error {
	q := &queueRun{spec: s, sub: sub, work: w, out: out}
	if err := q.warm(ctx); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := q.alone(ctx); err != nil {
		return err
	}
	if err := q.putMany(ctx, "put in, "+number(float64(s.PerCall))+" in a call", someAtATime); err != nil {
		return err
	}
	if err := q.workOff(ctx, someAtATime); err != nil {
		return err
	}
	if err := q.putSingly(ctx); err != nil {
		return err
	}
	if err := q.workOff(ctx, fewAtATime); err != nil {
		return err
	}
	if err := q.putMany(ctx, "", manyAtATime); err != nil {
		return err
	}
	if err := q.workOff(ctx, manyAtATime); err != nil {
		return err
	}
	if err := q.atOnce(ctx); err != nil {
		return err
	}
	if !q.cut {
		return w.jobs.once(q.next)
	}
	note := fmt.Sprintf("figures of the queue that took longer than %s were ended then", s.Limit)
	if w.jobs.again() > 0 {
		note += ", and jobs that a stop has interrupted were executed again"
	}
	out.Notes = append(out.Notes, note)
	return nil
}

// warm puts jobs in and works them off, in both ways.
func (q *queueRun) warm(ctx context.Context) error {
	return serving(ctx, q.sub, someAtATime, func() error {
		if err := q.sub.put(ctx, q.jobs(q.spec.warmJobs()), someAtATime); err != nil {
			return err
		}
		if err := q.single(ctx, q.spec.warmJobs(), someAtATime); err != nil {
			return err
		}
		_, err := q.drain(ctx)
		return err
	})
}

// jobs returns the inputs of the next jobs.
func (q *queueRun) jobs(n int) []input {
	inputs := make([]input, n)
	for i := range inputs {
		inputs[i] = newInput(q.next+i, 1)
	}
	q.next += n
	return inputs
}

// single puts jobs in one by one, by all callers.
func (q *queueRun) single(ctx context.Context, n, atATime int) error {
	inputs := q.jobs(n)
	return inParallel(ctx, n, q.spec.Callers, func(ctx context.Context, i int) error {
		return q.sub.putOne(ctx, inputs[i], atATime)
	})
}

// calls puts all jobs of a figure in, so many in a call.
func (q *queueRun) calls(ctx context.Context, atATime int) error {
	for left := q.spec.Jobs; left > 0; left -= q.spec.PerCall {
		if err := q.sub.put(ctx, q.jobs(min(left, q.spec.PerCall)), atATime); err != nil {
			return err
		}
	}
	return nil
}

// putMany puts jobs in while none is executed. A figure without a name is not kept.
func (q *queueRun) putMany(ctx context.Context, name string, atATime int) error {
	if _, err := q.sub.done(ctx); err != nil { // the client is open then
		return err
	}
	begun := time.Now()
	err := q.calls(ctx, atATime)
	if name != "" {
		q.out.rate(name, "jobs/s", q.spec.Jobs, time.Since(begun))
	}
	return err
}

func (q *queueRun) putSingly(ctx context.Context) error {
	if _, err := q.sub.done(ctx); err != nil { // the client is open then
		return err
	}
	begun := time.Now()
	err := q.single(ctx, q.spec.Jobs, fewAtATime)
	q.out.rate(fmt.Sprintf("put in by %d single callers", q.spec.Callers), "jobs/s", q.spec.Jobs, time.Since(begun))
	return err
}

// drain waits until all jobs that were put in are executed and stored as such, or the limit is over. It returns how
// many were executed since the last figure.
func (q *queueRun) drain(ctx context.Context) (int, error) {
	met, err := until(ctx, q.spec.Limit, func() (bool, error) { return q.work.jobs.all.Load() >= int64(q.next), nil })
	if err != nil {
		return 0, err
	}
	executed := int(q.work.jobs.all.Load())
	n := executed - q.finished
	q.finished = executed
	if !met {
		q.cut = true
		return n, nil
	}
	return n, allDone(ctx, q.sub, q.next)
}

// workOff measures how fast the jobs that were put in are executed, from the start of what executes them.
func (q *queueRun) workOff(ctx context.Context, atATime int) error {
	begun := time.Now()
	err := serving(ctx, q.sub, atATime, func() error {
		n, err := q.drain(ctx)
		q.out.rate("worked off, "+number(float64(atATime))+" at a time", "jobs/s", n, time.Since(begun))
		return err
	})
	q.finished = int(q.work.jobs.all.Load()) // those that ended while it was stopped belong to no figure
	return err
}

// atOnce measures jobs that are put in while others are executed.
func (q *queueRun) atOnce(ctx context.Context) error {
	err := serving(ctx, q.sub, someAtATime, func() error {
		begun := time.Now()
		if err := q.calls(ctx, someAtATime); err != nil {
			return err
		}
		n, err := q.drain(ctx)
		q.out.rate("put in and worked off at once", "jobs/s", n, time.Since(begun))
		return err
	})
	q.finished = int(q.work.jobs.all.Load())
	return err
}

// alone measures from the call that puts a job in until it is executed, while nothing else is done.
func (q *queueRun) alone(ctx context.Context) error {
	if q.cut {
		return nil // others are before it
	}
	times := min(q.spec.Alone, 30)
	begun := make(chan int, 1)
	q.work.executed = func(n int) { begun <- n }
	defer func() { q.work.executed, q.finished = nil, q.next }()
	return serving(ctx, q.sub, someAtATime, func() error {
		took := make([]time.Duration, times)
		for i := range took {
			select { // systems that poll are met at any time
			case <-time.After(100*time.Millisecond + rand.N(100*time.Millisecond)):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			job := q.jobs(1)[0]
			at := time.Now()
			if err := q.sub.putOne(ctx, job, someAtATime); err != nil {
				return err
			}
			select {
			case <-begun:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			took[i] = time.Since(at)
		}
		q.out.duration("one job alone, from its call to its execution, p50", percentile(took, 50))
		return allDone(ctx, q.sub, q.next)
	})
}
