package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// answers writes the answers of a turn to updates.
func (t *committing) answers(turn *store.Turn) error {
	for _, c := range turn.Answers {
		if c.Verdict == nil {
			return refuse("the answer to update number %d is none", c.Item)
		}
		n, err := t.exec("UPDATE stet.inbox SET verdict=$1 WHERE item_no=$2 AND run_no=$3 AND kind=8 AND state=3 AND verdict IS NULL", c.Verdict, c.Item, turn.Run)
		if err != nil {
			return err
		} else if n == 0 {
			return refuse("the run has no update number %d that is consumed and not answered", c.Item)
		}
	}
	return nil
}

// giveAgain puts a consumed item into the inbox again, a swept one with its
// number if nobody has that.
func (t *committing) giveAgain(run store.RunNo, it *store.Item) error {
	var no, state, kind int64
	var answered bool
	found, err := t.row("SELECT item_no, state, verdict IS NOT NULL, kind FROM stet.inbox WHERE run_no=$1 AND item_id=$2", []any{run, it.ID}, &no, &state, &answered, &kind)
	switch {
	case err != nil:
		return err
	case found && store.ItemState(state) != store.Consumed:
		return refuse("the item %q to be returned is not consumed", it.ID)
	case found && answered && store.ItemKind(kind) == store.ItemUpdate:
		return nil
	case found && answered:
		return refuse("the item %q to be returned was answered", it.ID)
	case found:
		_, err = t.exec("UPDATE stet.inbox SET state=1, val=$1, headers=$2 WHERE item_no=$3", it.Value, it.Headers, no)
		return err
	}
	a := applier{q: t.tx, now: it.Sent}
	if _, err := a.insert(run, it, &no); err != nil || it.No <= 0 || int64(it.No) >= no {
		return err
	}
	_, err = t.exec("UPDATE stet.inbox SET item_no=$1 WHERE item_no=$2 AND NOT EXISTS (SELECT 1 FROM stet.inbox WHERE item_no=$1)", it.No, no)
	return err
}

// publish writes what a turn shows to readers.
func (t *committing) publish(turn *store.Turn) error {
	for i := range turn.Values {
		v := &turn.Values[i]
		if _, err := t.exec(`INSERT INTO stet.feeds (run_no, stream, name, last, at, val) VALUES ($1,false,$2,1,$3,$4)
			ON CONFLICT (run_no, stream, name) DO UPDATE SET last=feeds.last+1, at=excluded.at, val=excluded.val`, turn.Run, v.Name, t.now, v.Value); err != nil {
			return err
		}
	}
	if turn.Rewound {
		if _, err := t.exec("UPDATE stet.feeds SET last=last+1, at=$1 WHERE run_no=$2 AND stream", t.now, turn.Run); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO stet.streams (run_no, name, pos, at, rewound)
			SELECT run_no, name, last, at, true FROM stet.feeds WHERE run_no=$1 AND stream`, turn.Run); err != nil {
			return err
		}
	}
	if err := t.appends(turn.Run, turn.Appends); err != nil {
		return err
	}
	return t.setTags(turn)
}

// appends writes items of streams: the row of each stream once, then the items.
func (t *committing) appends(run store.RunNo, items []store.Append) error {
	next := map[string]int64{} // how many items of a stream, then the position of the next
	for i := range items {
		next[items[i].Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		count, last := next[name], int64(0)
		if _, err := t.row(`INSERT INTO stet.feeds (run_no, stream, name, last, at) VALUES ($1,true,$2,$3,$4)
			ON CONFLICT (run_no, stream, name) DO UPDATE SET last=feeds.last+excluded.last, at=excluded.at RETURNING last`,
			[]any{run, name, count, t.now}, &last); err != nil {
			return err
		}
		next[name] = last - count + 1
	}
	for i := range items {
		a := &items[i]
		if _, err := t.exec("INSERT INTO stet.streams (run_no, name, pos, at, rewound, val) VALUES ($1,$2,$3,$4,false,$5)",
			run, a.Name, next[a.Name], t.now, a.Value); err != nil {
			return err
		}
		next[a.Name]++
	}
	return nil
}

// setTags changes the tags of a run.
func (t *committing) setTags(turn *store.Turn) error {
	if len(turn.Tags) == 0 {
		return nil
	}
	var stored []byte
	if _, err := t.row("SELECT tags FROM stet.runs WHERE run_no=$1", []any{turn.Run}, &stored); err != nil {
		return err
	}
	former, err := sqlstore.DecodeTags(stored)
	if err != nil {
		return err
	}
	tags := store.MergeTags(former, turn.Tags)
	if _, err := t.exec("UPDATE stet.runs SET tags=$1 WHERE run_no=$2", sqlstore.EncodeTags(tags), turn.Run); err != nil {
		return err
	}
	return retag(t, turn.Run, former, tags)
}

// retag makes the rows of the table tags those of a run's tags.
func retag(q querier, no store.RunNo, former, tags []store.Pair) error {
	for _, tag := range former {
		if !slices.Contains(tags, tag) {
			if _, err := q.exec("DELETE FROM stet.tags WHERE key=$1 AND value=$2 AND tagged=$3", tag.Key, tag.Value, no); err != nil {
				return err
			}
		}
	}
	for _, tag := range tags {
		if !slices.Contains(former, tag) {
			if _, err := q.exec("INSERT INTO stet.tags (key, value, tagged) VALUES ($1,$2,$3)", tag.Key, tag.Value, no); err != nil {
				return err
			}
		}
	}
	return nil
}

// abandon answers the updates of a run that have no answer. Who ends a run, or
// has it continue as new, calls it.
func (t *committing) abandon(no store.RunNo) error {
	_, err := t.exec("UPDATE stet.inbox SET state=3, val=NULL, headers=NULL, verdict=$1 WHERE run_no=$2 AND kind=8 AND verdict IS NULL",
		[]byte(store.Unanswered), no)
	return err
}

// Feeds implements store.Store.
func (s *Store) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	value := "NULL::bytea"
	if q.Values {
		value = "f.val"
	}
	var feeds []store.Feed
	err := s.look(ctx, "read feeds", func(t *tx) error {
		return t.each("SELECT f.run_no, f.stream, f.name, f.last, f.at, coalesce(length(f.val), 0), "+value+` FROM stet.feeds f
			WHERE f.run_no = ANY($1::bigint[]) AND ($2::text='' OR f.name=$2::text) ORDER BY f.run_no, f.stream, f.name`,
			[]any{numbers(q.Runs), name(q.Name)}, func(scan func(...any) error) error {
				var f store.Feed
				err := scan((*int64)(&f.Run), &f.Stream, &f.Name, &f.Last, (*int64)(&f.At), &f.Size, &f.Value)
				feeds = append(feeds, f)
				return err
			})
	})
	return feeds, err
}

// numbers returns numbers as the driver knows them; never nil, which would be
// NULL.
func numbers[N ~int64 | ~int | ~uint8](list []N) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}

// Stream implements store.Store.
func (s *Store) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	limit, err := q.Bounds()
	if err != nil {
		return nil, err
	}
	var items []store.StreamItem
	err = s.look(ctx, "read a stream", func(t *tx) error {
		// The sum leaves out, before it is sent, what an answer does not hold.
		return t.each(`SELECT pos, at, rewound, val FROM (
				SELECT pos, at, rewound, val, sum(coalesce(length(val), 0)) OVER (ORDER BY pos) AS size, row_number() OVER (ORDER BY pos) AS place FROM (
					SELECT pos, at, rewound, val FROM stet.streams WHERE run_no=$1 AND name=$2 AND pos>$3 ORDER BY pos LIMIT $4) page) sized
			WHERE size<=$5 OR place=1 ORDER BY pos`,
			[]any{q.Run, name(q.Name), q.After, limit, int64(store.MaxStreamRead)}, func(scan func(...any) error) error {
				var it store.StreamItem
				err := scan(&it.Pos, (*int64)(&it.At), &it.Rewound, &it.Value)
				items = append(items, it)
				return err
			})
	})
	return items, err
}
