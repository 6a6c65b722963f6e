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

// Most batches of the usual kind start runs, complete operations, and end runs, and
// nothing else. They are one statement without a function: to begin and to end each
// statement of one costs the server more than a row. The row of the boot is changed if
// all that is to be looked at is as it should be, and the rest is written if it was.

// simple reports whether the batch is of that kind.
func (u *usual) simple() bool {
	return len(u.others)+len(u.seen)+len(u.consumed)+len(u.items.id) == 0 && len(u.updates) <= simpleUpdates &&
		(u.entries > 0 || len(u.updates) > 0 || len(u.starts.id) > 0)
}

// simpleUpdates bounds the updates: to find an element of bytes in a parameter the
// server passes by all before it.
const simpleUpdates = 200

// plain reports whether a simple batch has nothing but entries.
func (u *usual) plain() bool { return u.entries > 0 && len(u.updates)+len(u.starts.id) == 0 }

// The parts of the statements. Parameters 1 to 7 are those of head, 8 to 24 those of
// simpleValues.
const (
	simpleHead = "WITH b AS (UPDATE stet.nodes SET batch_no=$3, verdicts=$5 WHERE node=$1 AND boot=$2 AND batch_no<$3 AND fence=$4"

	simpleTurns = `
	AND cardinality($8)/4=(SELECT count(*) FROM generate_series(0, cardinality($8)-1, 4) AS i, LATERAL (SELECT FROM stet.runs r
		WHERE r.run_no=$8[i+1] AND r.slot+0=$8[i+2] AND r.incarnation=$8[i+3] AND r.grp=$9[$8[i+4]::integer] AND r.ready+0=2 OFFSET 0) r)`

	// A run that ends has nothing in its inbox that would have to be answered or buried.
	simpleUpdated = `
	AND cardinality($12)=(SELECT count(*) FROM unnest($12, $13, $14) AS u(run, status, marks), LATERAL (SELECT FROM stet.runs r
		WHERE r.run_no=u.run AND r.status+0 IN (1,2,3,7) AND u.marks & ~r.marks & 4 = 0
		AND (r.status=u.status OR r.status=1 AND u.status IN (2,6,7) OR r.status=2 AND u.status IN (3,4,5,6,7) OR r.status=3 AND u.status IN (2,6,7)
			OR r.status=7 AND u.status IN (2,6))
		AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=u.run AND i.state<3
			AND (u.status=3 AND u.marks & 1 = 0 AND i.state=1 OR u.status IN (4,5,6)) OFFSET 0)
		AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=u.run AND i.kind=8 AND i.verdict IS NULL AND u.status IN (4,5,6) OFFSET 0) OFFSET 0) r)`

	simpleStarted = `
	AND NOT EXISTS (SELECT FROM unnest($25) AS q(id), LATERAL (SELECT FROM stet.runs r WHERE r.id=q.id OFFSET 0) r)`

	simpleEntries = `
	INSERT INTO stet.entries (run_no, incarnation, kind, state, seq, born, at, wake, attempt, started, ended, generation, owes, size, loc, val)
	SELECT $10[e+1], $10[e+2], $10[e+3], $10[e+4], $10[e+5], $10[e+6], $10[e+7], $10[e+8], $10[e+9], $10[e+10], $10[e+11],
		$10[e+12], $10[e+13]<>0, greatest($10[e+16], 0), substring($11, $10[e+14]::integer, $10[e+15]::integer),
		CASE WHEN $10[e+16]>=0 THEN substring($11, ($10[e+14]+$10[e+15])::integer, $10[e+16]::integer) END
	FROM b, generate_series(0, cardinality($10)-1, 16) AS e`

	simpleUpdate = `,
	u AS (UPDATE stet.runs r SET (suspect, strikes, alone, build, status, marks, reason, waits, output, wake_at, ready, started, ended) = (
		SELECT CASE WHEN $18[k] THEN 0 ELSE r.suspect END, CASE WHEN $18[k] THEN 0 ELSE r.strikes END, $19[k],
			greatest(r.build, $17[k]), $13[k], $14[k], $16[k], $21[k], coalesce($20[k], r.output),
			CASE WHEN $13[k]=3 OR $13[k]=1 AND $15[k]>now THEN nullif($15[k], 0) END,
			CASE WHEN $13[k]=2 AND $14[k] & 1 = 0 AND NOT $22[k] THEN 2 WHEN $13[k]=2 OR $13[k]=1 AND $15[k]<=now THEN 1 ELSE 0 END,
			CASE WHEN r.started=0 AND $13[k]=2 THEN now ELSE r.started END,
			CASE WHEN $13[k] IN (4,5,6) THEN now ELSE 0 END
		FROM (SELECT width_bucket(r.run_no, $12) AS k, (SELECT now FROM b) AS now OFFSET 0) u)
		WHERE r.run_no=ANY($12) AND EXISTS (SELECT FROM b))`

	simpleStart = `,
	r AS (INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc, created, started, input, headers, build)
		SELECT r.id, r.grp, r.slot, r.workflow, CASE WHEN r.adopt AND w.at<=b.now THEN 2 ELSE 1 END,
			CASE WHEN w.at>b.now THEN 0 WHEN r.adopt THEN 2 ELSE 1 END, CASE WHEN w.at>b.now THEN w.at END,
			r.seed, r.parent, r.parent_loc, b.now, CASE WHEN r.adopt AND w.at<=b.now THEN b.now ELSE 0 END, r.input, r.headers,
			CASE WHEN r.adopt AND w.at<=b.now THEN r.build ELSE '' END
		FROM b, unnest($25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37) WITH ORDINALITY
			AS r(id, grp, slot, workflow, seed, at, after, parent, parent_loc, input, headers, adopt, build, place),
			LATERAL (SELECT greatest(r.at, CASE WHEN r.after>0 THEN b.now+r.after ELSE 0 END) AS at) w
		ORDER BY r.place RETURNING run_no)`
)

// plainText writes a plain batch. It gives the server's time for each entry; or
// nothing, and nothing is written then. An entry that is there after all is an error.
const plainText = simpleHead + simpleTurns + " RETURNING 1)" + simpleEntries + " RETURNING clock_timestamp()"

// simpleShape is what a simple batch has.
type simpleShape struct{ turns, entries, updates, starts bool }

var simpleTexts sync.Map // text by simpleShape

// simpleText writes a simple batch. It gives the time and the numbers of the new runs;
// or nothing, and nothing is written then. An entry or a run that is there after all is
// an error.
func (u *usual) simpleText() string {
	shape := simpleShape{len(u.turns.run) > 0, u.entries > 0, len(u.updates) > 0, len(u.starts.id) > 0}
	if text, ok := simpleTexts.Load(shape); ok {
		return text.(string)
	}
	var b strings.Builder
	part := func(has bool, texts ...string) {
		for _, text := range texts {
			if has {
				b.WriteString(text)
			}
		}
	}
	runs := "NULL::bigint[]"
	if shape.starts {
		runs = "(SELECT array_agg(run_no ORDER BY run_no) FROM r)"
	}
	part(true, simpleHead)
	part(shape.turns, simpleTurns)
	part(shape.updates, simpleUpdated)
	part(shape.starts, simpleStarted)
	part(true, " RETURNING greatest($6, coalesce($7, (extract(epoch FROM clock_timestamp())*1000000)::bigint)) AS now)")
	part(shape.entries, ", e AS (", simpleEntries, ")")
	part(shape.updates, simpleUpdate)
	part(shape.starts, simpleStart)
	part(true, " SELECT now, ", runs, " FROM b")
	simpleTexts.Store(shape, b.String())
	return b.String()
}

// simpleValues returns the arguments of simpleText and plainText: of the turns run,
// slot, incarnation and the place of the group in the next one; the entries' numbers
// and bytes; columns of the updates and of the starts.
func (u *usual) simpleValues(fence [16]byte, floor int64, test any) *values {
	v := u.head(fence, floor, test)
	t := &u.turns
	var grps []string
	turns := make([]int64, 0, 4*len(t.run))
	for i := range t.run {
		place := slices.Index(grps, t.grp[i])
		if place < 0 {
			place, grps = len(grps), append(grps, t.grp[i])
		}
		turns = append(turns, t.run[i], t.slot[i], t.inc[i], int64(place+1))
	}
	v.numbers(turns)
	v.texts(grps)
	v.numbers(u.fresh)
	v.bytea(u.bytes)
	if u.plain() {
		return v
	}
	u.addUpdates(v)
	r := &u.starts
	v.texts(r.id, r.grp)
	v.numbers(r.slot)
	v.texts(r.workflow)
	v.byteas(r.seed)
	v.numbers(r.at, r.after, r.parent)
	v.byteas(r.parentLoc, r.input, r.headers)
	v.bools(r.adopt)
	v.byteas(r.build)
	return v
}

// epoch2000 is the server's beginning of time.
var epoch2000 = store.TimeOf(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))

// readTime reads the answer of plainText.
func (a *answer) readTime(rows *pgconn.ResultReader, floor int64, test any) error {
	written := false
	for rows.NextRow() {
		if written {
			continue // one time is enough
		}
		written = true
		at, err := readNumber(rows.Values()[0])
		if err != nil {
			return err
		}
		a.now = epoch2000 + store.Time(at)
	}
	if _, err := rows.Close(); err != nil {
		return err
	}
	if !written {
		return errUnusual
	}
	if at, ok := test.(int64); ok {
		a.now = store.Time(at)
	}
	a.now = max(a.now, store.Time(floor))
	return nil
}

// readSimple reads the answer of simpleText.
func (a *answer) readSimple(rows *pgconn.ResultReader) error {
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

// onlyRow reads an answer of one row with so many columns. errUnusual: there is none, and
// nothing was written.
func onlyRow(rows *pgconn.ResultReader, columns int) ([][]byte, error) {
	got := rows.Read()
	switch {
	case got.Err != nil:
		return nil, got.Err
	case len(got.Rows) == 0:
		return nil, errUnusual
	case len(got.Rows) != 1 || len(got.Rows[0]) != columns:
		return nil, fmt.Errorf("%w: a group commit gives %d answers", store.ErrDamaged, len(got.Rows))
	}
	return got.Rows[0], nil
}
