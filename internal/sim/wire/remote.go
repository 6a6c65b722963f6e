package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stet-run/stet/store"
)

// Remote is a store on another machine. It is safe for concurrent use.
type Remote struct {
	Apart bool // some turns are written apart from others; it is set before the first call

	send func(kind byte, call uint32, body []byte)

	mu      sync.Mutex
	last    uint32
	calls   map[uint32]chan []byte // a nil answer: the connection broke
	change  store.Change
	changed chan struct{} // capacity 1
	closed  chan struct{}
}

// NewRemote returns a store whose requests go out by send. Received takes what comes back.
func NewRemote(send func(kind byte, call uint32, body []byte)) *Remote {
	return &Remote{
		send: send, calls: map[uint32]chan []byte{}, changed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// Received takes a message of the server, or about the connection.
func (r *Remote) Received(kind byte, call uint32, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind == Hint {
		var c store.Change
		if err := Decode(body, &c); err == nil {
			r.change.Add(c)
		}
		select {
		case r.changed <- struct{}{}:
		default:
		}
		return
	}
	answer := r.calls[call]
	delete(r.calls, call)
	if answer == nil {
		return // nobody waits for it any more
	}
	if kind == Reset {
		body = nil
	}
	answer <- body
}

func (r *Remote) call(ctx context.Context, m byte, in, out any) error {
	select {
	case <-r.closed:
		return store.ErrClosed
	default:
	}
	act := methods[m].name
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	answer := make(chan []byte, 1)
	r.mu.Lock()
	r.last++
	call := r.last
	r.calls[call] = answer
	r.mu.Unlock()
	r.send(Request, call, append([]byte{m}, Encode(in)...))
	unheard := func(why error) error {
		if methods[m].writes {
			return fmt.Errorf("%s: %w: %w: %w", act, store.ErrUnavailable, store.ErrUnknown, why)
		}
		return fmt.Errorf("%s: %w: %w", act, store.ErrUnavailable, why)
	}
	select {
	case body := <-answer:
		if body == nil {
			return unheard(errReset)
		}
		return response(body, out)
	case <-ctx.Done():
		r.mu.Lock()
		delete(r.calls, call)
		r.mu.Unlock()
		return unheard(ctx.Err())
	case <-r.closed:
		return unheard(store.ErrClosed)
	}
}

// Separate implements store.Separator.
func (r *Remote) Separate(t *store.Turn) bool { return r.Apart && Apart(t) }

// Apart reports whether a turn is of the kind that is written apart, where there are such: one of three, with as
// little in common as those of one run have.
func Apart(t *store.Turn) bool { return (int64(t.Run)+int64(len(t.Entries)))%3 == 0 }

var errReset = errors.New("the connection broke")

func (r *Remote) Describe(ctx context.Context) (d store.Description, err error) {
	err = r.call(ctx, describe, nothing{}, &d)
	d.OwnClock = false // it is that of another machine
	return d, err
}

func (r *Remote) Register(ctx context.Context, n store.Node) (now store.Time, err error) {
	err = r.call(ctx, register, n, &now)
	return now, err
}

func (r *Remote) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	var l leases
	err := r.call(ctx, acquire, acquireArgs{n, shards, ttl}, &l)
	return l.Leases, l.Now, err
}

func (r *Remote) Renew(ctx context.Context, held []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	var l leases
	err := r.call(ctx, renew, renewArgs{held, ttl}, &l)
	return l.Leases, l.Now, err
}

func (r *Remote) Release(ctx context.Context, held []store.Lease) error {
	return r.call(ctx, release, held, &nothing{})
}

func (r *Remote) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	var a answers
	err := r.call(ctx, apply, commands, &a)
	return a.Answers, a.Now, err
}

func (r *Remote) Commit(ctx context.Context, b store.Batch) (result store.BatchResult, err error) {
	err = r.call(ctx, commit, b, &result)
	return result, err
}

func (r *Remote) Claim(ctx context.Context, req store.ClaimRequest) (claims store.Claims, err error) {
	err = r.call(ctx, claim, req, &claims)
	return claims, err
}

func (r *Remote) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	var all loaded
	err := r.call(ctx, load, runs, &all)
	return all.Snapshots, all.Left, err
}

func (r *Remote) List(ctx context.Context, f store.Filter) (page store.Page, err error) {
	err = r.call(ctx, list, f, &page)
	return page, err
}

func (r *Remote) Count(ctx context.Context, f store.Filter) (all []store.Tally, err error) {
	err = r.call(ctx, count, f, &all)
	return all, err
}

func (r *Remote) History(ctx context.Context, q store.HistoryQuery) (entries []store.Entry, err error) {
	err = r.call(ctx, history, q, &entries)
	return entries, err
}

func (r *Remote) Inbox(ctx context.Context, run store.RunNo, ids ...string) (items []store.Item, err error) {
	err = r.call(ctx, inbox, inboxArgs{run, ids}, &items)
	return items, err
}

func (r *Remote) Pending(ctx context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	err = r.call(ctx, pending, q, &sum)
	return sum, err
}

func (r *Remote) Waiting(ctx context.Context, q store.WaitingQuery) (list []store.Waiter, err error) {
	err = r.call(ctx, waiting, q, &list)
	return list, err
}

func (r *Remote) Feeds(ctx context.Context, q store.FeedQuery) (all []store.Feed, err error) {
	err = r.call(ctx, feeds, q, &all)
	return all, err
}

func (r *Remote) Stream(ctx context.Context, q store.StreamQuery) (items []store.StreamItem, err error) {
	err = r.call(ctx, stream, q, &items)
	return items, err
}

func (r *Remote) Audit(ctx context.Context, run store.RunNo) (acts []store.Audit, err error) {
	err = r.call(ctx, audit, run, &acts)
	return acts, err
}

func (r *Remote) DeadLetters(ctx context.Context, f store.DeadFilter) (page store.DeadPage, err error) {
	err = r.call(ctx, deadLetters, f, &page)
	return page, err
}

func (r *Remote) Discard(ctx context.Context, items []store.ItemNo) (were []bool, err error) {
	err = r.call(ctx, discard, items, &were)
	return were, err
}

func (r *Remote) Sweep(ctx context.Context, req store.SweepRequest) (swept store.Swept, err error) {
	err = r.call(ctx, sweep, req, &swept)
	return swept, err
}

// Changed implements store.Store.
func (r *Remote) Changed(ctx context.Context) (store.Change, error) {
	select {
	case <-r.changed:
		r.mu.Lock()
		defer r.mu.Unlock()
		c := r.change
		r.change = store.Change{}
		return c, nil
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	case <-r.closed:
		return store.Change{}, store.ErrClosed
	}
}

// Close implements store.Store.
func (r *Remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closed:
	default:
		close(r.closed)
	}
	return nil
}

var (
	_ store.Store     = (*Remote)(nil)
	_ store.Separator = (*Remote)(nil)
)
