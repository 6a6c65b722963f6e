package stettest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
)

// world is shared by all processes of a test, beside their store.
type world struct {
	mu      sync.Mutex
	handles map[*handle]bool
	seeds   map[store.Seed]store.Seed
}

func newWorld() *world {
	return &world{handles: map[*handle]bool{}, seeds: map[store.Seed]store.Seed{}}
}

// handle is one process's handle on the store. It makes random seeds the same in each
// test, and lets each run that is started be taken up as if another process had started it:
// that is the usual case, in which the run's row knows nothing of the process that executes it.
// It also notifies the other processes of changes at once; a store on a file would
// find them by a clock.
type handle struct {
	store.Store
	world  *world
	wake   chan struct{} // capacity 1: another handle has written
	closed chan struct{}
	once   sync.Once
}

// join returns a handle on an opened store.
func (w *world) join(s store.Store) store.Store {
	h := &handle{Store: s, world: w, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	w.mu.Lock()
	w.handles[h] = true
	w.mu.Unlock()
	if tx, ok := s.(store.Transactor[*sql.Tx]); ok {
		return &txHandle{h, tx}
	}
	return h
}

// txHandle is a handle on a store that takes part in transactions of database/sql.
type txHandle struct {
	*handle
	store.Transactor[*sql.Tx]
}

// changed notifies the other handles.
func (h *handle) changed() {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	for other := range h.world.handles {
		if other != h {
			other.notify()
		}
	}
}

func (h *handle) notify() {
	select {
	case h.wake <- struct{}{}:
	default: // it is notified already
	}
}

// seeded returns commands with seeds that are the same in each test.
func (h *handle) seeded(commands []store.Command) []store.Command {
	if !slices.ContainsFunc(commands, func(c store.Command) bool { return c.Start != nil && c.Start.Parent == 0 }) {
		return commands
	}
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	commands = slices.Clone(commands)
	for i := range commands {
		if commands[i].Start == nil || commands[i].Start.Parent != 0 {
			continue // a child's follows from its parent's
		}
		start := *commands[i].Start
		seed, known := h.world.seeds[start.Seed]
		if !known {
			sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(len(h.world.seeds))))
			seed = store.Seed(sum[:])
			h.world.seeds[start.Seed] = seed
		}
		start.Seed = seed
		commands[i].Start = &start
	}
	return commands
}

func (h *handle) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	defer h.changed()
	return h.Store.Apply(ctx, h.seeded(commands))
}

func (h *handle) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	defer h.changed()
	b.Commands = h.seeded(b.Commands)
	if slices.ContainsFunc(b.Commands, claimsStart) {
		b.Commands = slices.Clone(b.Commands)
		for i := range b.Commands {
			if claimsStart(b.Commands[i]) {
				b.Commands[i].Claim = false
			}
		}
		defer h.notify()
	}
	return h.Store.Commit(ctx, b)
}

// claimsStart reports whether a command starts a run and claims it in the same act.
func claimsStart(c store.Command) bool { return c.Start != nil && c.Claim }

func (h *handle) Release(ctx context.Context, leases []store.Lease) error {
	defer h.changed()
	return h.Store.Release(ctx, leases)
}

func (h *handle) Changed(ctx context.Context) (store.Change, error) {
	select {
	case <-h.wake:
		return store.Anything(), nil
	case <-h.closed:
		return store.Change{}, store.ErrClosed
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	}
}

func (h *handle) Close() error {
	h.once.Do(func() { close(h.closed) })
	defer h.changed()
	return h.Store.Close()
}
