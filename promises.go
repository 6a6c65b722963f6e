package stet

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// PromiseInfo is how a promise of a run stands.
type PromiseInfo struct {
	RunID    string
	Location string    // "approve/decision"
	Token    string    // the right to assign it: any process that has it can
	Assigned bool      // resolved or rejected: it takes no other assignment
	Rejected bool      // by Engine.Reject
	At       time.Time `json:",omitzero"` // when it was assigned, or handed to the code; zero: not assigned
}

// Promise returns how the promise with the token stands. Errors are those of
// Engine.Resolve, except ErrAlreadyResolved; ErrTerminal is returned for a promise whose
// run has ended only if it was not assigned before.
func (e *Engine) Promise(ctx context.Context, token string) (*PromiseInfo, error) {
	p, err := e.promiseOf(ctx, token)
	if err != nil {
		return nil, err
	}
	entries, err := e.store.History(ctx, store.HistoryQuery{
		Run: p.run.No, Incarnation: p.incarnation, Locs: []string{string(p.loc)},
	})
	if err != nil {
		return nil, fmt.Errorf("promise of run %q: %w", p.runID, err)
	}
	var entry *store.Entry
	if len(entries) == 1 && entries[0].Kind == store.KindPromise {
		entry = &entries[0]
	}
	info, err := p.info(ctx, e.store, entry)
	if err == nil && !info.Assigned && p.run.Status.Terminal() {
		return nil, fmt.Errorf("promise %s of run %q, which is %s: %w", info.Location, p.runID, p.run.Status, ErrTerminal)
	}
	return info, err
}

// Promises returns the promises that a run has made in its present incarnation, in the
// order of their locations, with their tokens: a process that can read the store can
// assign any of them. ErrNotFound: there is no run with the ID.
func (r Runs) Promises(ctx context.Context, runID string) ([]PromiseInfo, error) {
	e := r.engine
	run, err := e.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	entries, err := e.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation})
	if err != nil {
		return nil, fmt.Errorf("promises of run %q: %w", runID, err)
	}
	var all []PromiseInfo
	for i := range entries {
		entry := &entries[i]
		if entry.Kind != store.KindPromise || entry.State == store.Withdrawn {
			continue
		}
		secret := stored.PromiseSecret(run.Seed, entry.Loc, entry.Generation)
		p := &foundPromise{token{runID, run.Incarnation, location.Loc(entry.Loc), secret}, *run, entry.Generation}
		info, err := p.info(ctx, e.store, entry)
		if err != nil {
			return nil, err
		}
		all = append(all, *info)
	}
	return all, nil
}

// info describes the promise by its entry, which is nil if there is none yet. What
// was assigned and not handed over is in the run's inbox.
func (p *foundPromise) info(ctx context.Context, s store.Store, entry *store.Entry) (*PromiseInfo, error) {
	info := &PromiseInfo{
		RunID: p.runID, Location: p.loc.String(), Token: makeToken(&p.run, string(p.loc), p.secret),
	}
	if entry != nil && (entry.State == store.Done || entry.State == store.FailedEntry) {
		info.Assigned, info.Rejected, info.At = true, entry.State == store.FailedEntry, entry.Ended.Time()
		return info, nil
	}
	items, err := s.Inbox(ctx, p.run.No, p.itemID())
	if err != nil {
		return nil, fmt.Errorf("promise %s of run %q: %w", info.Location, p.runID, err)
	}
	if len(items) == 1 {
		info.Assigned, info.Rejected, info.At = true, items[0].Failed, items[0].Sent.Time()
	}
	return info, nil
}
