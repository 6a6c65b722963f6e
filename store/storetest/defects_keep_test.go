package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/stet-run/stet/store"
)

func (b *broken) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	if letters := b.defect.letters; letters != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return letters(b, ctx, f)
	}
	return b.Store.DeadLetters(ctx, f)
}

func (b *broken) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	if f := b.defect.discard; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, items)
	}
	return b.Store.Discard(ctx, items)
}

func (b *broken) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if f := b.defect.sweep; f != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b, ctx, req)
	}
	return b.Store.Sweep(ctx, req)
}

// Save implements Saver.
func (h *brokenHarness) Save(t testing.TB) (restore func() store.Store) {
	back := h.specification.Save(t)
	return func() store.Store {
		back()
		return h.broken
	}
}

func init() {
	defects = append(defects,
		&defect{name: "a commit does not look whether the last batch is there",
			commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
				if batch.Last < batch.No {
					batch.Last = min(batch.Last, 0)
				}
				return b.Store.Commit(ctx, batch)
			}},
		&defect{name: "a heartbeat does not look whether the last batch is there",
			register: func(b *broken, ctx context.Context, n store.Node) (store.Time, error) {
				n.LastBatch = 0
				return b.Store.Register(ctx, n)
			}},
		&defect{name: "the end of a run discards its pending items",
			commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
				if t.Update != nil {
					u := *t.Update
					u.Discard = true
					t.Update = &u
				}
			})},
		&defect{name: "a discarding end keeps dead letters", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
			if t.Update != nil {
				u := *t.Update
				u.Discard = false
				t.Update = &u
			}
		})},
		&defect{name: "an end discards messages of no name", commit: updates(func(u *store.Update) { u.DiscardNames = nil })},
		&defect{name: "an end discards messages of another name", commit: updates(func(u *store.Update) {
			if u.DiscardNames != nil {
				u.DiscardNames = append(slices.Clip(u.DiscardNames), "kept", "m;")
			}
		})},
		&defect{name: "a dead letter of a turn is consumed", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
			for _, no := range t.Dead {
				t.Consumed = append(slices.Clip(t.Consumed), store.Consumption{Item: no})
			}
			t.Dead = nil
		})},
		&defect{name: "a refused item has no reason", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
			for _, x := range t.Refused {
				t.Dead = append(slices.Clip(t.Dead), x.Item)
			}
			t.Refused = nil
		})},
		&defect{name: "discarding says that all were dead letters",
			discard: func(b *broken, ctx context.Context, items []store.ItemNo) ([]bool, error) {
				were, err := b.Store.Discard(ctx, items)
				for i := range were {
					were[i] = true
				}
				return were, err
			}},
		&defect{name: "discarding does nothing",
			discard: func(b *broken, ctx context.Context, items []store.ItemNo) ([]bool, error) {
				were := make([]bool, len(items))
				for i, no := range items {
					page, err := b.Store.DeadLetters(ctx, store.DeadFilter{Nos: []store.ItemNo{no}})
					if err != nil {
						return nil, err
					}
					were[i] = len(page.Letters) > 0
				}
				return were, nil
			}},
		&defect{name: "a listing of dead letters ignores the runs",
			letters: func(b *broken, ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
				f.RunIDs = nil
				return b.Store.DeadLetters(ctx, f)
			}},
		&defect{name: "a listing of dead letters always has values",
			letters: func(b *broken, ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
				f.Values = true
				return b.Store.DeadLetters(ctx, f)
			}},
		&defect{name: "a sweep does not look at how long runs are kept",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				req.Rules = slices.Clone(req.Rules)
				for i := range req.Rules {
					req.Rules[i].Keep = min(req.Rules[i].Keep, 0)
				}
				return b.Store.Sweep(ctx, req)
			}},
		&defect{name: "a sweep does not look at the status",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				req.Rules = slices.Clone(req.Rules)
				for _, r := range slices.Clone(req.Rules) {
					for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled} {
						if r.Status.Terminal() {
							req.Rules = append(req.Rules, store.Retention{Workflow: r.Workflow, Status: status, Keep: r.Keep})
						}
					}
				}
				return b.Store.Sweep(ctx, req)
			}},
		&defect{name: "a sweep does not look at the epoch",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				req.Leases = b.current(ctx, req.Leases)
				return b.Store.Sweep(ctx, req)
			}},
		&defect{name: "a sweep always deletes items",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				req.Items = true
				return b.Store.Sweep(ctx, req)
			}},
		&defect{name: "a sweep leaves items", sweep: func(b *broken, ctx context.Context,
			req store.SweepRequest) (store.Swept, error) {
			req.Items = false
			return b.Store.Sweep(ctx, req)
		}},
		&defect{name: "a sweep keeps what it is to remove",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				req.Runs = req.Runs[:min(len(req.Runs), 1)]
				return b.Store.Sweep(ctx, req)
			}},
		&defect{name: "a sweep says of no run that it is kept",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				swept, err := b.Store.Sweep(ctx, req)
				swept.Kept = nil
				return swept, err
			}},
		&defect{name: "a sweep does everything in one act",
			sweep: func(b *broken, ctx context.Context, req store.SweepRequest) (store.Swept, error) {
				var all store.Swept
				for {
					part, err := b.Store.Sweep(ctx, req)
					if err != nil {
						return part, err
					}
					rows, runs := all.Rows+part.Rows, all.Runs+part.Runs
					if all = part; part.Done {
						all.Rows, all.Runs = rows, runs
						return all, nil
					}
					req.From, all.Rows, all.Runs = part.Next, rows, runs
				}
			}},
	)
}
