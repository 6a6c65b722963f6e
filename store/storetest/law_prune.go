package storetest

import (
	"strings"

	"github.com/stet-run/stet/store"
)

var law13 = []testCase{
	{"ASpanIsHalfOpen", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		all := func(no store.RunNo) *store.Turn {
			t := &store.Turn{Run: no, Shard: shardA}
			for _, loc := range []string{"a", "b", "b\x00", "b\xff\xff", "c", "d", "e"} {
				t.Entries = append(t.Entries, entry(loc, store.Done))
			}
			return t
		}
		o.turn(all(r.No), store.Committed)
		o.turn(all(other.No), store.Committed)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Prune: []store.Span{{From: "b", To: "c"}, {From: "d\x00", To: "z"}}},
			store.Committed)
		k.equal("the locations that stand", k.locations(r.No), []string{"a", "c", "d"})
		k.equal("the locations of another run", len(k.locations(other.No)), 7)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Prune: []store.Span{{From: "x", To: "y"}}}, store.Committed)
		k.equal("the locations after a span without any", k.locations(r.No), []string{"a", "c", "d"})
	}},
	{"WhatIsPrunedMayBeWrittenAnew", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		large := entry("x", store.Done, func(e *store.Entry) { e.Value = []byte(strings.Repeat("x", store.LargeValue)) })
		small := entry("x", store.FailedEntry, func(e *store.Entry) { e.Value = []byte("y") })
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{large, entry("y", store.Open)}}, store.Committed)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Prune: []store.Span{{From: "x", To: "z"}},
			Entries: []store.Entry{small}}, store.Committed)
		small.Size = 1
		k.equal("the history", k.history(r.No), []store.Entry{small})
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Prune: []store.Span{{From: "x", To: "z"}},
			Entries: []store.Entry{large}}, store.Committed)
		large.Size = len(large.Value)
		k.equal("the history with a large value again", k.history(r.No), []store.Entry{large})
	}},
	{"ARefusedTurnPrunesNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done), entry("b", store.Done)}},
			store.Committed)
		different := entry("b", store.Done, func(e *store.Entry) { e.Value = []byte("different") })
		k.unchanged("a refused turn", func() {
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Prune: []store.Span{{From: "a", To: "b"}},
				Entries: []store.Entry{different}}, store.Refused)
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Incarnation: 1, Prune: []store.Span{{From: "a", To: "c"}}},
				store.Refused)
		})
	}},
}

// locations returns where the entries of a run stand.
func (k *kit) locations(no store.RunNo) []string {
	k.Helper()
	var locs []string
	for _, e := range k.history(no) {
		locs = append(locs, e.Loc)
	}
	return locs
}
