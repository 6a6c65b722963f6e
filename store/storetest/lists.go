package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// listCases are of how runs are found and counted.
var listCases = []testCase{
	{"FiltersSelect", filtersSelect},
	{"ClaimedRunsAreSelectedByTheirShards", claimedSelect},
	{"RunsAreListedByTheirEnds", listedByEnds},
	{"CountsEndAtABoundOfEachStatus", boundedCounts},
	{"LargeValuesAreLeftOutOfAList", largeLeftOut},
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
	{"EachMarkIsFound", func(k *kit) {
		o := k.owner(k.s, "n")
		marks := []store.Marks{store.Paused, store.Cancelling, store.Undoing, store.Expiring, store.Held, store.Failing}
		for _, mark := range marks {
			r := o.started(mark.String(), func(s *store.Start) { s.Tags = []store.Pair{{Key: "env", Value: "prod"}} })
			o.turn(update(r, store.Update{Status: store.Suspended, Marks: mark}), store.Committed)
		}
		o.become(o.started("none"), store.Suspended)
		for _, mark := range marks {
			for _, f := range []store.Filter{{}, {Limit: 1}, {Workflows: []string{"w"}},
				{Statuses: []store.Status{store.Suspended}}, {Tags: []store.Pair{{Key: "env", Value: "prod"}}}, {CreatedFrom: 1}} {
				f.Marks = mark
				page, err := k.s.List(k.ctx, f)
				k.ok(err)
				if len(page.Runs) != 1 || page.Runs[0].ID != mark.String() {
					k.Errorf("of the mark %s, %+v: found %d runs", mark, f, len(page.Runs))
				}
				counted, err := k.s.Count(k.ctx, f)
				k.ok(err)
				if len(counted) != 1 || counted[0].Runs != 1 {
					k.Errorf("of the mark %s, %+v: counted %+v", mark, f, counted)
				}
			}
		}
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

// largeLeftOut: Filter.Longest leaves out each input, and each output of a run that has succeeded. The sizes, waits,
// and the failure of a run are there.
func largeLeftOut(k *kit) {
	o := k.owner(k.s, "n")
	small, large := []byte("1234"), bytes.Repeat([]byte("x"), 3*store.LargeValue)
	start := func(id string, input []byte) store.Run {
		return o.started(id, func(s *store.Start) { s.Input = input })
	}
	o.turn(update(start("waits", large), store.Update{Status: store.Suspended, Waits: []byte("w")}), store.Committed)
	o.turn(update(start("done", small), store.Update{Status: store.Succeeded, Output: large}), store.Committed)
	o.turn(update(start("failed", large), store.Update{Status: store.Failed, Output: large}), store.Committed)
	o.turn(update(start("none", nil), store.Update{Status: store.Succeeded}), store.Committed)
	all := []string{"waits", "done", "failed", "none"}
	for _, row := range []struct {
		longest int
		input   []int // lengths of the inputs, in the order of all
		output  int   // of done
	}{
		{0, []int{len(large), 4, len(large), 0}, len(large)},
		{len(large), []int{len(large), 4, len(large), 0}, len(large)},
		{len(large) - 1, []int{0, 4, 0, 0}, 0},
		{4, []int{0, 4, 0, 0}, 0},
		{3, []int{0, 0, 0, 0}, 0},
		{-1, []int{0, 0, 0, 0}, 0},
	} {
		for _, f := range []store.Filter{
			{IDs: all}, {}, {Workflows: []string{"w"}}, {IDPrefix: ""}, {ByEnded: true},
			{Statuses: []store.Status{store.Succeeded, store.Failed, store.Suspended}},
		} {
			f.Values, f.Longest = true, row.longest
			page, err := k.s.List(k.ctx, f)
			k.ok(err)
			found := map[string]store.Run{}
			for _, r := range page.Runs {
				found[r.ID] = r
			}
			for i, id := range all {
				r, ok := found[id]
				if !ok && id == "waits" && f.ByEnded {
					continue
				}
				output := map[string]int{"done": row.output, "failed": len(large)}[id]
				k.equal(fmt.Sprintf("%+v: lengths of the values of %s", f, id), []int{len(r.Input), len(r.Output)},
					[]int{row.input[i], output})
				if id == "waits" && string(r.Waits) != "w" {
					k.Errorf("%+v: the waits are %q", f, r.Waits)
				}
				if id == "done" && (r.InputSize != 4 || r.OutputSize != len(large)) {
					k.Errorf("%+v: the sizes of done are %d and %d", f, r.InputSize, r.OutputSize)
				}
			}
		}
	}
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
			for pages := 0; ; pages++ {
				page, err := k.s.List(k.ctx, row.f)
				k.ok(err)
				for _, r := range page.Runs {
					got = append(got, r.ID)
				}
				if row.f.Cursor = page.Next; page.Next == "" || pages == mostPages {
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
		for pages := 0; pages == 0 || f.Cursor != "" && pages < mostPages; pages++ {
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
