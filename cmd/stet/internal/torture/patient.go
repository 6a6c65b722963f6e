package torture

import (
	"context"
	"time"

	"github.com/stet-run/stet/store"
)

// patient is a store that is read again while it cannot be reached, for a time: a busy machine that loses a connection
// while the logs are compared with the store says nothing of what was promised.
type patient struct {
	store.Store
	store.Laned
	most time.Duration
}

func newPatient(s store.Store, most time.Duration) patient { return patient{s, store.LanesOf(s), most} }

func read[T any](ctx context.Context, most time.Duration, act func(context.Context) (T, error)) (T, error) {
	ctx, done := context.WithTimeout(ctx, most)
	defer done()
	return patiently(ctx, func() (T, error) { return act(ctx) })
}

func (p patient) Describe(ctx context.Context) (store.Description, error) {
	return read(ctx, p.most, p.Store.Describe)
}

func (p patient) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return read(ctx, p.most, func(ctx context.Context) (store.Page, error) { return p.Store.List(ctx, f) })
}

func (p patient) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.Tally, error) { return p.Store.Count(ctx, f) })
}

func (p patient) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.Entry, error) { return p.Store.History(ctx, q) })
}

func (p patient) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.Item, error) { return p.Store.Inbox(ctx, run, ids...) })
}

func (p patient) Pending(ctx context.Context, q store.PendingQuery) (store.Pending, error) {
	return read(ctx, p.most, func(ctx context.Context) (store.Pending, error) { return p.Store.Pending(ctx, q) })
}

func (p patient) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.Waiter, error) { return p.Store.Waiting(ctx, q) })
}

func (p patient) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.Feed, error) { return p.Store.Feeds(ctx, q) })
}

func (p patient) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.StreamItem, error) { return p.Store.Stream(ctx, q) })
}

func (p patient) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	return read(ctx, p.most, func(ctx context.Context) ([]store.Audit, error) { return p.Store.Audit(ctx, run) })
}
