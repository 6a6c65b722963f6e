package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
)

// An item that a run has not examined holds its update back: the run does not suspend, and
// its turn is StillReady (law 5). For most of these turns that is known before the batch is
// written, either because a turn before it sends to the run, or because the server was asked
// when it refused to write the batch otherwise.

// suspends reports whether an update is one that any unexamined item holds back.
func suspends(u *store.Update) bool {
	return u != nil && u.Status == store.Suspended && u.Marks == 0 && u.Continue == nil
}

// runNames are the numbers of runs to which turns send something by their ID, as far as they are
// known: of runs that were about to suspend then. Entities are such, which many runs send to. An ID
// that has gone over to another run stands for one that has ended, and suspends no more.
type runNames map[string]store.RunNo

// maxNames bounds them. Those that are in use come back at once.
const maxNames = 10_000

func (n runNames) of(c *store.Command) store.RunNo {
	if c.RunNo != 0 || c.RunID == "" {
		return c.RunNo
	}
	return n[c.RunID]
}

// holdBack adds to f.held the turns for whose runs a turn before them sends something.
func (f *flatBatch) holdBack(b *store.Batch) {
	places := map[store.RunNo]int{}
	for i, t := range b.Turns {
		if suspends(t.Update) {
			places[t.Run] = i
		}
	}
	if len(places) == 0 {
		return
	}
	for i, t := range b.Turns {
		verdict := store.Committed
		if f.held[t.Run] {
			verdict = store.StillReady
		}
		for _, sends := range t.Sent(verdict) {
			for k := range sends {
				c := &sends[k]
				no := f.names.of(c)
				if place, ok := places[no]; ok && c.Item != nil && place > i {
					f.hold(no)
				}
			}
		}
	}
}

func (f *flatBatch) hold(run store.RunNo) {
	if f.held == nil {
		f.held = map[store.RunNo]bool{}
	}
	f.held[run] = true
}

// unexaminedText gives those of some runs that have an item besides these that is new; and of IDs
// that are of one of the runs the place, from 1, and the run.
const unexaminedText = `SELECT (SELECT array_agg(u.run) FROM unnest($1::bigint[]) AS u(run) WHERE EXISTS (
	SELECT FROM stet.inbox i WHERE i.run_no=u.run AND i.state={new}
		AND i.item_no<>ALL(coalesce($2::bigint[], '{}')) OFFSET 0)), array_agg(q.place ORDER BY q.place),
	array_agg(r.run_no ORDER BY q.place)
	FROM unnest($3::text[]) WITH ORDINALITY AS q(id, place), LATERAL (
		SELECT r.run_no FROM stet.runs r WHERE r.id=q.id AND r.run_no=ANY($1) OFFSET 0) r`

// holdUnexamined finds out which updates are held back by items that are there, or that are sent by
// the ID of their run, and takes the batch anew if some are.
func (f *flatBatch) holdUnexamined(ctx context.Context, s *Store, conn *pgx.Conn) (again bool, err error) {
	var runs, examined []int64
	var ids []string
	b := f.b
	for _, t := range b.Turns {
		if !suspends(t.Update) || f.held[t.Run] {
			continue
		}
		runs = append(runs, int64(t.Run))
		for _, no := range t.Seen {
			examined = append(examined, int64(no))
		}
		for _, list := range [][]store.Consumption{t.Consumed, t.Update.Consumed} {
			for _, c := range list {
				examined = append(examined, int64(c.Item))
			}
		}
	}
	if len(runs) == 0 {
		return false, nil
	}
	for _, t := range b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				if c := &sends[k]; c.Item != nil && c.RunNo == 0 && f.names[c.RunID] == 0 {
					ids = append(ids, c.RunID)
				}
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	v := newValues()
	v.numbers(runs, examined)
	v.texts(ids)
	batch := &pgconn.Batch{}
	if err := s.statement(ctx, batch, conn.PgConn(), unexaminedText, v); err != nil {
		return false, err
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	var found [3][]int64
	if results.NextResult() {
		var row [][]byte
		row, err = onlyRow(results.ResultReader(), len(found))
		for i := 0; i < len(found) && err == nil; i++ {
			found[i], err = readNumbers(row[i])
		}
	}
	if closed := results.Close(); closed != nil {
		return false, closed // the first error
	}
	held, places, named := found[0], found[1], found[2]
	if err != nil || len(held)+len(named) == 0 || len(places) != len(named) {
		return false, err
	}
	if f.names == nil || len(f.names) > maxNames {
		f.names = runNames{}
	}
	for i, place := range places {
		f.names[ids[place-1]] = store.RunNo(named[i])
	}
	known := f.held
	seat, posts := f.seat, f.posts
	f.empty()
	f.seat, f.posts = seat, posts
	f.held = known
	for _, run := range held {
		f.hold(store.RunNo(run))
	}
	return f.take(b), nil
}
