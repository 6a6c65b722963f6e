package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// Commit implements store.Store. It writes a batch in the first of these ways that does:
//
//   - commit_one.go: one step, one turn with an update, one start, or one item;
//   - commit_batch.go: entries, updates and starts of any number of runs;
//   - commit_call.go: the call of a function that writes all that most batches have;
//   - turn by turn, below: every batch.
//
// With the second and the third ride the rarer parts, see riders.go.
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
	return commit(ctx, s, &b, nil)
}

// commit writes a batch, with posts if it is that of a store over several databases.
func commit(ctx context.Context, s *Store, b *store.Batch, posts []post) (store.BatchResult, error) {
	limited, done := s.committed.watch(ctx, "commit a batch")
	err := s.batches.begin(limited, s, acknowledged{b.Node, b.Boot, b.No})
	var result store.BatchResult
	if err == nil {
		result, err = s.commitAtOnce(limited, b, posts)
	}
	if errors.Is(err, errNotAtOnce) {
		result, err = s.commitTurnByTurn(on(limited, s.commits), b, posts)
	}
	if err = done(err); err == nil {
		s.batches.written(ctx, s)
		s.beats.beat()
		s.servers.last.Store(&acknowledged{b.Node, b.Boot, b.No})
		s.hint.notify(storekit.ChangeOf(b, &result), len(b.Turns)+len(b.Commands))
	}
	return result, err
}

// commitAtOnce writes a batch in one statement. errNotAtOnce: it has to be written turn by
// turn, and nothing is written yet.
func (s *Store) commitAtOnce(ctx context.Context, b *store.Batch, posts []post) (store.BatchResult, error) {
	const act = "commit a batch"
	var none store.BatchResult
	last := s.claimed
	s.claimed = claimedRun{} // until a batch of one is written
	f := &s.flat
	defer f.empty()
	f.seat, f.posts = s.seat, posts
	taken := f.take(b)
	if !taken && !f.again || s.cfg.turnByTurn {
		return none, errNotAtOnce
	}
	conn, err := s.acquireOf(ctx, s.commits)
	if err != nil {
		return none, s.classify(ctx, act, err)
	}
	defer conn.Release()
	if !taken {
		again, err := f.takeAgain(ctx, s, conn.Conn())
		if err != nil {
			return none, s.classify(ctx, act, err)
		}
		if !again {
			return none, errNotAtOnce
		}
	}
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
	got, kind, err := f.tryWays(ctx, s, conn.Conn(), at, last)
	if refusedAtOnce(err) && taken {
		again, failed := f.takeAgain(ctx, s, conn.Conn())
		if failed != nil {
			return none, s.classify(ctx, act, failed)
		}
		if again {
			at.floor, at.test = s.times()
			got, kind, err = f.tryWays(ctx, s, conn.Conn(), at, last)
		}
	}
	switch {
	case refusedAtOnce(err), repeatable(err):
		s.fence = known{} // it is perhaps another
		return none, errNotAtOnce
	case err == nil && s.warnings(conn).Load() != warned:
		return none, fmt.Errorf("%s: %w: %w: the wait for the standby was cut short", act, store.ErrUnavailable,
			store.ErrUnknown)
	case err == nil:
		result, err := f.result(&got)
		if err != nil {
			return none, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
		}
		s.claimed = f.claimedBy(kind, conn.Conn(), at.fence, &got)
		s.observe(result.Now)
		return result, nil
	case definite(err):
		(&tx{ctx: ctx, s: s, conn: conn.Conn()}).discard(err)
		return none, s.classify(ctx, act, err)
	}
	return none, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
}

// tryWays writes the batch in the first way of those in one statement that does.
func (f *flatBatch) tryWays(ctx context.Context, s *Store, conn *pgx.Conn, at stamp, last claimedRun) (got answer,
	kind oneKind, err error) {
	err = errNotAtOnce
	if kind = f.one(); kind != notOne {
		got, err = f.send(ctx, s, conn, f.oneStatement(kind, conn, at, last), at)
	} else if f.fitsBatch() {
		got, err = f.send(ctx, s, conn, f.batchStatement(at), at)
	}
	if refusedAtOnce(err) {
		kind = notOne
		at.floor, at.test = s.times()
		got, err = f.send(ctx, s, conn, f.callStatement(at), at)
	}
	return got, kind, err
}

// commitTurnByTurn writes a batch turn by turn. A turn that breaks a law takes the
// transaction back, which is then repeated without that turn. If a statement waits for a
// lock too long, the transaction is repeated with a savepoint for each turn and command,
// so that only those that wait are left out.
func (s *Store) commitTurnByTurn(ctx context.Context, b *store.Batch, posts []post) (store.BatchResult, error) {
	refused := map[int]string{}
	alone := false
	for {
		var result store.BatchResult
		err := s.write(ctx, "commit a batch", busyLimit, func(t *tx, now store.Time) error {
			c := committing{rows: rows{t}, tx: t, b: b, now: now}
			batch := sqlstore.Batch{Rows: &c, Now: now, Batch: b, Refused: refused}
			if alone {
				batch.Guard = t.guarded
			}
			var err error
			result, err = batch.Commit()
			if err == nil && !c.repeats {
				written := slices.DeleteFunc(slices.Clone(posts), func(p post) bool { return !p.writes(&result) })
				err = t.writePosts(written)
			}
			return busy(err)
		})
		var r *sqlstore.Refusal
		switch {
		case errors.As(err, &r):
			refused[r.Turn] = r.Reason
		case errors.Is(err, errBusy) && !alone:
			alone = true
		case errors.Is(err, errBusy):
			return result, fmt.Errorf("commit a batch: %w: %w", store.ErrUnavailable, err)
		default:
			return result, err
		}
	}
}

// committing is one try of a batch in one transaction. It implements sqlstore.BatchRows.
type committing struct {
	rows
	tx  *tx
	b   *store.Batch
	now store.Time

	repeats bool // the batch was written before
}

// LastBatch implements sqlstore.BatchRows. The boot's row is locked from here on: an act
// that takes a lease of this boot waits.
func (t *committing) LastBatch() (last int64, verdicts []byte, err error) {
	last, verdicts, err = t.tx.lastBatch(t.now, t.b.Node, t.b.Boot)
	if err == nil && t.tx.s.seat != nil && last > t.b.No && last>>stageBits == t.b.No>>stageBits {
		// An earlier stage of the same batch: if it was written its row is there.
		found := false
		if found, err = t.tx.row(`SELECT x.verdicts FROM stet.boots n, stet.batches x
			WHERE n.node=$1 AND n.boot=$2 AND x.life=n.life AND x.no=$3`, []any{t.b.Node, t.b.Boot, t.b.No},
			&verdicts); found {
			last = t.b.No
		}
	}
	t.repeats = last == t.b.No
	return last, verdicts, err
}

// CurrentLeases implements sqlstore.BatchRows.
func (t *committing) CurrentLeases() (map[store.Shard]bool, error) { return t.tx.share(t.b.Leases) }

// RecordBatch implements sqlstore.BatchRows.
func (t *committing) RecordBatch(turns []store.TurnResult) error {
	_, err := t.tx.exec(`INSERT INTO stet.batches (life, no, verdicts)
		SELECT life, $1::bigint, $2::bytea FROM stet.boots WHERE node=$3 AND boot=$4`,
		t.b.No, sqlstore.EncodeVerdicts(turns), t.b.Node, t.b.Boot)
	return err
}

// eachAtOnce bounds the statements of ExecEach that are under way at once.
const eachAtOnce = 1000

// ExecEach implements sqlstore.BatchRows: it does not wait for one answer before it sends the next statement. A turn
// marks up to MaxClaim items.
func (t *committing) ExecEach(text string, args [][]any) (changed int, err error) {
	sql := t.tx.s.sql(text)
	for part := range slices.Chunk(args, eachAtOnce) {
		batch := &pgx.Batch{}
		for _, a := range part {
			batch.Queue(sql, plain(a)...)
		}
		results := t.tx.conn.SendBatch(t.tx.ctx, batch)
		n := 0
		for err == nil && n < len(part) {
			var tag pgconn.CommandTag
			if tag, err = results.Exec(); tag.RowsAffected() == 0 {
				break
			}
			n++
		}
		changed += n
		if closed := results.Close(); err == nil {
			err = closed
		}
		if err != nil || n < len(part) {
			return changed, err
		}
	}
	return changed, nil
}

// RunClaimed implements sqlstore.BatchRows.
func (t *committing) RunClaimed(*store.Run) {}

// guarded calls fn with a savepoint. If fn waits for a lock its writes are taken back,
// and held is true.
func (t *tx) guarded(fn func() error) (held bool, err error) {
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

// share returns which leases are current, and keeps them so until the transaction ends. It
// stands in the way of those that take leases, which lock them FOR UPDATE, and not of the
// node's own renewal, which locks them FOR NO KEY UPDATE.
func (t *tx) share(leases []store.Lease) (map[store.Shard]bool, error) {
	current := make(map[store.Shard]bool, len(leases))
	grps, slots, epochs := leaseArrays(leases)
	err := t.each(`SELECT l.grp, l.slot FROM stet.leases l
		JOIN unnest($1::text[], $2::bigint[], $3::bigint[]) AS q(grp, slot, epoch)
		ON l.grp=q.grp AND l.slot=q.slot AND l.epoch=q.epoch AND l.node<>'' ORDER BY l.grp, l.slot FOR KEY SHARE OF l`,
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

// RunState implements sqlstore.BatchRows.
func (t *committing) RunState(turn *store.Turn) (sqlstore.RunState, bool, error) {
	var state sqlstore.RunState
	var slot, incarnation, generation, status, marks, condition int64
	const text = "SELECT grp, slot, incarnation, generation, status, marks, ready FROM stet.runs WHERE run_no=$1"
	found, err := t.tx.row(text,
		[]any{turn.Run}, &state.Shard.Group, &slot, &incarnation, &generation, &status, &marks, &condition)
	state.Shard.Slot = int(slot)
	state.Incarnation, state.Generation = int(incarnation), int(generation)
	state.Status, state.Marks, state.Claimed = store.Status(status), store.Marks(marks), condition == claimed
	return state, found, err
}

// entryArgs returns the values of an entry in the order of entryNames.
func entryArgs(run store.RunNo, incarnation int, e *store.Entry) []any {
	return []any{run, incarnation, []byte(e.Loc), e.Kind, e.State, e.Seq, e.Born, e.At, e.Wake, e.Attempt, e.Owes,
		e.Started, e.Ended, len(e.Value), e.Generation, e.Value}
}

const entryNames = `run_no, incarnation, loc, kind, state, seq, born, at, wake, attempt, owes, started, ended,
	size, generation, val`

// writeEntry inserts an entry. It reports 0 if there is one at its location.
func writeEntry(q querier, run store.RunNo, incarnation int, e *store.Entry) (int64, error) {
	return q.exec("INSERT INTO stet.entries ("+entryNames+") VALUES "+
		"($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16) ON CONFLICT (run_no, incarnation, loc) DO NOTHING",
		entryArgs(run, incarnation, e)...)
}

// InsertEntry implements sqlstore.BatchRows.
func (t *committing) InsertEntry(turn *store.Turn, i int) (bool, error) {
	n, err := writeEntry(t.tx, turn.Run, turn.Incarnation, &turn.Entries[i])
	return n == 1, err
}

// Entry implements sqlstore.BatchRows.
func (t *committing) Entry(turn *store.Turn, loc string) (e store.Entry, found bool, err error) {
	found, err = t.tx.row("SELECT "+entryValue+" FROM stet.entries e WHERE e.run_no=$1 AND e.incarnation=$2 AND e.loc=$3",
		[]any{turn.Run, turn.Incarnation, []byte(loc)}, entryDest(&e)...)
	return e, found, err
}

// Overwrite implements sqlstore.BatchRows.
func (t *committing) Overwrite(turn *store.Turn, _, e *store.Entry) error {
	_, err := t.tx.exec(`UPDATE stet.entries SET kind=$4, state=$5, seq=$6, born=$7, at=$8, wake=$9, attempt=$10, owes=$11,
			started=$12, ended=$13, size=$14, generation=$15, val=$16
		WHERE run_no=$1 AND incarnation=$2 AND loc=$3`, entryArgs(turn.Run, turn.Incarnation, e)...)
	return err
}

// UpdateRun implements sqlstore.BatchRows.
func (t *committing) UpdateRun(turn *store.Turn, c *sqlstore.Change) error {
	set := &assignments{}
	switch c.Suspicion {
	case sqlstore.SuspicionEnds:
		set.text("suspect=0", "strikes=0", "alone=false")
	case sqlstore.Isolated:
		set.text("alone=true")
	case sqlstore.Tried:
		set.text("alone=true", "strikes=0")
	case sqlstore.NotIsolated:
		set.text("alone=false", "strikes=0")
	}
	switch {
	case c.AnyBuild:
		set.to("build", []byte(c.Build))
	case c.Build != "":
		set.text("build=greatest(build, " + set.arg([]byte(c.Build)) + "::bytea)")
	}
	if c.Held {
		return set.run(t.tx, turn.Run)
	}
	if c.Started != 0 {
		set.text("started=CASE WHEN started=0 THEN " + set.arg(c.Started) + " ELSE started END")
	}
	if c.Ended != sqlstore.Stays {
		set.to("ended", c.Ended)
		set.to("expires", null(c.Expires))
	}
	set.to("status", c.Status)
	set.text("marks=" + set.arg(c.Marks) + "::bigint & (marks | ~{admitted})")
	set.to("ready", c.Ready)
	set.to("wake_at", null(c.WakeAt))
	set.to("reason", []byte(c.Reason))
	set.to("waits", c.Waits)
	if c.Generation != 0 {
		set.to("generation", c.Generation)
	}
	if c.Queue != nil {
		set.to("queue", c.Queue)
	}
	if c.Output != nil {
		set.to("output", c.Output)
	}
	return set.run(t.tx, turn.Run)
}

// assignments are the SET part of an UPDATE of a run's row.
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

// Continue implements sqlstore.BatchRows.
func (t *committing) Continue(turn *store.Turn, began store.Time) error {
	c := turn.Update.Continue
	_, err := t.tx.exec(`UPDATE stet.runs
		SET incarnation=incarnation+1, workflow=$1, input=$2, seed=$3, random=NULL, began=$4
		WHERE run_no=$5`, c.Workflow, c.Input, c.Seed[:], began, turn.Run)
	return err
}
