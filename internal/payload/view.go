package payload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stet-run/stet/store"
)

// View is a store whose values a policy seals when they are written and opens when they
// are read. A value that cannot be opened is returned as it is stored, so that a listing
// shows the others. There are two exceptions: Load leaves the run out and returns the
// error beside the other runs; Claim and Commit return the error.
//
// An engine seals and opens on goroutines of its own. It uses SealTurn, SealCommands and
// OpenItems beside the store itself.
type View struct {
	store.Store
	p *Policy
}

// View returns a view of the store through the policy, which may be nil.
func (p *Policy) View(s store.Store) *View { return &View{s, p} }

func (v *View) opener(ctx context.Context) *opener { return &opener{p: v.p, ctx: ctx} }

// Apply implements store.Store.
func (v *View) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	sealed, err := v.p.SealCommands(ctx, commands)
	if err != nil {
		return nil, 0, err
	}
	answers, now, err := v.Store.Apply(ctx, sealed)
	v.p.OpenAnswers(ctx, answers)
	return answers, now, err
}

// OpenAnswers opens the values of the runs in answers, as far as they can be opened.
func (p *Policy) OpenAnswers(ctx context.Context, answers []store.Answer) {
	o := &opener{p: p, ctx: ctx}
	for i := range answers {
		o.run(&answers[i].Run)
	}
}

// Commit implements store.Store.
func (v *View) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	turns := make([]*store.Turn, len(b.Turns))
	var err error
	for i, t := range b.Turns {
		if turns[i] = t; t != nil {
			if turns[i], err = v.p.SealTurn(ctx, t); err != nil {
				return store.BatchResult{}, err
			}
		}
	}
	b.Turns = turns
	if b.Commands, err = v.p.SealCommands(ctx, b.Commands); err != nil {
		return store.BatchResult{}, err
	}
	result, err := v.Store.Commit(ctx, b)
	for i := range result.Turns {
		v.p.OpenAnswers(ctx, result.Turns[i].Sends)
	}
	v.p.OpenAnswers(ctx, result.Commands)
	return result, err
}

// Claim implements store.Store.
func (v *View) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	claims, err := v.Store.Claim(ctx, req)
	if err != nil {
		return claims, err
	}
	o := v.opener(ctx)
	for i := range claims.Runs {
		o.run(&claims.Runs[i].Run)
		o.heads(claims.Runs[i].Items)
	}
	return claims, o.err
}

// OpenItems opens the values of items of a claim. The error says why one of them cannot be
// opened.
func (p *Policy) OpenItems(ctx context.Context, items []store.Item) error {
	o := &opener{p: p, ctx: ctx}
	o.heads(items)
	return o.err
}

// OpenEntries opens the values of entries of a run. The error says why one of them
// cannot be opened.
func (p *Policy) OpenEntries(ctx context.Context, run store.RunNo, incarnation int, entries []store.Entry) error {
	o := &opener{p: p, ctx: ctx}
	o.entries(run, incarnation, entries, false)
	return o.err
}

// loads is how many snapshots are opened at the same time if objects are read.
const loads = 16

// Load implements store.Store.
func (v *View) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, error) {
	snapshots, err := v.Store.Load(ctx, runs)
	if err != nil {
		return nil, err
	}
	failed := make([]error, len(snapshots))
	var wg sync.WaitGroup
	room := make(chan struct{}, loads)
	for i := range snapshots {
		open := func() { failed[i] = v.openSnapshot(ctx, &snapshots[i]) }
		if v.p == nil || v.p.cfg.Objects == nil {
			open()
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			open()
		})
	}
	wg.Wait()
	good := snapshots[:0]
	for i := range snapshots {
		if failed[i] == nil {
			good = append(good, snapshots[i])
		} else {
			failed[i] = fmt.Errorf("run %q: %w", snapshots[i].Run.ID, failed[i])
		}
	}
	return good, errors.Join(failed...)
}

func (v *View) openSnapshot(ctx context.Context, s *store.Snapshot) error {
	o := v.opener(ctx)
	o.run(&s.Run)
	o.entries(s.Run.No, s.Run.Incarnation, s.Entries, true)
	o.heads(s.Items)
	return o.err
}

// List implements store.Store.
func (v *View) List(ctx context.Context, f store.Filter) (store.Page, error) {
	page, err := v.Store.List(ctx, f)
	o := v.opener(ctx)
	for i := range page.Runs {
		o.run(&page.Runs[i])
	}
	return page, err
}

// History implements store.Store. Sizes are those of the stored values, or of the opened
// values if they are stored in less than store.LargeValue.
func (v *View) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	entries, err := v.Store.History(ctx, q)
	v.opener(ctx).entries(q.Run, q.Incarnation, entries, false)
	return entries, err
}

// Inbox implements store.Store.
func (v *View) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	items, err := v.Store.Inbox(ctx, run, ids...)
	v.opener(ctx).items(items)
	return items, err
}

// Feeds implements store.Store.
func (v *View) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	feeds, err := v.Store.Feeds(ctx, q)
	o := v.opener(ctx)
	for i := range feeds {
		o.value(&feeds[i].Value)
	}
	return feeds, err
}

// Stream implements store.Store.
func (v *View) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	items, err := v.Store.Stream(ctx, q)
	o := v.opener(ctx)
	for i := range items {
		o.value(&items[i].Value)
	}
	return items, err
}

// Audit implements store.Store.
func (v *View) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	audit, err := v.Store.Audit(ctx, run)
	v.opener(ctx).audit(audit)
	return audit, err
}

// DeadLetters implements store.Store.
func (v *View) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	page, err := v.Store.DeadLetters(ctx, f)
	o := v.opener(ctx)
	for i := range page.Letters {
		o.value(&page.Letters[i].Item.Value)
		o.value(&page.Letters[i].Item.Verdict)
	}
	return page, err
}
