package sqlstore

import (
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
)

// publish writes what a turn shows to readers: values, streams and tags.
func (b *Batch) publish(turn *store.Turn) error {
	run := int64(turn.Run)
	for i := range turn.Values {
		v := &turn.Values[i]
		if _, err := b.Rows.Exec(`INSERT INTO stet.feeds AS f (run_no, stream, name, last, at, val)
			VALUES ($1,false,$2,1,$3,$4)
			ON CONFLICT (run_no, stream, name) DO UPDATE SET last=f.last+1, at=excluded.at, val=excluded.val`,
			run, v.Name, b.Now, v.Value); err != nil {
			return err
		}
	}
	if turn.Rewound {
		if err := b.markStreams(run); err != nil {
			return err
		}
	}
	if err := b.appendItems(run, turn.Appends); err != nil {
		return err
	}
	return setTags(b.Rows, turn)
}

// markStreams puts the mark of a rewind into every stream of the run.
func (b *Batch) markStreams(run int64) error {
	if _, err := b.Rows.Exec("UPDATE stet.feeds SET last=last+1, at=$1 WHERE run_no=$2 AND stream=true",
		b.Now, run); err != nil {
		return err
	}
	_, err := b.Rows.Exec(`INSERT INTO stet.streams (run_no, name, pos, at, rewound)
		SELECT run_no, name, last, at, true FROM stet.feeds WHERE run_no=$1 AND stream=true`, run)
	return err
}

// appendItems writes items of streams: first the row of each stream, once, then the items.
func (b *Batch) appendItems(run int64, items []store.Append) error {
	if len(items) == 0 {
		return nil
	}
	next := map[string]int64{} // at first how many items a stream gets, then the position of the next one
	for i := range items {
		next[items[i].Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		count, last := next[name], int64(0)
		if _, err := b.Rows.Row(`INSERT INTO stet.feeds AS f (run_no, stream, name, last, at) VALUES ($1,true,$2,$3,$4)
			ON CONFLICT (run_no, stream, name) DO UPDATE SET last=f.last+excluded.last, at=excluded.at RETURNING last`,
			[]any{run, name, count, b.Now}, &last); err != nil {
			return err
		}
		next[name] = last - count + 1
	}
	dropped := map[string]int64{} // up to which position, by stream
	for i := range items {
		a := &items[i]
		if to := next[a.Name] - a.Keep; a.Keep > 0 && to > dropped[a.Name] {
			dropped[a.Name] = to
		}
		if _, err := b.Rows.Exec(`INSERT INTO stet.streams (run_no, name, pos, at, rewound, val)
			VALUES ($1,$2,$3,$4,false,$5)`,
			run, a.Name, next[a.Name], b.Now, a.Value); err != nil {
			return err
		}
		next[a.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(dropped)) {
		if err := b.dropItems(run, name, dropped[name]); err != nil {
			return err
		}
	}
	return nil
}

// dropItems removes the items of a stream up to a position.
func (b *Batch) dropItems(run int64, name string, to int64) error {
	n, err := b.Rows.Exec(`UPDATE stet.feeds SET dropped=$1 WHERE run_no=$2 AND stream=true AND name=$3 AND dropped<$1`,
		to, run, name)
	if err != nil || n == 0 {
		return err
	}
	_, err = b.Rows.Exec("DELETE FROM stet.streams WHERE run_no=$1 AND name=$2 AND pos<=$3", run, name, to)
	return err
}
