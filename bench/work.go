package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// work is what jobs and runs do: the same for all subjects. It counts what is executed.
type work struct {
	jobs, steps tally
	perRun      int                // steps of a run
	hold        func(step int)     // called by each step; nil: nothing is
	executed    func(number int)   // called by each job; nil: nothing is
	text        func(n int) string // of a large value
	mu          sync.Mutex
	late        []time.Duration // of timers
}

func newWork(jobs, runs, perRun int) *work {
	return &work{jobs: newTally(jobs), steps: newTally(runs * perRun), perRun: perRun, text: newText()}
}

// job is the body of a job.
func (w *work) job(in input) {
	w.jobs.note(in.Number)
	if w.executed != nil {
		w.executed(in.Number)
	}
}

// step is the body of a step: it returns a value of the size that its run asks for.
func (w *work) step(in input, step int) input {
	w.steps.note(in.Number*w.perRun + step)
	if w.hold != nil {
		w.hold(step)
	}
	if in.Size > 0 {
		in.Text = w.text(in.Size)
	}
	return in
}

// woke notes how late a sleeper goes on.
func (w *work) woke(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, late)
}

func (w *work) lateness() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]time.Duration(nil), w.late...)
}

// tally counts how often each body was executed.
type tally struct {
	times []atomic.Int32
	all   atomic.Int64
}

func newTally(n int) tally { return tally{times: make([]atomic.Int32, n)} }

func (t *tally) note(n int) {
	t.times[n].Add(1)
	t.all.Add(1)
}

// once returns an error unless each of the first n bodies was executed exactly once, and no other.
func (t *tally) once(n int) error {
	for i := range t.times {
		if times := t.times[i].Load(); i < n && times != 1 {
			return fmt.Errorf("expected body %d to be executed once, found %d times", i, times)
		} else if i >= n && times > 0 {
			return fmt.Errorf("expected %d bodies, found that body %d was executed", n, i)
		}
	}
	return nil
}

// again returns how many executions were repetitions.
func (t *tally) again() int {
	n := 0
	for i := range t.times {
		n += max(0, int(t.times[i].Load())-1)
	}
	return n
}

// letters are those of a text that no database compresses: as in base64, with 6 bits in each.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// newText returns a function that returns texts of a length, which differ in their beginning.
func newText() func(n int) string {
	var mu sync.Mutex
	var long []byte
	random := rand.New(rand.NewPCG(1, 2))
	return func(n int) string {
		mu.Lock()
		defer mu.Unlock()
		for len(long) < n {
			long = append(long, letters[random.IntN(len(letters))])
		}
		for i := range min(16, n) {
			long[i] = letters[random.IntN(len(letters))]
		}
		return string(long[:n])
	}
}

// newInput returns the input of a job or run: about 100 bytes of JSON.
func newInput(number, steps int) input {
	return input{Number: number, Steps: steps, Text: letters}
}

// inParallel calls do for 0 to n-1, so many at a time, until one fails.
func inParallel(ctx context.Context, n, atATime int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, atATime) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// until polls a condition, at most until the limit is over, and reports whether it was met.
func until(ctx context.Context, limit time.Duration, is func() (bool, error)) (bool, error) {
	for end := time.Now().Add(limit); ; {
		if met, err := is(); met || err != nil {
			return met, err
		}
		if time.Now().After(end) {
			return false, nil
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
