package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// Commit implements store.Store. It writes a batch in the first of these ways that does:
//
//   - commit_one.go: one step, one turn with an update, or one start;
//   - commit_batch.go: entries, updates and starts of any number of runs;
//   - commit_call.go: the call of a function that writes all that most batches have;
//   - turn by turn, below: every batch.
//
// The first three are one statement, in one round trip. It writes nothing if it finds
// that the batch needs more care; the batch then goes the next way that is more general.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := b.Validate(); err != nil {
		return store.BatchResult{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.BatchResult{}, err
	}
	defer s.leave()
	result, err := s.commitAtOnce(ctx, &b)
	if errors.Is(err, errNotAtOnce) {
		result, err = s.commitTurnByTurn(ctx, &b)
	}
	if err == nil {
		s.last.Store(&acknowledged{b.Node, b.Boot, b.No})
		s.tell(storekit.ChangeOf(&b, &result), len(b.Turns)+len(b.Commands))
	}
	return result, err
}

// commitAtOnce writes a batch in one statement. errNotAtOnce: it has to be written turn by
// turn, and nothing is written yet.
func (s *Store) commitAtOnce(ctx context.Context, b *store.Batch) (store.BatchResult, error) {
	const act = "commit a batch"
	var none store.BatchResult
	last := s.claimed
	s.claimed = claimedRun{} // until a batch of one is written
	f := &s.flat
	defer f.empty()
	if !f.take(b) || s.cfg.turnByTurn {
		return none, errNotAtOnce
	}
	conn, err := s.commits.Acquire(ctx)
	if err != nil {
		return none, s.classify(ctx, act, err)
	}
	defer conn.Release()
	at := stamp{}
	var ok bool
	if at.fence, ok, err = s.fenceOf(ctx, conn.Conn(), f); err != nil {
		return none, s.classify(ctx, act, err)
	}
	if !ok {
		return none, errNotAtOnce
	}
	at.floor, at.test = s.times()
	warned := s.warnings(conn).Load()
	got, kind, err := answer{}, notOne, errNotAtOnce
	if f.fitsBatch() {
		is := statement{}
		if kind = f.one(); kind != notOne {
			is = f.oneStatement(kind, conn.Conn(), at, last)
		} else {
			is = f.batchStatement(at)
		}
		got, err = f.send(ctx, s, conn.Conn(), is)
	}
	if refusedAtOnce(err) {
		kind = notOne
		at.floor, at.test = s.times()
		got, err = f.send(ctx, s, conn.Conn(), f.callStatement(at))
	}
	switch {
	case refusedAtOnce(err), repeatable(err):
		s.fence = known{} // it is perhaps another
		return none, errNotAtOnce
	case err == nil && s.warnings(conn).Load() != warned:
		return none, fmt.Errorf("%s: %w: %w: the wait for the standby was cut short", act, store.ErrUnavailable, store.ErrUnknown)
	case err == nil:
		result, err := f.result(&got)
		if err != nil {
			return none, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
		}
		s.claimed = f.claimedBy(kind, conn.Conn(), at.fence, &got)
		s.observe(result.Now)
		return result, nil
	case definite(err):
		return none, s.classify(ctx, act, err)
	}
	return none, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
}

// commitTurnByTurn writes a batch turn by turn. A turn that breaks a law takes the
// transaction back, which is then repeated without it. If something waits for a
// lock, the transaction is repeated with a savepoint for each turn and command, so
// that only those are left out that wait.
func (s *Store) commitTurnByTurn(ctx context.Context, b *store.Batch) (store.BatchResult, error) {
	refused := map[int]string{}
	alone := false
	for {
		var result store.BatchResult
		err := s.write(ctx, "commit a batch", busyLimit, func(t *tx, now store.Time) error {
			c := committing{tx: t, b: b, now: now, refused: refused, alone: alone}
			var err error
			result, err = c.commit()
			return busy(err)
		})
		var r *refusal
		switch {
		case errors.As(err, &r):
			refused[r.turn] = r.reason
		case errors.Is(err, errBusy) && !alone:
			alone = true
		case errors.Is(err, errBusy):
			return result, fmt.Errorf("commit a batch: %w: %w", store.ErrUnavailable, err)
		default:
			return result, err
		}
	}
}

// refusal is the error of a turn that breaks a law.
type refusal struct {
	turn   int
	reason string
}

func (r *refusal) Error() string { return fmt.Sprintf("turn %d: %s", r.turn, r.reason) }

func refuse(format string, args ...any) error { return &refusal{reason: fmt.Sprintf(format, args...)} }

// committing is one try of a batch in one transaction.
type committing struct {
	*tx
	b       *store.Batch
	now     store.Time
	refused map[int]string // turns of former tries
	alone   bool           // each turn and command has a savepoint
	current map[store.Shard]bool
	repeat  bool // the batch has been applied before
}

func (t *committing) commit() (store.BatchResult, error) {
	b := t.b
	result := store.BatchResult{Now: t.now}
	var last int64
	var verdicts []byte
	// The row is locked from here on: who wants to take a lease of this boot waits.
	if _, err := t.row(`INSERT INTO stet.nodes (node, boot, seen_at) VALUES ($1,$2,$3)
		ON CONFLICT (node, boot) DO UPDATE SET batch_no=nodes.batch_no RETURNING batch_no, verdicts`,
		[]any{b.Node, b.Boot, t.now}, &last, &verdicts); err != nil {
		return result, err
	}
	if b.No < last {
		return result, fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid, last, b.No)
	}
	var err error
	if t.current, err = t.share(b.Leases); err != nil {
		return result, err
	}
	t.repeat = b.No == last
	if t.repeat {
		result.Turns, err = sqlstore.DecodeVerdicts(verdicts)
	} else {
		result.Turns, err = t.turns()
		if err == nil {
			_, err = t.exec("UPDATE stet.nodes SET batch_no=$1, verdicts=$2 WHERE node=$3 AND boot=$4", b.No, sqlstore.EncodeVerdicts(result.Turns), b.Node, b.Boot)
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
		var answer store.Answer
		held, err := t.guarded(func() (err error) {
			answer, err = a.apply(&b.Commands[i])
			return err
		})
		if err != nil {
			return result, err
		}
		if held {
			answer = store.Answer{Outcome: store.Undecided}
		}
		result.Commands = append(result.Commands, answer)
	}
	return result, nil
}

// guarded calls fn, with a savepoint if everything stands alone: what fn has done
// is then taken back if it waits for a lock, and held is true.
func (t *committing) guarded(fn func() error) (held bool, err error) {
	if !t.alone {
		return false, fn()
	}
	if _, err := t.exec("SAVEPOINT alone"); err != nil {
		return false, err
	}
	if err = fn(); err == nil {
		_, err = t.exec("RELEASE alone")
		return false, err
	}
	if !errors.Is(busy(err), errBusy) {
		return false, err
	}
	if _, err := t.exec("ROLLBACK TO alone"); err != nil {
		return false, err
	}
	_, err = t.exec("RELEASE alone")
	return true, err
}

// share finds out which leases are current, and keeps them so until the
// transaction ends.
func (t *tx) share(leases []store.Lease) (map[store.Shard]bool, error) {
	current := make(map[store.Shard]bool, len(leases))
	grps, slots, epochs := leaseArrays(leases)
	err := t.each(`SELECT l.grp, l.slot FROM stet.leases l JOIN unnest($1::text[], $2::bigint[], $3::bigint[]) AS q(grp, slot, epoch)
		ON l.grp=q.grp AND l.slot=q.slot AND l.epoch=q.epoch AND l.node<>'' ORDER BY l.grp, l.slot FOR SHARE OF l`,
		[]any{grps, slots, epochs}, func(scan func(...any) error) error {
			var shard store.Shard
			err := scan(&shard.Group, &shard.Slot)
			current[shard] = true
			return err
		})
	return current, err
}

// leaseArrays returns leases as columns.
func leaseArrays(leases []store.Lease) (grps []string, slots, epochs []int64) {
	grps, slots, epochs = make([]string, len(leases)), make([]int64, len(leases)), make([]int64, len(leases))
	for i := range leases {
		grps[i], slots[i], epochs[i] = name(leases[i].Shard.Group), int64(leases[i].Shard.Slot), leases[i].Epoch
	}
	return grps, slots, epochs
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
			held, err := t.guarded(func() error {
				verdict, err := t.turn(turn)
				if err != nil {
					return err
				}
				results[i].Verdict = verdict
				return t.send(turn, &results[i])
			})
			if r := (*refusal)(nil); errors.As(err, &r) {
				r.turn = i
			}
			if err != nil {
				return nil, err
			}
			if held {
				results[i] = store.TurnResult{Verdict: store.Busy}
			}
		}
	}
	return results, nil
}

// state is what a turn must know of its run.
type state struct {
	status store.Status
	marks  store.Marks
}

// turn writes one turn.
func (t *committing) turn(turn *store.Turn) (store.Verdict, error) {
	state, err := t.state(turn)
	if err != nil {
		return 0, err
	}
	for _, s := range turn.Prune {
		if _, err := t.exec("DELETE FROM stet.entries WHERE run_no=$1 AND incarnation=$2 AND loc>=$3 AND loc<$4",
			turn.Run, turn.Incarnation, []byte(s.From), []byte(s.To)); err != nil {
			return 0, err
		}
	}
	for i := range turn.Rewrites {
		if n, err := overwrite(t, turn, &turn.Rewrites[i]); err != nil {
			return 0, err
		} else if n == 0 {
			return 0, refuse("there is no entry at %q to be rewritten", turn.Rewrites[i].Loc)
		}
	}
	for i := range turn.Entries {
		if err := t.entry(turn, &turn.Entries[i]); err != nil {
			return 0, err
		}
	}
	if err := t.items(turn); err != nil {
		return 0, err
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
	if err := note(t, turn.Run, turn.Audit, t.now); err != nil {
		return 0, err
	}
	if err := t.publish(turn); err != nil {
		return 0, err
	}
	verdict := store.Committed
	if turn.Update != nil {
		if verdict, err = t.update(turn, state); err != nil {
			return 0, err
		}
		if verdict == store.Committed {
			state.status = turn.Update.Status
		}
	}
	if len(turn.Returned) > 0 && state.status.Terminal() {
		err = t.bury(turn.Run, false)
	}
	return verdict, err
}

// items marks what a turn has seen, consumed and given up.
func (t *committing) items(turn *store.Turn) error {
	for _, no := range turn.Seen {
		if n, err := t.exec("UPDATE stet.inbox SET state=greatest(state,2) WHERE item_no=$1 AND run_no=$2", no, turn.Run); err != nil {
			return err
		} else if n == 0 {
			return refuse("the run has no item number %d", no)
		}
	}
	for _, c := range turn.Consumed {
		if n, err := t.exec("UPDATE stet.inbox SET state=3, val=NULL, headers=NULL, verdict=$1 WHERE item_no=$2 AND run_no=$3 AND state<3", c.Verdict, c.Item, turn.Run); err != nil {
			return err
		} else if n == 0 {
			return refuse("the run has no pending item number %d to consume", c.Item)
		}
	}
	for _, no := range turn.Dead {
		if n, err := t.exec("UPDATE stet.inbox SET state=4 WHERE item_no=$1 AND run_no=$2 AND state<3 AND kind NOT IN "+sqlstore.Answered, no, turn.Run); err != nil {
			return err
		} else if n == 0 {
			return refuse("the run has no pending item number %d for a dead letter", no)
		}
	}
	return nil
}

func (t *committing) applier() *applier {
	return &applier{q: t.tx, now: t.now, batch: t, repeat: t.repeat}
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
			if nobody := answer.Outcome == store.NotFound || answer.Outcome == store.Ended; !nobody || sends[i].Item.Kind != store.ItemWatch {
				continue
			}
			over, err := t.row("SELECT FROM stet.runs WHERE run_no=$1 AND status IN (4,5,6)", []any{turn.Run})
			if err == nil && !over {
				var no int64
				_, err = a.insert(turn.Run, storekit.UnwatchableEnd(sends[i].Item), &no)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// state returns the state of the run that a turn changes, or refuses the turn.
func (t *committing) state(turn *store.Turn) (state, error) {
	var now state
	var shard store.Shard
	var slot, incarnation, generation, status, marks, condition int64
	found, err := t.row("SELECT grp, slot, incarnation, generation, status, marks, ready FROM stet.runs WHERE run_no=$1", []any{turn.Run},
		&shard.Group, &slot, &incarnation, &generation, &status, &marks, &condition)
	if err != nil {
		return now, err
	}
	shard.Slot = int(slot)
	now.status, now.marks = store.Status(status), store.Marks(marks)
	u := turn.Update
	switch {
	case !found:
		return now, refuse("there is no run number %d", turn.Run)
	case shard != turn.Shard:
		return now, refuse("the run is of shard %s, not %s", shard, turn.Shard)
	case int(incarnation) != turn.Incarnation:
		return now, refuse("the run is in incarnation %d, not %d", incarnation, turn.Incarnation)
	case condition != sqlstore.Claimed:
		return now, refuse("the run is not claimed")
	case u == nil:
		return now, nil
	case u.Continue != nil && now.status != store.Running:
		return now, refuse("a %s run cannot continue as new", now.status)
	case !now.status.CanBecome(u.Status):
		return now, refuse("a %s run cannot become %s", now.status, u.Status)
	case u.Generation != 0 && int64(u.Generation) <= generation:
		return now, refuse("generation %d does not follow %d", u.Generation, generation)
	}
	return now, nil
}

// entryArgs are the values of an entry in the order of entryNames.
func entryArgs(run store.RunNo, incarnation int, e *store.Entry) []any {
	return []any{run, incarnation, []byte(e.Loc), e.Kind, e.State, e.Seq, e.Born, e.At, e.Wake, e.Attempt, e.Owes, e.Started, e.Ended, len(e.Value), e.Generation, e.Value}
}

const entryNames = `run_no, incarnation, loc, kind, state, seq, born, at, wake, attempt, owes, started, ended, size, generation, val`

// writeEntry inserts an entry. It reports 0 if there is one at its location.
func writeEntry(q querier, run store.RunNo, incarnation int, e *store.Entry) (int64, error) {
	return q.exec("INSERT INTO stet.entries ("+entryNames+") VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16) ON CONFLICT (run_no, incarnation, loc) DO NOTHING",
		entryArgs(run, incarnation, e)...)
}

// overwrite writes an entry in place of one that is there.
func overwrite(q querier, turn *store.Turn, e *store.Entry) (int64, error) {
	return q.exec(`UPDATE stet.entries SET kind=$4, state=$5, seq=$6, born=$7, at=$8, wake=$9, attempt=$10, owes=$11, started=$12, ended=$13, size=$14, generation=$15, val=$16
		WHERE run_no=$1 AND incarnation=$2 AND loc=$3`, entryArgs(turn.Run, turn.Incarnation, e)...)
}

// entry writes one entry: a plain insert, unless there is one at its location.
func (t *committing) entry(turn *store.Turn, e *store.Entry) error {
	n, err := writeEntry(t, turn.Run, turn.Incarnation, e)
	if err != nil || n == 1 {
		return err
	}
	var old store.Entry
	key := []any{turn.Run, turn.Incarnation, []byte(e.Loc)}
	err = t.each("SELECT "+entryValue+" FROM stet.entries e WHERE e.run_no=$1 AND e.incarnation=$2 AND e.loc=$3", key, func(scan func(...any) error) (err error) {
		old, err = scanEntry(scan)
		return err
	})
	if err != nil {
		return err
	}
	if old.State == store.Open || old.State == store.Withdrawn {
		_, err = overwrite(t, turn, e)
		return err
	}
	numbered := old
	if numbered.Seq == 0 && e.Seq != 0 {
		numbered.Seq, numbered.At = e.Seq, e.At
	}
	if !sqlstore.EqualEntries(&numbered, e) {
		return refuse("the entry at %q is final and different", e.Loc)
	}
	if old.Seq != e.Seq {
		_, err = t.exec("UPDATE stet.entries SET seq=$4, at=$5 WHERE run_no=$1 AND incarnation=$2 AND loc=$3", append(key, e.Seq, e.At)...)
	}
	return err
}

// update changes the run's row, except where something unexamined holds it back.
func (t *committing) update(turn *store.Turn, from state) (store.Verdict, error) {
	u := turn.Update
	set := &assignments{}
	if !u.Isolate && !u.EndIsolation {
		set.text("suspect=0", "strikes=0", "alone=false")
	}
	if u.Build != "" {
		set.text("build=greatest(build, " + set.arg([]byte(u.Build)) + "::bytea)")
	}
	held, err := t.holdsBack(turn, from)
	if err != nil {
		return 0, err
	}
	if held {
		return store.StillReady, set.run(t, turn.Run)
	}
	if u.Isolate || u.EndIsolation {
		set.to("alone", u.Isolate)
	}
	condition, wakeAt := int64(sqlstore.Idle), store.Time(0)
	if u.Status == store.Suspended || u.Status == store.Queued && u.WakeAt > t.now {
		wakeAt = u.WakeAt
	}
	switch {
	case u.Status == store.Running && u.Marks&(store.Paused|store.Held) == 0 && !u.Unclaim:
		condition = sqlstore.Claimed
	case u.Status == store.Running, u.Status == store.Queued && wakeAt == 0:
		condition = sqlstore.Ready
	}
	if u.Status == store.Running { // it was perhaps claimed at rest
		set.text("started=CASE WHEN started=0 THEN " + set.arg(t.now) + " ELSE started END")
	}
	switch {
	case u.Status.Terminal() && !from.status.Terminal():
		set.to("ended", t.now)
	case !u.Status.Terminal():
		set.text("ended=0")
	}
	set.to("status", u.Status)
	set.to("marks", u.Marks)
	set.to("ready", condition)
	set.to("wake_at", null(wakeAt))
	set.to("reason", []byte(u.Reason))
	set.to("waits", u.Waits)
	if u.Generation != 0 {
		set.to("generation", u.Generation)
	}
	if u.Queue != nil {
		set.to("queue", u.Queue)
	}
	if u.Output != nil {
		set.to("output", u.Output)
	}
	if err := set.run(t, turn.Run); err != nil {
		return 0, err
	}
	switch {
	case u.Status.Terminal() && !from.status.Terminal():
		if err = t.abandon(turn.Run); err == nil {
			err = t.bury(turn.Run, u.Discard)
		}
	case from.status.Terminal() && !u.Status.Terminal():
		err = t.unbury(turn.Run, turn.Incarnation)
	}
	if err == nil && u.Continue != nil {
		err = t.continueAsNew(turn)
	}
	return store.Committed, err
}

// assignments are what an UPDATE of a run's row sets.
type assignments struct {
	texts []string // without parameters
	sets  []string
	args  []any
}

func (a *assignments) text(texts ...string) { a.texts = append(a.texts, texts...) }

// arg adds a parameter after the run's number and returns its name.
func (a *assignments) arg(value any) string {
	a.args = append(a.args, value)
	return fmt.Sprintf("$%d", len(a.args)+1)
}

func (a *assignments) to(column string, value any) {
	a.sets = append(a.sets, column+"="+a.arg(value))
}

func (a *assignments) run(q querier, run store.RunNo) error {
	all := slices.Concat(a.texts, a.sets)
	if len(all) == 0 {
		return nil
	}
	_, err := q.exec("UPDATE stet.runs SET "+strings.Join(all, ", ")+" WHERE run_no=$1", append([]any{run}, a.args...)...)
	return err
}

// continueAsNew begins the next incarnation.
func (t *committing) continueAsNew(turn *store.Turn) error {
	c := turn.Update.Continue
	if err := t.abandon(turn.Run); err != nil {
		return err
	}
	if turn.Incarnation == 0 {
		run, _, err := t.applier().find("", turn.Run)
		if err != nil {
			return err
		}
		first := run.Origin()
		if c.First != (store.Origin{}) {
			first = c.First
		}
		if _, err := t.exec("UPDATE stet.runs SET first=$1 WHERE run_no=$2", sqlstore.EncodeOrigin(&first), turn.Run); err != nil {
			return err
		}
	}
	_, err := t.exec("UPDATE stet.runs SET incarnation=incarnation+1, workflow=$1, input=$2, seed=$3, random=NULL, began=$4 WHERE run_no=$5",
		c.Workflow, c.Input, c.Seed[:], max(c.At, t.now), turn.Run)
	return err
}

// holdsBack reports whether something unexamined keeps the run from suspending,
// ending, or beginning to undo.
func (t *committing) holdsBack(turn *store.Turn, from state) (bool, error) {
	u, run := turn.Update, []any{turn.Run}
	switch {
	case u.Status == store.Suspended && u.Marks&(store.Paused|store.Held) == 0:
		return t.row("SELECT FROM stet.inbox WHERE state=1 AND run_no=$1 LIMIT 1", run)
	case u.Status.Terminal() && !from.status.Terminal(), u.Marks&^from.marks&store.Undoing != 0:
		return t.row("SELECT FROM stet.inbox WHERE state=1 AND run_no=$1 AND kind IN (3,4) LIMIT 1", run)
	}
	return false, nil
}
