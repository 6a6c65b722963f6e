// Package together applies the commands of many callers at a time. A process that executes nothing, such as one that
// serves the web, has no batches: each of its calls would be a transaction of its own, however many there are.
package together

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/gather"
	"github.com/stet-run/stet/store"
)

const (
	// workers is how many acts are under way at a time, and most how many calls one carries.
	workers, most = 4, 128
	// few is how many commands a call may have that is carried with others.
	few = 8
	// limit bounds an act for several calls. One of them may wait for a transaction of an application, for as long as
	// that lasts: the others do not wait with it.
	limit = 500 * time.Millisecond
	// rest is how long each call goes by itself after an act for several has failed: what it has met may be met again.
	rest = 5 * time.Second
)

// Applier carries out commands as Store.Apply does. It is safe for concurrent use.
type Applier struct {
	store store.Store
	calls gather.Gather[*call]
	begun time.Time
	rests atomic.Int64 // until so long after begun each call goes by itself
}

// New returns an Applier.
func New(s store.Store) *Applier {
	a := &Applier{store: s, begun: time.Now()}
	a.calls = gather.Gather[*call]{
		Workers: workers, Most: most, Go: func(work func()) { go work() },
		Do: func(calls []*call) []*call { a.carry(calls); return nil },
	}
	return a
}

// call is one that may be carried with others.
type call struct {
	commands []store.Command
	result   chan result   // capacity 1
	over     chan struct{} // closed when the call returns
}

// result is what becomes of a call; nil: it is to carry out its commands by itself.
type result *carried

type carried struct {
	answers []store.Answer
	now     store.Time
}

// Apply is that of the store.
func (a *Applier) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if len(commands) > few || int64(time.Since(a.begun)) < a.rests.Load() {
		return a.store.Apply(ctx, commands)
	}
	c := &call{commands, make(chan result, 1), make(chan struct{})}
	defer close(c.over)
	a.calls.Add(c)
	select {
	case r := <-c.result:
		if r == nil {
			return a.store.Apply(ctx, commands)
		}
		return r.answers, r.now, nil
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("apply commands: %w: %w", store.ErrUnknown, context.Cause(ctx))
	}
}

// carry carries out calls together; or lets each do it by itself, and waits for them.
func (a *Applier) carry(calls []*call) {
	if len(calls) > 1 && a.carryAll(calls) {
		return
	}
	for _, c := range calls {
		c.result <- nil
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for _, c := range calls {
		select {
		case <-c.over:
		case <-late.C:
			return
		}
	}
}

// carryAll carries out all calls in one act. It reports false if that has failed: it may be due to one of them, or may
// have happened all the same. A command that is repeated finds itself.
func (a *Applier) carryAll(calls []*call) bool {
	var commands []store.Command
	for _, c := range calls {
		commands = append(commands, c.commands...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answers, now, err := a.store.Apply(ctx, commands)
	if err != nil || len(answers) != len(commands) {
		a.rests.Store(int64(time.Since(a.begun) + rest))
		return false
	}
	for _, c := range calls {
		n := len(c.commands)
		c.result <- &carried{answers[:n:n], now}
		answers = answers[n:]
	}
	return true
}
