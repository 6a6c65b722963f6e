package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// hints notifies other processes of changes, and receives their hints. Both begin when
// they are first needed. A hint is sent after the commit, in a transaction of its own that
// waits for no disk: NOTIFY within a commit would take a lock that all commits of the
// server share. Changes within the gap after a hint share the next one.
type hints struct {
	self    string // begins the process's own hints
	schema  string // the channel's name
	listen  bool
	config  *pgx.ConnConfig
	connect func(context.Context, *pgx.ConnConfig) (*pgx.Conn, error)
	pool    *pgxpool.Pool // for sending
	scarce  *scarcity
	log     *slog.Logger

	stir  func()            // another process may have come, or gone
	heard *storekit.Changes // of other processes
	told  *storekit.Changes // to be sent to them
	acts  atomic.Int64      // turns and commands since the last hint
	stop  context.CancelFunc
	ctx   context.Context // ends with the Store
	done  sync.WaitGroup

	sending, listening sync.Once
}

// gap is the least time between two hints. It grows to longGap while more than fewActs
// turns and commands share each: a hint costs the server about as much as a small commit,
// which delays processes that commit one turn after the other.
const (
	gap     = 2 * time.Millisecond
	longGap = 8 * time.Millisecond
	fewActs = 4
)

func (h *hints) init(stir func()) {
	id := make([]byte, 8)
	rand.Read(id)
	h.self = hex.EncodeToString(id)
	h.stir, h.heard, h.told = stir, storekit.NewChanges(), storekit.NewChanges()
	h.ctx, h.stop = context.WithCancel(context.Background())
}

// close ends both directions and waits for it.
func (h *hints) close() {
	h.stop()
	h.done.Wait()
}

// notify notifies other processes of a change, if there is one, by so many turns and
// commands.
func (h *hints) notify(what store.Change, acts int) {
	if h.ctx.Err() != nil || what == (store.Change{}) {
		return
	}
	h.acts.Add(int64(acts))
	h.told.Add(what)
	h.sending.Do(func() {
		h.done.Add(1)
		go func() {
			defer h.done.Done()
			h.send()
		}()
	})
}

func (h *hints) send() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for last := gap; ; {
		select {
		case <-h.told.Some():
		case <-h.ctx.Done():
			return
		}
		what := h.told.Take()
		if what == (store.Change{}) {
			continue // it went with the last hint
		}
		if conn, err := h.pool.Acquire(h.ctx); err == nil {
			// Errors are ignored: the listeners poll as well.
			_, _ = conn.Exec(h.ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)", h.schema,
				h.self+storekit.EncodeChange(what))
			conn.Release()
		}
		wait := gap
		if h.acts.Swap(0) > fewActs {
			wait = min(2*last, longGap)
		}
		last = wait
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
func (s *Store) Changed(ctx context.Context) (store.Change, error) {
	h := &s.hint
	if h.listen && !s.closed.Load() {
		h.listening.Do(func() {
			h.done.Add(1)
			go func() {
				defer h.done.Done()
				h.receive()
			}()
		})
	}
	select {
	case <-h.ctx.Done():
		return store.Change{}, store.ErrClosed
	default:
	}
	select {
	case <-h.heard.Some():
		return h.heard.Take(), nil
	case <-h.ctx.Done():
		return store.Change{}, store.ErrClosed
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	}
}

// receive listens on a connection of its own, and opens another when that is lost.
// When it begins to listen it reports that anything may have changed, because it has missed
// earlier hints.
func (h *hints) receive() {
	for wait := 10 * time.Millisecond; h.ctx.Err() == nil; wait = min(2*wait, time.Second) {
		begun := time.Now()
		h.scarce.over(h.ctx)
		limited, cancel := h.scarce.unless(h.ctx)
		err := h.receiveOn(limited)
		gives := limited.Err() != nil
		cancel()
		switch {
		case h.ctx.Err() != nil:
			return
		case gives:
		case refused(err):
			h.scarce.begin()
			fallthrough
		default:
			h.log.Warn("listening for changes; trying again", "error", err)
		}
		h.hears(store.Anything())
		if time.Since(begun) > time.Minute {
			wait = 10 * time.Millisecond
		}
		select {
		case <-time.After(wait):
		case <-h.ctx.Done():
		}
	}
}

// hears notes a hint of another process.
func (h *hints) hears(what store.Change) {
	h.heard.Add(what)
	if what.Nodes {
		h.stir()
	}
}

func (h *hints) receiveOn(ctx context.Context) error {
	conn, err := h.connect(ctx, h.config)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end) // it is not used any more
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{h.schema}.Sanitize()); err != nil {
		return err
	}
	h.hears(store.Anything())
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(n.Payload, h.self) {
			h.hears(storekit.DecodeChange(n.Payload[min(len(h.self), len(n.Payload)):]))
		}
	}
}
