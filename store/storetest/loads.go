package storetest

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// loadCases are of what is read of runs that are named.
var loadCases = []testCase{
	{"LargeValuesAreLeftOutByLoad", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		values := map[string][]byte{"a": nil, "b": {}, "c": make([]byte, store.LargeValue-1),
			"d": make([]byte, store.LargeValue), "e": make([]byte, 1<<20)}
		turn := &store.Turn{Run: r.No, Shard: shardA}
		for _, loc := range []string{"e", "a", "d", "c", "b"} {
			turn.Entries = append(turn.Entries, entry(loc, store.Open, func(e *store.Entry) { e.Value = values[loc] }))
		}
		o.turn(turn, store.Committed)
		snaps, _, err := k.s.Load(k.ctx, []store.RunNo{r.No})
		k.ok(err)
		small, err := k.s.History(k.ctx, store.HistoryQuery{Run: r.No})
		k.ok(err)
		full := k.history(r.No)
		var locs string
		for i, e := range full {
			locs += e.Loc
			v := values[e.Loc]
			k.equal("history of "+e.Loc+" with values", e,
				entry(e.Loc, store.Open, func(e *store.Entry) { e.Value, e.Size = v, len(v) }))
			k.equal("history of "+e.Loc+" without", small[i],
				entry(e.Loc, store.Open, func(e *store.Entry) { e.Value, e.Size = nil, len(v) }))
			if len(v) >= store.LargeValue {
				v = nil
			}
			k.equal("load of "+e.Loc, snaps[0].Entries[i],
				entry(e.Loc, store.Open, func(e *store.Entry) { e.Value, e.Size = v, len(values[e.Loc]) }))
		}
		k.equal("the locations", locs, "abcde")
	}},
	{"LargeMessagesAreLeftOutByLoadClaimAndInbox", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		large := make([]byte, store.LargeValue)
		of := func(kind store.ItemKind, id string, value []byte) store.Item {
			return store.Item{Kind: kind, ID: id, Origin: id, Name: "n", Loc: "p", Value: value}
		}
		for _, it := range []store.Item{
			of(store.ItemMessage, "a", large), of(store.ItemMessage, "b", large[1:]), of(store.ItemUpdate, "c", large),
			of(store.ItemResolution, "d", large), of(store.ItemMessage, "e", nil),
			of(store.ItemMessage, "f", make([]byte, 1<<20)),
		} {
			k.send(item("r", it))
		}
		check := func(what string, items []store.Item) {
			k.Helper()
			var got []string
			for _, it := range items {
				got = append(got, fmt.Sprintf("%s %d %d", it.ID, len(it.Value), it.Size))
			}
			k.equal("what "+what+" returns: ID, length, left out", got, []string{
				fmt.Sprintf("a 0 %d", store.LargeValue), fmt.Sprintf("b %d 0", store.LargeValue-1),
				fmt.Sprintf("c 0 %d", store.LargeValue), fmt.Sprintf("d %d 0", store.LargeValue), "e 0 0", "f 0 1048576"})
		}
		claims := o.claim(10, "w")
		if len(claims.Runs) != 1 {
			k.Fatalf("claimed are %+v", claims.Runs)
		}
		check("Claim", claims.Runs[0].Items)
		snaps, _, err := k.s.Load(k.ctx, []store.RunNo{r.No})
		k.ok(err)
		check("Load", snaps[0].Items)
		items, err := k.s.Inbox(k.ctx, r.No)
		k.ok(err)
		check("Inbox", items)
		complete, err := store.FillItems(k.ctx, k.s, r.No, snaps[0].Items)
		k.ok(err)
		k.equal("the items when they are filled", snaps[0].Items,
			k.inbox(r.No, "a", "b", "c", "d", "e", "f"))
		k.equal("all were there", complete, true)
	}},
	{"LoadIsBounded", func(k *kit) {
		o := k.owner(k.s, "n")
		const rows, bytes = 700, 4000
		value := make([]byte, bytes)
		asked := []store.RunNo{1 << 40}
		want := map[store.RunNo]int{}
		add := func(r store.Run) { asked, want[r.No] = append(asked, r.No), rows*bytes }
		for i := range 4 {
			add(o.started(fmt.Sprint("input-", i), func(s *store.Start) { s.Input = make([]byte, rows*bytes) }))
		}
		for i := range 4 {
			r := o.started(fmt.Sprint("entries-", i))
			t := &store.Turn{Run: r.No, Shard: r.Shard}
			for n := range rows {
				e := entry(fmt.Sprintf("e%04d", n), store.Done)
				e.Value = value
				t.Entries = append(t.Entries, e)
			}
			o.turn(t, store.Committed)
			add(r)
		}
		for i := range 3 {
			id := fmt.Sprint("items-", i)
			r := o.started(id)
			var sends []store.Command
			for n := range rows {
				sends = append(sends, message(id, fmt.Sprint(n)))
				sends[n].Item.Value = value
			}
			_, _, err := k.s.Apply(k.ctx, sends)
			k.ok(err)
			add(r)
		}
		asked = append(asked, 1<<40+1)
		var got []store.RunNo
		answers := 0
		for left := slices.Clone(asked); len(left) > 0; answers++ {
			snaps, next, err := k.s.Load(k.ctx, left)
			k.ok(err)
			if len(next) >= len(left) {
				k.Fatalf("of %d numbers %d are left", len(left), len(next))
			}
			sum, largest := 0, 0
			for i := range snaps {
				no, size := snaps[i].Run.No, snaps[i].Bytes()
				if slices.Contains(next, no) || size < want[no] {
					k.Errorf("run %d has %d bytes, expected %d; left are %v", no, size, want[no], next)
				}
				got, sum, largest = append(got, no), sum+size, max(largest, size)
			}
			if sum > store.LoadBytes+4*largest { // several servers may answer at the same time
				k.Errorf("an answer has %d runs with %d bytes", len(snaps), sum)
			}
			left = next
		}
		slices.Sort(got)
		k.equal("the runs of all answers", got, slices.Sorted(slices.Values(asked[1:len(asked)-1])))
		if answers < 2 {
			k.Errorf("%d bytes came in %d answers", len(want)*rows*bytes, answers)
		}
	}},
	{"LoadReturnsWhatIsThere", func(k *kit) {
		o := k.owner(k.s, "n")
		a, b := o.started("a", func(s *store.Start) { s.Input = make([]byte, 2000) }), o.started("b")
		no, seen := k.send(message("a", "1")), k.send(message("a", "2"))
		k.send(message("a", "3"))
		o.turn(&store.Turn{Run: a.No, Shard: shardA,
			Entries: []store.Entry{entry("y", store.Done), entry("x", store.Open), entry("x\x00", store.Withdrawn),
				entry("\xff", store.Done)},
			Seen: []store.ItemNo{seen}, Consumed: []store.Consumption{{Item: no}},
			Update: &store.Update{Status: store.Running, Output: make([]byte, 3000)}}, store.Committed)
		snaps, _, err := k.s.Load(k.ctx, []store.RunNo{b.No, a.No + 1000, a.No})
		k.ok(err)
		want := []store.Snapshot{{Run: k.get(b.No)}, {Run: k.get(a.No), Entries: k.history(a.No), Items: k.inbox(a.No)}}
		k.equal("the snapshots", snaps, want)
		var locs []string
		for _, e := range snaps[1].Entries {
			locs = append(locs, e.Loc)
		}
		k.equal("the order of locations", locs, []string{"x", "x\x00", "y", "\xff"})
		k.equal("the numbers of things", []int{len(snaps[1].Items), len(snaps[1].Run.Input), len(snaps[1].Run.Output)},
			[]int{2, 2000, 3000})
	}},
	{"HistorySelects", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		turn := &store.Turn{Run: r.No, Shard: shardA}
		for _, loc := range []string{"a", "a\x00", "b", "c", "d"} {
			turn.Entries = append(turn.Entries, entry(loc, store.Done))
		}
		o.turn(turn, store.Committed)
		for _, row := range []struct {
			q    store.HistoryQuery
			want []string
		}{
			{store.HistoryQuery{}, []string{"a", "a\x00", "b", "c", "d"}},
			{store.HistoryQuery{Limit: 2}, []string{"a", "a\x00"}},
			{store.HistoryQuery{After: "a"}, []string{"a\x00", "b", "c", "d"}},
			{store.HistoryQuery{After: "a\x00", Limit: 2}, []string{"b", "c"}},
			{store.HistoryQuery{After: "d"}, nil},
			{store.HistoryQuery{Locs: []string{"d", "b", "nothing", "b"}}, []string{"b", "d"}},
			{store.HistoryQuery{Locs: []string{"d", "b", "c"}, After: "b", Limit: 1}, []string{"c"}},
			{store.HistoryQuery{Locs: []string{}}, nil},
			{store.HistoryQuery{Incarnation: 1}, nil},
		} {
			row.q.Run = r.No
			entries, err := k.s.History(k.ctx, row.q)
			k.ok(err)
			var got []string
			for _, e := range entries {
				got = append(got, e.Loc)
			}
			k.equal(fmt.Sprintf("%+v", row.q), got, row.want)
		}
	}},
	{"InboxSelects", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), k.start("other")
		var nos []store.ItemNo
		for _, id := range []string{"c", "a", "b"} {
			nos = append(nos, k.send(message("r", id)))
		}
		k.send(message("other", "a"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: nos[1]}}, Seen: nos[2:]},
			store.Committed)
		ids := func(items []store.Item) (s string) {
			for _, it := range items {
				s += it.ID
			}
			return s
		}
		k.equal("all that are not consumed", ids(k.inbox(r.No)), "cb")
		k.equal("by IDs", ids(k.inbox(r.No, "b", "a", "x", "a", "")), "ab")
		k.equal("of another run", ids(k.inbox(other.No, "a", "b")), "a")
	}},
	{"PendingCounts", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		send := func(kind store.ItemKind, id, name string, size int) store.ItemNo {
			return k.send(store.Command{RunID: "r", Item: &store.Item{Kind: kind, Name: name, ID: id, Origin: id,
				Value: make([]byte, size)}})
		}
		taken := send(store.ItemMessage, "m1", "m", 7)
		send(store.ItemUpdate, "u1", "u", 3)
		seen := send(store.ItemMessage, "m2", "m", store.LargeValue+1)
		send(store.ItemMessage, "m3", "other", 2)
		answered := send(store.ItemUpdate, "u2", "u", 5)
		send(store.ItemUpdate, "u3", "u", 11)
		send(store.ItemUpdate, "u4", "other", 13)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{seen},
			Consumed: []store.Consumption{{Item: taken}, {Item: answered, Verdict: []byte("v")}}}, store.Committed)
		for _, row := range []struct {
			q    store.PendingQuery
			want store.Pending
		}{
			{store.PendingQuery{}, store.Pending{Items: 5, Bytes: 3 + store.LargeValue + 1 + 2 + 11 + 13, Last: "u4"}},
			{store.PendingQuery{Kinds: []store.ItemKind{store.ItemMessage}},
				store.Pending{Items: 2, Bytes: store.LargeValue + 3, Last: "m3"}},
			{store.PendingQuery{Kinds: []store.ItemKind{store.ItemUpdate}, Name: "u"},
				store.Pending{Items: 2, Bytes: 14, Last: "u3"}},
			{store.PendingQuery{Name: "other"}, store.Pending{Items: 2, Bytes: 15, Last: "u4"}},
			{store.PendingQuery{Kinds: []store.ItemKind{store.ItemMessage, store.ItemUpdate}, Name: "m"},
				store.Pending{Items: 1, Bytes: store.LargeValue + 1, Last: "m2"}},
			{store.PendingQuery{Kinds: []store.ItemKind{store.ItemAsk}}, store.Pending{}},
			{store.PendingQuery{Kinds: []store.ItemKind{}}, store.Pending{}},
		} {
			row.q.Run = r.No
			sum, err := k.s.Pending(k.ctx, row.q)
			k.ok(err)
			k.equal(fmt.Sprintf("%+v", row.q), sum, row.want)
		}
		for _, none := range []store.RunNo{0, -1, r.No + 1_000_000} {
			sum, err := k.s.Pending(k.ctx, store.PendingQuery{Run: none})
			k.ok(err)
			k.equal("of a run that does not exist", sum, store.Pending{})
		}
	}},
}
