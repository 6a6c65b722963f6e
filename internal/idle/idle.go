// Package idle finds the moment at which nothing is left to do in a process, now, and the
// time at which something is.
//
// What is in memory may put work into the store, and what is in the store comes into memory
// by a claim. So there is nothing to do when nothing in memory works, a claim that was begun
// after that has found nothing, and nothing in memory works then either: what was durable
// before the claim it would have found, and since then nothing became so but by others.
package idle

import (
	"context"
	"sync"
	"time"
)

// Work is what a process does. Its methods may be called concurrently.
type Work interface {
	// Resting reports whether nothing in memory works or is being written, and when
	// something in memory goes on by itself; zero: nothing does.
	Resting() (resting bool, next time.Time)
	// AskForClaim requests a claim.
	AskForClaim()
}

// Claims are the claims that were made. It is safe for concurrent use. The zero Claims has
// none.
type Claims struct {
	mu    sync.Mutex
	begun int64
	last  Claim // that was answered
}

// Claim is the answer to a claim.
type Claim struct {
	Found bool      // there was something, or there is more
	Next  time.Time // when something is due, by the clock of this process; zero: nothing is

	number int64
}

// Begin notes that a claim begins, and returns its number.
func (c *Claims) Begin() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	return c.begun
}

// End notes the answer to the claim with a number.
func (c *Claims) End(number int64, answer Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer.number = number
	c.last = answer
}

func (c *Claims) now() (begun int64, last Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun, c.last
}

// shortest and longest bound the pauses between two looks at what works.
const shortest, longest = time.Millisecond, 16 * time.Millisecond

// Wait waits until nothing is left to do, and returns when something is; zero: nothing is
// planned. It returns false if ctx ends before.
func Wait(ctx context.Context, w Work, claims []*Claims) (next time.Time, ok bool) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := shortest
	var asked []int64 // by lane: nothing has worked since before this claim ended; nil: none was asked for
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, false
		case <-timer.C:
		}
		resting, next := w.Resting()
		begun, answered, found := make([]int64, len(claims)), true, false
		for i, c := range claims {
			var last Claim
			begun[i], last = c.now()
			answered = answered && asked != nil && last.number > asked[i]
			found = found || last.Found
			next = Earlier(next, last.Next)
		}
		switch {
		case !resting:
			asked, pause = nil, min(2*pause, longest)
		case answered && !found && (next.IsZero() || next.After(time.Now())) && ctx.Err() == nil:
			return next, true
		case answered || asked == nil:
			asked, pause = begun, shortest
			w.AskForClaim()
		default:
			pause = min(2*pause, longest)
		}
		timer.Reset(pause)
	}
}

// Earlier returns the earlier one of two times of which each may be zero, which is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
