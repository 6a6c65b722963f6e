package storetest

import (
	"context"
	"slices"

	"github.com/stet-run/stet/store"
)

// feedDefects are defects of values, streams, tags and updates.
var feedDefects = []*defect{
	{name: "an item of a stream is there twice", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		if n := len(t.Appends); n > 0 {
			t.Appends = append(slices.Clone(t.Appends), t.Appends[n-1])
		}
	})},
	{name: "the items of a turn are in another order", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		t.Appends = slices.Clone(t.Appends)
		slices.Reverse(t.Appends)
	})},
	{name: "a turn that is held back shows nothing", commit: turns(func(b *broken, ctx context.Context, t *store.Turn) {
		if t.Update != nil && t.Update.Status == store.Suspended && len(b.unexamined(ctx, t)) > 0 {
			t.Appends, t.Values = nil, nil
		}
	})},
	{name: "a rewind leaves no mark", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) { t.Rewound = false })},
	{name: "a repeated batch shows again", commit: func(b *broken, ctx context.Context, batch store.Batch) (store.BatchResult, error) {
		key := batch.Node + " " + batch.Boot
		repeat := b.numbers[key] == batch.No
		b.numbers[key] = batch.No
		result, err := b.Store.Commit(ctx, batch)
		if repeat && err == nil {
			for i, t := range batch.Turns {
				if result.Turns[i].Verdict == store.Committed && len(t.Values) > 0 {
					again := &store.Turn{Run: t.Run, Shard: t.Shard, Incarnation: t.Incarnation, Values: t.Values}
					_, _ = b.Store.Commit(ctx, store.Batch{Node: "hidden", Boot: key, No: b.numbers["hidden"] + 1,
						Leases: batch.Leases, Turns: []*store.Turn{again}})
					b.numbers["hidden"]++
				}
			}
		}
		return result, err
	}},
	{name: "a value that is set to none keeps the former", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		t.Values = slices.DeleteFunc(slices.Clone(t.Values), func(v store.Setting) bool { return v.Value == nil })
	})},
	{name: "an answer needs no update that was received", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		for _, a := range t.Answers {
			if !slices.ContainsFunc(t.Consumed, func(c store.Consumption) bool { return c.Item == a.Item }) {
				t.Consumed = append(slices.Clone(t.Consumed), store.Consumption{Item: a.Item})
			}
		}
	})},
	{name: "a snapshot lacks updates that were received",
		load: func(b *broken, ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snapshots, left, err := b.Store.Load(ctx, runs)
			for i := range snapshots {
				snapshots[i].Items = slices.DeleteFunc(snapshots[i].Items,
					func(it store.Item) bool { return it.State == store.Consumed })
			}
			return snapshots, left, err
		}},
	{name: "a tag is not removed", commit: turns(func(_ *broken, _ context.Context, t *store.Turn) {
		t.Tags = slices.DeleteFunc(slices.Clone(t.Tags), func(p store.Pair) bool { return p.Value == "" })
	})},
	{name: "of several tags one is enough", list: func(b *broken, ctx context.Context, f store.Filter) (store.Page, error) {
		if len(f.Tags) > 1 {
			f.Tags = f.Tags[:1]
		}
		return b.Store.List(ctx, f)
	}},
	{name: "tags of a start are lost", apply: commands(func(_ *broken, _ context.Context, c *store.Command) {
		if c.Start != nil {
			c.Start.Tags = nil
		}
	})},
	{name: "headers are lost", apply: commands(func(_ *broken, _ context.Context, c *store.Command) {
		if c.Item != nil {
			c.Item.Headers = nil
		}
	})},
}
