package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Most batches are of the usual kind: entries, marks of items, plain updates,
// starts, items. They are written by one statement, which also begins and ends the
// transaction: one round trip, and nothing of it stands still when this process does.
// It is a call of the function commit_1, or a simple one, which is cheaper (see
// simple.go). Both refuse what is not of that kind, or does not go well; the batch is
// then written turn by turn.

// errUnusual says that a batch has to be written turn by turn.
var errUnusual = errors.New("not a batch of the usual kind")

// usual is a batch in the form of commit_1.
type usual struct {
	b      *store.Batch
	leases []store.Lease // of the turns, and of what is to be adopted

	turns struct {
		run, slot, inc []int64
		grp            []string
	}
	updates  []update
	fresh    []int64 // numbers of entries where none may stand, see entryNumbers
	others   []int64 // numbers of other entries
	bytes    []byte  // of entries
	entries  int
	seen     []consumption
	consumed []consumption
	starts   struct {
		turn, slot, at, after, parent          []int64
		id, grp, workflow                      []string
		seed, parentLoc, input, headers, build [][]byte
		adopt                                  []bool
		command                                []*store.Command
	}
	items struct {
		turn, no, kind, inc, gen  []int64
		id, name, item            []string
		origin, loc, val, headers [][]byte
		failed, adopt             []bool
		command                   []*store.Command
	}
	before loneRun         // of the batch before
	adopts bool            // an item may adopt a run
	ids    map[string]bool // of the runs that commands are for

	params *values
}

type update struct {
	run int64
	*store.Update
}

type consumption struct {
	run, item int64
	verdict   []byte
}

// empty makes room for another batch in the memory of the former one.
func (u *usual) empty() {
	former := *u
	*u = usual{params: former.params, ids: former.ids, leases: emptied(former.leases), updates: emptied(former.updates),
		fresh: emptied(former.fresh), bytes: emptied(former.bytes)}
	clear(u.ids)
	if u.params != nil {
		u.params.empty()
	}
	t, was := &u.turns, &former.turns
	t.run, t.slot, t.inc, t.grp = emptied(was.run), emptied(was.slot), emptied(was.inc), emptied(was.grp)
	r, had := &u.starts, &former.starts
	r.turn, r.slot, r.at, r.after, r.parent = emptied(had.turn), emptied(had.slot), emptied(had.at), emptied(had.after), emptied(had.parent)
	r.id, r.grp, r.workflow = emptied(had.id), emptied(had.grp), emptied(had.workflow)
	r.seed, r.parentLoc, r.input, r.headers, r.build = emptied(had.seed), emptied(had.parentLoc), emptied(had.input), emptied(had.headers), emptied(had.build)
	r.adopt, r.command = emptied(had.adopt), emptied(had.command)
}

// take takes a batch over into that form, or returns false if it is not of that kind. u is
// empty.
func (u *usual) take(b *store.Batch) bool {
	u.b = b
	leased := make(map[store.Shard]bool, len(b.Leases))
	for i, t := range b.Turns {
		if !u.turn(int64(i+1), t) {
			return false
		}
		leased[t.Shard] = true
	}
	for i := range b.Commands {
		if !u.command(0, &b.Commands[i]) {
			return false
		}
	}
	for i := range u.items.adopt {
		u.adopts = u.adopts || u.items.adopt[i]
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
		if u.adopts || leased[b.Leases[i].Shard] {
			u.leases = append(u.leases, b.Leases[i])
		}
	}
	return true
}

func (u *usual) turn(place int64, t *store.Turn) bool {
	if len(t.Prune)+len(t.Rewrites)+len(t.Returned)+len(t.Answers)+len(t.Values)+len(t.Appends)+len(t.Tags)+len(t.Dead)+len(t.Audit) > 0 || t.Rewound {
		return false
	}
	r := &u.turns
	r.run, r.grp, r.slot, r.inc = append(r.run, int64(t.Run)), append(r.grp, name(t.Shard.Group)), append(r.slot, int64(t.Shard.Slot)), append(r.inc, int64(t.Incarnation))
	for i := range t.Entries {
		if t.Insert {
			u.fresh = u.entryNumbers(u.fresh, t, &t.Entries[i])
		} else {
			u.others = u.entryNumbers(u.others, t, &t.Entries[i])
		}
	}
	u.entries += len(t.Entries)
	for _, no := range t.Seen {
		u.seen = append(u.seen, consumption{run: int64(t.Run), item: int64(no)})
	}
	for _, c := range t.Consumed {
		u.consumed = append(u.consumed, consumption{int64(t.Run), int64(c.Item), c.Verdict})
	}
	if !u.commands(place, t.Sends) {
		return false
	}
	if t.Update == nil {
		return true
	}
	up := t.Update
	if up.Continue != nil || up.Generation != 0 || up.Queue != nil || up.Marks&store.Held != 0 {
		return false
	}
	u.updates = append(u.updates, update{int64(t.Run), up})
	return u.commands(place, up.Sends)
}

// entryNumbers appends what is to be told of an entry, and its bytes to u.bytes: run,
// incarnation, …, the place of the bytes, counted from 1, the length of the location,
// and that of the value, or -1 if there is none.
func (u *usual) entryNumbers(list []int64, t *store.Turn, e *store.Entry) []int64 {
	owes, size := int64(0), int64(len(e.Value))
	if e.Owes {
		owes = 1
	}
	if e.Value == nil {
		size = -1
	}
	list = append(list, int64(t.Run), int64(t.Incarnation), int64(e.Kind), int64(e.State), e.Seq, e.Born, int64(e.At), int64(e.Wake),
		int64(e.Attempt), int64(e.Started), int64(e.Ended), int64(e.Generation), owes, int64(len(u.bytes)+1), int64(len(e.Loc)), size)
	u.bytes = append(append(u.bytes, e.Loc...), e.Value...)
	return list
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
	if u.ids == nil {
		u.ids = map[string]bool{}
	}
	u.ids[id] = true
	if st, r := c.Start, &u.starts; st != nil {
		if st.Fork != nil || st.Queue != nil || st.Existing != store.KeepExisting || len(st.Items)+len(st.Tags) > 0 {
			return false
		}
		r.turn, r.id, r.grp, r.slot = append(r.turn, place), append(r.id, st.ID), append(r.grp, st.Shard.Group), append(r.slot, int64(st.Shard.Slot))
		r.workflow, r.seed, r.at, r.after = append(r.workflow, st.Workflow), append(r.seed, st.Seed[:]), append(r.at, int64(st.At)), append(r.after, int64(st.After))
		r.parent, r.parentLoc = append(r.parent, int64(st.Parent)), append(r.parentLoc, []byte(st.ParentLoc))
		r.input, r.headers, r.adopt = append(r.input, st.Input), append(r.headers, st.Headers), append(r.adopt, c.Claim)
		r.build = append(r.build, []byte(st.Build))
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
	r.val, r.headers, r.adopt = append(r.val, it.Value), append(r.headers, it.Headers), append(r.adopt, c.Claim)
	r.command = append(r.command, c)
	return true
}

// commitText is the call of commit_1.
var commitText = sync.OnceValue(func() string {
	var text strings.Builder
	text.WriteString("SELECT * FROM stet.commit_1($1")
	for i := range (&usual{b: &store.Batch{}}).values([16]byte{}, 0, nil).types[1:] {
		fmt.Fprintf(&text, ",$%d", i+2)
	}
	text.WriteString(")")
	return text.String()
})

// values returns the arguments of commit_1.
func (u *usual) values(fence [16]byte, floor int64, test any) *values {
	v := u.head(fence, floor, test)
	v.numbers(sqlstore.NoLetters)
	var grps []string
	var slots []int64
	if u.adopts {
		grps, slots, _ = leaseArrays(u.leases)
	}
	v.texts(grps)
	v.numbers(slots)
	t := &u.turns
	v.numbers(t.run)
	v.texts(t.grp)
	v.numbers(t.slot, zero(t.inc))
	u.addUpdates(v)
	v.numbers(u.fresh, u.others)
	v.bytea(u.bytes)
	runs, items, _ := consumptions(u.seen)
	v.numbers(runs, items)
	runs, items, verdicts := consumptions(u.consumed)
	v.numbers(runs, items)
	v.byteas(verdicts)
	r := &u.starts
	v.numbers(r.turn)
	v.texts(r.id, r.grp)
	v.numbers(r.slot)
	v.texts(r.workflow)
	v.byteas(r.seed)
	v.numbers(r.at, r.after, r.parent)
	v.byteas(r.parentLoc, r.input, r.headers)
	v.bools(r.adopt)
	v.byteas(r.build)
	i := &u.items
	v.numbers(i.turn)
	v.texts(i.id)
	v.numbers(i.no, i.kind)
	v.texts(i.name, i.item)
	v.byteas(i.origin)
	v.numbers(i.inc, i.gen)
	v.byteas(i.loc)
	v.bools(i.failed)
	v.byteas(i.val, i.headers)
	v.bools(i.adopt)
	return v
}

// head returns the arguments that each statement begins with: node, boot, number of the
// batch, fence, verdicts, and the two of nowExpr.
func (u *usual) head(fence [16]byte, floor int64, test any) *values {
	if u.params == nil {
		u.params = newValues()
	}
	v := u.params
	v.empty() // of a former try
	v.text(u.b.Node)
	v.text(u.b.Boot)
	v.number(u.b.No)
	v.small(pgtype.UUIDOID, func(out []byte) []byte { return append(out, fence[:]...) })
	v.bytea(u.verdicts())
	v.number(floor)
	if at, ok := test.(int64); ok {
		v.number(at)
	} else {
		v.add(pgtype.Int8OID, nil)
	}
	return v
}

// addUpdates adds the columns of the updates, by run, and which of these end.
func (u *usual) addUpdates(v *values) {
	slices.SortFunc(u.updates, func(a, b update) int { return cmp.Compare(a.run, b.run) })
	n := len(u.updates)
	run, status, marks, wake := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	reason, build, output, waits := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
	clear, alone, back := make([]bool, n), make([]bool, n), make([]bool, n)
	var over, discard []int64
	for i, up := range u.updates {
		run[i], status[i], marks[i], wake[i] = up.run, int64(up.Status), int64(up.Marks), int64(up.WakeAt)
		reason[i], build[i], output[i], waits[i] = []byte(up.Reason), []byte(up.Build), up.Output, up.Waits
		clear[i], alone[i], back[i] = !up.Isolate && !up.EndIsolation, up.Isolate, up.Unclaim
		if up.Status.Terminal() {
			over = append(over, up.run)
			if up.Discard {
				discard = append(discard, up.run)
			}
		}
	}
	v.numbers(run, status, marks, wake)
	v.byteas(reason, build)
	v.bools(clear, alone)
	v.byteas(output, waits)
	v.bools(back)
	v.numbers(over, discard)
}

// consumptions returns a list as columns, by item.
func consumptions(list []consumption) (runs, items []int64, verdicts [][]byte) {
	slices.SortFunc(list, func(a, b consumption) int { return cmp.Compare(a.item, b.item) })
	for _, c := range list {
		runs, items, verdicts = append(runs, c.run), append(items, c.item), append(verdicts, c.verdict)
	}
	return runs, items, verdicts
}

// verdicts are those of a batch of the usual kind, as they are stored.
func (u *usual) verdicts() []byte {
	return binary.AppendUvarint(nil, uint64(len(u.b.Turns))) // all are committed
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

// commitFast writes a batch in one statement. errUnusual: it has to be written
// turn by turn, and nothing is written yet.
func (s *Store) commitFast(ctx context.Context, b *store.Batch) (store.BatchResult, error) {
	const act = "commit a batch"
	var none store.BatchResult
	before := s.lone
	s.lone = loneRun{} // unless this is one, and written
	u := &s.usual
	defer u.empty()
	if !u.take(b) || s.cfg.slow {
		return none, errUnusual
	}
	u.before = before
	conn, err := s.commits.Acquire(ctx)
	if err != nil {
		return none, s.classify(ctx, act, err)
	}
	defer conn.Release()
	fence, ok, err := s.fenceOf(ctx, conn.Conn(), u)
	if err != nil {
		return none, s.classify(ctx, act, err)
	}
	if !ok {
		return none, errUnusual
	}
	warned := s.warnings(conn).Load()
	simple := u.simple()
	result, err := u.send(ctx, s, conn.Conn(), fence, simple)
	if simple && (errors.Is(err, errUnusual) || unusual(err)) {
		result, err = u.send(ctx, s, conn.Conn(), fence, false)
	}
	switch {
	case errors.Is(err, errUnusual), repeatable(err), unusual(err):
		s.fence = known{} // it is perhaps another
		return none, errUnusual
	case err == nil && s.warnings(conn).Load() != warned:
		return none, fmt.Errorf("%s: %w: %w: the wait for the standby was cut short", act, store.ErrUnavailable, store.ErrUnknown)
	case err == nil:
		s.observe(result.Now)
		return result, nil
	case definite(err):
		return none, s.classify(ctx, act, err)
	}
	return none, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
}

// unusual reports whether the server has refused a batch for what the careful way
// knows how to do: a law that a turn breaks (ST001), an entry that is there or that
// comes twice, a lock that somebody holds.
func unusual(err error) bool {
	switch sqlState(err) {
	case "ST001", "23505", "21000", "55P03":
		return true
	}
	return false
}

// send sends the batch and reads the answer. Without BEGIN its statements are one
// transaction.
func (u *usual) send(ctx context.Context, s *Store, conn *pgx.Conn, fence [16]byte, simple bool) (store.BatchResult, error) {
	floor, test := s.times()
	kind := notLone
	if simple {
		kind = u.lone()
	}
	var text string
	var v *values
	a := answer{}
	read := a.readSimple
	switch {
	case kind != notLone:
		text, v = u.loneText(kind, conn, fence), u.loneValues(kind, fence, floor, test)
		read = func(rows *pgconn.ResultReader) error { return a.readLone(kind, rows, floor, test) }
	case simple && u.plain():
		text, v = plainText, u.simpleValues(fence, floor, test)
		read = func(rows *pgconn.ResultReader) error { return a.readTime(rows, floor, test) }
	case simple:
		text, v = u.simpleText(), u.simpleValues(fence, floor, test)
	default:
		text, v = commitText(), u.values(fence, floor, test)
		read = a.read
	}
	var err error
	if s.pooled || len(u.items.id) > 0 {
		err = u.sendMore(ctx, s, conn, text, v, read, &a)
	} else {
		err = s.sendOne(ctx, conn.PgConn(), text, v, read)
	}
	if err != nil {
		return store.BatchResult{}, err
	}
	s.lone = u.inHand(kind, conn, fence, &a)
	return u.result(&a)
}

// sendOne sends a batch that is one statement.
func (s *Store) sendOne(ctx context.Context, conn *pgconn.PgConn, text string, v *values, read func(*pgconn.ResultReader) error) error {
	is, err := s.prepared(ctx, conn, text, v)
	if err != nil {
		return err
	}
	rows := conn.ExecStatement(ctx, is, v.bytes, binaryFormat, binaryFormat)
	err = read(rows)
	if _, closed := rows.Close(); closed != nil {
		return closed // which is what has come first
	}
	return err
}

// sendMore sends a batch that is several: settings, where a session keeps none, and a
// look at the runs that items are for.
func (u *usual) sendMore(ctx context.Context, s *Store, conn *pgx.Conn, text string, v *values, read func(*pgconn.ResultReader) error, a *answer) error {
	batch := &pgconn.Batch{}
	var err error
	if s.pooled {
		err = s.statement(ctx, batch, conn.PgConn(), sessionText("true", busyLimit), newValues())
	}
	err = errors.Join(err, s.statement(ctx, batch, conn.PgConn(), text, v))
	if len(u.items.id) > 0 {
		v := newValues()
		v.texts(u.items.id)
		v.numbers(u.items.no)
		err = errors.Join(err, s.statement(ctx, batch, conn.PgConn(), receiversText, v))
	}
	if err != nil {
		return err
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	if s.pooled {
		results.NextResult()
		results.ResultReader().Read()
	}
	if results.NextResult() {
		err = read(results.ResultReader())
	}
	if len(u.items.id) > 0 && results.NextResult() {
		a.runs = map[store.RunNo]*store.Run{}
		err = errors.Join(err, eachRow(pgx.RowsFromResultReader(conn.TypeMap(), results.ResultReader()), func(scan func(...any) error) error {
			run, err := scanRun(scan)
			a.runs[run.No] = &run
			return err
		}))
	}
	if closed := results.Close(); closed != nil {
		return closed // which is what has come first
	}
	return err
}

// receiversText gives the runs that items are for.
const receiversText = "SELECT " + runNoOutput + " FROM stet.runs r WHERE r.id=ANY($1) UNION ALL SELECT " + runNoOutput + " FROM stet.runs r WHERE r.run_no=ANY($2)"

// answer is what the server has answered to a batch.
type answer struct {
	now                                store.Time
	started, items, receivers, claimed []int64
	runs                               map[store.RunNo]*store.Run
}

// read reads the answer of commit_1.
func (a *answer) read(rows *pgconn.ResultReader) error {
	got := rows.Read()
	switch {
	case got.Err != nil:
		return got.Err
	case len(got.Rows) != 1 || len(got.Rows[0]) != 6:
		return fmt.Errorf("%w: commit_1 gives no answer", store.ErrDamaged)
	case got.Rows[0][5] != nil: // why it is not usual
		return errUnusual
	}
	row := got.Rows[0]
	now, err := readNumber(row[0])
	a.now = store.Time(now)
	for i, list := range []*[]int64{&a.started, &a.items, &a.receivers, &a.claimed} {
		var bad error
		*list, bad = readNumbers(row[i+1])
		err = errors.Join(err, bad)
	}
	return err
}

// result returns the answers to the batch.
func (u *usual) result(got *answer) (store.BatchResult, error) {
	now, runs, items, receivers, claimed, byNo := got.now, got.started, got.items, got.receivers, got.claimed, got.runs
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
		run.Status, run.Started, run.Claimed, run.Build = store.Running, now, true, st.Build
	}
	return store.Answer{Outcome: store.Applied, Run: run, Claimed: adopt}
}
