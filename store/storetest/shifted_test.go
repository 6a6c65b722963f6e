package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// shifted is the specification with other numbers and epochs: higher ones, with
// gaps.
type shifted struct {
	store.Store
	numbers *numbers
}

type shiftedHarness struct {
	specification
	numbers *numbers
	first   *shifted
}

func newShifted(clock func() time.Time) Harness {
	n := newNumbers()
	for i := range int64(1000) {
		n.runs[store.RunNo(i+1)], n.runsBack[store.RunNo(3*i+10)] = store.RunNo(3*i+10), store.RunNo(i+1)
		n.items[store.ItemNo(i+1)], n.itemsBack[store.ItemNo(2*i+5)] = store.ItemNo(2*i+5), store.ItemNo(i+1)
		for _, shard := range []store.Shard{shardA, shardB} {
			n.took(store.Lease{Shard: shard, Epoch: i + 1}, store.Lease{Shard: shard, Epoch: 5*i + 7})
		}
	}
	spec := newSpecification(clock)
	return &shiftedHarness{spec, n, &shifted{spec.First(), n}}
}

func (h *shiftedHarness) First() store.Store { return h.first }

func (h *shiftedHarness) Join(t testing.TB) store.Store {
	return &shifted{h.specification.Join(t), h.numbers}
}

func (h *shiftedHarness) Kill(t testing.TB, s store.Store) bool {
	return h.specification.Kill(t, s.(*shifted).Store)
}

// in and out translate the store's arguments and results.
func in[T any](s *shifted, v T) T  { return s.numbers.forSpec(v).(T) }
func out[T any](s *shifted, v T) T { return s.numbers.forSubject(v).(T) }

func (s *shifted) Describe(ctx context.Context) (store.Description, error) {
	d, err := s.Store.Describe(ctx)
	return out(s, d), err
}

func (s *shifted) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	a, now, err := s.Store.Acquire(ctx, n, shards, ttl)
	return out(s, a), now, err
}

func (s *shifted) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	a, now, err := s.Store.Renew(ctx, in(s, leases), ttl)
	return out(s, a), now, err
}

func (s *shifted) Release(ctx context.Context, leases []store.Lease) error {
	return s.Store.Release(ctx, in(s, leases))
}

func (s *shifted) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	a, now, err := s.Store.Apply(ctx, in(s, commands))
	return out(s, a), now, err
}

func (s *shifted) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	r, err := s.Store.Commit(ctx, in(s, b))
	return out(s, r), err
}

func (s *shifted) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	c, err := s.Store.Claim(ctx, in(s, req))
	return out(s, c), err
}

func (s *shifted) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	l, left, err := s.Store.Load(ctx, in(s, runs))
	return out(s, l), out(s, left), err
}

func (s *shifted) List(ctx context.Context, f store.Filter) (store.Page, error) {
	p, err := s.Store.List(ctx, in(s, f))
	return out(s, p), err
}

func (s *shifted) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	return s.Store.Count(ctx, in(s, f))
}

func (s *shifted) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	return s.Store.History(ctx, in(s, q))
}

func (s *shifted) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	named := in(s, struct{ IDs []string }{ids}) // those of what was refused have numbers
	items, err := s.Store.Inbox(ctx, in(s, run), named.IDs...)
	return out(s, items), err
}

func (s *shifted) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	found, err := s.Store.Waiting(ctx, in(s, q))
	return out(s, found), err
}

func (s *shifted) Pending(ctx context.Context, q store.PendingQuery) (store.Pending, error) {
	sum, err := s.Store.Pending(ctx, in(s, q))
	return out(s, sum), err
}

func (s *shifted) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	feeds, err := s.Store.Feeds(ctx, in(s, q))
	return out(s, feeds), err
}

func (s *shifted) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	return s.Store.Stream(ctx, in(s, q))
}

func (s *shifted) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	return s.Store.Audit(ctx, in(s, run))
}

func (s *shifted) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	p, err := s.Store.DeadLetters(ctx, in(s, f))
	return out(s, p), err
}

func (s *shifted) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	return s.Store.Discard(ctx, in(s, items))
}

func (s *shifted) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	// of the order alone: the numbers of the specification have it too
	req.From.No = int64(in(s, store.RunNo(req.From.No)))
	swept, err := s.Store.Sweep(ctx, in(s, req))
	swept.Next.No = int64(out(s, store.RunNo(swept.Next.No)))
	return out(s, swept), err
}
