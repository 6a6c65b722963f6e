package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
)

// statement writes a whole batch, and with it begins and ends the transaction: one round
// trip, and nothing of it stands still when this process does.
type statement struct {
	text   string
	values *values
	read   func(*answer, *pgconn.ResultReader) error // errNotAtOnce: nothing was written
}

// errNotAtOnce says that one statement does not do: a batch has to be written turn by
// turn, or commands be carried out one after the other.
var errNotAtOnce = errors.New("not to be carried out by one statement")

// refusedAtOnce reports whether the server has refused one statement for a reason that the
// way turn by turn knows how to handle: a law that a turn breaks (ST001), an entry that is
// there or that comes twice, a lock that another transaction holds.
func refusedAtOnce(err error) bool {
	switch sqlState(err) {
	case "ST001", "23505", "21000", "55P03", "22012":
		return true
	}
	return errors.Is(err, errNotAtOnce)
}

// answer is the server's answer to a batch.
type answer struct {
	now                                store.Time
	started, items, receivers, claimed []int64
	admitted                           []int64                    // and claimed
	runs                               map[store.RunNo]*store.Run // the receivers
}

// send sends the batch as one statement and reads the answer.
func (f *flatBatch) send(ctx context.Context, s *Store, conn *pgx.Conn, is statement, at stamp) (a answer, err error) {
	if s.pooled || len(f.sends) > 0 || f.riders.any() {
		err = f.sendMore(ctx, s, conn, is, at, &a)
	} else {
		err = s.sendOne(ctx, conn.PgConn(), is, &a)
	}
	return a, err
}

// sendOne sends a statement alone.
func (s *Store) sendOne(ctx context.Context, conn *pgconn.PgConn, is statement, a *answer) error {
	prepared, err := s.prepared(ctx, conn, is.text, is.values)
	if err != nil {
		return err
	}
	rows := conn.ExecStatement(ctx, prepared, is.values.bytes, binaryFormat, binaryFormat)
	err = is.read(a, rows)
	if _, closed := rows.Close(); closed != nil {
		return closed // the first error
	}
	return err
}

// sendMore sends a statement with others in one round trip: settings, where a session
// keeps none, its riders, and a query of the runs that items are for. Without BEGIN all of
// them are one transaction.
func (f *flatBatch) sendMore(ctx context.Context, s *Store, conn *pgx.Conn, is statement, at stamp, a *answer) error {
	var list []statement
	if s.pooled {
		list = append(list, statement{sessionText("true", busyLimit), newValues(), noAnswer})
	}
	if f.riders.any() {
		list = append(append(append(list, f.riders.before()...), is), f.riders.after(f, at)...)
	} else {
		list = append(list, is)
	}
	if len(f.sends)+len(f.riders.facts)+len(f.riders.admits) > 0 {
		list = append(list, statement{receiversText, f.receivers(), func(a *answer, rows *pgconn.ResultReader) error {
			return a.readReceivers(conn, rows)
		}})
	}
	batch := &pgconn.Batch{}
	for i := range list {
		if err := s.statement(ctx, batch, conn.PgConn(), list[i].text, list[i].values); err != nil {
			return err
		}
	}
	results := conn.PgConn().ExecBatch(ctx, batch)
	var errs []error
	for i := 0; i < len(list) && results.NextResult(); i++ {
		errs = append(errs, list[i].read(a, results.ResultReader()))
	}
	if closed := results.Close(); closed != nil {
		return closed // the first error
	}
	return errors.Join(errs...)
}

// result returns the answers to the batch.
func (f *flatBatch) result(got *answer) (store.BatchResult, error) {
	runs, items, receivers := got.started, got.items, got.receivers
	out := store.BatchResult{Turns: make([]store.TurnResult, len(f.b.Turns)), Now: got.now}
	for i := range out.Turns {
		out.Turns[i].Verdict = f.verdict(i)
	}
	if len(runs) != len(f.starts) || len(items) != len(f.sends) || len(receivers) != len(items) {
		return out, fmt.Errorf("commit a batch: %w: expected %d runs and %d items, found %d and %d",
			store.ErrDamaged, len(f.starts), len(f.sends), len(runs), len(items))
	}
	claimed := make(map[int64]bool, len(got.claimed))
	for _, no := range got.claimed {
		claimed[no] = true
	}
	nextRun, nextItem := 0, 0
	skip := func() { // those that nobody asked for
		for nextItem < len(f.sends) && f.sends[nextItem].unasked {
			nextItem++
		}
	}
	answer := func(c *store.Command) (store.Answer, error) {
		if k := f.known[c]; k != nil {
			a, ok := k.answer(got.runs)
			if !ok {
				return a, fmt.Errorf("commit a batch: %w: run number %d is not there", store.ErrDamaged, k.run)
			}
			return a, nil
		}
		if c.Admit != "" {
			run := got.runs[c.RunNo]
			if run == nil {
				return store.Answer{}, fmt.Errorf("commit a batch: %w: run number %d is not there", store.ErrDamaged, c.RunNo)
			}
			return store.Answer{Outcome: store.Applied, Run: *run, Claimed: slices.Contains(got.admitted, int64(c.RunNo))}, nil
		}
		skip()
		if c.Start != nil {
			a := started(c.Start, store.RunNo(runs[nextRun]), f.starts[nextRun].claim, got.now)
			nextRun++
			return a, nil
		}
		no := receivers[nextItem]
		run := got.runs[store.RunNo(no)]
		if run == nil {
			return store.Answer{}, fmt.Errorf("commit a batch: %w: run number %d is not there", store.ErrDamaged, no)
		}
		a := store.Answer{Outcome: store.Applied, Run: *run, Item: store.ItemNo(items[nextItem])}
		if a.Claimed = c.Claim && claimed[no]; a.Claimed {
			delete(claimed, no) // by the first of its items
		}
		nextItem++
		return a, nil
	}
	for i, t := range f.b.Turns {
		for _, sends := range t.Sent(out.Turns[i].Verdict) {
			for k := range sends {
				a, err := answer(&sends[k])
				if err != nil {
					return out, err
				}
				out.Turns[i].Sends = append(out.Turns[i].Sends, a)
			}
		}
	}
	for i := range f.b.Commands {
		a, err := answer(&f.b.Commands[i])
		if err != nil {
			return out, err
		}
		out.Commands = append(out.Commands, a)
	}
	return out, nil
}

// started returns the answer to a start that has made its run.
func started(st *store.Start, no store.RunNo, claim bool, now store.Time) store.Answer {
	run := store.Run{
		No: no, ID: st.ID, Shard: st.Shard, Workflow: st.Workflow, Status: store.Queued, Seed: st.Seed,
		Parent: st.Parent, ParentLoc: st.ParentLoc, Created: now,
		Input: bytes.Clone(st.Input), InputSize: len(st.Input), Headers: bytes.Clone(st.Headers),
		Tags: store.MergeTags(nil, st.Tags),
	}
	if st.Queue != nil {
		run.Marks, run.Queue = store.Held, bytes.Clone(st.Queue.Data)
	}
	if at := st.Due(now); at > now && st.Queue == nil {
		run.WakeAt = at
		return store.Answer{Outcome: store.Applied, Run: run}
	}
	if claim {
		run.Status, run.Started, run.Claimed, run.Build = store.Running, now, true, st.Build
	}
	return store.Answer{Outcome: store.Applied, Run: run, Claimed: claim}
}
