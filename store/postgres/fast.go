package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// Most batches are of the usual kind: entries, marks of items, plain updates,
// starts, items. They are written by one statement, a call of the function
// commit_1, which also begins and ends the transaction: one round trip, and nothing
// of it stands still when this process does. The function refuses what is not of
// that kind, or does not go well; the batch is then written turn by turn.

// errUnusual says that a batch has to be written turn by turn.
var errUnusual = errors.New("not a batch of the usual kind")

// columns are the lists that commit_1 is given, column by column.
type columns struct {
	names []string
	args  []any
}

func (c *columns) add(names string, lists ...any) {
	c.names = append(c.names, strings.Fields(names)...)
	c.args = append(c.args, lists...)
}

// usual is a batch in the form of commit_1.
type usual struct {
	b      *store.Batch
	leases []store.Lease // of the turns, and of what is to be adopted

	turns struct {
		run, slot, inc []int64
		grp            []string
	}
	updates struct {
		turn, status, marks, wake    []int64
		reason, build, output, waits [][]byte
		clear, alone, discard, back  []bool
	}
	entries struct {
		turn, kind, state, seq, born, at, wake, attempt, started, ended, gen []int64
		loc, val                                                             [][]byte
		owes                                                                 []bool
	}
	seen, consumed struct {
		turn, item []int64
		verdict    [][]byte
	}
	starts struct {
		turn, slot, at, after, parent   []int64
		id, grp, workflow               []string
		seed, parentLoc, input, headers [][]byte
		adopt                           []bool
		command                         []*store.Command
	}
	items struct {
		turn, no, kind, inc, gen  []int64
		id, name, item            []string
		origin, loc, val, headers [][]byte
		failed, adopt             []bool
		command                   []*store.Command
	}
	ids map[string]bool // of the runs that commands are for
}

// newUsual returns the batch in that form, or false if it is not of that kind.
func newUsual(b *store.Batch) (*usual, bool) {
	u := &usual{b: b, ids: map[string]bool{}}
	leased := make(map[store.Shard]bool, len(b.Turns))
	for i, t := range b.Turns {
		if !u.turn(int64(i+1), t) {
			return nil, false
		}
		leased[t.Shard] = true
	}
	for i := range b.Commands {
		if !u.command(0, &b.Commands[i]) {
			return nil, false
		}
	}
	all := false
	for i := range u.items.adopt {
		all = all || u.items.adopt[i]
	}
	for i, c := range u.starts.command {
		if !u.starts.adopt[i] {
			continue
		}
		if u.starts.adopt[i] = b.LeaseOf(c.Start.Shard) != nil; u.starts.adopt[i] {
			leased[c.Start.Shard] = true
		}
	}
	for i := range b.Leases {
		if all || leased[b.Leases[i].Shard] {
			u.leases = append(u.leases, b.Leases[i])
		}
	}
	return u, true
}

func (u *usual) turn(place int64, t *store.Turn) bool {
	if len(t.Prune)+len(t.Rewrites)+len(t.Returned)+len(t.Answers)+len(t.Values)+len(t.Appends)+len(t.Tags)+len(t.Dead)+len(t.Audit) > 0 || t.Rewound {
		return false
	}
	r := &u.turns
	r.run, r.grp, r.slot, r.inc = append(r.run, int64(t.Run)), append(r.grp, name(t.Shard.Group)), append(r.slot, int64(t.Shard.Slot)), append(r.inc, int64(t.Incarnation))
	for i := range t.Entries {
		e, c := &t.Entries[i], &u.entries
		c.turn, c.loc, c.kind, c.state = append(c.turn, place), append(c.loc, []byte(e.Loc)), append(c.kind, int64(e.Kind)), append(c.state, int64(e.State))
		c.seq, c.born, c.at, c.wake = append(c.seq, e.Seq), append(c.born, e.Born), append(c.at, int64(e.At)), append(c.wake, int64(e.Wake))
		c.attempt, c.owes, c.started, c.ended = append(c.attempt, int64(e.Attempt)), append(c.owes, e.Owes), append(c.started, int64(e.Started)), append(c.ended, int64(e.Ended))
		c.gen, c.val = append(c.gen, int64(e.Generation)), append(c.val, e.Value)
	}
	for _, no := range t.Seen {
		u.seen.turn, u.seen.item = append(u.seen.turn, place), append(u.seen.item, int64(no))
	}
	for _, c := range t.Consumed {
		u.consumed.turn, u.consumed.item = append(u.consumed.turn, place), append(u.consumed.item, int64(c.Item))
		u.consumed.verdict = append(u.consumed.verdict, c.Verdict)
	}
	if !u.commands(place, t.Sends) {
		return false
	}
	if t.Update == nil {
		return true
	}
	up, c := t.Update, &u.updates
	if up.Continue != nil || up.Generation != 0 || up.Queue != nil || up.Marks&store.Held != 0 {
		return false
	}
	c.turn, c.status, c.marks = append(c.turn, place), append(c.status, int64(up.Status)), append(c.marks, int64(up.Marks))
	c.wake, c.reason, c.build = append(c.wake, int64(up.WakeAt)), append(c.reason, []byte(up.Reason)), append(c.build, []byte(up.Build))
	c.clear, c.alone = append(c.clear, !up.Alone && !up.Spared), append(c.alone, up.Alone)
	c.output, c.waits = append(c.output, up.Output), append(c.waits, up.Waits)
	c.discard, c.back = append(c.discard, up.Discard), append(c.back, up.Back)
	return u.commands(place, up.Sends)
}

func (u *usual) commands(place int64, list []store.Command) bool {
	for i := range list {
		if !u.command(place, &list[i]) {
			return false
		}
	}
	return true
}

func (u *usual) command(place int64, c *store.Command) bool {
	id := c.RunID
	if c.Start != nil {
		id = c.Start.ID
	}
	if id != "" && u.ids[id] {
		return false
	}
	u.ids[id] = true
	if st, r := c.Start, &u.starts; st != nil {
		if st.Fork != nil || st.Queue != nil || st.Existing != store.KeepExisting || len(st.Items)+len(st.Tags) > 0 {
			return false
		}
		r.turn, r.id, r.grp, r.slot = append(r.turn, place), append(r.id, st.ID), append(r.grp, st.Shard.Group), append(r.slot, int64(st.Shard.Slot))
		r.workflow, r.seed, r.at, r.after = append(r.workflow, st.Workflow), append(r.seed, st.Seed[:]), append(r.at, int64(st.At)), append(r.after, int64(st.After))
		r.parent, r.parentLoc = append(r.parent, int64(st.Parent)), append(r.parentLoc, []byte(st.ParentLoc))
		r.input, r.headers, r.adopt = append(r.input, st.Input), append(r.headers, st.Headers), append(r.adopt, c.Adopt)
		r.command = append(r.command, c)
		return true
	}
	it, r := c.Item, &u.items
	if it.Kind == store.ItemGrant {
		return false // it may adopt a run that is held
	}
	r.turn, r.id, r.no, r.kind = append(r.turn, place), append(r.id, c.RunID), append(r.no, int64(c.RunNo)), append(r.kind, int64(it.Kind))
	r.name, r.item, r.origin = append(r.name, it.Name), append(r.item, it.ID), append(r.origin, []byte(it.Origin))
	r.inc, r.gen, r.loc, r.failed = append(r.inc, int64(it.Incarnation)), append(r.gen, int64(it.Generation)), append(r.loc, []byte(it.Loc)), append(r.failed, it.Failed)
	r.val, r.headers, r.adopt = append(r.val, it.Value), append(r.headers, it.Headers), append(r.adopt, c.Adopt)
	r.command = append(r.command, c)
	return true
}

// commitText is the call of commit_1.
var commitText = sync.OnceValue(func() string {
	var text strings.Builder
	text.WriteString("SELECT * FROM stet.commit_1(")
	for i, typ := range (&usual{b: &store.Batch{}}).columns(0, nil).names {
		if i > 0 {
			text.WriteString(",")
		}
		fmt.Fprintf(&text, "$%d::%s", i+1, typ)
	}
	text.WriteString(")")
	return text.String()
})

// columns returns the arguments of commitText. A list that is empty, or need not be
// told, is NULL, which costs the server nothing; it makes a copy of each other one.
func (u *usual) columns(floor int64, test any) *columns {
	c := &columns{}
	verdicts := make([]store.TurnResult, len(u.b.Turns))
	for i := range verdicts {
		verdicts[i].Verdict = store.Committed
	}
	grps, slots, epochs := leaseArrays(u.leases)
	c.add("text text bigint bytea bigint bigint bigint[]", u.b.Node, u.b.Boot, u.b.No, encodeVerdicts(verdicts), floor, test, noLetters)
	c.add("text[] bigint[] bigint[]", grps, slots, epochs)
	c.add("bigint[] text[] bigint[] bigint[]", u.turns.run, u.turns.grp, u.turns.slot, zero(u.turns.inc))
	p := &u.updates
	c.add("bigint[] bigint[] bigint[] bigint[] bytea[] bytea[] boolean[] boolean[] bytea[] bytea[] boolean[] boolean[]",
		p.turn, p.status, p.marks, p.wake, p.reason, p.build, p.clear, p.alone, p.output, p.waits, p.discard, p.back)
	e := &u.entries
	c.add("bigint[] bytea[] bigint[] bigint[] bigint[] bigint[] bigint[] bigint[] bigint[] boolean[] bigint[] bigint[] bigint[] bytea[]",
		e.turn, e.loc, e.kind, e.state, e.seq, zero(e.born), e.at, zero(e.wake), e.attempt, zero(e.owes), e.started, e.ended, zero(e.gen), e.val)
	c.add("bigint[] bigint[]", u.seen.turn, u.seen.item)
	c.add("bigint[] bigint[] bytea[]", u.consumed.turn, u.consumed.item, u.consumed.verdict)
	r := &u.starts
	c.add("bigint[] text[] text[] bigint[] text[] bytea[] bigint[] bigint[] bigint[] bytea[] bytea[] bytea[] boolean[]",
		r.turn, r.id, r.grp, r.slot, r.workflow, r.seed, r.at, r.after, r.parent, r.parentLoc, r.input, r.headers, r.adopt)
	i := &u.items
	c.add("bigint[] text[] bigint[] bigint[] text[] text[] bytea[] bigint[] bigint[] bytea[] boolean[] bytea[] bytea[] boolean[]",
		i.turn, i.id, i.no, i.kind, i.name, i.item, i.origin, i.inc, i.gen, i.loc, i.failed, i.val, i.headers, i.adopt)
	return c
}

// zero returns nil for a list of nothing but zeros, and else the list.
func zero[T comparable](l []T) []T {
	var none T
	for _, v := range l {
		if v != none {
			return l
		}
	}
	return nil
}

// list returns a list that is not nil, which would be NULL.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// commitFast writes a batch in one statement. errUnusual: it has to be written
// turn by turn, and nothing is written yet.
func (s *Store) commitFast(ctx context.Context, b *store.Batch) (store.BatchResult, error) {
	const act = "commit a batch"
	var result store.BatchResult
	u, ok := newUsual(b)
	if !ok || s.cfg.slow {
		return result, errUnusual
	}
	conn, err := s.commits.Acquire(ctx)
	if err != nil {
		return result, s.classify(ctx, act, err)
	}
	defer conn.Release()
	warned := s.warnings(conn).Load()
	floor, test := s.times()
	// Without BEGIN the statements of a batch are one transaction.
	batch := &pgx.Batch{}
	batch.Queue(s.sql(commitText()), u.columns(floor, test).args...)
	if len(u.items.id) > 0 {
		batch.Queue(s.sql("SELECT "+runNoOutput+" FROM stet.runs r WHERE r.id=ANY($1::text[]) OR r.run_no=ANY($2::bigint[])"), list(u.items.id), list(u.items.no))
	}
	results := conn.SendBatch(ctx, batch)
	var moment *int64
	var runs, items, receivers, claimed []int64
	var unusual *string // why; nil if it is not
	err = results.QueryRow().Scan(&moment, &runs, &items, &receivers, &claimed, &unusual)
	byNo := map[store.RunNo]*store.Run{}
	if err == nil && len(u.items.id) > 0 {
		err = u.scanRuns(results, byNo)
	}
	switch err = errors.Join(err, results.Close()); {
	case err == nil && unusual != nil, repeatable(err):
		return result, errUnusual
	case err == nil && s.warnings(conn).Load() != warned:
		return result, fmt.Errorf("%s: %w: %w: the wait for the standby was cut short", act, store.ErrUnavailable, store.ErrUnknown)
	case err == nil:
	case definite(err):
		return result, s.classify(ctx, act, err)
	default:
		return result, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
	}
	if moment == nil {
		return result, fmt.Errorf("%s: %w: the function gives no time", act, store.ErrDamaged)
	}
	now := store.Time(*moment)
	s.observe(now)
	return u.result(now, runs, items, receivers, claimed, byNo)
}

func (u *usual) scanRuns(results pgx.BatchResults, byNo map[store.RunNo]*store.Run) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	return eachRow(rows, func(scan func(...any) error) error {
		run, err := scanRun(scan)
		byNo[run.No] = &run
		return err
	})
}

// result returns the answers to the batch.
func (u *usual) result(now store.Time, runs, items, receivers, claimed []int64, byNo map[store.RunNo]*store.Run) (store.BatchResult, error) {
	out := store.BatchResult{Turns: make([]store.TurnResult, len(u.b.Turns)), Now: now}
	for i := range out.Turns {
		out.Turns[i].Verdict = store.Committed
	}
	if len(runs) != len(u.starts.id) || len(items) != len(u.items.id) || len(receivers) != len(items) {
		return out, fmt.Errorf("commit a batch: %w: expected %d runs and %d items, found %d and %d", store.ErrDamaged, len(u.starts.id), len(u.items.id), len(runs), len(items))
	}
	taken := make(map[int64]bool, len(claimed))
	for _, no := range claimed {
		taken[no] = true
	}
	nextRun, nextItem := 0, 0
	answer := func(c *store.Command) (store.Answer, error) {
		if c.Start != nil {
			a := started(c.Start, store.RunNo(runs[nextRun]), u.starts.adopt[nextRun], now)
			nextRun++
			return a, nil
		}
		run := byNo[store.RunNo(receivers[nextItem])]
		if run == nil {
			return store.Answer{}, fmt.Errorf("commit a batch: %w: run number %d is not there", store.ErrDamaged, receivers[nextItem])
		}
		a := store.Answer{Outcome: store.Applied, Run: *run, Item: store.ItemNo(items[nextItem]), Claimed: taken[receivers[nextItem]]}
		nextItem++
		return a, nil
	}
	for i, t := range u.b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				a, err := answer(&sends[k])
				if err != nil {
					return out, err
				}
				out.Turns[i].Sends = append(out.Turns[i].Sends, a)
			}
		}
	}
	for i := range u.b.Commands {
		a, err := answer(&u.b.Commands[i])
		if err != nil {
			return out, err
		}
		out.Commands = append(out.Commands, a)
	}
	return out, nil
}

// started is the answer to a start that has made its run.
func started(st *store.Start, no store.RunNo, adopt bool, now store.Time) store.Answer {
	run := store.Run{
		No: no, ID: st.ID, Shard: st.Shard, Workflow: st.Workflow, Status: store.Queued, Seed: st.Seed, Parent: st.Parent, ParentLoc: st.ParentLoc,
		Created: now, Input: bytes.Clone(st.Input), InputSize: len(st.Input), Headers: bytes.Clone(st.Headers),
	}
	at := st.At
	if st.After > 0 {
		at = max(at, now+store.Time(st.After))
	}
	if at > now {
		run.WakeAt = at
		return store.Answer{Outcome: store.Applied, Run: run}
	}
	if adopt {
		run.Status, run.Started, run.Claimed = store.Running, now, true
	}
	return store.Answer{Outcome: store.Applied, Run: run, Claimed: adopt}
}
