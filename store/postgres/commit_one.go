package postgres

import (
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
)

// A statement without lists writes a batch of one turn that completes an operation,
// consumes an item, suspends or ends its run; of one start; or of one item. It is made of
// the parts of commit_batch.go, where the server sets up expressions for lists, which cost
// more than one row. A single step takes a fifth less time with it.
//
// Used for batches of that form without riders. As in commit_batch.go, nothing is
// written if a condition of the statement does not hold; the batch then goes the way of
// commit_call.go.
//
// Whether the run of a step is claimed is not looked up again if the boot's last batch was
// such a one as well, for the same run and under the same fence: only a batch of the boot,
// or another boot that takes its lease, ends a claim.

// oneKind is the content of such a batch.
type oneKind int

const (
	notOne   oneKind = iota
	oneStep          // an entry, and perhaps a consumed item
	oneTurn          // an update, and perhaps an entry and a consumed item
	oneStart         // a start, to begin at once
	oneItem          // an item for a run, which it may claim
)

// claimedRun is a run that was claimed when a batch of that form was written for it.
type claimedRun struct {
	conn           *pgx.Conn // nil: none
	fence          [16]byte
	run, slot, inc int64
	grp            string
	no             int64 // of the batch
}

// one returns which form a batch has, if it is of one.
func (f *flatBatch) one() oneKind {
	if f.riders.any() || len(f.others)+len(f.seen) > 0 {
		return notOne
	}
	switch turns := len(f.b.Turns); {
	case turns == 0 && len(f.starts)+len(f.sends) == 1:
		if len(f.sends) == 1 {
			return oneItem
		}
		if f.starts[0].At == 0 && f.starts[0].After == 0 {
			return oneStart
		}
	case turns == 1 && len(f.starts)+len(f.sends) == 0 && f.entries <= 1 && len(f.consumed) <= 1:
		if len(f.updates) == 0 && f.entries == 1 {
			return oneStep
		}
		if len(f.updates) == 1 && f.updates[0].Status != store.Queued {
			return oneTurn
		}
	}
	return notOne
}

// turnRun returns the run of the batch's one turn.
func (f *flatBatch) turnRun(conn *pgx.Conn, fence [16]byte) claimedRun {
	t := f.b.Turns[0]
	return claimedRun{conn, fence, int64(t.Run), int64(t.Shard.Slot), int64(t.Incarnation), name(t.Shard.Group), f.b.No}
}

// claimedBy returns the run that is claimed once a batch of one is written, if one is.
func (f *flatBatch) claimedBy(kind oneKind, conn *pgx.Conn, fence [16]byte, a *answer) claimedRun {
	switch {
	case kind == oneStep, kind == oneTurn && staysClaimed(f.updates[0].Update):
		return f.turnRun(conn, fence)
	case kind == oneStart && f.starts[0].claim:
		shard := f.starts[0].Shard
		return claimedRun{conn, fence, a.started[0], int64(shard.Slot), 0, shard.Group, f.b.No}
	}
	return claimedRun{}
}

// staysClaimed reports whether a run stays claimed with an update.
func staysClaimed(u *store.Update) bool {
	return u.Status == store.Running && u.Marks&store.Paused == 0 && !u.Unclaim
}

// Where the parts of the statements find the parameters: 1 to 7 are those of addHead,
// then come those of addOneEntry, and those of a turn; or those of addOneStart.
var (
	oneRun = params{"run": "$8", "incarnation": "$9", "slot": "$23", "group": "$24"}

	oneEntry = func() params {
		p := params{"owes": "$20", "loc": "$21", "val": "$22", "size": "coalesce(length($22), 0)", "from": "b"}
		for i, column := range entryNumbers {
			p[column] = fmt.Sprintf("$%d", 8+i)
		}
		return p
	}()
)

// oneUpdate has the parameters of an update to a status, which the statement has as a
// constant: the server then drops the expressions for others.
func oneUpdate(status store.Status) params {
	return params{
		"run": "$8", "status": fmt.Sprintf("%d", status), "clear": "$25", "alone": "$26", "build": "$27", "marks": "$28",
		"reason": "$29", "waits": "$30", "output": "$31", "wake": "$32", "back": "$33",
		"keep": "$35", "but": "",
	}
}

// oneStarted has the parameters of a start that is due at once, and claimed or not.
func oneStarted(claim bool) params {
	is := fmt.Sprint(claim)
	return params{
		"id": "$8", "group": "$9", "slot": "$10", "workflow": "$11", "seed": "$12", "parent": "$13", "parentLoc": "$14",
		"input": "$15", "headers": "$16", "build": "$17", "claim": is, "begins": is, "waits": "false", "at": "0::bigint",
	}
}

// newBatch says that the batch is a new one, and that the boot's last batch is there.
func newBatch(last string) string { return " AND n.last<$3 AND n.last>=" + last }

// Whether the run of a step is claimed: looked up, or known from the boot's last batch,
// whose number is a parameter.
var (
	lookedUp = " AND EXISTS (SELECT FROM stet.runs r WHERE " + oneRun.in(isClaimed)
	known25  = " AND n.last=$25 AND n.last<$3"
)

// oneShape is the form of a batch of one, which decides about its statement.
type oneShape struct {
	kind     oneKind
	known    bool         // of a step: its run is known to be claimed
	status   store.Status // of an update
	entry    bool         // beside an update
	consumes bool         // an item, by a turn
	claim    bool         // of a start or an item
	number   bool         // of an item: its run is named by the number
}

var oneTexts sync.Map // text by oneShape

// oneText returns the statement of a shape.
func oneText(shape oneShape) string {
	if text, ok := oneTexts.Load(shape); ok {
		return text.(string)
	}
	var b strings.Builder
	b.WriteString(addBatch)
	switch shape.kind {
	case oneStep:
		if shape.known {
			b.WriteString(known25)
		} else {
			b.WriteString(newBatch("$25") + lookedUp + ")")
		}
		pending, consumed := "", ""
		clock := " RETURNING clock_timestamp()"
		if item := (params{"item": "$26", "verdict": "$27"}); shape.consumes {
			pending, consumed = item.in(isPending), item.in(consume)
			clock += "+interval '0'/(SELECT count(*) FROM c)"
		}
		b.WriteString(pending + " RETURNING 1)" + consumed + oneEntry.in(insertEntries) + clock)
	case oneTurn:
		update, now := oneUpdate(shape.status), "b.now"
		pending, consumed := "", ""
		if item := (params{"item": "$36", "verdict": "$37"}); shape.consumes {
			pending, consumed = item.in(isPending), item.in(consume)
			update["but"] = " AND i.item_no<>$36"
			now += "/(SELECT count(*) FROM c)"
		}
		b.WriteString(newBatch("$34") + lookedUp + " AND " + update.in(mayBecome))
		if shape.status == store.Suspended || shape.status.Terminal() {
			b.WriteString(update.in(noneHoldsBack))
		}
		b.WriteString(")" + pending + returnNow + consumed)
		if shape.entry {
			b.WriteString(", e AS (" + oneEntry.in(insertEntries) + ")")
		}
		b.WriteString(" UPDATE stet.runs r SET (" + updatedColumns + ") = ROW(" + update.in(updatedValues) +
			") FROM b WHERE r.run_no=$8 RETURNING " + now)
	case oneItem:
		b.WriteString(oneItemText(shape))
	case oneStart:
		b.WriteString(newBatch("$18") + " AND NOT EXISTS (SELECT FROM stet.runs WHERE id=$8)" + returnNow + " " + insertRuns +
			" SELECT " + oneStarted(shape.claim).in(startedValues) + " FROM b RETURNING run_no, created")
	}
	text := b.String()
	oneTexts.Store(shape, text)
	return text
}

// oneStatement returns the statement of a batch of one. last is the run of the boot's last
// batch.
func (f *flatBatch) oneStatement(kind oneKind, conn *pgx.Conn, at stamp, last claimedRun) statement {
	shape := oneShape{kind: kind}
	v := f.addHead(at)
	shape.consumes = len(f.consumed) == 1
	switch kind {
	case oneItem:
		return f.oneItemStatement(v)
	case oneStart:
		shape.claim = f.starts[0].claim
		f.addOneStart(v)
		v.number(f.b.Last)
		return statement{oneText(shape), v, (*answer).readOneStart}
	case oneStep:
		is := f.turnRun(conn, at.fence)
		is.no = last.no
		shape.known = is == last
		f.addOneEntry(v)
		if shape.known {
			v.number(last.no)
		} else {
			v.number(f.b.Last)
		}
		f.addConsumed(v)
		return statement{oneText(shape), v, func(a *answer, rows *pgconn.ResultReader) error { return a.readClock(rows, at) }}
	}
	u := &f.updates[0]
	shape.status, shape.entry = u.Status, f.entries > 0
	f.addOneEntry(v)
	v.bool(clears(u.Update))
	v.bool(u.Isolate)
	v.bytea([]byte(u.Build))
	v.short(int64(u.MarksOver(store.Admitted)))
	v.bytea([]byte(u.Reason))
	v.bytea(u.Waits)
	v.bytea(u.Output)
	v.number(int64(u.WakeAt))
	v.bool(u.Unclaim)
	v.number(f.b.Last)
	v.number(int64(u.Keep))
	f.addConsumed(v)
	return statement{oneText(shape), v, (*answer).readOneTurn}
}

// addConsumed adds the item that is consumed, if there is one, and its verdict.
func (f *flatBatch) addConsumed(v *values) {
	for _, c := range f.consumed {
		v.number(c.item)
		v.bytea(c.verdict)
	}
}

// addOneEntry adds the entry, or parameters that are ignored if there is none, except run
// and incarnation; then slot and group of the run.
func (f *flatBatch) addOneEntry(v *values) {
	t, e := f.b.Turns[0], f.fresh
	if len(e) == 0 {
		e = []int64{int64(t.Run), int64(t.Incarnation), 13: 1, 15: -1}
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
	v.bytea(f.bytes[at : at+e[14]])
	if e[15] < 0 {
		v.bytea(nil)
	} else {
		v.bytea(f.bytes[at+e[14]:])
	}
	v.integer(int64(t.Shard.Slot))
	v.text(name(t.Shard.Group))
}

func (f *flatBatch) addOneStart(v *values) {
	st := &f.starts[0]
	v.text(st.ID)
	v.text(st.Shard.Group)
	v.integer(int64(st.Shard.Slot))
	v.text(st.Workflow)
	v.bytea(st.Seed[:])
	v.number(int64(st.Parent))
	v.bytea([]byte(st.ParentLoc))
	v.bytea(st.Input)
	v.bytea(st.Headers)
	v.bytea([]byte(st.Build))
}

// readOneTurn reads the answer to a turn with an update: the time.
func (a *answer) readOneTurn(rows *pgconn.ResultReader) error {
	row, err := onlyRow(rows, 1)
	if err != nil {
		return err
	}
	now, err := readNumber(row[0])
	a.now = store.Time(now)
	return err
}

// readOneStart reads the answer to a start: the number of the run, and the time.
func (a *answer) readOneStart(rows *pgconn.ResultReader) error {
	row, err := onlyRow(rows, 2)
	if err != nil {
		return err
	}
	no, err := readNumber(row[0])
	if err != nil {
		return err
	}
	now, err := readNumber(row[1])
	a.started, a.now = []int64{no}, store.Time(now)
	return err
}
