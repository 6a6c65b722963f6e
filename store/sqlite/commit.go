package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// Commit implements store.Store. A turn that breaks a law takes the transaction
// back, which is then repeated without it.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := b.Validate(); err != nil {
		return store.BatchResult{}, err
	}
	refused := map[int]string{}
	for {
		var result store.BatchResult
		err := s.write.do(ctx, "commit a batch", func(c *conn, now store.Time) error {
			t := committing{c: c, hand: &s.write.hand, b: &b, now: now, refused: refused}
			var err error
			result, err = t.commit()
			return err
		})
		var r *refusal
		if !errors.As(err, &r) {
			return result, err
		}
		refused[r.turn] = r.reason
	}
}

// refusal is the error of a turn that breaks a law.
type refusal struct {
	turn   int
	reason string
}

func (r *refusal) Error() string { return fmt.Sprintf("turn %d: %s", r.turn, r.reason) }

// committing is one try of a batch in one transaction.
type committing struct {
	c       *conn
	hand    *hand
	b       *store.Batch
	now     store.Time
	refused map[int]string // turns of former tries
	current map[store.Shard]bool
	repeat  bool  // the batch has been applied before
	listed  bool  // the node's row is there
	life    int64 // of the row
	stamped bool  // an entry holds the batch's number

	inserted bool // a command has inserted something
}

func (t *committing) commit() (store.BatchResult, error) {
	b := t.b
	result := store.BatchResult{Now: t.now}
	last, verdicts, err := t.lastBatch()
	if err != nil {
		return result, err
	}
	if b.No < last {
		return result, fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid, last, b.No)
	}
	if err := t.readLeases(); err != nil {
		return result, err
	}
	t.repeat = b.No == last
	if t.repeat {
		result.Turns, err = sqlstore.DecodeVerdicts(verdicts)
	} else {
		result.Turns, err = t.turns()
		if err == nil {
			err = t.recordBatch(result.Turns)
		}
	}
	if err != nil {
		return result, err
	}
	a := t.applier()
	for i, turn := range b.Turns[:min(len(b.Turns), len(result.Turns))] {
		if !t.repeat {
			break // they are sent
		}
		if err := t.send(turn, &result.Turns[i]); err != nil {
			return result, err
		}
	}
	for i := range b.Commands {
		answer, err := a.apply(&b.Commands[i])
		if err != nil {
			return result, err
		}
		result.Commands = append(result.Commands, answer)
	}
	return result, nil
}

// recordBatch writes the batch's number and verdicts into the node's row, unless
// an entry holds them.
func (t *committing) recordBatch(turns []store.TurnResult) error {
	if !t.listed || len(turns) > 0 && !(t.stamped && turns[0].Verdict == store.Committed) {
		if _, err := t.c.row(`INSERT INTO stet_nodes (node, boot, batch_no, verdicts, seen_at) VALUES (?1,?2,?3,?4,?5)
			ON CONFLICT DO UPDATE SET batch_no=?3, verdicts=?4 RETURNING life`,
			[]any{t.b.Node, t.b.Boot, t.b.No, sqlstore.EncodeVerdicts(turns), t.now}, &t.life); err != nil {
			return err
		}
	}
	t.hand.last = batchNo{bootOf(t.b), t.b.No, t.life}
	return nil
}

// readLeases finds out which of the batch's leases are current.
func (t *committing) readLeases() error {
	t.current = make(map[store.Shard]bool, len(t.b.Leases))
	for i := range t.b.Leases {
		l := &t.b.Leases[i]
		if epoch, known := t.hand.epochs[l.Shard]; known && epoch == l.Epoch {
			t.current[l.Shard] = true // nobody has written since it was read
			continue
		}
		ok, err := t.c.current(l)
		if err != nil {
			return err
		}
		t.current[l.Shard] = ok
		t.hand.holds(l.Shard, l.Epoch, ok)
	}
	return nil
}

func (t *committing) turns() ([]store.TurnResult, error) {
	results := make([]store.TurnResult, len(t.b.Turns))
	for i, turn := range t.b.Turns {
		switch reason, refused := t.refused[i]; {
		case !t.current[turn.Shard]:
			results[i].Verdict = store.Fenced
		case refused:
			results[i] = store.TurnResult{Verdict: store.Refused, Reason: reason}
		default:
			verdict, err := t.turn(turn)
			if r := (*refusal)(nil); errors.As(err, &r) {
				r.turn = i
			}
			if err != nil {
				return nil, err
			}
			results[i].Verdict = verdict
			if err := t.send(turn, &results[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func refuse(format string, args ...any) error { return &refusal{reason: fmt.Sprintf(format, args...)} }

// turn writes one turn.
func (t *committing) turn(turn *store.Turn) (store.Verdict, error) {
	state, err := t.state(turn)
	if err != nil {
		return 0, err
	}
	if turn.Update != nil && turn.Update.Continue != nil && state.status != store.Running {
		return 0, refuse("a %s run cannot continue as new", state.status)
	}
	if turn.Update != nil && !state.status.CanBecome(turn.Update.Status) {
		return 0, refuse("a %s run cannot become %s", state.status, turn.Update.Status)
	}
	if turn.Update != nil && turn.Update.Generation != 0 {
		var now int64
		if _, err := t.c.row("SELECT generation FROM stet_runs WHERE run_no=?", []any{int64(turn.Run)}, &now); err != nil {
			return 0, err
		}
		if int64(turn.Update.Generation) <= now {
			return 0, refuse("generation %d does not follow %d", turn.Update.Generation, now)
		}
	}
	if err := t.prune(turn); err != nil {
		return 0, err
	}
	for i := range turn.Rewrites {
		if err := t.rewrite(turn, &turn.Rewrites[i]); err != nil {
			return 0, err
		}
	}
	for i := range turn.Entries {
		if err := t.entry(turn, &turn.Entries[i], t.stampOf(i)); err != nil {
			return 0, err
		}
	}
	for _, no := range turn.Seen {
		if n, err := t.c.exec("UPDATE stet_inbox SET state=max(state,2) WHERE item_no=? AND run_no=?", int64(no), int64(turn.Run)); err != nil {
			return 0, err
		} else if n == 0 {
			return 0, refuse("the run has no item number %d", no)
		}
	}
	for _, c := range turn.Consumed {
		n, err := t.c.exec("UPDATE stet_inbox SET state=3, val=NULL, headers=NULL, verdict=? WHERE item_no=? AND run_no=? AND state<3", c.Verdict, int64(c.Item), int64(turn.Run))
		if err != nil {
			return 0, err
		} else if n == 0 {
			return 0, refuse("the run has no pending item number %d to consume", c.Item)
		}
	}
	for _, no := range turn.Dead {
		if n, err := t.c.exec("UPDATE stet_inbox SET state=4 WHERE item_no=? AND run_no=? AND state<3 AND kind NOT IN "+sqlstore.Answered, int64(no), int64(turn.Run)); err != nil {
			return 0, err
		} else if n == 0 {
			return 0, refuse("the run has no pending item number %d for a dead letter", no)
		}
	}
	if err := t.answers(turn); err != nil {
		return 0, err
	}
	for i := range turn.Returned {
		it := &turn.Returned[i]
		if slices.ContainsFunc(turn.Returned[:i], func(former store.Item) bool { return former.ID == it.ID }) {
			return 0, refuse("the item %q is returned twice", it.ID)
		}
		if err := t.giveAgain(turn.Run, it); err != nil {
			return 0, err
		}
	}
	if err := note(t.c, turn.Run, turn.Audit, t.now); err != nil {
		return 0, err
	}
	if err := t.publish(turn); err != nil {
		return 0, err
	}
	verdict := store.Committed
	if turn.Update != nil {
		if verdict, err = t.update(turn, state.status); err != nil {
			return 0, err
		}
		if verdict == store.Committed {
			state.status = turn.Update.Status
		}
	}
	if len(turn.Returned) > 0 && state.status.Terminal() {
		err = t.bury(int64(turn.Run), false)
	}
	return verdict, err
}

func (t *committing) applier() *applier {
	return &applier{q: t.c, now: t.now, batch: t, stamp: t.stamp(), repeat: t.repeat}
}

// send carries out what a turn sends, and answers a watch that no run gets.
func (t *committing) send(turn *store.Turn, result *store.TurnResult) error {
	a := t.applier()
	for _, sends := range turn.Sent(result.Verdict) {
		for i := range sends {
			answer, err := a.apply(&sends[i])
			if err != nil {
				return err
			}
			result.Sends = append(result.Sends, answer)
			nobody := answer.Outcome == store.NotFound || answer.Outcome == store.Ended
			if it := sends[i].Item; nobody && it.Kind == store.ItemWatch {
				var no int64
				over, err := t.c.row("SELECT 1 FROM stet_runs WHERE run_no=? AND status IN (4,5,6)", []any{int64(turn.Run)})
				if err == nil && !over {
					_, err = a.insert(turn.Run, storekit.UnwatchableEnd(it), &no)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// state returns the state of the run that a turn changes.
func (t *committing) state(turn *store.Turn) (inHand, error) {
	state, ok := t.hand.runs[turn.Run]
	if !ok {
		var group string
		var slot, incarnation, status, condition int64
		found, err := t.c.row("SELECT grp, slot, incarnation, status, ready FROM stet_runs WHERE run_no=?", []any{int64(turn.Run)},
			&group, &slot, &incarnation, &status, &condition)
		switch {
		case err != nil:
			return state, err
		case !found:
			return state, refuse("there is no run number %d", turn.Run)
		}
		state = inHand{store.Shard{Group: group, Slot: int(slot)}, int(incarnation), store.Status(status), condition == sqlstore.Claimed}
		if state.claimed {
			t.hand.put(turn.Run, state)
		}
	}
	switch {
	case state.shard != turn.Shard:
		return state, refuse("the run is of shard %s, not %s", state.shard, turn.Shard)
	case state.incarnation != turn.Incarnation:
		return state, refuse("the run is in incarnation %d, not %d", state.incarnation, turn.Incarnation)
	case !state.claimed:
		return state, refuse("the run is not claimed")
	}
	return state, nil
}

// prune deletes what a turn deletes.
func (t *committing) prune(turn *store.Turn) error {
	for _, s := range turn.Prune {
		for _, table := range [...]string{"stet_entries", "stet_blobs"} {
			if _, err := t.c.exec("DELETE FROM "+table+" WHERE run_no=? AND incarnation=? AND loc>=? AND loc<?",
				int64(turn.Run), turn.Incarnation, bytesOf(s.From), bytesOf(s.To)); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry writes one entry: a plain insert, unless there is one at its location.
func (t *committing) entry(turn *store.Turn, e *store.Entry, stamp int64) error {
	s, err := t.c.stmt("INSERT INTO stet_entries (run_no, incarnation, " + entryColumns + ", val, stamp) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING")
	if err != nil {
		return err
	}
	if err := errors.Join(bindEntry(s, turn, e), s.BindInt64(17, stamp)); err != nil {
		return err
	}
	if err := s.Exec(); err != nil {
		return err
	}
	if t.c.Changes() == 0 {
		return t.again(turn, e)
	}
	t.stamped = t.stamped || stamp != 0
	return t.blob(turn, e)
}

// bindEntry binds the columns of an entry in their order, without the stamp.
func bindEntry(s *sqlite3.Stmt, turn *store.Turn, e *store.Entry) error {
	for i, v := range [...]int64{int64(turn.Run), int64(turn.Incarnation)} {
		if err := s.BindInt64(1+i, v); err != nil {
			return err
		}
	}
	if err := s.BindBlob(3, bytesOf(e.Loc)); err != nil {
		return err
	}
	for i, v := range [...]int64{int64(e.Kind), int64(e.State), e.Seq, e.Born, int64(e.At), int64(e.Wake), int64(e.Attempt),
		boolean(e.Owes), int64(e.Started), int64(e.Ended), int64(len(e.Value)), int64(e.Generation)} {
		if err := s.BindInt64(4+i, v); err != nil {
			return err
		}
	}
	if len(e.Value) >= store.LargeValue {
		return s.BindNull(16)
	}
	return bindValue(s, 16, e.Value)
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// blob writes a value that is too long for the entry's row.
func (t *committing) blob(turn *store.Turn, e *store.Entry) error {
	if len(e.Value) < store.LargeValue {
		return nil
	}
	_, err := t.c.exec("INSERT OR REPLACE INTO stet_blobs (run_no, incarnation, loc, val) VALUES (?,?,?,?)",
		int64(turn.Run), turn.Incarnation, bytesOf(e.Loc), e.Value)
	return err
}

// again writes an entry where there is one: over one that is not final, else it
// must be equal, or only bring the number that the other lacks.
func (t *committing) again(turn *store.Turn, e *store.Entry) error {
	var old store.Entry
	key := []any{int64(turn.Run), turn.Incarnation, bytesOf(e.Loc)}
	err := t.c.each("SELECT "+entryColumns+", val FROM stet_entries WHERE run_no=? AND incarnation=? AND loc=?", key, func(s *sqlite3.Stmt) error {
		old = scanEntry(s)
		old.Value = value(s, entryWidth)
		return nil
	})
	if err != nil {
		return err
	}
	if old.State == store.Open || old.State == store.Withdrawn {
		return t.overwrite(turn, &old, e)
	}
	if old.Size >= store.LargeValue {
		if _, err := t.c.row("SELECT val FROM stet_blobs WHERE run_no=? AND incarnation=? AND loc=?", key, &old.Value); err != nil {
			return err
		}
	}
	numbered := old
	if numbered.Seq == 0 && e.Seq != 0 {
		numbered.Seq, numbered.At = e.Seq, e.At
	}
	if !sqlstore.EqualEntries(&numbered, e) {
		return refuse("the entry at %q is final and different", e.Loc)
	}
	if old.Seq != e.Seq {
		_, err = t.c.exec("UPDATE stet_entries SET seq=?4, at=?5 WHERE run_no=?1 AND incarnation=?2 AND loc=?3", append(key, e.Seq, e.At)...)
	}
	return err
}

// overwrite writes an entry over one that is not final.
func (t *committing) overwrite(turn *store.Turn, old, e *store.Entry) error {
	if old.Size >= store.LargeValue && len(e.Value) < store.LargeValue {
		if _, err := t.c.exec("DELETE FROM stet_blobs WHERE run_no=? AND incarnation=? AND loc=?",
			int64(turn.Run), turn.Incarnation, bytesOf(e.Loc)); err != nil {
			return err
		}
	}
	s, err := t.c.stmt("REPLACE INTO stet_entries (run_no, incarnation, " + entryColumns + ", val, stamp) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
	if err != nil {
		return err
	}
	stamp := int64(0)
	if t.stamped && e.Loc == turn.Entries[0].Loc {
		stamp = t.stampOf(0) // it was inserted by this very turn
	}
	if err := errors.Join(bindEntry(s, turn, e), s.BindInt64(17, stamp)); err != nil {
		return err
	}
	if err := s.Exec(); err != nil {
		return err
	}
	return t.blob(turn, e)
}

// update changes the run's row, except where something unexamined holds it back.
func (t *committing) update(turn *store.Turn, from store.Status) (store.Verdict, error) {
	u, no := turn.Update, int64(turn.Run)
	suspicion := "suspect=0, strikes=0, alone=0"
	switch {
	case u.Isolate:
		suspicion = "alone=1"
	case u.EndIsolation:
		suspicion = "alone=0"
	}
	held, err := t.holdsBack(turn, from)
	if err != nil {
		return 0, err
	}
	if held {
		if u.Isolate || u.EndIsolation {
			suspicion = "suspect=suspect"
		}
		_, err := t.c.exec("UPDATE stet_runs SET "+suspicion+", build=max(build, ?2) WHERE run_no=?1", no, u.Build)
		return store.StillReady, err
	}
	condition := int64(sqlstore.Idle)
	var wakeAt any
	if u.Status == store.Suspended && u.WakeAt != 0 || u.Status == store.Queued && u.WakeAt > t.now {
		wakeAt = u.WakeAt
	}
	started := store.Time(0)
	if u.Status == store.Running {
		started = t.now // if it has none: it was claimed at rest
	}
	switch {
	case u.Status == store.Running && u.Marks&(store.Paused|store.Held) == 0 && !u.Unclaim:
		condition = sqlstore.Claimed
	case u.Status == store.Running, u.Status == store.Queued && wakeAt == nil:
		condition = sqlstore.Ready
	}
	ended := store.Time(0)
	switch {
	case u.Status.Terminal() && from.Terminal():
		ended = -1 // stays
	case u.Status.Terminal():
		ended = t.now
	}
	output := ""
	args := []any{no, u.Build, ended, int64(u.Status), int64(u.Marks), condition, wakeAt, u.Reason, u.Waits, int64(u.Generation), started, u.Queue}
	if u.Output != nil {
		inline, err := t.payload(no, payloadOutput, u.Output)
		if err != nil {
			return 0, err
		}
		output, args = ", output=?13, output_size=?14", append(args, inline, len(u.Output))
	}
	if _, err := t.c.exec("UPDATE stet_runs SET "+suspicion+", build=max(build, ?2), ended=CASE WHEN ?3<0 THEN ended ELSE ?3 END"+
		", status=?4, marks=?5, ready=?6, wake_at=?7, reason=?8, waits=?9, generation=max(generation, ?10), started=CASE WHEN started=0 THEN ?11 ELSE started END, queue=coalesce(?12, queue)"+
		output+" WHERE run_no=?1", args...); err != nil {
		return 0, err
	}
	switch {
	case u.Status.Terminal() && !from.Terminal():
		if err = t.abandon(turn.Run); err == nil {
			err = t.bury(no, u.Discard)
		}
	case from.Terminal() && !u.Status.Terminal():
		err = t.unbury(no, turn.Incarnation)
	}
	if err != nil {
		return 0, err
	}
	if u.Continue != nil {
		if err := t.continueAsNew(turn); err != nil {
			return 0, err
		}
	}
	if condition != sqlstore.Claimed {
		t.hand.drop(turn.Run)
		return store.Committed, nil
	}
	t.hand.set(turn.Run, u)
	return store.Committed, nil
}

// continueAsNew begins the next incarnation.
func (t *committing) continueAsNew(turn *store.Turn) error {
	c, no := turn.Update.Continue, int64(turn.Run)
	if err := t.abandon(turn.Run); err != nil {
		return err
	}
	if turn.Incarnation == 0 {
		run, err := t.c.runByNo(turn.Run)
		if err != nil {
			return err
		}
		first := run.Origin()
		if c.First != (store.Origin{}) {
			first = c.First
		}
		if _, err := t.c.exec("UPDATE stet_runs SET first=? WHERE run_no=?", sqlstore.EncodeOrigin(&first), no); err != nil {
			return err
		}
	}
	inline, err := t.payload(no, payloadInput, c.Input)
	if err != nil {
		return err
	}
	_, err = t.c.exec("UPDATE stet_runs SET incarnation=incarnation+1, workflow=?, input=?, input_size=?, seed=?, random=NULL, began=? WHERE run_no=?",
		c.Workflow, inline, len(c.Input), c.Seed[:], max(c.At, t.now), no)
	return err
}

// payload puts an input or output in place of the former one, if it is too long
// for the run's row, and returns what the row has of it.
func (t *committing) payload(no int64, what int, value []byte) (inline []byte, err error) {
	if len(value) <= smallPayload {
		_, err = t.c.exec("DELETE FROM stet_payloads WHERE run_no=? AND what=?", no, what)
		return value, err
	}
	_, err = t.c.exec("INSERT OR REPLACE INTO stet_payloads (run_no, what, val) VALUES (?,?,?)", no, what, value)
	return nil, err
}

// holdsBack reports whether something unexamined keeps the run from suspending,
// ending, or beginning to undo.
func (t *committing) holdsBack(turn *store.Turn, from store.Status) (bool, error) {
	u, run := turn.Update, []any{int64(turn.Run)}
	if u.Status == store.Suspended && u.Marks&(store.Paused|store.Held) == 0 {
		if held, err := t.c.row("SELECT 1 FROM stet_inbox WHERE state=1 AND state<3 AND run_no=? LIMIT 1", run); held || err != nil {
			return held, err
		}
	}
	guarded := u.Status.Terminal() && !from.Terminal()
	if !guarded && u.Marks&store.Undoing != 0 {
		var err error
		if guarded, err = t.c.row("SELECT 1 FROM stet_runs WHERE run_no=? AND marks & ? = 0", append(run, int64(store.Undoing))); err != nil {
			return false, err
		}
	}
	if !guarded {
		return false, nil
	}
	return t.c.row("SELECT 1 FROM stet_inbox WHERE state=1 AND state<3 AND run_no=? AND kind IN (3,4) LIMIT 1", run)
}
