package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// One call of the function commit_1 writes a batch of all that most turns and commands
// have: entries, marks of items, updates, starts, items.
//
// Used when the batch is flat (see flatBatch.take) and commit_batch.go does not do. The
// function writes nothing if the batch needs more care, for example because a turn breaks
// a law or an item is there already; it is then written turn by turn.

// callText is the call.
var callText = sync.OnceValue(func() string {
	var text strings.Builder
	text.WriteString("SELECT * FROM stet.commit_1($1")
	for i := range (&flatBatch{b: &store.Batch{}}).callValues(stamp{}).types[1:] {
		fmt.Fprintf(&text, ",$%d", i+2)
	}
	text.WriteString(")")
	return text.String()
})

func (f *flatBatch) callStatement(at stamp) statement {
	return statement{callText(), f.callValues(at), (*answer).readCall}
}

// callValues returns the arguments of commit_1.
func (f *flatBatch) callValues(at stamp) *values {
	v := f.addHead(at)
	v.numbers(sqlstore.NoLetters)
	f.addLeases(v)
	f.addTurns(v)
	f.addUpdates(v)
	f.addNames(v)
	v.numbers(f.fresh, f.others)
	v.bytea(f.bytes)
	byItem(f.seen)
	numbersOf(v, f.seen, func(r itemRow) int64 { return r.run })
	numbersOf(v, f.seen, func(r itemRow) int64 { return r.item })
	byItem(f.consumed)
	numbersOf(v, f.consumed, func(r itemRow) int64 { return r.run })
	numbersOf(v, f.consumed, func(r itemRow) int64 { return r.item })
	byteasOf(v, f.consumed, func(r itemRow) []byte { return r.verdict })
	numbersOf(v, f.starts, func(r startRow) int64 { return r.turn })
	f.addStarts(v)
	f.addSends(v)
	v.number(f.b.Last)
	f.addKeeps(v)
	return v
}

// addLeases adds the columns of the leases, if an item may claim a run.
func (f *flatBatch) addLeases(v *values) {
	var leases []store.Lease
	if f.claims {
		leases = f.leases
	}
	textsOf(v, leases, func(l store.Lease) string { return name(l.Shard.Group) })
	numbersOf(v, leases, func(l store.Lease) int64 { return int64(l.Shard.Slot) })
}

// addTurns adds the columns of the turns.
func (f *flatBatch) addTurns(v *values) {
	t := f.b.Turns
	numbersOf(v, t, func(t *store.Turn) int64 { return int64(t.Run) })
	textsOf(v, t, func(t *store.Turn) string { return name(t.Shard.Group) })
	numbersOf(v, t, func(t *store.Turn) int64 { return int64(t.Shard.Slot) })
	if !slices.ContainsFunc(t, func(t *store.Turn) bool { return t.Incarnation != 0 }) {
		t = nil // as commit_1 takes it
	}
	numbersOf(v, t, func(t *store.Turn) int64 { return int64(t.Incarnation) })
}

// addSends adds the columns of the items to be sent.
func (f *flatBatch) addSends(v *values) {
	r := f.sends
	if f.riders.sends {
		r = nil
	}
	f.addItems(v, r)
}

// addItems adds their columns.
func (f *flatBatch) addItems(v *values, r []sendRow) {
	numbersOf(v, r, func(r sendRow) int64 { return r.turn })
	textsOf(v, r, func(r sendRow) string { return r.RunID })
	numbersOf(v, r, func(r sendRow) int64 { return int64(r.RunNo) })
	numbersOf(v, r, func(r sendRow) int64 { return int64(r.Item.Kind) })
	textsOf(v, r, func(r sendRow) string { return r.Item.Name })
	textsOf(v, r, func(r sendRow) string { return r.Item.ID })
	bytesOf(v, r, func(r sendRow) string { return r.Item.Origin })
	numbersOf(v, r, func(r sendRow) int64 { return int64(r.Item.Incarnation) })
	numbersOf(v, r, func(r sendRow) int64 { return int64(r.Item.Generation) })
	bytesOf(v, r, func(r sendRow) string { return r.Item.Loc })
	boolsOf(v, r, func(r sendRow) bool { return r.Item.Failed })
	byteasOf(v, r, func(r sendRow) []byte { return r.Item.Value })
	byteasOf(v, r, func(r sendRow) []byte { return r.Item.Headers })
	boolsOf(v, r, func(r sendRow) bool { return r.Claim })
}

// readCall reads the answer of commit_1.
func (a *answer) readCall(rows *pgconn.ResultReader) error {
	got := rows.Read()
	switch {
	case got.Err != nil:
		return got.Err
	case len(got.Rows) != 1 || len(got.Rows[0]) != 6:
		return fmt.Errorf("%w: commit_1 gives no answer", store.ErrDamaged)
	case got.Rows[0][5] != nil: // why it needs more care
		return errNotAtOnce
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

// receiversText gives the runs that items are for.
const receiversText = "SELECT " + runNoOutput + " FROM stet.runs r WHERE r.id=ANY($1)" +
	" UNION ALL SELECT " + runNoOutput + " FROM stet.runs r WHERE r.run_no=ANY($2)"

// receivers returns the parameters of receiversText.
func (f *flatBatch) receivers() *values {
	v := newValues()
	textsOf(v, f.sends, func(r sendRow) string { return r.RunID })
	nos := make([]int64, 0, len(f.sends)+len(f.riders.facts))
	for _, r := range f.sends {
		nos = append(nos, int64(r.RunNo))
	}
	for _, k := range f.riders.facts {
		nos = append(nos, k.run)
	}
	for _, c := range f.riders.admits {
		nos = append(nos, int64(c.RunNo))
	}
	v.numbers(nos)
	return v
}

// readReceivers reads the answer to receiversText.
func (a *answer) readReceivers(conn *pgx.Conn, rows *pgconn.ResultReader) error {
	a.runs = map[store.RunNo]*store.Run{}
	return eachRow(pgx.RowsFromResultReader(conn.TypeMap(), rows), func(scan func(...any) error) error {
		run, err := scanRun(scan)
		a.runs[run.No] = &run
		return err
	})
}
