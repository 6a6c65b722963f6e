package postgres

import (
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
)

// A batch of one turn that completes an operation, or ends or suspends its run, or of
// one start, has a statement of its own, without lists: to set up an expression for each
// column costs the server more than the row.
//
// That the run of a step is in the node's hand is not looked up again if the boot's last
// batch was such a one as well, for the same run and under the same fence: only a batch
// of the boot, or whoever takes its lease, takes a run out of its hand.

// loneKind is what such a batch has.
type loneKind int

const (
	notLone   loneKind = iota
	loneStep           // an entry
	loneTurn           // an update, and perhaps an entry
	loneStart          // a start, to begin at once
)

// loneRun is a run in hand that such a batch was for.
type loneRun struct {
	conn           *pgx.Conn // nil: none
	fence          [16]byte
	run, slot, inc int64
	grp            string
	no             int64 // of the batch
}

// lone returns what a simple batch has that is of that kind.
func (u *usual) lone() loneKind {
	starts := len(u.starts.id)
	switch {
	case len(u.turns.run) == 1 && starts == 0 && u.entries <= 1:
		if len(u.updates) == 0 {
			return loneStep
		}
		if u.updates[0].Status != store.Queued {
			return loneTurn
		}
	case len(u.turns.run) == 0 && starts == 1 && u.starts.at[0] == 0 && u.starts.after[0] == 0:
		return loneStart
	}
	return notLone
}

// loneRun returns the run of a lone step or turn.
func (u *usual) loneRun(conn *pgx.Conn, fence [16]byte) loneRun {
	t := &u.turns
	return loneRun{conn, fence, t.run[0], t.slot[0], t.inc[0], t.grp[0], u.b.No}
}

// inHand returns the run that is in hand once a lone batch is written; none if it is not.
func (u *usual) inHand(kind loneKind, conn *pgx.Conn, fence [16]byte, a *answer) loneRun {
	switch r := &u.starts; {
	case kind == loneStep, kind == loneTurn && goesOn(u.updates[0].Update):
		return u.loneRun(conn, fence)
	case kind == loneStart && r.adopt[0]:
		return loneRun{conn, fence, a.started[0], r.slot[0], 0, r.grp[0], u.b.No}
	}
	return loneRun{}
}

// goesOn reports whether a run stays in hand with an update.
func goesOn(up *store.Update) bool {
	return up.Status == store.Running && up.Marks&store.Paused == 0 && !up.Unclaim
}

// The parts of the statements. Parameters 1 to 7 are those of head; 8 to 22 of addEntry,
// or 8 to 18 of addLoneStart.
const (
	loneHead = "WITH b AS (UPDATE stet.nodes SET batch_no=$3, verdicts=$5 WHERE node=$1 AND boot=$2 AND fence=$4"
	loneNow  = " RETURNING greatest($6, coalesce($7, (extract(epoch FROM clock_timestamp())*1000000)::bigint)) AS now)"

	loneEntry = `INSERT INTO stet.entries (run_no, incarnation, kind, state, seq, born, at, wake, attempt, started, ended, generation, owes, loc, size, val)
	SELECT $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, coalesce(length($22), 0), $22 FROM b`

	loneFound = " AND batch_no<$3 AND EXISTS (SELECT FROM stet.runs r WHERE r.run_no=$8 AND r.slot+0=$23 AND r.incarnation=$9 AND r.grp=$24 AND r.ready+0=2"

	loneStartText = loneHead + " AND batch_no<$3 AND NOT EXISTS (SELECT FROM stet.runs WHERE id=$8)" + loneNow + `
	INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, seed, parent_no, parent_loc, created, started, input, headers, build)
	SELECT $8, $9, $10, $11, $12, $12, $13, $14, $15, now, CASE WHEN $12=2 THEN now ELSE 0 END, $16, $17, $18 FROM b RETURNING run_no, created`
)

// The two statements of a step: one looks its run up, the other knows the number of the
// boot's last batch. The server's clock alone gives their time, see readTime.
const (
	loneStepFound = loneHead + loneFound + ")" + loneStepTail
	loneStepNext  = loneHead + " AND batch_no=$25 AND batch_no<$3" + loneStepTail
	loneStepTail  = " RETURNING 1) " + loneEntry + " RETURNING clock_timestamp()"
)

// loneText returns the statement of a lone batch.
func (u *usual) loneText(kind loneKind, conn *pgx.Conn, fence [16]byte) string {
	switch kind {
	case loneStart:
		return loneStartText
	case loneTurn:
		return u.loneTurnText()
	}
	is := u.loneRun(conn, fence)
	is.no = u.before.no
	if is == u.before {
		return loneStepNext
	}
	return loneStepFound
}

var loneTexts sync.Map // text by loneShape

// loneShape is what a turn does that has an update.
type loneShape struct {
	status store.Status
	paused bool
	entry  bool
}

// loneTurnText returns the statement of a turn with an update.
func (u *usual) loneTurnText() string {
	up := &u.updates[0]
	shape := loneShape{up.Status, up.Marks&store.Paused != 0, u.entries > 0}
	if text, ok := loneTexts.Load(shape); ok {
		return text.(string)
	}
	var b strings.Builder
	b.WriteString(loneHead + loneFound + " AND $28 & ~r.marks & 4 = 0 AND r.status+0 IN (")
	comma := ""
	for _, former := range []store.Status{store.Queued, store.Running, store.Suspended, store.Stalled} {
		if former.CanBecome(up.Status) {
			fmt.Fprintf(&b, "%s%d", comma, former)
			comma = ","
		}
	}
	b.WriteString("))")
	over := up.Status.Terminal()
	switch {
	case over:
		// A run that ends has nothing in its inbox that would have to be answered or buried.
		b.WriteString(" AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=$8 AND i.state<3)" +
			" AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=$8 AND i.kind=8 AND i.verdict IS NULL)")
	case up.Status == store.Suspended && !shape.paused:
		b.WriteString(" AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=$8 AND i.state=1)")
	}
	b.WriteString(loneNow)
	if shape.entry {
		b.WriteString(", e AS (" + loneEntry + ")")
	}
	fmt.Fprintf(&b, ` UPDATE stet.runs r SET suspect=CASE WHEN $25 THEN 0 ELSE r.suspect END, strikes=CASE WHEN $25 THEN 0 ELSE r.strikes END, alone=$26,
		build=greatest(r.build, $27), status=%d, marks=$28, reason=$29, waits=$30, output=coalesce($31, r.output)`, up.Status)
	wake, started, ended := "NULL", "r.started", "0"
	switch {
	case over:
		ended = "b.now"
	case up.Status == store.Suspended:
		wake = "nullif($32, 0)"
	case up.Status == store.Running:
		started = "CASE WHEN r.started=0 THEN b.now ELSE r.started END"
	}
	fmt.Fprintf(&b, ", wake_at=%s, ready=$33, started=%s, ended=%s FROM b WHERE r.run_no=$8 RETURNING b.now", wake, started, ended)
	loneTexts.Store(shape, b.String())
	return b.String()
}

// loneValues returns the arguments of a lone batch.
func (u *usual) loneValues(kind loneKind, fence [16]byte, floor int64, test any) *values {
	v := u.head(fence, floor, test)
	if kind == loneStart {
		u.addLoneStart(v)
		return v
	}
	u.addEntry(v)
	t := &u.turns
	v.integer(t.slot[0])
	v.text(t.grp[0])
	if kind == loneStep {
		v.number(u.before.no)
		return v
	}
	up := &u.updates[0]
	v.bool(!up.Isolate && !up.EndIsolation)
	v.bool(up.Isolate)
	v.bytea([]byte(up.Build))
	v.short(int64(up.Marks))
	v.bytea([]byte(up.Reason))
	v.bytea(up.Waits)
	v.bytea(up.Output)
	v.number(int64(up.WakeAt))
	switch {
	case up.Status != store.Running:
		v.short(idle)
	case goesOn(up.Update):
		v.short(claimed)
	default:
		v.short(ready)
	}
	return v
}

// addEntry adds the entry, or what is ignored if there is none, except the run and its
// incarnation.
func (u *usual) addEntry(v *values) {
	t := &u.turns
	e := u.fresh
	if len(e) == 0 {
		e = []int64{t.run[0], t.inc[0], 13: 1, 15: -1}
	}
	v.number(e[0])
	v.integer(e[1])
	v.short(e[2])
	v.short(e[3])
	for _, n := range e[4:8] {
		v.number(n)
	}
	v.integer(e[8])
	v.number(e[9])
	v.number(e[10])
	v.integer(e[11])
	v.bool(e[12] != 0)
	at := e[13] - 1
	v.bytea(u.bytes[at : at+e[14]])
	if e[15] < 0 {
		v.bytea(nil)
	} else {
		v.bytea(u.bytes[at+e[14]:])
	}
}

func (u *usual) addLoneStart(v *values) {
	r := &u.starts
	v.text(r.id[0])
	v.text(r.grp[0])
	v.integer(r.slot[0])
	v.text(r.workflow[0])
	if r.adopt[0] {
		v.short(int64(store.Running)) // and claimed
	} else {
		v.short(int64(store.Queued)) // and ready
	}
	v.bytea(r.seed[0])
	v.number(r.parent[0])
	v.bytea(r.parentLoc[0])
	v.bytea(r.input[0])
	v.bytea(r.headers[0])
	if r.adopt[0] {
		v.bytea(r.build[0])
	} else {
		v.bytea([]byte{})
	}
}

// readLone reads the answer to a lone batch.
func (a *answer) readLone(kind loneKind, rows *pgconn.ResultReader, floor int64, test any) error {
	if kind == loneStep {
		return a.readTime(rows, floor, test)
	}
	columns := 1
	if kind == loneStart {
		columns = 2
	}
	row, err := onlyRow(rows, columns)
	if err != nil {
		return err
	}
	if kind == loneStart {
		no, err := readNumber(row[0])
		if err != nil {
			return err
		}
		a.started, row = []int64{no}, row[1:]
	}
	now, err := readNumber(row[0])
	a.now = store.Time(now)
	return err
}
