package postgres

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
)

// One statement without a function writes a batch that starts runs, completes operations,
// and suspends or ends runs, and does nothing else: the beginning and end of each statement
// of a function cost the server more than a row.
//
// Used when fitsBatch holds. The statement writes nothing if a condition of it does not
// hold; the batch then goes the way of commit_call.go.

// maxBatchUpdates bounds the updates: to find an element of bytes in a parameter the
// server passes by all before it.
const maxBatchUpdates = 200

// fitsBatch reports whether the batch is of that kind.
func (f *flatBatch) fitsBatch() bool {
	return len(f.others)+len(f.seen)+len(f.consumed) == 0 && (len(f.sends) == 0 || f.riders.sends) &&
		len(f.updates) <= maxBatchUpdates && (f.entries > 0 || len(f.updates) > 0 || len(f.starts) > 0)
}

// batchShape says which lists a batch has, and so which parts its statement has.
type batchShape struct{ turns, entries, updates, starts bool }

func (f *flatBatch) shape() batchShape {
	return batchShape{len(f.b.Turns) > 0, f.entries > 0, len(f.updates) > 0, len(f.starts) > 0}
}

// onlyEntries reports whether the batch completes operations and does nothing else. Its
// statement is a little shorter, and its time the server's clock, see readClock.
func (s batchShape) onlyEntries() bool { return s.entries && !s.updates && !s.starts }

// Where the parts of the statement find the elements of the parameters, see batchValues.
var (
	batchTurn = params{"run": "$8[i+1]", "slot": "$8[i+2]", "incarnation": "$8[i+3]", "group": "$9[$8[i+4]::integer]"}

	batchEntry = func() params {
		p := params{
			"owes": "$10[e+13]<>0", "size": "greatest($10[e+16], 0)",
			"loc": "substring($11, $10[e+14]::integer, $10[e+15]::integer)",
			"val": "CASE WHEN $10[e+16]>=0 THEN substring($11, ($10[e+14]+$10[e+15])::integer, $10[e+16]::integer) END",
		}
		for i, column := range entryNumbers {
			p[column] = fmt.Sprintf("$10[e+%d]", i+1)
		}
		p["from"] = fmt.Sprintf("b, generate_series(0, cardinality($10)-1, %d) AS e", entryWidth)
		return p
	}()

	// Of an update that is examined, and of the k-th that is made.
	batchLook   = params{"run": "u.run", "status": "u.status", "marks": "u.marks", "but": ""}
	batchUpdate = params{
		"status": "$13[k]", "marks": "$14[k]", "wake": "$15[k]", "reason": "$16[k]", "build": "$17[k]",
		"clear": "$18[k]", "alone": "$19[k]", "output": "$20[k]", "waits": "$21[k]", "back": "$22[k]",
		"keep": "$39[k]",
	}

	batchStart = params{
		"id": "r.id", "group": "r.grp", "slot": "r.slot", "workflow": "r.workflow", "seed": "r.seed", "at": "w.at",
		"parent": "r.parent", "parentLoc": "r.parent_loc", "input": "r.input", "headers": "r.headers", "build": "r.build",
		"claim": "r.adopt", "begins": "r.adopt AND w.at<=b.now", "waits": "w.at>b.now",
	}
)

var batchTexts sync.Map // text by batchShape

// batchText returns the statement of a shape. Its answer is the time, and the numbers of
// the new runs; or nothing, and then nothing was written. It fails if an entry or a run
// turns out to exist.
func batchText(shape batchShape) string {
	if text, ok := batchTexts.Load(shape); ok {
		return text.(string)
	}
	var b strings.Builder
	last := "$38"
	if shape.onlyEntries() {
		last = "$12"
	}
	b.WriteString(addBatch + newBatch(last))
	if shape.turns {
		b.WriteString(`
	AND cardinality($8)/4=(SELECT count(*)
		FROM generate_series(0, cardinality($8)-1, 4) AS i, LATERAL (SELECT FROM stet.runs r
		WHERE ` + batchTurn.in(isClaimed) + " OFFSET 0) r)")
	}
	if shape.updates {
		b.WriteString(`
	AND cardinality($12)=(SELECT count(*)
		FROM unnest($12, $13, $14) AS u(run, status, marks), LATERAL (SELECT FROM stet.runs r
		WHERE r.run_no=u.run AND ` + batchLook.in(mayBecome+noneHoldsBack) + " OFFSET 0) r)")
	}
	if shape.starts {
		b.WriteString(`
	AND NOT EXISTS (SELECT FROM unnest($25) AS q(id), LATERAL (SELECT FROM stet.runs r WHERE r.id=q.id OFFSET 0) r)`)
	}
	entries := batchEntry.in(insertEntries)
	if shape.onlyEntries() {
		b.WriteString(" RETURNING 1)" + entries + " RETURNING clock_timestamp()")
		return keepBatchText(shape, &b)
	}
	b.WriteString(returnNow)
	if shape.entries {
		b.WriteString(", e AS (" + entries + ")")
	}
	if shape.updates {
		b.WriteString(`,
	u AS (UPDATE stet.runs r SET (` + updatedColumns + `) = (
		SELECT ` + batchUpdate.in(updatedValues) + `
		FROM (SELECT width_bucket(r.run_no, $12) AS k, (SELECT now FROM b) AS now OFFSET 0) u)
		WHERE r.run_no=ANY($12) AND EXISTS (SELECT FROM b))`)
	}
	started := "NULL::bigint[]"
	if shape.starts {
		b.WriteString(`,
	r AS (` + insertRuns + `
		SELECT ` + batchStart.in(startedValues) + `
		FROM b, unnest($25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37) WITH ORDINALITY
			AS r(id, grp, slot, workflow, seed, at, after, parent, parent_loc, input, headers, adopt, build, place),
			LATERAL (SELECT greatest(r.at, CASE WHEN r.after>0 THEN b.now+r.after ELSE 0 END) AS at) w
		ORDER BY r.place RETURNING run_no)`)
		started = "(SELECT array_agg(run_no ORDER BY run_no) FROM r)"
	}
	b.WriteString(" SELECT now, " + started + " FROM b")
	return keepBatchText(shape, &b)
}

func keepBatchText(shape batchShape, b *strings.Builder) string {
	text := b.String()
	batchTexts.Store(shape, text)
	return text
}

// batchStatement returns the statement of a batch that fits.
func (f *flatBatch) batchStatement(at stamp) statement {
	shape := f.shape()
	s := statement{batchText(shape), f.batchValues(shape, at), (*answer).readBatch}
	if shape.onlyEntries() {
		s.read = func(a *answer, rows *pgconn.ResultReader) error { return a.readClock(rows, at) }
	}
	return s
}

// batchValues returns its parameters: of the turns run, slot, incarnation and the place of
// the group in the next list; the numbers and bytes of the entries; columns of the updates
// and of the starts; the last batch that the boot
// knows of; how long the updated runs are kept.
func (f *flatBatch) batchValues(shape batchShape, at stamp) *values {
	v := f.addHead(at)
	var grps []string
	turns := make([]int64, 0, 4*len(f.b.Turns))
	for _, t := range f.b.Turns {
		group := name(t.Shard.Group)
		place := slices.Index(grps, group)
		if place < 0 {
			place, grps = len(grps), append(grps, group)
		}
		turns = append(turns, int64(t.Run), int64(t.Shard.Slot), int64(t.Incarnation), int64(place+1))
	}
	v.numbers(turns)
	v.texts(grps)
	v.numbers(f.fresh)
	v.bytea(f.bytes)
	if !shape.onlyEntries() {
		f.addUpdates(v)
		f.addStarts(v)
	}
	v.number(f.b.Last)
	if !shape.onlyEntries() {
		f.addKeeps(v)
	}
	return v
}

// readBatch reads the answer: the time, and the numbers of the new runs.
func (a *answer) readBatch(rows *pgconn.ResultReader) error {
	row, err := onlyRow(rows, 2)
	if err != nil {
		return err
	}
	now, err := readNumber(row[0])
	if err != nil {
		return err
	}
	a.now = store.Time(now)
	a.started, err = readNumbers(row[1])
	return err
}

// epoch2000 is the server's beginning of time.
var epoch2000 = store.TimeOf(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))

// readClock reads the answer of a statement that gives the server's clock, once for each
// entry.
func (a *answer) readClock(rows *pgconn.ResultReader, at stamp) error {
	written := false
	for rows.NextRow() {
		if written {
			continue // one time is enough
		}
		written = true
		clock, err := readNumber(rows.Values()[0])
		if err != nil {
			return err
		}
		a.now = epoch2000 + store.Time(clock)
	}
	if _, err := rows.Close(); err != nil {
		return err
	}
	if !written {
		return errNotAtOnce
	}
	if test, ok := at.test.(int64); ok {
		a.now = store.Time(test)
	}
	a.now = max(a.now, store.Time(at.floor))
	return nil
}

// onlyRow reads an answer of one row with so many columns. errNotAtOnce: there is none,
// and nothing was written.
func onlyRow(rows *pgconn.ResultReader, columns int) ([][]byte, error) {
	got := rows.Read()
	switch {
	case got.Err != nil:
		return nil, got.Err
	case len(got.Rows) == 0:
		return nil, errNotAtOnce
	case len(got.Rows) != 1 || len(got.Rows[0]) != columns:
		return nil, fmt.Errorf("%w: a group commit gives %d answers", store.ErrDamaged, len(got.Rows))
	}
	return got.Rows[0], nil
}
