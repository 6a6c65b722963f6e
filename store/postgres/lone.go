package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A batch that completes one operation of one run has a statement of its own, without
// lists: to set up an expression for each column costs the server more than the row. That
// the run is in the node's hand is not looked up again if the boot's last batch was such a
// one as well, for the same run and under the same fence: only a batch of the boot, or
// whoever takes its lease, takes a run out of its hand.

// loneRun is the run of such a batch.
type loneRun struct {
	conn           *pgx.Conn // nil: none
	fence          [16]byte
	run, slot, inc int64
	grp            string
	no             int64 // of the batch
}

// lone reports whether the batch is of that kind, and which run it is for.
func (u *usual) lone(conn *pgx.Conn, fence [16]byte) (of loneRun, ok bool) {
	if !u.plain() || u.entries != 1 || len(u.turns.run) != 1 {
		return of, false
	}
	t := &u.turns
	return loneRun{conn, fence, t.run[0], t.slot[0], t.inc[0], t.grp[0], u.b.No}, true
}

const (
	loneHead  = "WITH b AS (UPDATE stet.nodes SET batch_no=$3, verdicts=$5 WHERE node=$1 AND boot=$2 AND fence=$4"
	loneCheck = " AND batch_no<$3 AND EXISTS (SELECT FROM stet.runs r WHERE r.run_no=$6 AND r.slot+0=$20 AND r.incarnation=$7 AND r.grp=$21 AND r.ready+0=2)"
	loneNext  = " AND batch_no=$23 AND batch_no<$3"
	loneEntry = ` RETURNING 1)
	INSERT INTO stet.entries (run_no, incarnation, kind, state, seq, born, at, wake, attempt, started, ended, generation, owes, loc, size, val)
	SELECT $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, coalesce(length($22), 0), $22 FROM b RETURNING clock_timestamp()`
)

// loneText returns the statement.
func (u *usual) loneText(of *loneRun) string {
	same := u.before
	same.no = of.no
	if same == *of {
		return loneHead + loneNext + loneEntry
	}
	return loneHead + loneCheck + loneEntry
}

// loneValues returns the arguments of both its forms.
func (u *usual) loneValues(of *loneRun) *values {
	v := &values{}
	v.text(u.b.Node)
	v.text(u.b.Boot)
	v.number(u.b.No)
	v.add(pgtype.UUIDOID, of.fence[:])
	v.bytea(u.verdicts())
	e := u.fresh
	v.number(e[0])
	v.integer(e[1])
	v.small(e[2])
	v.small(e[3])
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
	v.integer(of.slot)
	v.text(of.grp)
	if e[15] < 0 {
		v.bytea(nil)
	} else {
		v.bytea(u.bytes[at+e[14]:])
	}
	v.number(u.before.no)
	return v
}

func (v *values) integer(n int64) {
	v.add(pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

func (v *values) small(n int64) {
	v.add(pgtype.Int2OID, binary.BigEndian.AppendUint16(nil, uint16(n)))
}

func (v *values) bool(b bool) {
	one := byte(0)
	if b {
		one = 1
	}
	v.add(pgtype.BoolOID, []byte{one})
}
