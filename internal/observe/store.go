package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Store returns a store that does what s does, and reports to the port what is written and
// claimed, and what goes wrong. A port that wants none of it gets s itself.
func Store(s store.Store, p *Port) store.Store {
	if p == nil || p.Committed == nil && p.Claimed == nil && p.Value == nil && p.StoreError == nil {
		return s
	}
	return &observed{Store: s, port: p, Laned: store.WrapLanes(s, func(lane store.Store) store.Store {
		return &observed{Store: lane, port: p}
	})}
}

// observed is a store whose acts are reported, those of its lanes too.
type observed struct {
	store.Store
	store.Laned
	port *Port

	mu sync.Mutex
	// read is when the last claim was answered that has left nothing; 0: none was, since the
	// leases were taken.
	read store.Time
}

// failed reports an error of an act, unless the caller has ended it or made a mistake.
func (s *observed) failed(act string, err error) {
	if err == nil || s.port.StoreError == nil || errors.Is(err, context.Canceled) {
		return
	}
	for _, of := range []error{store.ErrClosed, store.ErrBadCursor, store.ErrInvalid, store.ErrTooLarge} {
		if errors.Is(err, of) {
			return
		}
	}
	s.port.StoreError(act, err)
}

// Describe implements store.Store, as do the methods below.
func (s *observed) Describe(ctx context.Context) (store.Description, error) {
	d, err := s.Store.Describe(ctx)
	s.failed("describe", err)
	return d, err
}

func (s *observed) Register(ctx context.Context, n store.Node) (store.Time, error) {
	now, err := s.Store.Register(ctx, n)
	s.failed("register", err)
	return now, err
}

func (s *observed) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	s.mu.Lock()
	s.read = 0 // shards may come whose runs have been ready for long
	s.mu.Unlock()
	acquired, now, err := s.Store.Acquire(ctx, n, shards, ttl)
	s.failed("acquire", err)
	return acquired, now, err
}

func (s *observed) Renew(
	ctx context.Context, leases []store.Lease, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	renewed, now, err := s.Store.Renew(ctx, leases, ttl)
	s.failed("renew", err)
	return renewed, now, err
}

func (s *observed) Release(ctx context.Context, leases []store.Lease) error {
	err := s.Store.Release(ctx, leases)
	s.failed("release", err)
	return err
}

func (s *observed) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	answers, now, err := s.Store.Apply(ctx, commands)
	s.failed("apply", err)
	if err == nil {
		s.commands(commands)
	}
	return answers, now, err
}

func (s *observed) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	begun := time.Now()
	result, err := s.Store.Commit(ctx, b)
	if err != nil {
		s.failed("commit", err)
		return result, err
	}
	took := time.Since(begun)
	bytes := s.commands(b.Commands)
	for _, turn := range b.Turns {
		bytes += s.turn(turn)
	}
	if s.port.Committed != nil {
		s.port.Committed(Commit{Took: took, Turns: len(b.Turns), Commands: len(b.Commands), Bytes: bytes})
	}
	return result, nil
}

func (s *observed) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	begun := time.Now()
	claims, err := s.Store.Claim(ctx, req)
	if err != nil {
		s.failed("claim", err)
		return claims, err
	}
	s.mu.Lock()
	since := s.read
	if !claims.More && req.Limit > 0 {
		s.read = claims.Now
	}
	s.mu.Unlock()
	if s.port.Claimed != nil {
		claim := Claim{Took: time.Since(begun)}
		for i := range claims.Runs {
			if c := &claims.Runs[i]; c.New {
				claim.Runs++
				if at := ready(c, claims.Now, claim.Took); at != 0 {
					claim.Lags = append(claim.Lags, Lag{c.Run.Shard.Group, claims.Now.Sub(max(at, since))})
				}
			}
		}
		s.port.Claimed(claim)
	}
	return claims, nil
}

// ready returns since when a run was ready that a claim has found which was answered now, and
// took so long; 0: it is not known. A run that was to begin later than it was created was
// ready later than that.
func ready(c *store.Claimed, now store.Time, took time.Duration) store.Time {
	at := store.Time(0)
	for i := range c.Items {
		if sent := c.Items[i].Sent; at == 0 || sent < at {
			at = sent
		}
	}
	if at == 0 && now.Sub(c.Run.Started) <= took { // this claim is its first one
		at = c.Run.Created
	}
	return min(at, now)
}

func (s *observed) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	snapshots, left, err := s.Store.Load(ctx, runs)
	s.failed("load", err)
	return snapshots, left, err
}

func (s *observed) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := s.Store.List(ctx, f)
	s.failed("list", err)
	return page, err
}

func (s *observed) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	tallies, err := s.Store.Count(ctx, f)
	s.failed("count", err)
	return tallies, err
}

func (s *observed) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	entries, err := s.Store.History(ctx, q)
	s.failed("history", err)
	return entries, err
}

func (s *observed) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	items, err := s.Store.Inbox(ctx, run, ids...)
	s.failed("inbox", err)
	return items, err
}

func (s *observed) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	waiting, err := s.Store.Waiting(ctx, q)
	s.failed("waiting", err)
	return waiting, err
}

func (s *observed) Pending(ctx context.Context, q store.PendingQuery) (store.Pending, error) {
	sum, err := s.Store.Pending(ctx, q)
	s.failed("pending", err)
	return sum, err
}

func (s *observed) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	feeds, err := s.Store.Feeds(ctx, q)
	s.failed("feeds", err)
	return feeds, err
}

func (s *observed) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	items, err := s.Store.Stream(ctx, q)
	s.failed("stream", err)
	return items, err
}

func (s *observed) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	audit, err := s.Store.Audit(ctx, run)
	s.failed("audit", err)
	return audit, err
}

func (s *observed) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	page, err := s.Store.DeadLetters(ctx, f)
	s.failed("dead_letters", err)
	return page, err
}

func (s *observed) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	dead, err := s.Store.Discard(ctx, items)
	s.failed("discard", err)
	return dead, err
}

func (s *observed) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	swept, err := s.Store.Sweep(ctx, req)
	s.failed("sweep", err)
	return swept, err
}

func (s *observed) Changed(ctx context.Context) (store.Change, error) {
	change, err := s.Store.Changed(ctx)
	s.failed("changed", err)
	return change, err
}

// turn reports the values of a turn, and returns their bytes.
func (s *observed) turn(t *store.Turn) (bytes int) {
	for i := range t.Entries {
		bytes += s.value(t.Entries[i].Kind.String(), t.Entries[i].Value)
	}
	for i := range t.Values {
		bytes += s.value("value", t.Values[i].Value)
	}
	for i := range t.Appends {
		bytes += s.value("stream", t.Appends[i].Value)
	}
	bytes += s.commands(t.Sends)
	if u := t.Update; u != nil {
		bytes += s.value("output", u.Output) + s.commands(u.Sends)
		if u.Continue != nil {
			bytes += s.value("input", u.Continue.Input)
		}
	}
	return bytes
}

// commands reports the values of commands, and returns their bytes.
func (s *observed) commands(list []store.Command) (bytes int) {
	for i := range list {
		if it := list[i].Item; it != nil {
			bytes += s.value(it.Kind.String(), it.Value)
		}
		if st := list[i].Start; st != nil {
			bytes += s.value("input", st.Input)
			for k := range st.Items {
				bytes += s.value(st.Items[k].Kind.String(), st.Items[k].Value)
			}
		}
	}
	return bytes
}

func (s *observed) value(kind string, value []byte) int {
	if len(value) > 0 && s.port.Value != nil {
		s.port.Value(kind, len(value))
	}
	return len(value)
}
