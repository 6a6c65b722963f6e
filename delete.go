package stet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/entity/deletions"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// Deletion says who has deleted a run by Runs.Delete.
type Deletion struct {
	RunID    string
	Number   store.RunNo
	Workflow string
	Status   store.Status `json:",omitzero"` // with which it had ended
	At       time.Time    `json:",omitzero"` // when it was requested; the run goes right after that
	By, Why  string
}

// Delete deletes a run that has ended, with all that belongs to it: history, messages, dead
// letters, values, streams, audit, and the memory of its ID. It returns the IDs of the runs
// that it has deleted. With Act.Children these are the children of the run too, and theirs,
// before their parents; children that were detached, and without Act.Children all, are left.
// Deletions keeps who has deleted what.
//
// Errors: ErrNotFound; ErrInvalid for a bad act; ErrRefused with the reason, if the run lives,
// one of its children does, its parent lives and may ask for its end, or somebody asks
// something of the run; otherwise one of the store. After an error some of the runs may be
// deleted, and one in part: it then accepts no request. Call it again. Concurrent calls are
// safe.
func (r Runs) Delete(ctx context.Context, runID string, act Act) ([]string, error) {
	children := act.Children
	act.Children = false
	if err := act.check(); err != nil {
		return nil, fmt.Errorf("delete run %q: %w", runID, err)
	}
	runs, err := r.toDelete(ctx, runID, children)
	if err != nil {
		return nil, fmt.Errorf("delete run %q: %w", runID, err)
	}
	var deleted []string
	for chunk := range slices.Chunk(runs, deletions.MaxRuns) {
		if err := deletions.Note(ctx, r.engine.inner, &deletions.Record{
			By: cmp.Or(act.By, r.engine.node), Why: act.Why, Runs: chunk,
		}); err != nil {
			return deleted, fmt.Errorf("delete run %q: %w", runID, err)
		}
		kept, err := r.sweep(ctx, chunk)
		if err != nil {
			return deleted, fmt.Errorf("delete run %q: %w", runID, err)
		}
		for _, run := range chunk {
			if !slices.Contains(kept, run.No) {
				deleted = append(deleted, run.ID)
				continue
			}
			return deleted, fmt.Errorf("delete run %q: %w: run %q has changed meanwhile", runID, ErrRefused, run.ID)
		}
	}
	return deleted, nil
}

// sweep deletes runs, and returns those that the store keeps.
func (r Runs) sweep(ctx context.Context, runs []deletions.Run) (kept []store.RunNo, err error) {
	var req store.SweepRequest
	for _, run := range runs {
		req.Runs = append(req.Runs, run.No)
	}
	for {
		swept, err := r.engine.store.Sweep(ctx, req)
		if err != nil || swept.Done {
			return swept.Kept, err
		}
	}
}

// Deletable returns the IDs of the runs that Delete would delete, with the children or
// without them, and changes nothing. The error is the one that Delete would return.
func (r Runs) Deletable(ctx context.Context, runID string, children bool) ([]string, error) {
	runs, err := r.toDelete(ctx, runID, children)
	if err != nil {
		return nil, fmt.Errorf("delete run %q: %w", runID, err)
	}
	ids := make([]string, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	return ids, nil
}

// toDelete returns the runs that are to be deleted with a run, children before parents.
func (r Runs) toDelete(ctx context.Context, runID string, children bool) ([]deletions.Run, error) {
	if err := checkNotEntity(runID); err != nil {
		return nil, err
	}
	run, ok, err := r.engine.inner.Get(ctx, runID)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrNotFound
	case !run.Status.Terminal():
		return nil, fmt.Errorf("%w: it is %s; cancel or terminate it first", ErrRefused, run.Status)
	}
	if err := r.keptByParent(ctx, &run); err != nil {
		return nil, err
	}
	return r.withChildren(ctx, nil, &run, children)
}

// keptByParent returns the refusal to delete a run whose parent needs it.
func (r Runs) keptByParent(ctx context.Context, run *store.Run) error {
	if run.Parent == 0 || run.ParentLoc == "" {
		return nil
	}
	page, err := r.engine.store.List(ctx, store.Filter{Nos: []store.RunNo{run.Parent}, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return err
	}
	parent := &page.Runs[0]
	if parent.Status.Terminal() || parent.Began >= run.Created {
		return nil
	}
	entries, err := r.engine.base.History(ctx, store.HistoryQuery{
		Run: parent.No, Incarnation: parent.Incarnation, Locs: []string{run.ParentLoc},
	})
	if err != nil || len(entries) == 0 {
		return err
	}
	return fmt.Errorf("%w: its parent %q is %s, and may ask for its end; it can be deleted once that has ended",
		ErrRefused, parent.ID, parent.Status)
}

// withChildren appends a run that has ended to a list, with its children before it.
func (r Runs) withChildren(
	ctx context.Context, list []deletions.Run, run *store.Run, children bool,
) ([]deletions.Run, error) {
	f := store.Filter{Parent: run.No, Limit: store.MaxPage}
	for {
		page, err := r.engine.store.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			child := &page.Runs[i]
			switch {
			case child.ParentLoc == "": // detached
			case !child.Status.Terminal():
				return nil, fmt.Errorf("%w: child %q of run %q is %s; cancel or terminate it first", ErrRefused, child.ID,
					run.ID, child.Status)
			case children:
				if list, err = r.withChildren(ctx, list, child, true); err != nil {
					return nil, err
				}
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	items, err := r.engine.base.Inbox(ctx, run.No)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if items[i].State == store.New {
			return nil, fmt.Errorf("%w: run %q has a request that nobody has decided: %s", ErrRefused, run.ID, items[i].Kind)
		}
	}
	if run.Claimed {
		return nil, fmt.Errorf("%w: a process works on run %q", ErrRefused, run.ID)
	}
	return append(list, deletions.Run{ID: run.ID, No: run.No, Workflow: run.Workflow, Status: run.Status}), nil
}

// Deletions returns which runs were deleted by Delete, newest first: those of the last 10,000
// calls, where one that deletes more than a hundred runs counts for each hundred. A run that
// is listed may still be there if the process that deleted it died right then.
func (r Runs) Deletions(ctx context.Context) ([]Deletion, error) {
	run, ok, err := r.engine.inner.Get(ctx, deletions.ID)
	if err != nil || !ok {
		return nil, err
	}
	// The inbox first: what is entered meanwhile is then read twice, and not missed.
	inbox, err := r.engine.store.Inbox(ctx, run.No)
	if err == nil {
		_, err = store.FillItems(ctx, r.engine.store, run.No, inbox)
	}
	if err != nil {
		return nil, fmt.Errorf("list deletions: %w", err)
	}
	entries, err := r.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	var records []deletions.Record
	if err == nil {
		records, err = deletions.Read(entries, inbox)
	}
	if err != nil {
		return nil, fmt.Errorf("list deletions: %w", err)
	}
	var list []Deletion
	seen := map[store.RunNo]bool{}
	for _, record := range slices.Backward(records) {
		for _, run := range slices.Backward(record.Runs) {
			if !seen[run.No] { // otherwise it was requested once more, or read twice
				seen[run.No] = true
				list = append(list, Deletion{run.ID, run.No, run.Workflow, run.Status, record.At.Time(), record.By, record.Why})
			}
		}
	}
	return list, nil
}
