package decide

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// change carries out a verb that changes the history, after which the run goes on
// unless it is paused. by makes the change and returns what it did, for the audit.
func (d *decision) change(
	it *store.Item, by func(*store.Item, []store.Entry) (string, error),
) (detail, refused string, err error) {
	q := store.HistoryQuery{Run: d.run.No, Incarnation: d.run.Incarnation, Values: true}
	entries, err := d.by.Reader.History(d.ctx, q)
	if err != nil {
		return "", "", err
	}
	detail, err = by(it, entries)
	var refusal history.Refusal
	switch {
	case errors.As(err, &refusal):
		return "", refusal.Error(), nil
	case errors.Is(err, store.ErrDamaged):
		return "", err.Error(), nil
	case err != nil:
		return "", "", err
	}
	if failure := d.failure(); failure != nil {
		detail += "; it had failed: " + failure.Message
	}
	d.changed = true
	u := d.update
	u.Status, u.Reason, u.WakeAt, u.Waits = store.Running, "", 0, nil
	if it.Kind != store.ItemEdit { // an edit leaves standing that the run is cancelled or undone
		u.Marks &= store.Paused
	}
	return detail, "", permit.RequestAgain(u, d.run)
}

// retry reverts what has failed and all that completed since. Children that have failed are
// retried with it: otherwise they would only be asked for the same failure again.
func (d *decision) retry(it *store.Item, entries []store.Entry) (string, error) {
	back, at, err := history.Retry(d.run, entries, d.by.Now)
	if err != nil {
		return "", err
	}
	retries, err := back.Retries(it, uuid.NewString)
	if err != nil {
		return "", err
	}
	d.turn.Sends = append(d.turn.Sends, retries...)
	if at == "" {
		return "took back its end: the code goes on after its last completion", d.revert(back)
	}
	return fmt.Sprintf("from %s: took back %s", at, back), d.revert(back)
}

// rewind reverts what completed at a location and since.
func (d *decision) rewind(it *store.Item, entries []store.Entry) (string, error) {
	q, err := stored.DecodeRequest(it.Value)
	if err != nil {
		return "", err
	}
	before := location.Loc(q.Location)
	back, err := history.Rewind(entries, before, d.by.Now)
	if err != nil {
		return "", err
	}
	d.update.Generation = d.run.Generation + 1
	detail := fmt.Sprintf("to before %s: took back %s; generation %d", before.Path(), back, d.update.Generation)
	return detail, d.revert(back)
}

// edit replaces the outcome of a step.
func (d *decision) edit(it *store.Item, entries []store.Entry) (string, error) {
	q, err := stored.DecodeRequest(it.Value)
	if err != nil {
		return "", err
	}
	e, sends, err := history.Edit(entries, &q, d.by.Now)
	if err != nil {
		return "", err
	}
	d.turn.Rewrites, d.turn.Sends = append(d.turn.Rewrites, e), append(d.turn.Sends, sends...)
	what := "a value"
	if q.Failed {
		what = "a failure"
	}
	return fmt.Sprintf("%s has now %s of %d bytes", location.Loc(q.Location).Path(), what, len(q.Value)), nil
}

// revert puts what is reverted into the turn. Of the items that return, those that
// were answered stay as they are.
func (d *decision) revert(back *history.Revert) error {
	back.ForRun(d.run)
	returned, err := d.returning(back.Returned)
	if err != nil {
		return err
	}
	turn := d.turn
	turn.Prune, turn.Rewrites, turn.Returned = back.Prune, back.Rewrites, returned
	turn.Rewound = back.Completions+back.Deleted > 0
	turn.Sends = slices.Concat(turn.Sends, back.Sends, back.Cancels(d.run.No, uuid.NewString))
	return nil
}

// returning returns those of the items that can be put back into the inbox.
func (d *decision) returning(items []store.Item) ([]store.Item, error) {
	if len(items) == 0 {
		return nil, nil
	}
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	rows, err := d.by.Reader.Inbox(d.ctx, d.run.No, ids...)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*store.Item, len(rows))
	for i := range rows {
		known[rows[i].ID] = &rows[i]
	}
	var back []store.Item
	for _, it := range items {
		if row := known[it.ID]; row != nil {
			if row.State != store.Consumed || row.Verdict != nil {
				continue
			}
			it.Kind = row.Kind
		}
		back = append(back, it)
	}
	return back, nil
}
