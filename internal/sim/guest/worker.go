package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/sim/plan"
)

// work of tasks is a step that a worker executes.
type taskInput struct {
	Op    string
	Takes time.Duration
	Fails int
	Final bool
}

const taskName = stet.Task[taskInput, string]("work")

func (e *execution) task(ctx stet.Context, op plan.Op, name string) (string, error) {
	opts := []stet.TaskOption{stet.Named(op.Name)}
	if op.Queue != "" {
		opts = append(opts, stet.Permit{Queue: op.Queue, Key: op.Key})
	}
	if op.Undo != nil {
		opts = append(opts, e.undoing(op, name))
	}
	return taskName.Run(ctx, taskInput{name, op.Body.Takes, op.Body.Fails, op.Body.Final}, opts...)
}

// worker executes tasks, as a program of any language would. Until a time it does so badly.
type worker struct {
	tasks    stet.Tasks
	badUntil time.Time
}

// executions are counted in the whole process, and so are requests.
var executions, requests atomic.Int64

func (w *worker) run(ctx context.Context) {
	known := map[string]bool{}
	for ctx.Err() == nil {
		r := stet.LeaseRequest{
			Worker: os.Args[0], Names: []string{string(taskName)}, Max: 1 + rand.IntN(3), Wait: 10 * time.Second,
			For: time.Duration(1+rand.IntN(4)) * time.Second, Request: fmt.Sprintf("%s.r%d", os.Args[0], requests.Add(1)),
		}
		tell(plan.Note{Kind: plan.Asks, Exec: r.Request})
		var got *stet.Leased
		err := errAgain
		for tries := 0; err != nil && tries < 3 && ctx.Err() == nil; tries++ { // a repeat gets the same
			asking, cancel := context.WithTimeout(ctx, 15*time.Second)
			got, err = w.tasks.Lease(asking, r)
			cancel()
			if err != nil {
				rest(ctx)
			}
		}
		if err != nil {
			continue
		}
		for i := range got.Tasks {
			if t := &got.Tasks[i]; !known[t.Lease] {
				known[t.Lease] = true
				go w.do(ctx, t, &r)
			}
		}
	}
}

var errAgain = errors.New("again")

// Ways in which a worker does wrong.
const (
	dies = iota
	late
	givesBack
	twice
	otherwise
	beats
	ways
)

func (w *worker) do(ctx context.Context, t *stet.LeasedTask, r *stet.LeaseRequest) {
	var in taskInput
	if err := json.Unmarshal(t.Input, &in); err != nil {
		panic(err)
	}
	exec := fmt.Sprintf("%s.t%d", os.Args[0], executions.Add(1))
	n := plan.Note{
		Kind: plan.Leased, Run: t.RunID, Op: in.Op, Attempt: t.Attempt, Key: t.Key, Exec: exec, Value: r.Request,
	}
	tell(n)
	way := ways
	if time.Now().Before(w.badUntil) {
		way = rand.IntN(2 * ways)
	}
	takes := in.Takes
	switch way {
	case dies:
		return
	case late:
		takes = 2 * r.For
	case givesBack:
		_, _ = w.tasks.Release(ctx, t.Lease) // otherwise it expires
		return
	case beats:
		for range 4 {
			time.Sleep(r.For / 2)
			_, _ = w.tasks.Heartbeat(ctx, r.For, stet.TaskBeat{Lease: t.Lease}) // otherwise it expires
		}
	}
	time.Sleep(takes)
	final := in.Final && t.Attempt > in.Fails
	if t.Attempt <= in.Fails || final {
		n.Err = errPlanned.Error()
	}
	w.answer(ctx, t.Lease, n, final)
	switch way {
	case twice:
		w.answer(ctx, t.Lease, n, final)
	case otherwise:
		if n.Err = ""; t.Attempt > in.Fails && !final {
			n.Err = "otherwise"
		}
		w.answer(ctx, t.Lease, n, false)
	}
}

// answer ends a task, and repeats this while nobody knows whether it has ended. final: no attempt follows a failure.
func (w *worker) answer(ctx context.Context, lease string, n plan.Note, final bool) {
	for ctx.Err() == nil {
		n.Kind = plan.Answers
		tell(n)
		answering, cancel := context.WithTimeout(ctx, 5*time.Second)
		var err error
		if n.Err != "" {
			_, err = w.tasks.Fail(answering, lease, stet.TaskFailure{Message: n.Err, Permanent: final})
		} else {
			err = w.tasks.Complete(answering, lease, json.RawMessage(fmt.Sprintf("%q", n.Exec)))
		}
		cancel()
		switch {
		case err == nil:
			n.Kind = plan.Accepted
		case errors.Is(err, stet.ErrLeaseGone) || errors.Is(err, stet.ErrLeaseCancelled):
			n.Kind = plan.NotWanted
		default:
			rest(ctx)
			continue
		}
		tell(n)
		return
	}
}
