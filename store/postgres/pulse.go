package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/store"
)

// begun is when this process began.
var begun = time.Now()

// beats is when acts of this process were last answered.
type beats struct {
	answered atomic.Int64 // since begun, in ns, by the monotonic clock
	reads    bool         // answers to reads count: commits wait for no standby
}

// beat notes an answer to an act that has written.
func (b *beats) beat() { b.answered.Store(int64(time.Since(begun))) }

// look notes an answer to an act that has only read.
func (b *beats) look() {
	if b.reads {
		b.beat()
	}
}

// pulse finds out that the connection of commits, or of claims, has fallen silent: an answer does
// not come, and others get theirs. The act is given up then, with its connection, and its caller
// repeats it: a commit under its number. Otherwise it would wait for the length of a lease, and
// with it all runs.
//
// An act may also be slow because it is large. So it gets ten times what such acts took before,
// and twice as long each time that it is repeated. A pulse is safe for concurrent use.
type pulse struct {
	others *beats

	mu    sync.Mutex
	usual time.Duration // the longest act, forgotten slowly
	cuts  int           // in a row
}

const (
	// silence is how long an act waits for its answer at least.
	silence = 2 * time.Second
	// maxCuts bounds the doubling.
	maxCuts = 5
)

// watch returns the context of an act that begins. done is called with its error, and returns the
// error that it has for its caller.
func (p *pulse) watch(ctx context.Context, act string) (limited context.Context, done func(error) error) {
	p.mu.Lock()
	limit := max(silence, 10*p.usual) << p.cuts
	p.mu.Unlock()
	sent := time.Since(begun)
	limited, cancel := context.WithCancel(ctx)
	var cut atomic.Bool
	var timer *time.Timer
	ready := make(chan struct{}) // timer is set
	timer = time.AfterFunc(limit, func() {
		<-ready
		if p.others.answered.Load() > int64(sent+limit/2) {
			cut.Store(true)
			cancel()
			return
		}
		timer.Reset(silence / 8)
	})
	close(ready)
	return limited, func(err error) error {
		timer.Stop()
		cancel()
		took := time.Since(begun) - sent
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err == nil:
			p.usual, p.cuts = max(took, p.usual-p.usual/100), 0
		case cut.Load() && ctx.Err() == nil:
			p.cuts = min(p.cuts+1, maxCuts)
			return fmt.Errorf("%s: %w: %w: no answer for %s, while others come: its connection is given up: %v",
				act, store.ErrUnavailable, store.ErrUnknown, took.Round(time.Millisecond), err)
		}
		return err
	}
}
