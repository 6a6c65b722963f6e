package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

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
				if place, ok := places[no]; ok && c.Item != nil && place > i && f.known[c] == nil {
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

// takeAgain asks the server, which has refused the batch, what keeps its statement from being written: updates that are
// held back by items that are there, or that are sent by the ID of their run, and commands that write nothing; and the
// tags of runs that change them. It takes the batch from scratch if there are some.
func (f *flatBatch) takeAgain(ctx context.Context, s *Store, conn *pgx.Conn) (again bool, err error) {
	runs, examined := f.suspended()
	var ids []string
	b := f.b
	if len(runs) > 0 {
		ids = f.unnamed()
	}
	commands := f.mayBeKnown()
	if len(runs)+len(commands)+len(f.retags()) == 0 {
		return false, nil
	}
	is, err := f.askServer(ctx, s, conn, runs, examined, ids, commands)
	if err != nil || len(is.places) != len(is.named) {
		return false, err
	}
	if f.names == nil || len(f.names) > maxNames {
		f.names = runNames{}
	}
	for i, place := range is.places {
		f.names[ids[place-1]] = store.RunNo(is.named[i])
	}
	facts := f.facts(commands, is.known)
	held := map[store.RunNo]bool{}
	news := len(is.named)+len(facts)+len(is.tags) > 0
	for _, run := range is.held {
		held[store.RunNo(run)] = true
		news = news || !f.held[store.RunNo(run)]
	}
	if !news {
		return false, nil
	}
	seat, posts := f.seat, f.posts
	f.empty()
	f.seat, f.posts, f.held, f.known, f.tags = seat, posts, held, facts, is.tags
	return f.take(b), nil
}

// suspended returns the runs whose updates any unexamined item holds back, and what the turns of these have examined.
func (f *flatBatch) suspended() (runs, examined []int64) {
	for _, t := range f.b.Turns {
		if !suspends(t.Update) {
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
	return runs, examined
}

// unnamed returns the IDs to which turns send something and whose runs are not known.
func (f *flatBatch) unnamed() (ids []string) {
	for _, t := range f.b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				if c := &sends[k]; c.Item != nil && c.RunNo == 0 && f.names[c.RunID] == 0 {
					ids = append(ids, c.RunID)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
