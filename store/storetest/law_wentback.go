package storetest

import (
	"github.com/stet-run/stet/store"
)

var law29 = []testCase{
	{"WhatWasAcknowledgedIsGone", func(k *kit) {
		o, restore := k.saved()
		r := o.started("lost")
		o.turn(&store.Turn{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("x", store.Done)}}, store.Committed)
		k.s = restore()
		o.s = k.s

		late := store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: o.no + 1, Last: o.no, Leases: o.leases,
			Turns:    []*store.Turn{{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("y", store.Done)}}},
			Commands: []store.Command{{Start: k.startOf("late")}}}
		k.unchanged("a commit on a store that went back", func() {
			_, err := o.s.Commit(k.ctx, late)
			k.fails("a commit", err, store.ErrWentBack)
		})
		node := o.node
		node.LastBatch = o.no
		k.unchanged("a heartbeat on a store that went back", func() {
			_, err := o.s.Register(k.ctx, node)
			k.fails("a heartbeat", err, store.ErrWentBack)
		})

		// It takes its shard again, and goes on from what is there.
		o.take()
		late.No, late.Last, late.Leases, late.Turns = o.no+2, 0, o.leases, nil
		result, err := o.s.Commit(k.ctx, late)
		k.ok(err)
		if got := result.Commands[0].Outcome; got != store.Applied {
			k.Errorf("a start after that has the outcome %d", got)
		}
		o.no, node.LastBatch = late.No, late.No
		o.started("next")
		_, err = o.s.Register(k.ctx, node)
		k.ok(err)
	}},
	{"TheRepeatOfALostBatch", func(k *kit) {
		o, restore := k.saved()
		r := o.started("lost")
		o.batch(nil, &store.Turn{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("x", store.Done)}})
		o.last.Last = o.no - 1
		k.s = restore()
		o.s = k.s
		k.unchanged("the repeat of a batch on a store that went back", func() {
			_, err := o.s.Commit(k.ctx, o.last)
			k.fails("the repeat", err, store.ErrWentBack)
		})
	}},
	{"ABatchThatIsThere", func(k *kit) {
		o, _ := k.saved()
		for range 3 {
			r := o.started("r" + string(rune('0'+o.no)))
			turn := &store.Turn{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("x", store.Done)}}
			o.no += 2 // numbers may be left out
			b := store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: o.no, Last: o.no - 2, Leases: o.leases,
				Turns: []*store.Turn{turn}}
			for range 2 {
				result, err := o.s.Commit(k.ctx, b)
				k.ok(err)
				if v := result.Turns[0].Verdict; v != store.Committed {
					k.Errorf("a turn after batch %d is %s", b.Last, v)
				}
			}
			node := o.node
			node.LastBatch = o.no
			_, err := o.s.Register(k.ctx, node)
			k.ok(err)
		}
	}},
	{"ALastBatchThatIsNotEarlier", func(k *kit) {
		o, _ := k.saved()
		for _, last := range []int64{-1, 5, 6} {
			_, err := o.s.Commit(k.ctx, store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: 5, Last: last,
				Leases: o.leases, Commands: []store.Command{{Start: k.startOf("a")}}})
			k.fails("a commit", err, store.ErrInvalid)
		}
	}},
}

// saved returns an owner that has committed, and what sets the store back to that moment.
func (k *kit) saved() (o *owner, restore func() store.Store) {
	k.Helper()
	saver, ok := k.harness.(Saver)
	if !ok {
		k.Skip("the harness has no Save")
	}
	o = k.owner(k.s, "owner")
	o.started("kept")
	return o, saver.Save(k)
}
