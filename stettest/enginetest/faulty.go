package enginetest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// faulty is a process's handle on the store, on which a fault happens at one commit of
// turns. Its lanes are those of the store, with the same fault: it happens at one commit of all of them.
type faulty struct {
	store.Store
	store.Laned
	*faults
}

// faults are what a handle and its lanes share.
type faults struct {
	whole store.Store
	at    int64 // number of the commit of turns at which it happens; 0: never; -n: each n-th
	what  stettest.Fault
	count atomic.Int64 // of such commits
	dead  atomic.Bool
	died  chan struct{}
}

func newFaulty(s store.Store, at int64, what stettest.Fault) *faulty {
	f := &faults{whole: s, at: at, what: what, died: make(chan struct{})}
	return &faulty{s, store.WrapLanes(s, func(lane store.Store) store.Store { return &faulty{Store: lane, faults: f} }), f}
}

var errDead = fmt.Errorf("the process is dead: %w", store.ErrUnavailable)

// die ends the process's access to the store.
func (f *faults) die() {
	if f.dead.CompareAndSwap(false, true) {
		_ = f.whole.Close() // the process would not see the error either
		close(f.died)
	}
}

// happens reports whether the fault happens at a commit.
func (f *faults) happens(commit int64) bool {
	if f.at < 0 {
		return commit%f.at == 0
	}
	return commit == f.at
}

// Commit implements store.Store.
func (f *faulty) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if f.dead.Load() {
		return store.BatchResult{}, errDead
	}
	if len(b.Turns) == 0 || !f.happens(f.count.Add(1)) {
		return f.Store.Commit(ctx, b)
	}
	switch f.what {
	case stettest.DieBefore:
		f.die()
		return store.BatchResult{}, errDead
	case stettest.FailOnce:
		return store.BatchResult{}, fmt.Errorf("the store is away for a moment: %w", store.ErrUnavailable)
	}
	result, err := f.Store.Commit(ctx, b)
	switch f.what {
	case stettest.LoseAnswer:
		return store.BatchResult{}, fmt.Errorf("the answer is lost: %w", store.ErrUnknown)
	case stettest.DieUnheard:
		f.die()
		return store.BatchResult{}, errDead
	}
	f.die()
	return result, err
}
