package postgres

import (
	"context"

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
				if place, ok := places[c.RunNo]; ok && c.Item != nil && place > i {
					f.hold(c.RunNo)
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

// unexaminedText gives those of some runs that have an item besides these that is new.
const unexaminedText = `SELECT array_agg(u.run) FROM unnest($1::bigint[]) AS u(run) WHERE EXISTS (
	SELECT FROM stet.inbox i WHERE i.run_no=u.run AND i.state={new}
		AND i.item_no<>ALL(coalesce($2::bigint[], '{}')) OFFSET 0)`

// holdUnexamined finds out which updates are held back by items that are there, and takes
// the batch anew if some are.
func (f *flatBatch) holdUnexamined(ctx context.Context, s *Store, conn *pgx.Conn) (again bool, err error) {
	var runs, examined []int64
	b := f.b
	for _, t := range b.Turns {
		if !suspends(t.Update) || f.held[t.Run] {
			continue
		}
		runs = append(runs, int64(t.Run))
		for _, no := range t.Seen {
			examined = append(examined, int64(no))
		}
		for _, c := range t.Consumed {
			examined = append(examined, int64(c.Item))
		}
	}
	if len(runs) == 0 {
		return false, nil
	}
	v := newValues()
	v.numbers(runs, examined)
	batch := &pgconn.Batch{}
	if err := s.statement(ctx, batch, conn.PgConn(), unexaminedText, v); err != nil {
		return false, err
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	var held []int64
	if results.NextResult() {
		var row [][]byte
		if row, err = onlyRow(results.ResultReader(), 1); err == nil {
			held, err = readNumbers(row[0])
		}
	}
	if closed := results.Close(); closed != nil {
		return false, closed // the first error
	}
	if err != nil || len(held) == 0 {
		return false, err
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
