package sqlite

import (
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
)

// smallPayload is the longest input or output that stands in the run's row.
const smallPayload = 512

const (
	payloadInput  = 1
	payloadOutput = 2
)

const runColumns = `run_no, id, grp, slot, workflow, status, marks, ready, wake_at, incarnation, generation, seed,
	build, suspect, strikes, alone, parent_no, parent_loc, created, started, ended, input_size, output_size, reason, input,
	output, waits, tags, headers, random, first, began, queue, expires`

// scanRun reads a row of runColumns. Payloads above smallPayload are missing.
func scanRun(s *sqlite3.Stmt) store.Run {
	r := store.Run{
		No: store.RunNo(s.ColumnInt64(0)), ID: s.ColumnText(1),
		Shard:    store.Shard{Group: s.ColumnText(2), Slot: s.ColumnInt(3)},
		Workflow: s.ColumnText(4), Status: store.Status(s.ColumnInt64(5)), Marks: store.Marks(s.ColumnInt64(6)),
		Claimed: s.ColumnInt64(7) == words.Claimed, WakeAt: store.Time(s.ColumnInt64(8)),
		Incarnation: s.ColumnInt(9), Generation: s.ColumnInt(10), Build: s.ColumnText(12),
		Suspect: s.ColumnInt(13), Strikes: s.ColumnInt(14), Alone: s.ColumnBool(15),
		Parent: store.RunNo(s.ColumnInt64(16)), ParentLoc: string(s.ColumnRawBlob(17)),
		Created: store.Time(s.ColumnInt64(18)), Started: store.Time(s.ColumnInt64(19)), Ended: store.Time(s.ColumnInt64(20)),
		InputSize: s.ColumnInt(21), OutputSize: s.ColumnInt(22), Reason: s.ColumnText(23),
		Input: value(s, 24), Output: value(s, 25), Waits: value(s, 26),
		Headers: value(s, 28),
	}
	copy(r.Seed[:], s.ColumnRawBlob(11))
	copy(r.Random[:], s.ColumnRawBlob(29))
	r.First, r.Began = sqlstore.DecodeOrigin(s.ColumnRawBlob(30)), store.Time(s.ColumnInt64(31))
	r.Queue, r.Expires = value(s, 32), store.Time(s.ColumnInt64(33))
	sqlstore.ReadTags(&r, s.ColumnRawBlob(27))
	return r
}

// payloads reads the input and output that are too long for the run's row.
func (c *conn) payloads(r *store.Run, f *store.Filter) error {
	input, output := f.Keeps(r)
	for what, p := range map[int]struct {
		size int
		kept bool
		into *[]byte
	}{payloadInput: {r.InputSize, input, &r.Input}, payloadOutput: {r.OutputSize, output, &r.Output}} {
		if p.size <= smallPayload || !p.kept {
			continue
		}
		if _, err := c.row("SELECT val FROM stet_payloads WHERE run_no=? AND what=?",
			[]any{int64(r.No), what}, p.into); err != nil {
			return err
		}
	}
	return nil
}

// runByNo returns a run with its payloads; a run that does not exist has no
// number.
func (c *conn) runByNo(no store.RunNo) (r store.Run, err error) {
	err = c.each("SELECT "+runColumns+" FROM stet_runs WHERE run_no=?", []any{int64(no)},
		func(s *sqlite3.Stmt) error {
			r = scanRun(s)
			return nil
		})
	if err != nil {
		return r, err
	}
	return r, c.payloads(&r, &store.Filter{Values: true})
}

const (
	itemColumns = `i.item_no, i.kind, i.state, i.name, i.item_id, i.origin, i.incarnation, i.loc, i.failed, i.sent_at,
		i.val, i.verdict, i.headers, i.generation`
	itemWidth = 14
)

// itemHeads are itemColumns without the values that Load and Claim leave out, and the
// lengths of these.
var itemHeads = strings.Replace(itemColumns, "i.val",
	"CASE WHEN "+sqlstore.LeftOut+" THEN NULL ELSE i.val END", 1) + ", CASE WHEN " + sqlstore.LeftOut +
	" THEN length(i.val) ELSE 0 END"

// scanHead reads a row of itemHeads.
func scanHead(s *sqlite3.Stmt) store.Item {
	it := scanItem(s)
	it.Size = s.ColumnInt(itemWidth)
	return it
}

func scanItem(s *sqlite3.Stmt) store.Item {
	return store.Item{
		No: store.ItemNo(s.ColumnInt64(0)), Kind: store.ItemKind(s.ColumnInt64(1)), State: store.ItemState(s.ColumnInt64(2)),
		Name: s.ColumnText(3), ID: s.ColumnText(4), Origin: s.ColumnText(5), Incarnation: s.ColumnInt(6),
		Loc:    string(s.ColumnRawBlob(7)),
		Failed: s.ColumnBool(8), Sent: store.Time(s.ColumnInt64(9)), Value: value(s, 10), Verdict: value(s, 11),
		Headers: value(s, 12), Generation: s.ColumnInt(13),
	}
}

const (
	entryColumns = `loc, kind, state, seq, born, at, wake, attempt, owes, started, ended, size, generation`
	entryWidth   = 13
)

// scanEntry reads a row of entryColumns, without the value.
func scanEntry(s *sqlite3.Stmt) store.Entry {
	return store.Entry{
		Loc: string(s.ColumnRawBlob(0)), Kind: store.Kind(s.ColumnInt64(1)), State: store.EntryState(s.ColumnInt64(2)),
		Seq: s.ColumnInt64(3), Born: s.ColumnInt64(4), At: store.Time(s.ColumnInt64(5)), Wake: store.Time(s.ColumnInt64(6)),
		Attempt: s.ColumnInt(7), Owes: s.ColumnBool(8), Started: store.Time(s.ColumnInt64(9)),
		Ended: store.Time(s.ColumnInt64(10)), Size: s.ColumnInt(11),
		Generation: s.ColumnInt(12),
	}
}

// null makes NULL of zero.
func null(at store.Time) any {
	if at == 0 {
		return nil
	}
	return int64(at)
}
