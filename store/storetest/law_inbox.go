package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

var law06 = []testCase{
	{"ARepeatFindsTheFirst", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		sent := k.apply(message("r", "m"))
		first := sent.Item
		if first == 0 || sent.Repeated {
			k.Errorf("the first act: %+v", sent)
		}
		k.unchanged("the repeat", func() {
			if a := k.apply(message("r", "m")); a.Outcome != store.Applied || a.Item != first || !a.Repeated ||
				a.Run.No != r.No {
				k.Errorf("the same act again: %+v", a)
			}
			different := message("r", "m")
			different.Item.Origin = "another act"
			if a := k.apply(different); a.Outcome != store.Duplicate || a.Run.No != r.No {
				k.Errorf("another act with the same ID: %+v", a)
			}
		})
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: first}}}, store.Committed)
		k.unchanged("the repeat after it was consumed", func() {
			if a := k.apply(message("r", "m")); a.Outcome != store.Applied || a.Item != first || !a.Repeated {
				k.Errorf("the same act after it was consumed: %+v", a)
			}
		})
		o.become(r, store.Succeeded)
		k.unchanged("the repeat after the end", func() {
			if a := k.apply(message("r", "m")); a.Outcome != store.Applied || a.Item != first || !a.Repeated {
				k.Errorf("the same act after the run has ended: %+v", a)
			}
		})
	}},
	{"AnIDIsOfOneRun", func(k *kit) {
		a, b := k.start("a"), k.start("b")
		if x, y := k.send(message("a", "m")), k.send(message("b", "m")); x == y {
			k.Errorf("two items have the number %d", x)
		}
		k.equal("the items of each run", []int{len(k.inbox(a.No)), len(k.inbox(b.No))}, []int{1, 1})
	}},
	{"AllWaysOfSendingCount", func(k *kit) {
		o := k.owner(k.s, "n")
		sender := o.started("sender")
		r := k.start("r", func(s *store.Start) { s.Items = []store.Item{*message("", "m").Item} })
		o.batch([]store.Command{message("r", "m")},
			&store.Turn{Run: sender.No, Shard: shardA, Sends: []store.Command{message("r", "m"), message("r", "m")}})
		k.apply(message("r", "m"))
		if items := k.inbox(r.No); len(items) != 1 {
			k.Errorf("an item that was sent five ways is there %d times", len(items))
		}
	}},
	{"NumbersGrowInTheOrderOfSending", func(k *kit) {
		r := k.start("r", func(s *store.Start) {
			s.Items = []store.Item{{Kind: store.ItemMessage, ID: "z"}, {Kind: store.ItemMessage, ID: "y"}}
		})
		answers, _, err := k.s.Apply(k.ctx, []store.Command{message("r", "x"), message("r", "w")})
		k.ok(err)
		last := k.send(message("r", "a"))
		var ids string
		var no store.ItemNo
		items := k.inbox(r.No)
		for _, it := range items {
			ids += it.ID
			if it.No <= no {
				k.Errorf("item %s has the number %d after %d", it.ID, it.No, no)
			}
			no = it.No
		}
		k.equal("the items in the order of their numbers", ids, "zyxwa")
		k.equal("the numbers that were answered",
			[]store.ItemNo{answers[0].Item, answers[1].Item, last}, []store.ItemNo{items[2].No, items[3].No, items[4].No})
	}},
	{"ManyAtOnceFromTwoProcesses", func(k *kit) {
		r := k.start("r")
		var wg sync.WaitGroup
		for _, s := range []store.Store{k.s, k.harness.Join(k)} {
			for part := range 2 {
				wg.Go(func() {
					for i := range 20 {
						if _, _, err := s.Apply(k.ctx, []store.Command{message("r", fmt.Sprint(i)),
							message("r", fmt.Sprint(part, "-", i))}); err != nil {
							k.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		seen := map[string]bool{}
		items := k.inbox(r.No)
		for _, it := range items {
			if seen[it.ID] {
				k.Errorf("item %s is there twice", it.ID)
			}
			seen[it.ID] = true
		}
		k.equal("the number of items", len(items), 60)
	}},
	{"AnItemIsKeptAsItWasSent", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		want := store.Item{Kind: store.ItemResolution, Name: "näme", ID: "id", Origin: "origin", Incarnation: 3,
			Loc: "loc\x00\xff", Failed: true, Value: []byte("v\x00")}
		want.No = k.send(item("r", want))
		want.State, want.Sent = store.New, k.now()
		k.equal("the new item", k.inbox(r.No), []store.Item{want})
		claims := o.claim(10, "w")
		k.equal("the claimed item", claims.Runs, []store.Claimed{{Run: store.Run{No: r.No}, Items: []store.Item{want}}})
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{want.No}}, store.Committed)
		want.State = store.Seen
		k.equal("the seen item", k.inbox(r.No), []store.Item{want})
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{want.No},
			Consumed: []store.Consumption{{Item: want.No, Verdict: []byte{}}}}, store.Committed)
		want.State, want.Value, want.Verdict = store.Consumed, nil, []byte{}
		k.equal("the consumed item", k.inbox(r.No, "id"), []store.Item{want})
		k.equal("the items that are not consumed", k.inbox(r.No), []store.Item(nil))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{want.No}}, store.Committed)
		k.equal("the consumed item that was seen again", k.inbox(r.No, "id"), []store.Item{want})
	}},
	{"AnItemIsConsumedOnce", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		no := k.send(message("r", "m"))
		foreign := k.send(message("other", "m"))
		consume := func(run store.Run, nos ...store.ItemNo) *store.Turn {
			turn := &store.Turn{Run: run.No, Shard: shardA}
			for _, no := range nos {
				turn.Consumed = append(turn.Consumed, store.Consumption{Item: no})
			}
			return turn
		}
		k.unchanged("consuming the item of another run, one that is not there, or one twice", func() {
			o.turn(consume(r, foreign), store.Refused)
			o.turn(consume(r, foreign+1000), store.Refused)
			o.turn(consume(r, no, no), store.Refused)
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{foreign}}, store.Refused)
		})
		o.turn(consume(r, no), store.Committed)
		o.turn(consume(r, no), store.Refused)
		o.turn(consume(other, foreign), store.Committed)
	}},
	{"WhoCannotGetItIsTold", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled, store.Stalled,
			store.Suspended} {
			r := o.started(status.String())
			o.become(r, status)
			for _, row := range inbox05 {
				want := store.Applied
				if status.Terminal() && !row.kind.Verb() {
					want = store.Ended
				}
				if a := k.apply(item(r.ID, store.Item{Kind: row.kind, ID: row.name})); a.Outcome != want || a.Run.No != r.No ||
					(a.Item != 0) != (want == store.Applied) {
					k.Errorf("%s to a %s run: %+v; want outcome %d", row.name, status, a, want)
				}
			}
		}
		k.equal("the answer for no run", k.apply(message("nobody", "m")), store.Answer{Outcome: store.NotFound})
	}},
}

var law07 = []testCase{
	{"AnItemLeavesTheRowAlone", func(k *kit) {
		o := k.owner(k.s, "n")
		delayed := k.start("delayed", func(s *store.Start) { s.After = hour })
		runs := []store.Run{k.start("queued"), delayed, o.started("running")}
		for _, status := range []store.Status{store.Suspended, store.Succeeded, store.Failed, store.Cancelled,
			store.Stalled} {
			r := o.started(status.String())
			o.turn(update(r, store.Update{Status: status, WakeAt: k.now().Add(time.Hour), Waits: []byte("w"),
				Output: []byte("o")}), store.Committed)
			runs = append(runs, r)
		}
		for _, r := range runs {
			before := k.get(r.No)
			for _, row := range inbox05 {
				a := k.apply(item(r.ID, store.Item{Kind: row.kind, ID: row.name}))
				answer := before
				answer.Output = nil
				k.equal(fmt.Sprintf("the run in the answer to %s for %s", row.name, r.ID), a.Run, answer)
			}
			k.equal(fmt.Sprintf("%s after items", r.ID), k.get(r.No), before)
		}
	}},
	{"WhatIsAdopted", func(k *kit) {
		o := k.owner(k.s, "n")
		suspended, stalled, failed := o.started("suspended"), o.started("stalled"), o.started("failed")
		o.turn(update(suspended, store.Update{Status: store.Suspended, WakeAt: k.now().Add(time.Hour), Waits: []byte("w")}),
			store.Committed)
		o.become(stalled, store.Stalled)
		o.become(failed, store.Failed)
		o.started("claimed")
		k.start("queued")
		k.start("due", func(s *store.Start) { s.After = second })
		k.start("delayed", func(s *store.Start) { s.After = hour })
		k.start("elsewhere", func(s *store.Start) { s.Shard = shardB })
		k.pass(second)
		for _, row := range []struct {
			run  string
			want bool
		}{
			{"suspended", true}, {"queued", true}, {"due", true},
			{"delayed", false}, {"claimed", false}, {"stalled", false}, {"failed", false}, {"elsewhere", false},
		} {
			c := verb(row.run, "v", store.ItemResume)
			c.Claim = true
			before := k.apply(verb(row.run, "before", store.ItemResume)).Run
			a := o.batch([]store.Command{c}).Commands[0]
			after := k.get(before.No)
			answer := after
			answer.Output = nil
			k.equal("the run in the answer to an item for "+row.run, a.Run, answer)
			if a.Outcome != store.Applied || a.Claimed != row.want {
				k.Errorf("an item for %s: %+v; want it claimed %t", row.run, a, row.want)
			}
			if !row.want {
				continue
			}
			if !after.Claimed || after.Status != store.Running || after.WakeAt != 0 || after.Started == 0 {
				k.Errorf("%s after its claim: %+v", row.run, after)
			}
		}
		if r := k.get(suspended.No); string(r.Waits) != "w" {
			k.Errorf("a run claimed by a command waits for %q", r.Waits)
		}
	}},
	{"AStartThatIsDueIsAdopted", func(k *kit) {
		o := k.owner(k.s, "n")
		now := k.start("now").Created
		for _, row := range []struct {
			name   string
			change func(*store.Start)
			want   bool
		}{
			{"at once", func(*store.Start) {}, true},
			{"at a former time", func(s *store.Start) { s.At = 1 }, true},
			{"at this time", func(s *store.Start) { s.At = now }, true},
			{"a moment later", func(s *store.Start) { s.At = now + 1 }, false},
			{"after a delay", func(s *store.Start) { s.After = 1 }, false},
			{"elsewhere", func(s *store.Start) { s.Shard = shardB }, false},
		} {
			start := k.startOf(row.name, row.change)
			a := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0]
			k.equal("the run in the answer to a start "+row.name, a.Run, k.get(a.Run.No))
			if a.Claimed != row.want || a.Run.Claimed != row.want || (a.Run.Status == store.Running) != row.want {
				k.Errorf("a start %s: %+v; want it claimed %t", row.name, a, row.want)
			}
		}
	}},
	{"ARepeatedStartIsAdopted", func(k *kit) {
		o := k.owner(k.s, "n")
		start := k.startOf("r")
		k.apply(store.Command{Start: start})
		a := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0]
		if a.Outcome != store.Applied || !a.Claimed {
			k.Errorf("a start that waits for its owner, repeated by it: %+v", a)
		}
		k.equal("the run in the answer", a.Run, k.get(a.Run.No))
	}},
	{"AStartAgainFindsItsRun", func(k *kit) {
		o := k.owner(k.s, "n")
		for name, policy := range map[string]store.ExistingPolicy{
			"kept": store.KeepExisting, "failed": store.ReplaceFailed, "ended": store.ReplaceEnded,
		} {
			start := k.startOf(name, func(s *store.Start) { s.Existing = policy })
			again := func(when string, want store.RunNo) store.Run {
				k.Helper()
				a := k.apply(store.Command{Start: start})
				if a.Outcome != store.Applied || want != 0 && a.Run.No != want {
					k.Errorf("%s, a start again %s: %+v; want it applied, as run %d", name, when, a, want)
				}
				return a.Run
			}
			r := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0].Run
			again("while it is claimed", r.No)
			o.become(r, store.Suspended)
			again("while it is suspended", r.No)
			k.send(message(name, "m"))
			o.claim(10, "w")
			o.become(k.get(r.No), store.Failed) // which two of the policies would let another start replace
			again("when it has failed", r.No)
			k.pass(minute)
			k.equal("what is removed of "+name, k.removes(r.No), swept{Rows: 2, Runs: 1})
			if other := again("after it was deleted", 0); other.No == r.No || other.Status != store.Queued {
				k.Errorf("%s, a start again after it was deleted: %+v; want another run than %d", name, other, r.No)
			}
		}
	}},
	{"OnlyABatchAdopts", func(k *kit) {
		o := k.owner(k.s, "n")
		suspended := o.started("suspended")
		o.become(suspended, store.Suspended)
		a := k.apply(store.Command{Claim: true, Start: k.startOf("a")})
		c := message("suspended", "m")
		c.Claim = true
		b := k.apply(c)
		page, err := k.s.List(k.ctx, store.Filter{IDs: []string{"a", "suspended"}})
		k.ok(err)
		for _, r := range page.Runs {
			if a.Claimed || b.Claimed || r.Claimed {
				k.Errorf("%s was claimed outside a batch", r.ID)
			}
		}
		k.equal("the number of runs", len(page.Runs), 2)
	}},
}
