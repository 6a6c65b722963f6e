package postgres

import (
	"fmt"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
)

// The values of the column ready.
const (
	idle    = words.Idle
	ready   = words.Ready
	claimed = words.Claimed
)

// runColumns are the columns of a run, of the table r.
const runColumns = `r.run_no, r.id, r.grp, r.slot, r.workflow, r.status, r.marks, r.ready, coalesce(r.wake_at, 0),
	r.incarnation, r.generation, r.seed, r.build, r.suspect, r.strikes, r.alone, r.parent_no, r.parent_loc,
	r.created, r.started, r.ended, coalesce(length(r.input), 0), coalesce(length(r.output), 0),
	r.reason, r.waits, r.tags, r.headers, r.random, r.first, r.began, r.queue, coalesce(r.expires, 0)`

const (
	runValues   = runColumns + ", r.input, r.output"
	runNoOutput = runColumns + ", r.input, NULL::bytea"
	runNoValues = runColumns + ", NULL::bytea, NULL::bytea"
)

// runLonger returns the columns without the values that store.Filter.Longest leaves out.
func runLonger(longest int) string {
	fits := func(column string) string { return fmt.Sprintf("octet_length(%s)<=%d", column, longest) }
	return runColumns + fmt.Sprintf(", CASE WHEN %s THEN r.input END, CASE WHEN r.status<>%d OR %s THEN r.output END",
		fits("r.input"), store.Succeeded, fits("r.output"))
}

// runRow reads a row of runColumns, an input and an output.
type runRow struct {
	no, slot, status, marks, ready, wakeAt, incarnation, generation      int64
	suspect, strikes, parent, created, started, ended, inSize, outSize   int64
	began, expires                                                       int64
	alone                                                                bool
	id, group, workflow                                                  string
	build, reason                                                        []byte
	seed, parentLoc, input, output, waits, tags, headers, random, firsts []byte
	queue                                                                []byte
}

func (f *runRow) dest() []any {
	return []any{&f.no, &f.id, &f.group, &f.slot, &f.workflow, &f.status, &f.marks, &f.ready, &f.wakeAt, &f.incarnation,
		&f.generation, &f.seed, &f.build,
		&f.suspect, &f.strikes, &f.alone, &f.parent, &f.parentLoc, &f.created, &f.started, &f.ended, &f.inSize, &f.outSize,
		&f.reason, &f.waits, &f.tags, &f.headers, &f.random, &f.firsts, &f.began, &f.queue, &f.expires, &f.input, &f.output}
}

func (f *runRow) run() store.Run {
	r := store.Run{
		No: store.RunNo(f.no), ID: f.id, Shard: store.Shard{Group: f.group, Slot: int(f.slot)}, Workflow: f.workflow,
		Status: store.Status(f.status), Marks: store.Marks(f.marks), Claimed: f.ready == words.Claimed,
		Incarnation: int(f.incarnation), Generation: int(f.generation), Build: string(f.build),
		Suspect: int(f.suspect), Strikes: int(f.strikes), Alone: f.alone,
		Parent: store.RunNo(f.parent), ParentLoc: string(f.parentLoc), Created: store.Time(f.created),
		Started: store.Time(f.started), Ended: store.Time(f.ended), WakeAt: store.Time(f.wakeAt),
		InputSize: int(f.inSize), OutputSize: int(f.outSize),
		Reason: string(f.reason), Input: f.input, Output: f.output, Waits: f.waits, Headers: f.headers, Queue: f.queue,
	}
	copy(r.Seed[:], f.seed)
	copy(r.Random[:], f.random)
	r.First, r.Began, r.Expires = sqlstore.DecodeOrigin(f.firsts), store.Time(f.began), store.Time(f.expires)
	sqlstore.ReadTags(&r, f.tags)
	return r
}

// scanRun reads a run.
func scanRun(scan func(...any) error) (store.Run, error) {
	var f runRow
	if err := scan(f.dest()...); err != nil {
		return store.Run{}, err
	}
	return f.run(), nil
}

// itemColumns are the columns of an item, of the table i.
const itemColumns = `i.item_no, i.kind, i.state, i.name, i.item_id, i.origin, i.incarnation, i.loc, i.failed,
	i.sent_at, i.val, i.verdict, i.headers, i.generation`

// itemHeads are itemColumns without the values that Load and Claim leave out, and the
// lengths of these.
var itemHeads = strings.Replace(itemColumns, "i.val",
	"CASE WHEN "+sqlstore.LeftOut+" THEN NULL ELSE i.val END", 1) + ", CASE WHEN " + sqlstore.LeftOut +
	" THEN length(i.val) ELSE 0 END"

// scanHead reads a row of itemHeads and the columns behind them.
func scanHead(scan func(...any) error, more ...any) (store.Item, error) {
	var size int
	it, err := scanItem(scan, append([]any{&size}, more...)...)
	it.Size = size
	return it, err
}

// scanItem reads a row of itemColumns and the columns behind them.
func scanItem(scan func(...any) error, more ...any) (store.Item, error) {
	var no, kind, state, incarnation, sent, generation int64
	var name, id string
	var failed bool
	var origin, loc, val, verdict, headers []byte
	err := scan(append([]any{&no, &kind, &state, &name, &id, &origin, &incarnation, &loc, &failed, &sent, &val, &verdict,
		&headers, &generation}, more...)...)
	return store.Item{
		No: store.ItemNo(no), Kind: store.ItemKind(kind), State: store.ItemState(state),
		Name: name, ID: id, Origin: string(origin),
		Incarnation: int(incarnation), Generation: int(generation), Loc: string(loc), Failed: failed, Sent: store.Time(sent),
		Value: val, Headers: headers, Verdict: verdict,
	}, err
}

// entryColumns are the columns of an entry, of the table e.
const entryColumns = `e.loc, e.kind, e.state, e.seq, e.born, e.at, e.wake, e.attempt, e.owes, e.started, e.ended,
	e.size, e.generation`

// The values of an entry: all, those that Load returns, none.
var (
	entryValue  = entryColumns + ", e.val"
	entrySmall  = entryColumns + fmt.Sprintf(", CASE WHEN e.size<%d THEN e.val END", store.LargeValue)
	entryNoVals = entryColumns + ", NULL::bytea"
)

// scanEntry reads a row of entryColumns and a value, and the columns before them.
func scanEntry(scan func(...any) error, before ...any) (e store.Entry, err error) {
	err = scan(append(before, entryDest(&e)...)...)
	return e, err
}

// entryDest is where a row of entryColumns and a value is read to.
func entryDest(e *store.Entry) []any {
	return []any{(*locText)(&e.Loc), (*uint8)(&e.Kind), (*uint8)(&e.State), &e.Seq, &e.Born, (*int64)(&e.At),
		(*int64)(&e.Wake), &e.Attempt, &e.Owes,
		(*int64)(&e.Started), (*int64)(&e.Ended), &e.Size, &e.Generation, &e.Value}
}

// locText reads bytes as a text.
type locText string

// Scan implements sql.Scanner.
func (l *locText) Scan(src any) error {
	switch v := src.(type) {
	case []byte:
		*l = locText(v)
	case string:
		*l = locText(v)
	default:
		return fmt.Errorf("expected bytes, found %T", src)
	}
	return nil
}

// ScanBytes implements pgtype.BytesScanner.
func (l *locText) ScanBytes(v []byte) error {
	*l = locText(v)
	return nil
}

// null makes NULL of zero.
func null(at store.Time) any {
	if at == 0 {
		return nil
	}
	return int64(at)
}
