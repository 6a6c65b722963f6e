package engine

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// decision is what the owner makes of the verbs in the inbox of a run whose code
// does not run now.
type decision struct {
	x      *executor
	run    *store.Run
	items  []store.Item
	turn   *store.Turn
	update *store.Update
	// changed says that the history is another one with the turn: what else was
	// asked for is decided afterwards.
	changed bool
}

func (x *executor) newDecision(s *store.Snapshot) *decision {
	run := &s.Run
	d := &decision{
		x: x, run: run, items: s.Items,
		turn: &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation},
		update: &store.Update{
			Status: run.Status, Marks: run.Marks, Reason: run.Reason, Discard: x.e.cfg.Workflows[run.Workflow].Discard,
		},
	}
	if verbs.Resting(run) {
		d.update.WakeAt, d.update.Waits = run.WakeAt, run.Waits
	} else {
		d.update.Waits = verbs.KeepSign(run)
	}
	d.turn.Update = d.update
	return d
}

// yes accepts a verb.
func (d *decision) yes(it *store.Item, detail string) []byte {
	if it.Name != "" { // else no operator has asked
		d.turn.Audit = append(d.turn.Audit, runner.AuditOf(it, stored.Why(it), detail))
	}
	return verbs.Yes()
}

func refuse(format string, args ...any) []byte { return verbs.No(fmt.Sprintf(format, args...)) }

// judge rules on a verb about the run as it is after the verbs before it.
func (d *decision) judge(verb store.ItemKind) verbs.Ruling {
	run := *d.run
	run.Status, run.Marks, run.Reason = d.update.Status, d.update.Marks, d.update.Reason
	return verbs.Judge(&run, verb)
}

// verb decides a verb that nothing in the run's row speaks against, other than Cancel,
// Terminate and Watch. An error says that it could not look.
func (d *decision) verb(i int) (verdict []byte, err error) {
	it, u := &d.items[i], d.update
	switch it.Kind {
	case store.ItemPause:
		if verbs.CancelAmong(d.items[:i]) {
			return verbs.No(verbs.BeingCancelled), nil
		}
		u.Marks |= store.Paused
	case store.ItemResume:
		if u.Status == store.Stalled && d.judge(store.ItemRetry).Refused == "" && isFailure(d.run.Output) {
			// Where nothing can be retried its function is executed again as it is now.
			if verdict, err := d.changes(it, d.retry); err != nil || d.changed {
				return verdict, err
			}
		}
		d.resume()
	case store.ItemRetry:
		if u.Status == store.Stalled && !isFailure(d.run.Output) {
			return verbs.No(verbs.NotFailed(u.Status).Refused), nil
		}
		return d.changes(it, d.retry)
	case store.ItemRewind:
		return d.changes(it, d.rewind)
	case store.ItemEdit:
		return d.changes(it, d.edit)
	}
	return d.yes(it, ""), nil
}

// resume lets a run go on that is stalled or paused.
func (d *decision) resume() {
	u := d.update
	u.Reason = ""
	if u.Status == store.Stalled {
		u.Status = store.Running
		return
	}
	u.Marks &^= store.Paused
	if u.Status == store.Suspended && u.Marks&store.Held == 0 {
		u.Status = store.Running
	}
}

// isFailure reports whether the output of a run is the failure that its reason says.
func isFailure(output []byte) bool {
	_, err := stored.DecodeFailure(output)
	return err == nil
}

// changes carries out a verb that changes the history, after which the run goes
// on, unless it is paused.
func (d *decision) changes(it *store.Item, change func(it *store.Item, entries []store.Entry) (string, error)) ([]byte, error) {
	entries, err := d.x.e.cfg.Store.History(d.x.held, store.HistoryQuery{Run: d.run.No, Incarnation: d.run.Incarnation, Values: true})
	if err != nil {
		return nil, err
	}
	detail, err := change(it, entries)
	var refusal history.Refusal
	switch {
	case errors.As(err, &refusal):
		return refuse("%s", refusal), nil
	case errors.Is(err, store.ErrDamaged):
		return refuse("%v", err), nil
	case err != nil:
		return nil, err
	}
	d.changed = true
	u := d.update
	u.Status, u.Reason, u.WakeAt, u.Waits = store.Running, "", 0, nil
	if it.Kind != store.ItemEdit { // which leaves standing that it is cancelled or undone
		u.Marks &= store.Paused
	}
	if err := permit.RequestAgain(d.update, d.run); err != nil {
		return nil, err
	}
	return d.yes(it, detail), nil
}

func (d *decision) retry(_ *store.Item, entries []store.Entry) (string, error) {
	tb, at, err := history.Retry(d.run, entries, d.x.e.time.now())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("from %s: took back %s", at, tb), d.takeBack(tb)
}

func (d *decision) rewind(it *store.Item, entries []store.Entry) (string, error) {
	q, err := stored.DecodeRequest(it.Value)
	if err != nil {
		return "", err
	}
	tb, err := history.Rewind(entries, location.Loc(q.Location), d.x.e.time.now())
	if err != nil {
		return "", err
	}
	d.update.Generation = d.run.Generation + 1
	return fmt.Sprintf("to before %s: took back %s; generation %d", placeOf(q.Location), tb, d.update.Generation), d.takeBack(tb)
}

// placeOf returns the text form of an encoded location.
func placeOf(loc string) string {
	if loc == "" {
		return "/"
	}
	return location.Loc(loc).String()
}

func (d *decision) edit(it *store.Item, entries []store.Entry) (string, error) {
	q, err := stored.DecodeRequest(it.Value)
	if err != nil {
		return "", err
	}
	e, err := history.Edit(entries, &q, d.x.e.time.now())
	if err != nil {
		return "", err
	}
	d.turn.Rewrites = append(d.turn.Rewrites, e)
	for i := range entries {
		if _, back, ok := history.Unpermitted(&entries[i]); ok && entries[i].Loc == e.Loc {
			d.turn.Sends = append(d.turn.Sends, back) // nobody waits for it any more
		}
	}
	what := "a value"
	if q.Failed {
		what = "a failure"
	}
	return fmt.Sprintf("%s has now %s of %d bytes", placeOf(q.Location), what, len(q.Value)), nil
}

// takeBack puts what is taken back into the turn. Of the items that return, those
// that were answered stay as they are.
func (d *decision) takeBack(tb *history.Takeback) error {
	tb.Of(d.run)
	returned, err := returning(d.x, d.run.No, tb.Returned)
	if err != nil {
		return err
	}
	turn := d.turn
	turn.Prune, turn.Rewrites, turn.Returned, turn.Rewound = tb.Prune, tb.Rewrites, returned, true
	turn.Sends = append(turn.Sends, tb.Sends...)
	turn.Sends = append(turn.Sends, tb.Cancels(uuid.NewString)...)
	return nil
}

// returning returns those of the items that can be put back into the inbox.
func returning(x *executor, run store.RunNo, items []store.Item) ([]store.Item, error) {
	if len(items) == 0 {
		return nil, nil
	}
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	rows, err := x.e.cfg.Store.Inbox(x.held, run, ids...)
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
