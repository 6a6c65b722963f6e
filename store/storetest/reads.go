package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

var startCases = []testCase{
	{"ASecondStartFindsTheFirst", func(k *kit) {
		first := k.startOf("r", func(s *store.Start) { s.Items = []store.Item{*message("", "m").Item} })
		want := k.apply(store.Command{Start: first})
		k.unchanged("a second start", func() {
			k.equal("the answer to the same start", k.apply(store.Command{Start: first}), want)
			other := k.startOf("r", func(s *store.Start) { s.Input, s.Workflow = []byte("other"), "x" })
			k.equal("the answer to another start", k.apply(store.Command{Start: other}),
				store.Answer{Outcome: store.Exists, Run: want.Run})
			k.equal("a replacement of a live run", k.apply(store.Command{Start: k.startOf("r", replace)}),
				store.Answer{Outcome: store.Exists, Run: want.Run})
		})
	}},
	{"ARunIsAsItWasStarted", func(k *kit) {
		parent := k.start("parent")
		for _, input := range [][]byte{nil, {}, []byte("x"), []byte(strings.Repeat("y", 512)),
			[]byte(strings.Repeat("z", 100_000))} {
			start := k.startOf(fmt.Sprint("r", len(input), input == nil), func(s *store.Start) {
				s.Input, s.Parent, s.ParentLoc, s.Shard.Slot = input, parent.No, "loc\x00\xff", 0
			})
			a := k.apply(store.Command{Start: start})
			want := store.Run{No: a.Run.No, ID: start.ID, Shard: shardA, Workflow: "w", Status: store.Queued, Seed: start.Seed,
				Parent:    parent.No,
				ParentLoc: "loc\x00\xff", Created: k.now(), Input: input, InputSize: len(input)}
			k.equal("the answer", a, store.Answer{Outcome: store.Applied, Run: want})
			k.equal("the run", k.get(a.Run.No), want)
			if a.Run.No <= parent.No {
				k.Errorf("the run number %d does not grow", a.Run.No)
			}
		}
	}},
	{"AReplacementTakesTheIDOfARunThatHasEnded", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, row := range []struct {
			policy   store.ExistingPolicy
			status   store.Status
			replaced bool
		}{
			{store.KeepExisting, store.Failed, false},
			{store.ReplaceFailed, store.Running, false}, {store.ReplaceFailed, store.Suspended, false},
			{store.ReplaceFailed, store.Succeeded, false}, {store.ReplaceFailed, store.Stalled, false},
			{store.ReplaceFailed, store.Failed, true}, {store.ReplaceFailed, store.Cancelled, true},
			{store.ReplaceEnded, store.Running, false}, {store.ReplaceEnded, store.Suspended, false},
			{store.ReplaceEnded, store.Succeeded, true}, {store.ReplaceEnded, store.Stalled, false},
			{store.ReplaceEnded, store.Failed, true}, {store.ReplaceEnded, store.Cancelled, true},
		} {
			old := o.started(fmt.Sprint(row.status, row.policy))
			o.turn(&store.Turn{Run: old.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
				Update: &store.Update{Status: row.status}}, store.Committed)
			kept := k.get(old.No)
			start := k.startOf(old.ID, func(s *store.Start) { s.Existing = row.policy })
			a := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0]
			if !row.replaced {
				if a.Outcome != store.Exists || a.Run.No != old.No || a.Claimed {
					k.Errorf("replacing a %s run by policy %d: %+v", row.status, row.policy, a)
				}
				k.equal("the run that stays", k.get(old.No), kept)
				continue
			}
			if a.Outcome != store.Applied || a.Run.No <= old.No || a.Run.ID != old.ID || !a.Claimed {
				k.Fatalf("replacing a %s run by policy %d: %+v", row.status, row.policy, a)
			}
			kept.ID = fmt.Sprintf("%s@%d", old.ID, old.No)
			k.equal("the replaced run", k.get(old.No), kept)
			k.equal("the runs with the ID", []int{len(k.history(a.Run.No)), len(k.history(old.No))}, []int{0, 1})
			if to := k.apply(verb(kept.ID, "v", store.ItemResume)); to.Outcome != store.Applied || to.Run.No != old.No {
				k.Errorf("an item for the replaced run: %+v", to)
			}
			if to := k.apply(verb(old.ID, "v", store.ItemResume)); to.Outcome != store.Applied || to.Run.No != a.Run.No {
				k.Errorf("an item for the new run: %+v", to)
			}
			again := k.apply(store.Command{Start: start})
			if again.Outcome != store.Applied || again.Run.No != a.Run.No {
				k.Errorf("the replacement again: %+v", again)
			}
		}
	}},
	{"AReplacedRunDoesNotTakeAName", func(k *kit) {
		o := k.owner(k.s, "n")
		long := strings.Repeat("x", store.MaxRunID)
		for _, id := range []string{"r", long} {
			r := o.started(id)
			o.become(r, store.Failed)
			if id == "r" {
				k.start(fmt.Sprintf("r@%d", r.No))
			}
			k.unchanged("a replacement for whose old run there is no name", func() {
				if a := k.apply(store.Command{Start: k.startOf(id, replace)}); a.Outcome != store.Exists || a.Run.No != r.No {
					k.Errorf("the replacement of %.10s: %+v", id, a)
				}
			})
		}
	}},
}

func replace(s *store.Start) { s.Existing = store.ReplaceFailed }

var readCases = []testCase{
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
	{"FiltersSelect", filtersSelect},
	{"ClaimedRunsAreSelectedByTheirShards", claimedSelect},
	{"RunsAreListedByTheirEnds", listedByEnds},
	{"CountsEndAtABoundOfEachStatus", boundedCounts},
	{"PagesDoNotOverlap", func(k *kit) {
		var want []string
		for i := range 10 {
			id := fmt.Sprint(i)
			k.start(id, func(s *store.Start) { s.Workflow = []string{"w", "w", "x"}[i%3] })
			if i%3 != 2 {
				want = append(want, id)
			}
		}
		slices.Reverse(want)
		for limit := 1; limit <= 8; limit++ {
			var got []string
			f := store.Filter{Workflows: []string{"w"}, Limit: limit}
			for page := 0; ; page++ {
				p, err := k.s.List(k.ctx, f)
				k.ok(err)
				for _, r := range p.Runs {
					got = append(got, r.ID)
				}
				if len(p.Runs) > limit || len(p.Runs) == 0 {
					k.Fatalf("a page of %d has %d runs", limit, len(p.Runs))
				}
				k.start(fmt.Sprint("new", limit, page), func(s *store.Start) { s.Workflow = "later" })
				if f.Cursor = p.Next; p.Next == "" {
					break
				}
			}
			k.equal(fmt.Sprintf("all pages of %d", limit), got, want)
		}
		p, err := k.s.List(k.ctx, store.Filter{Workflows: []string{"none"}})
		k.ok(err)
		k.equal("the page of nothing", p, store.Page{})
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
}

func filtersSelect(k *kit) {
	o := k.owner(k.s, "n")
	t0 := k.now()
	parent := o.started("order-1")
	o.turn(update(parent, store.Update{Status: store.Suspended, Marks: store.Paused | store.Cancelling,
		Output: []byte("o"), Waits: []byte("w")}), store.Committed)
	k.pass(second)
	child := o.started("order-2", func(s *store.Start) { s.Parent, s.Workflow = parent.No, "x" })
	t1 := k.now()
	o.turn(update(child, store.Update{Status: store.Failed, Marks: store.Paused, Output: []byte("o")}), store.Committed)
	k.pass(second)
	k.start("Order-3", func(s *store.Start) { s.Workflow = "x" })
	k.start("ör%_", func(s *store.Start) { s.Workflow = `ü"'` })
	t2 := k.now()
	for _, row := range []struct {
		f    store.Filter
		want string // the last bytes of the IDs, oldest first
	}{
		{store.Filter{}, "123_"},
		{store.Filter{IDs: []string{"order-1"}}, "1"},
		{store.Filter{IDs: []string{"ör%_", "order-1", "nobody", "order-1"}}, "1_"},
		{store.Filter{IDs: []string{"order"}}, ""},
		{store.Filter{Nos: []store.RunNo{child.No, parent.No}}, "12"},
		{store.Filter{IDPrefix: "order-"}, "12"},
		{store.Filter{IDPrefix: "O"}, "3"},
		{store.Filter{IDPrefix: "ör%_"}, "_"},
		{store.Filter{IDPrefix: "\xc3"}, "_"},
		{store.Filter{IDPrefix: "o%"}, ""},
		{store.Filter{IDPrefix: "order-11"}, ""},
		{store.Filter{Workflows: []string{"x"}}, "23"},
		{store.Filter{Workflows: []string{"x", `ü"'`}}, "23_"},
		{store.Filter{Statuses: []store.Status{store.Suspended, store.Failed}}, "12"},
		{store.Filter{Statuses: []store.Status{store.Succeeded}}, ""},
		{store.Filter{Marks: store.Paused}, "12"},
		{store.Filter{Marks: store.Paused | store.Cancelling}, "1"},
		{store.Filter{Marks: store.Undoing}, ""},
		{store.Filter{Parent: parent.No}, "2"},
		{store.Filter{CreatedFrom: t0 + 1}, "23_"},
		{store.Filter{CreatedFrom: t0, CreatedBefore: t2}, "12"},
		{store.Filter{CreatedFrom: t2, CreatedBefore: t2.Add(time.Microsecond)}, "3_"},
		{store.Filter{EndedFrom: 1}, "2"},
		{store.Filter{EndedFrom: t1, EndedBefore: t1 + 1}, "2"},
		{store.Filter{EndedFrom: t1 + 1}, ""},
		{store.Filter{EndedBefore: t1}, ""},
		{store.Filter{EndedBefore: t2}, "2"},
		{store.Filter{EndedBefore: t2, Workflows: []string{"w", "x"}}, "2"},
		{store.Filter{EndedBefore: t2, CreatedBefore: t1}, ""},
		{store.Filter{Workflows: []string{"x"}, Statuses: []store.Status{store.Queued, store.Suspended}, IDPrefix: "O"}, "3"},
		{store.Filter{Workflows: []string{"x"}, Statuses: []store.Status{store.Suspended}}, ""},
	} {
		page, err := k.s.List(k.ctx, row.f)
		k.ok(err)
		var got string
		counts := map[store.Tally]int64{}
		for _, r := range slices.Backward(page.Runs) {
			got += r.ID[len(r.ID)-1:]
			counts[store.Tally{Workflow: r.Workflow, Status: r.Status}]++
			if r.Input != nil || r.Output != nil || r.Waits != nil || r.InputSize == 0 {
				k.Errorf("a listing without values has them, or not their length: %+v", r)
			}
		}
		k.equal(fmt.Sprintf("%+v", row.f), got, row.want)
		tallies, err := k.s.Count(k.ctx, row.f)
		k.ok(err)
		var last store.Tally
		for _, n := range tallies {
			key := store.Tally{Workflow: n.Workflow, Status: n.Status}
			if counts[key] != n.Runs || n.Workflow < last.Workflow || n.Workflow == last.Workflow && n.Status <= last.Status {
				k.Errorf("%+v: counted %+v after %+v; listed are %d", row.f, n, last, counts[key])
			}
			delete(counts, key)
			last = n
		}
		k.equal(fmt.Sprintf("%+v: listed and not counted", row.f), counts, map[store.Tally]int64{})
	}
	r := k.get(child.No)
	k.equal("values when asked for", []string{string(r.Input), string(r.Output)}, []string{"in order-2", "o"})
}

func listedByEnds(k *kit) {
	o := k.owner(k.s, "n")
	parent := k.start("parent")
	var runs []store.Run
	for i := range 8 {
		runs = append(runs, o.started(fmt.Sprint(i), func(s *store.Start) {
			s.Workflow, s.Parent = []string{"w", "x"}[i%2], parent.No
			s.Tags = []store.Pair{{Key: "k", Value: fmt.Sprint(i % 2)}}
		}))
	}
	end := func(u store.Update, list ...int) {
		for _, i := range list {
			o.turn(update(runs[i], u), store.Committed)
		}
	}
	end(store.Update{Status: store.Succeeded}, 4, 1)
	k.pass(second)
	end(store.Update{Status: store.Failed, Keep: 26 * hour}, 6)
	end(store.Update{Status: store.Cancelled}, 0)
	end(store.Update{Status: store.Stalled}, 7)
	middle := k.now()
	k.pass(second)
	end(store.Update{Status: store.Succeeded}, 3)
	end(store.Update{Status: store.Succeeded, Keep: store.KeepForever}, 2)
	for _, row := range []struct {
		f    store.Filter
		want string
	}{
		{store.Filter{}, "326041"},
		{store.Filter{Workflows: []string{"w"}}, "2604"},
		{store.Filter{Workflows: []string{"w", "w", "x", "none"}}, "326041"},
		{store.Filter{Statuses: []store.Status{store.Succeeded, store.Running, store.Stalled}}, "3241"},
		{store.Filter{Statuses: []store.Status{store.Stalled}}, ""},
		{store.Filter{Workflows: []string{"x"}, Statuses: []store.Status{store.Succeeded, store.Failed}}, "31"},
		{store.Filter{EndedFrom: middle}, "3260"},
		{store.Filter{EndedBefore: middle + 1, Workflows: []string{"w"}}, "604"},
		{store.Filter{Tags: []store.Pair{{Key: "k", Value: "1"}}}, "31"},
		{store.Filter{Parent: parent.No, Statuses: []store.Status{store.Succeeded}}, "3241"},
		{store.Filter{IDs: []string{"1", "2", "5", "6"}}, "261"},
		{store.Filter{Nos: []store.RunNo{runs[1].No, runs[4].No, runs[3].No}}, "341"},
		{store.Filter{CreatedFrom: 1, IDPrefix: "4"}, "4"},
	} {
		row.f.ByEnded = true
		for limit := 1; limit <= 7; limit++ {
			row.f.Limit, row.f.Cursor = limit, ""
			var got []string
			for {
				page, err := k.s.List(k.ctx, row.f)
				k.ok(err)
				for _, r := range page.Runs {
					got = append(got, r.ID)
				}
				if row.f.Cursor = page.Next; page.Next == "" {
					break
				}
				_, err = k.s.List(k.ctx, store.Filter{Cursor: page.Next})
				k.fails("the cursor of a list by ends in another", err, store.ErrBadCursor)
			}
			k.equal(fmt.Sprintf("%+v", row.f), strings.Join(got, ""), row.want)
		}
	}
	_, err := k.s.List(k.ctx, store.Filter{ByEnded: true, Cursor: store.EncodeCursor(3)})
	k.fails("the cursor of another list", err, store.ErrBadCursor)
}

func boundedCounts(k *kit) {
	o := k.owner(k.s, "n")
	for i, workflow := range []string{"x", "x", "stet", entityWorkflow, "x", "stet/z", "stet"} {
		r := o.started(fmt.Sprint("failed", i), func(s *store.Start) { s.Workflow = workflow })
		o.become(r, store.Failed)
	}
	for i, workflow := range []string{"x", "stet", "w"} {
		k.start(fmt.Sprint("queued", i), func(s *store.Start) { s.Workflow = workflow })
	}
	for _, row := range []struct {
		f    store.Filter
		want string
	}{
		{store.Filter{}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1, x failed 3"},
		{store.Filter{Most: 100}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1, x failed 3"},
		{store.Filter{Most: 6}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1, x failed 3"},
		{store.Filter{Most: 5}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1, x failed 3"},
		{store.Filter{Most: 4}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1, x failed 2"},
		{store.Filter{Most: 2}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1"},
		{store.Filter{Most: 1}, "stet queued 1, stet failed 2, w queued 1"},
		{store.Filter{Most: 1, Workflows: []string{"x", "stet", "x"}}, "stet queued 1, stet failed 2, x queued 1"},
		{store.Filter{Most: 1, Workflows: []string{entityWorkflow, "x", "none"}}, entityWorkflow + " failed 1, x queued 1, x failed 1"},
		{store.Filter{Most: 2, Statuses: []store.Status{store.Failed, store.Running, store.Failed}}, "stet failed 2, stet/z failed 1"},
		{store.Filter{Most: 2, Statuses: []store.Status{store.Queued}, Workflows: []string{"w"}}, "w queued 1"},
		{store.Filter{Most: 1, Statuses: []store.Status{store.Stalled}}, ""},
		{store.Filter{Most: 1, IDPrefix: "failed"}, "stet failed 2"},
		{store.Filter{Most: 2, CreatedFrom: 1}, "stet queued 1, stet failed 2, stet/z failed 1, w queued 1, x queued 1"},
		{store.Filter{Most: 1, Limit: 1, Values: true}, "stet queued 1, stet failed 2, w queued 1"},
	} {
		tallies, err := k.s.Count(k.ctx, row.f)
		k.ok(err)
		var got []string
		for _, n := range tallies {
			got = append(got, fmt.Sprintf("%s %s %d", n.Workflow, n.Status, n.Runs))
		}
		k.equal(fmt.Sprintf("the counts of %+v", row.f), strings.Join(got, ", "), row.want)
		page, err := k.s.List(k.ctx, store.Filter{Most: 1})
		k.ok(err)
		k.equal("runs listed with a bound for counts", len(page.Runs), 9)
	}
}

func claimedSelect(k *kit) {
	both := []store.Shard{shardA, shardB}
	o, other := k.owner(k.s, "n"), k.owner(k.s, "m", shardB)
	o.started("1")
	ended := o.started("2")
	o.turn(update(ended, store.Update{Status: store.Failed}), store.Committed)
	o.started("3", func(s *store.Start) { s.Workflow = entityWorkflow })
	k.start("4")
	other.started("5", func(s *store.Start) { s.Shard = shardB })
	k.start("6", func(s *store.Start) { s.Shard = shardB })
	check := func(what string, f store.Filter, want string) {
		k.Helper()
		var got string
		for more := true; more; more = f.Cursor != "" {
			page, err := k.s.List(k.ctx, f)
			k.ok(err)
			for _, r := range page.Runs {
				got += r.ID
			}
			f.Cursor = page.Next
		}
		k.equal(what, got, want)
		f.Cursor = ""
		tallies, err := k.s.Count(k.ctx, f)
		k.ok(err)
		n := 0
		for _, t := range tallies {
			n += int(t.Runs)
		}
		k.equal(what+": counted", n, len(want))
	}
	check("in one shard", store.Filter{Claimed: both[:1]}, "31")
	check("in another", store.Filter{Claimed: both[1:]}, "5")
	check("in both, by pages", store.Filter{Claimed: both, Limit: 1}, "531")
	check("a shard that nobody has used", store.Filter{Claimed: []store.Shard{{Group: "none"}}}, "")
	check("with a workflow", store.Filter{Claimed: both, Workflows: []string{"w"}}, "51")
	check("with a status", store.Filter{Claimed: both, Statuses: []store.Status{store.Suspended}}, "")
	check("with IDs", store.Filter{Claimed: both, IDs: []string{"4", "5"}}, "5")
	check("with tags", store.Filter{Claimed: both, Tags: []store.Pair{{Key: "k", Value: "v"}}}, "")

	k.apply(verb(ended.ID, "v", store.ItemResume))
	o.claim(10, "w")
	check("with one that has ended and was called", store.Filter{Claimed: both[:1]}, "4321")
	o.release()
	check("after the leases were given back", store.Filter{Claimed: both}, "5")
	_, err := k.s.List(k.ctx, store.Filter{Claimed: []store.Shard{{Slot: -1, Group: "g"}}})
	k.fails("a bad shard", err, store.ErrInvalid)
}

var nodeCases = []testCase{
	{"ARegisteredNodeIsListed", func(k *kit) {
		n := store.Node{ID: "b", Boot: "b-1", Build: "v1", Host: "host", PID: 7, Workflows: []string{"x", "w"}}
		other := store.Node{ID: "a", Boot: "a-1", Workflows: []string{"y", "w"}}
		for _, n := range []store.Node{n, other} {
			now, err := k.s.Register(k.ctx, n)
			k.ok(err)
			k.equal("the time", now, k.now())
		}
		other.SeenAt = k.now()
		k.pass(minute)
		_, err := k.s.Register(k.ctx, n)
		k.ok(err)
		n.SeenAt = k.now()
		k.nodes("after a heartbeat", other, n)
		n.Boot, n.Build, n.Workflows = "b-2", "v2", []string{"z"}
		_, err = k.s.Register(k.ctx, n)
		k.ok(err)
		k.nodes("after another boot", other, n)
		n.Stopped = true
		stale := n
		stale.Boot = "b-1"
		_, err = k.s.Register(k.ctx, stale)
		k.ok(err)
		n.Stopped = false
		k.nodes("after a former boot has stopped", other, n)
		n.Stopped = true
		_, err = k.s.Register(k.ctx, n)
		k.ok(err)
		k.nodes("after it has stopped", other)
		d, err := k.s.Describe(k.ctx)
		k.ok(err)
		k.equal("every workflow that was ever registered", d.Workflows, []string{"w", "x", "y", "z"})
		if d.ID == "" || d.Kind == "" || d.Slots < 1 || d.Durable == "" || d.Now != k.now() {
			k.Errorf("the description %+v lacks something", d)
		}
	}},
	{"ANodeIsForgottenAfterADay", func(k *kit) {
		for _, id := range []string{"gone", "owner", "alive"} {
			_, err := k.s.Register(k.ctx, store.Node{ID: id, Boot: id + "-1"})
			k.ok(err)
		}
		o := k.owner(k.s, "owner")
		alive := func(want ...string) {
			k.Helper()
			_, err := k.s.Register(k.ctx, store.Node{ID: "alive", Boot: "alive-1"})
			k.ok(err)
			d, err := k.s.Describe(k.ctx)
			k.ok(err)
			var got []string
			for _, n := range d.Nodes {
				got = append(got, n.ID)
			}
			k.equal("the nodes", got, want)
		}
		k.pass(24 * hour)
		alive("alive", "gone", "owner")
		k.pass(1)
		alive("alive", "owner")
		o.release()
		alive("alive")
	}},
}

// nodes checks which nodes are listed.
func (k *kit) nodes(what string, want ...store.Node) {
	k.Helper()
	d, err := k.s.Describe(k.ctx)
	k.ok(err)
	k.equal("the nodes "+what, d.Nodes, want)
}

// patience is how long a case waits for an event that should not happen.
const patience = 50 * time.Millisecond

var changedCases = []testCase{
	{"WakesAnotherProcess", func(k *kit) {
		listener := k.harness.Join(k)
		o := k.owner(k.s, "n")
		var ready store.ShardSet
		ready.Add(shardA)
		for _, row := range []struct {
			what string
			of   store.Change
			act  func()
		}{
			{"a start", store.Change{Ready: ready}, func() { k.start("r") }},
			{"an item", store.Change{Ready: ready}, func() { k.send(message("r", "m")) }},
			{"a turn", store.Change{Answered: true}, func() {
				c := o.claim(10, "w")
				o.turn(&store.Turn{Run: c.Runs[0].Run.No, Shard: shardA,
					Consumed: []store.Consumption{{Item: c.Runs[0].Items[0].No}}}, store.Committed)
			}},
			{"giving shards back", store.Change{Nodes: true}, o.release},
		} {
			k.hinted(listener, row.what, row.of, row.act)
		}
	}},
	{"DoesNotMissWhatCameBefore", func(k *kit) {
		listener := k.harness.Join(k)
		k.quiet(listener)
		k.start("r")
		var ready store.ShardSet
		ready.Add(shardA)
		k.ok(hear(k.ctx, listener, store.Change{Ready: ready}))
	}},
	{"IsQuietWhenNothingHappens", func(k *kit) {
		listener := k.harness.Join(k)
		k.start("r")
		k.quiet(listener)
		k.quiet(k.s)
	}},
	{"EndsWithItsContextAndTheStore", func(k *kit) {
		listener := k.harness.Join(k)
		k.quiet(listener)
		ctx, cancel := context.WithCancelCause(k.ctx)
		done := make(chan error, 1)
		changed := func(ctx context.Context) error { _, err := listener.Changed(ctx); return err }
		go func() { done <- changed(ctx) }()
		cancel(errors.New("enough"))
		k.fails("Changed", <-done, context.Canceled)
		go func() { done <- changed(k.ctx) }()
		k.ok(listener.Close())
		k.fails("Changed", <-done, store.ErrClosed)
	}},
}

// hinted checks that a listening handle is notified of an act.
func (k *kit) hinted(listener store.Store, what string, of store.Change, act func()) {
	k.Helper()
	k.quiet(listener)
	done := make(chan error, 1)
	go func() { done <- hear(k.ctx, listener, of) }()
	act()
	if err := <-done; err != nil {
		k.Errorf("waiting for %s: %v", what, err)
	}
}

// hear waits until all parts of a change were notified.
func hear(ctx context.Context, s store.Store, want store.Change) error {
	var heard store.Change
	for {
		change, err := s.Changed(ctx)
		if err != nil {
			return fmt.Errorf("expected to hear of %+v, found %+v: %w", want, heard, err)
		}
		heard.Add(change)
		both := heard
		if both.Add(want); both == heard {
			return nil
		}
	}
}

// quiet waits until a handle has no hint: Changed may return early, but not for ever.
func (k *kit) quiet(s store.Store) {
	k.Helper()
	for range 20 {
		ctx, cancel := context.WithTimeout(k.ctx, patience)
		_, err := s.Changed(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		k.ok(err)
	}
	k.Fatal("Changed returns again and again though nothing happens")
}
