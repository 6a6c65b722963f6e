package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// decision is what the owner makes of the verbs in the inbox of a run whose code
// does not run now.
type decision struct {
	t      *tenure
	run    *store.Run
	items  []store.Item
	turn   *store.Turn
	update *store.Update
	// changed says that the history is another one with the turn: what else was
	// asked for is decided afterwards.
	changed bool
}

func (t *tenure) newDecision(s *store.Snapshot) *decision {
	run := &s.Run
	d := &decision{
		t: t, run: run, items: s.Items,
		turn: &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation},
		update: &store.Update{
			Status: run.Status, Marks: run.Marks, Reason: run.Reason, Discard: t.e.cfg.Workflows[run.Workflow].Discard,
		},
	}
	if resting(run) {
		d.update.WakeAt, d.update.Waits = run.WakeAt, run.Waits
	} else {
		d.update.Waits = stillBegun(run)
	}
	d.turn.Update = d.update
	return d
}

// resting reports whether a claimed run was claimed at rest.
func resting(run *store.Run) bool {
	return run.Marks&(store.Paused|store.Held) != 0 || run.Status == store.Queued || run.Status == store.Suspended
}

// needsNoCode reports whether what is asked of a run is decided without its code:
// it is paused or to be paused, to be terminated, or to be cancelled before any
// turn of it was committed.
func needsNoCode(s *store.Snapshot) bool {
	if resting(&s.Run) {
		return true
	}
	for i := range s.Items {
		switch s.Items[i].Kind {
		case store.ItemTerminate:
			return true
		case store.ItemPause:
			if !cancelBefore(s.Items[:i]) {
				return true
			}
		case store.ItemCancel:
			if unrun(s) {
				return true
			}
		}
	}
	return false
}

// unrun reports whether no turn of the run was ever committed. A new incarnation, and a run
// that was rewound to its begin, begin without a sign of one.
func unrun(s *store.Snapshot) bool {
	run := &s.Run
	return run.Waits == nil && len(s.Entries) == 0 && (run.Build == "" || run.Incarnation == 0 && run.Generation == 0)
}

// noWaits are those of a run that waits for nothing and has committed a turn, which would
// else not be seen if the turn had no entry.
var noWaits = []byte{}

// stillBegun returns the waits of a run that goes on: none, but whether a turn of it was
// committed is still to be seen.
func stillBegun(run *store.Run) []byte {
	if run.Waits == nil {
		return nil
	}
	return noWaits
}

func cancelBefore(items []store.Item) bool {
	for i := range items {
		if items[i].Kind == store.ItemCancel {
			return true
		}
	}
	return false
}

// endsNow reports whether a cancel ends the run without its code.
func (d *decision) endsNow(s *store.Snapshot) bool {
	return d.update.Status == store.Stalled || d.update.Marks&store.Paused != 0 || unrun(s)
}

// yes accepts a verb.
func (d *decision) yes(it *store.Item, detail string) []byte {
	if it.Name != "" { // else no operator has asked
		d.turn.Audit = append(d.turn.Audit, runner.AuditOf(it, runner.Why(it), detail))
	}
	return runner.Verdict(true, "")
}

func no(format string, args ...any) []byte {
	return runner.Verdict(false, fmt.Sprintf(format, args...))
}

// verb decides a verb other than Cancel, Terminate and Watch. An error says that it
// could not look.
func (d *decision) verb(i int) (verdict []byte, err error) {
	it, u := &d.items[i], d.update
	switch it.Kind {
	case store.ItemPause:
		return d.pause(i), nil
	case store.ItemResume:
		if u.Status == store.Stalled && failureStalled(d.run) {
			// Where nothing can be retried its function is executed again as it is now.
			if verdict, err := d.changes(it, d.retry); err != nil || d.changed {
				return verdict, err
			}
		}
		switch {
		case u.Status == store.Stalled:
			u.Status, u.Reason = store.Running, ""
		case u.Marks&store.Paused != 0:
			u.Marks &^= store.Paused
			u.Reason = ""
			if u.Status == store.Suspended && u.Marks&store.Held == 0 {
				u.Status = store.Running
			}
		case u.Status.Terminal():
			return no("the run is already %s", u.Status), nil
		default:
			return no("the run is %s, not stalled or paused", u.Status), nil
		}
		return d.yes(it, ""), nil
	case store.ItemRetry:
		if u.Status != store.Failed && !(u.Status == store.Stalled && failureStalled(d.run)) {
			return no("the run is %s: only one that has failed can be retried", u.Status), nil
		}
		return d.changes(it, d.retry)
	case store.ItemRewind, store.ItemEdit:
		if !u.Status.Terminal() && u.Status != store.Stalled && u.Marks&store.Paused == 0 {
			return no("the run is %s: pause or cancel it first", u.Status), nil
		}
		if it.Kind == store.ItemEdit {
			return d.changes(it, d.edit)
		}
		return d.changes(it, d.rewind)
	}
	return no("nobody knows %s", it.Kind), nil
}

func (d *decision) pause(i int) []byte {
	u := d.update
	switch {
	case u.Status.Terminal():
		return no("the run is already %s", u.Status)
	case u.Status == store.Stalled:
		return no("the run is stalled: it is not taken up until it is resumed")
	case u.Marks&store.Paused != 0:
		return no("the run is already paused")
	case cancelBefore(d.items[:i]):
		return no("the run is being cancelled")
	}
	u.Marks |= store.Paused
	return d.yes(&d.items[i], "")
}

// failureStalled reports whether a stalled run is one that has failed and waits for
// a person.
func failureStalled(run *store.Run) bool {
	if run.Output == nil || !strings.HasPrefix(run.Reason, "failure") {
		return false
	}
	_, err := runner.DecodeFailure(run.Output)
	return err == nil
}

// changes carries out a verb that changes the history, after which the run goes
// on, unless it is paused.
func (d *decision) changes(it *store.Item, change func(it *store.Item, entries []store.Entry) (string, error)) ([]byte, error) {
	if strings.HasSuffix(d.run.ID, fmt.Sprintf("@%d", d.run.No)) {
		return no("the run was replaced by a later one with its ID: it can be read and forked"), nil
	}
	entries, err := d.t.e.cfg.Store.History(d.t.held, store.HistoryQuery{Run: d.run.No, Incarnation: d.run.Incarnation, Values: true})
	if err != nil {
		return nil, err
	}
	detail, err := change(it, entries)
	var refusal runner.Refusal
	switch {
	case errors.As(err, &refusal):
		return no("%s", refusal), nil
	case errors.Is(err, store.ErrDamaged):
		return no("%v", err), nil
	case err != nil:
		return nil, err
	}
	d.changed = true
	u := d.update
	u.Status, u.Reason, u.WakeAt, u.Waits = store.Running, "", 0, nil
	if it.Kind != store.ItemEdit { // which leaves standing that it is cancelled or undone
		u.Marks &= store.Paused
	}
	if err := d.askAgain(); err != nil {
		return nil, err
	}
	return d.yes(it, detail), nil
}

func (d *decision) retry(_ *store.Item, entries []store.Entry) (string, error) {
	tb, at, err := runner.Retry(d.run, entries, d.t.e.time.now())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("from %s: took back %s", at, tb), d.takeBack(tb)
}

func (d *decision) rewind(it *store.Item, entries []store.Entry) (string, error) {
	q, err := runner.DecodeRequest(it.Value)
	if err != nil {
		return "", err
	}
	tb, err := runner.Rewind(entries, location.Loc(q.Location), d.t.e.time.now())
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
	q, err := runner.DecodeRequest(it.Value)
	if err != nil {
		return "", err
	}
	e, err := runner.Edit(entries, &q, d.t.e.time.now())
	if err != nil {
		return "", err
	}
	d.turn.Rewrites = append(d.turn.Rewrites, e)
	for i := range entries {
		if _, back, ok := runner.Unpermitted(&entries[i]); ok && entries[i].Loc == e.Loc {
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
func (d *decision) takeBack(tb *runner.Takeback) error {
	tb.Of(d.run)
	returned, err := returning(d.t, d.run.No, tb.Returned)
	if err != nil {
		return err
	}
	turn := d.turn
	turn.Prune, turn.Rewrites, turn.Returned, turn.Rewound = tb.Prune, tb.Rewrites, returned, true
	turn.Sends = append(turn.Sends, tb.Sends...)
	for _, child := range tb.Children {
		turn.Sends = append(turn.Sends, runner.CancelChild(child, uuid.NewString()))
	}
	return nil
}

// returning returns those of the items that can be put back into the inbox.
func returning(t *tenure, run store.RunNo, items []store.Item) ([]store.Item, error) {
	if len(items) == 0 {
		return nil, nil
	}
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].ID
	}
	rows, err := t.e.cfg.Store.Inbox(t.held, run, ids...)
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
