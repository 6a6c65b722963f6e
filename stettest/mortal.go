package stettest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stet-run/stet/store"
)

// Fault is something that happens at a commit.
type Fault uint8

// At one commit a process dies, or its store fails.
const (
	// DieBefore: the process ends; nothing of the commit was written.
	DieBefore Fault = iota + 1
	// DieAfter: the commit is written and answered, then the process ends.
	DieAfter
	// DieUnheard: the commit is written, and the process ends without the answer.
	DieUnheard
	// LoseAnswer: the commit is written and its answer is lost; the process goes on.
	LoseAnswer
	// FailOnce: nothing is written, because the store is away for a moment; the
	// process goes on.
	FailOnce
)

// String says what happens.
func (f Fault) String() string {
	switch f {
	case DieBefore:
		return "the process dies before"
	case DieAfter:
		return "the process dies after"
	case DieUnheard:
		return "the process dies without the answer of"
	case LoseAnswer:
		return "the store loses the answer of"
	case FailOnce:
		return "the store fails"
	}
	return fmt.Sprintf("fault(%d)", uint8(f))
}

// mortal is a process's handle on the store, on which a fault happens at one commit of
// turns, of whichever lane.
type mortal struct {
	store.Store
	store.Laned
	*end
}

// end is what a handle and its lanes share.
type end struct {
	whole store.Store
	at    int64 // number of the commit of turns at which it happens; 0: never
	what  Fault
	count atomic.Int64 // of such commits
	dead  atomic.Bool
	died  chan struct{}
}

func newMortal(s store.Store, at int64, what Fault) *mortal {
	e := &end{whole: s, at: at, what: what, died: make(chan struct{})}
	return &mortal{s, store.WrapLanes(s, func(lane store.Store) store.Store { return &mortal{Store: lane, end: e} }), e}
}

// die ends the process's access to the store, as the end of the process would.
func (m *end) die() {
	if m.dead.CompareAndSwap(false, true) {
		_ = m.whole.Close() // the process would not see the error either
		close(m.died)
	}
}

var errDead = fmt.Errorf("the process is dead: %w", store.ErrUnavailable)

func (m *mortal) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if m.dead.Load() {
		return store.BatchResult{}, errDead
	}
	if len(b.Turns) == 0 || m.count.Add(1) != m.at {
		return m.Store.Commit(ctx, b)
	}
	switch m.what {
	case DieBefore:
		m.die()
		return store.BatchResult{}, errDead
	case FailOnce:
		return store.BatchResult{}, fmt.Errorf("away: %w", store.ErrUnavailable)
	}
	result, err := m.Store.Commit(ctx, b)
	if err != nil {
		return result, err
	}
	switch m.what {
	case DieAfter:
		defer m.die()
		return result, nil
	case DieUnheard:
		m.die()
	}
	return store.BatchResult{}, fmt.Errorf("answer lost: %w: %w", store.ErrUnavailable, store.ErrUnknown)
}
