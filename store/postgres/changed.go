package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// hints tells other processes that something has changed, and learns it from them.
// Both begin with the first need. A hint is sent after the commit, in a transaction
// of its own that waits for no disk: NOTIFY within a commit would take a lock that
// all commits of the server share. What happens within the gap after a hint shares
// the next one.
type hints struct {
	self   string // which hints are one's own
	listen bool
	config *pgx.ConnConfig

	changed chan struct{} // capacity 1: another process has done something
	send    chan struct{} // capacity 1: there is something to tell
	stop    context.CancelFunc
	ctx     context.Context // ends with the Store
	done    sync.WaitGroup

	sending, listening sync.Once
}

// gap is the least time between two hints. It grows to longGap while they never pause:
// each costs the server about as much as a small commit.
const (
	gap     = 2 * time.Millisecond
	longGap = 8 * time.Millisecond
)

func (h *hints) init() {
	id := make([]byte, 8)
	rand.Read(id)
	h.self = hex.EncodeToString(id)
	h.changed, h.send = make(chan struct{}, 1), make(chan struct{}, 1)
	h.ctx, h.stop = context.WithCancel(context.Background())
}

// close ends both directions and waits for it.
func (h *hints) close() {
	h.stop()
	h.done.Wait()
}

// poke puts a token into a channel of capacity 1, unless there is one.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// news reports whether a batch has done something that another process waits for. It
// has not if operations of runs were completed that go on here, or runs taken in hand.
func news(b *store.Batch, result *store.BatchResult) bool {
	for _, t := range b.Turns {
		if u := t.Update; u != nil && (u.Status != store.Running || u.Marks != 0 || u.Back || u.Continue != nil || len(u.Sends) > 0) {
			return true
		}
		if t.Rewound || len(t.Sends)+len(t.Seen)+len(t.Consumed)+len(t.Answers)+len(t.Returned)+len(t.Dead)+len(t.Values)+len(t.Appends)+len(t.Tags) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(result.Commands, func(a store.Answer) bool { return !a.Claimed })
}

// tell hints to other processes that something has changed.
func (s *Store) tell() {
	if s.closed.Load() {
		return
	}
	h := &s.hint
	poke(h.send)
	h.sending.Do(func() {
		h.done.Add(1)
		go func() {
			defer h.done.Done()
			s.sendHints()
		}()
	})
}

func (s *Store) sendHints() {
	h := &s.hint
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := gap; ; {
		select {
		case <-h.send:
			wait = min(2*wait, longGap)
		default:
			wait = gap
			select {
			case <-h.send:
			case <-h.ctx.Done():
				return
			}
		}
		if conn, err := s.pool.Acquire(h.ctx); err == nil {
			// An error is of no matter: who listens looks without hints as well.
			_, _ = conn.Exec(h.ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", s.schema, h.self)
			conn.Release()
		}
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// Changed implements store.Store. Behind a pooler in transaction mode it hears
// nothing, and returns when ctx ends.
func (s *Store) Changed(ctx context.Context) error {
	h := &s.hint
	if h.listen && !s.closed.Load() {
		h.listening.Do(func() {
			h.done.Add(1)
			go func() {
				defer h.done.Done()
				s.receiveHints()
			}()
		})
	}
	select {
	case <-h.ctx.Done():
		return store.ErrClosed
	default:
	}
	select {
	case <-h.changed:
		return nil
	case <-h.ctx.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// receiveHints listens on a connection of its own, and makes it anew when it is
// lost. It says that something has changed when it begins to listen, because what
// came before was not heard: whoever then reads sees that.
func (s *Store) receiveHints() {
	h := &s.hint
	for wait := 10 * time.Millisecond; h.ctx.Err() == nil; wait = min(2*wait, time.Second) {
		begun := time.Now()
		err := s.receiveOn(h.ctx)
		if h.ctx.Err() != nil {
			return
		}
		s.log.Warn("listening for changes; trying again", "error", err)
		poke(h.changed)
		if time.Since(begun) > time.Minute {
			wait = 10 * time.Millisecond
		}
		select {
		case <-time.After(wait):
		case <-h.ctx.Done():
		}
	}
}

func (s *Store) receiveOn(ctx context.Context) error {
	h := &s.hint
	conn, err := pgx.ConnectConfig(ctx, h.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end) // it has served
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.schema}.Sanitize()); err != nil {
		return err
	}
	poke(h.changed)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload != h.self {
			poke(h.changed)
		}
	}
}
