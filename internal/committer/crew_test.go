package committer_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet/internal/committer"
)

// Work that comes while the crew is waited for is done, and waited for or done by the caller.
func TestCrewTakesWorkWhileItIsWaitedFor(t *testing.T) {
	for range 200 {
		var c committer.Crew
		var begun, done atomic.Int64
		work := func() { done.Add(1) }
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() {
				for range 20 {
					begun.Add(1)
					c.Go(work)
				}
			})
		}
		<-c.Close()
		<-c.Close()
		others.Wait() // what comes after close is done when Go returns
		if begun.Load() != done.Load() {
			t.Fatalf("%d of %d are done", done.Load(), begun.Load())
		}
	}
}

func TestCrewWaitsForItsWork(t *testing.T) {
	var c committer.Crew
	gate := make(chan struct{})
	ended := false
	c.Go(func() { <-gate; ended = true })
	idle := c.Close()
	select {
	case <-idle:
		t.Error("the crew is idle although a goroutine of it has not ended")
	default:
	}
	close(gate)
	if <-idle; !ended {
		t.Error("the crew is idle before its goroutine has ended")
	}
	here := 0
	c.Go(func() { here++ })
	if here != 1 {
		t.Error("after the end work is not done by the caller")
	}
}
