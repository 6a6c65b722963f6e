package ownership

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stet-run/stet/store"
)

// Shard is one stay of a shard with this process. Its methods are safe for concurrent
// use, except for FirstIn.
type Shard struct {
	lease  store.Lease
	ctx    context.Context // ends with the stay
	cancel context.CancelFunc

	must     atomic.Bool  // be given back, even if a body has to be cancelled
	draining atomic.Bool  // written under mu
	lost     atomic.Bool  // set before the Set lets go of it
	turns    atomic.Int64 // under way
	inbox    atomic.Int64 // a store.Time

	batch int64 // the latest that writes here

	mu       sync.Mutex
	deferred []func() // until it is open again
}

// Lease returns the lease of this stay.
func (s *Shard) Lease() store.Lease { return s.lease }

// ID returns which shard it is.
func (s *Shard) ID() store.Shard { return s.lease.Shard }

// Context returns the context of all work in the shard. It ends when the shard is lost,
// or by Cancel.
func (s *Shard) Context() context.Context { return s.ctx }

// Cancel ends the context of a draining shard whose work takes too long. The shard is
// still held: what the work leaves behind can be committed.
func (s *Shard) Cancel() { s.cancel() }

// Draining reports whether the shard is closed, to be given back: nothing new begins.
func (s *Shard) Draining() bool { return s.draining.Load() }

// Must reports whether the shard is to be given back even if what is under way takes long.
func (s *Shard) Must() bool { return s.must.Load() }

// Defer reports whether the shard is closed. Then f is called if it is opened again.
func (s *Shard) Defer(f func()) bool {
	if !s.draining.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining.Load() {
		return false
	}
	s.deferred = append(s.deferred, f)
	return true
}

// Lost reports whether the stay is over.
func (s *Shard) Lost() bool { return s.lost.Load() }

// TurnBegun counts a turn that is on its way to the store.
func (s *Shard) TurnBegun() { s.turns.Add(1) }

// TurnEnded is called when a turn that was counted has its verdict, or never gets one.
func (s *Shard) TurnEnded() { s.turns.Add(-1) }

// Committing reports whether a turn is under way.
func (s *Shard) Committing() bool { return s.turns.Load() > 0 }

// InboxRead notes that the inboxes of the shard were read completely at a time of the
// store.
func (s *Shard) InboxRead(at store.Time) {
	for {
		former := s.inbox.Load()
		if int64(at) <= former || s.inbox.CompareAndSwap(former, int64(at)) {
			return
		}
	}
}

// InboxReadAt returns the latest time given to InboxRead; 0: there was none.
func (s *Shard) InboxReadAt() store.Time { return store.Time(s.inbox.Load()) }

// FirstIn reports whether it is called for the first time with this batch, which is not
// 0. Batches are made one at a time; so is the call.
func (s *Shard) FirstIn(batch int64) bool {
	first := s.batch != batch
	s.batch = batch
	return first
}
