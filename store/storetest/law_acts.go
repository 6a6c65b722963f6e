package storetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

var law01 = []testCase{
	{"WhatWasAnsweredSurvivesEveryProcess", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r", func(s *store.Start) {
			s.Items = []store.Item{{Kind: store.ItemMessage, ID: "first",
				Value: []byte{}}}
		})
		note(k.ids, store.Command{Start: &store.Start{Items: []store.Item{{ID: "first"}}}})
		k.start("idle")
		no := k.send(message("r", "m"))
		o.turn(&store.Turn{
			Run: r.No, Shard: r.Shard, Consumed: []store.Consumption{{Item: no}},
			Entries: []store.Entry{entry("a", store.Done,
				func(e *store.Entry) { e.Value = []byte(strings.Repeat("x", store.LargeValue)) })},
			Update: &store.Update{Status: store.Running, Build: "v1", Output: []byte(strings.Repeat("o", 1000)),
				Waits: []byte("w")},
		}, store.Committed)
		before, err := view(k.ctx, k.s, k.ids)
		k.ok(err)
		k.harness.Kill(k, k.s)
		k.s = k.harness.Join(k)
		after, err := view(k.ctx, k.s, k.ids)
		k.ok(err)
		k.equal("what a new process sees", after, before)
	}},
	{"ABatchWithOneInvalidCommandWritesNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.unchanged("a batch with an invalid command", func() {
			_, err := o.s.Commit(k.ctx, store.Batch{
				Node: "n", Boot: "n-1", No: o.no + 1, Leases: o.leases,
				Turns:    []*store.Turn{{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("a", store.Done)}}},
				Commands: []store.Command{{Start: k.startOf("new")}, message("r", "")},
			})
			k.fails("the batch", err, store.ErrInvalid)
		})
		o.turn(&store.Turn{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("b", store.Done)}}, store.Committed)
	}},
	{"ARefusedTurnWritesNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		o.turn(&store.Turn{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("z", store.Done)}}, store.Committed)
		no := k.send(message("r", "m"))
		k.ids["sent"] = true
		k.unchanged("the refused turn", func() {
			o.turn(&store.Turn{
				Run: r.No, Shard: r.Shard, Seen: []store.ItemNo{no},
				Entries: []store.Entry{entry("a", store.Done), entry("z", store.FailedEntry)},
				Update:  &store.Update{Status: store.Running, Marks: store.Cancelling, Build: "v2"},
				Sends:   []store.Command{message("other", "sent"), {Start: k.startOf("child")}},
			}, store.Refused)
		})
		results := o.batch(nil,
			&store.Turn{Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("a", store.Done)},
				Seen: []store.ItemNo{no + 1000}},
			&store.Turn{Run: other.No, Shard: r.Shard, Entries: []store.Entry{entry("b", store.Done)}}).Turns
		if results[0].Verdict != store.Refused || results[1].Verdict != store.Committed {
			k.Errorf("a refused turn beside a good one: got %s and %s", results[0].Verdict, results[1].Verdict)
		}
		if a, b := k.history(r.No), k.history(other.No); len(a) != 1 || len(b) != 1 {
			k.Errorf("a refused turn beside a good one leaves %d and %d entries; want 1 and 1", len(a), len(b))
		}
	}},
	{"AnEndedContextEndsTheAct", func(k *kit) {
		ctx, cancel := context.WithCancel(k.ctx)
		cancel()
		k.unchanged("an act with an ended context", func() {
			for name, err := range eachMethod(ctx, k.s) {
				k.fails(name, err, context.Canceled)
			}
		})
	}},
	{"AClosedStoreDoesNothing", func(k *kit) {
		s := k.harness.Join(k)
		k.ok(s.Close())
		k.ok(s.Close())
		k.unchanged("a closed store", func() {
			for name, err := range eachMethod(k.ctx, s) {
				k.fails(name, err, store.ErrClosed)
			}
		})
	}},
}

// eachMethod calls every method with good input and returns the errors.
func eachMethod(ctx context.Context, s store.Store) map[string]error {
	errs := map[string]error{}
	n := store.Node{ID: "each", Boot: "each-1"}
	_, errs["Describe"] = s.Describe(ctx)
	_, errs["Register"] = s.Register(ctx, n)
	_, _, errs["Acquire"] = s.Acquire(ctx, n, []store.Shard{shardA}, second)
	_, _, errs["Renew"] = s.Renew(ctx, []store.Lease{{Shard: shardA, Epoch: 1}}, second)
	errs["Release"] = s.Release(ctx, []store.Lease{{Shard: shardA, Epoch: 1}})
	_, _, errs["Apply"] = s.Apply(ctx, []store.Command{{Start: &store.Start{ID: "each", Shard: shardA, Workflow: "w"}}})
	_, errs["Commit"] = s.Commit(ctx, store.Batch{Node: n.ID, Boot: n.Boot, No: 1})
	_, errs["Claim"] = s.Claim(ctx, store.ClaimRequest{Node: n.ID, Boot: n.Boot, Limit: 1})
	_, _, errs["Load"] = s.Load(ctx, []store.RunNo{1})
	_, errs["List"] = s.List(ctx, store.Filter{})
	_, errs["Count"] = s.Count(ctx, store.Filter{})
	_, errs["History"] = s.History(ctx, store.HistoryQuery{Run: 1})
	_, errs["Inbox"] = s.Inbox(ctx, 1)
	_, errs["Pending"] = s.Pending(ctx, store.PendingQuery{Run: 1})
	_, errs["Changed"] = s.Changed(ctx)
	return errs
}

var law09 = []testCase{
	{"ABootThatHasStoppedIsForgotten", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.become(r, store.Suspended)
		stopped := o.node
		stopped.Stopped = true
		_, err := k.s.Register(k.ctx, stopped)
		k.ok(err)
		if v := o.again().Turns[0].Verdict; v != store.Refused {
			k.Errorf("the batch of a boot that has stopped since is %s; want it a new one, whose run is not claimed", v)
		}
		_, err = k.s.Register(k.ctx, stopped)
		k.ok(err)
		o.no = 0
		if a := o.batch([]store.Command{message("r", "m")}).Commands[0]; a.Outcome != store.Applied {
			k.Errorf("a batch that begins with number 1 again: %+v", a)
		}
	}},
	{"ARepeatGivesTheSameResultsAndWritesNothingTwice", func(k *kit) {
		o := k.owner(k.s, "n")
		good, bad, held := o.started("good"), o.started("bad"), o.started("held")
		o.turn(&store.Turn{Run: bad.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
		no := k.send(message("good", "m"))
		k.send(message("held", "m"))
		k.ids["sent"], k.ids["command"] = true, true
		first := o.batch([]store.Command{{Claim: true, Start: k.startOf("new")}, message("new", "command")},
			&store.Turn{Run: good.No, Shard: shardA, Consumed: []store.Consumption{{Item: no}},
				Sends:  []store.Command{message("bad", "sent")},
				Update: &store.Update{Status: store.Suspended, WakeAt: k.now().Add(time.Hour)}},
			&store.Turn{Run: bad.No, Shard: shardA, Entries: []store.Entry{entry("a", store.FailedEntry)}},
			update(held, store.Update{Status: store.Suspended}))
		verdicts := []store.Verdict{store.Committed, store.Refused, store.StillReady}
		for i, want := range verdicts {
			if got := first.Turns[i].Verdict; got != want {
				k.Fatalf("turn %d is %s; want %s", i, got, want)
			}
		}
		k.pass(second)
		k.unchanged("the repeat", func() {
			for range 2 {
				again := o.again()
				again.Now = first.Now
				k.equal("the repeated batch's results", runsCurrent(k, again), runsCurrent(k, first))
			}
		})
	}},
	{"TheVerdictsStandWhenTheLeaseIsLost", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		first := o.batch(nil, &store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}})
		k.pass(ttl + 1)
		next := k.owner(k.harness.Join(k), "next")
		k.unchanged("the repeat by the former owner", func() {
			k.equal("the verdicts", o.again().Turns, first.Turns)
		})
		next.release()
		o.take()
		o.last.Leases = o.leases
		k.unchanged("the repeat after taking the shard again", func() {
			k.equal("the verdicts", o.again().Turns, first.Turns)
		})
	}},
	{"AFencedBatchStaysFenced", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		stale := o.leases
		o.take()
		o.claim(10, "w")
		good := o.leases
		o.leases = stale
		turn := &store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}
		o.turn(turn, store.Fenced)
		o.last.Leases = good
		k.unchanged("the repeat with a good lease", func() {
			if v := o.again().Turns[0].Verdict; v != store.Fenced {
				k.Errorf("a repeat of a fenced batch is %s", v)
			}
		})
	}},
	{"TheNumberSurvivesTheProcess", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		no := k.send(message("r", "m"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: no}}}, store.Committed)
		k.harness.Kill(k, k.s)
		k.s = k.harness.Join(k)
		o.s = k.s
		if v := o.again().Turns[0].Verdict; v != store.Committed {
			k.Errorf("the repeat through a new handle is %s", v)
		}
	}},
	{"EveryBootHasItsOwnNumbers", func(k *kit) {
		_, err := k.s.Register(k.ctx, store.Node{ID: "n", Boot: "n-1"})
		k.ok(err)
		o := k.owner(k.s, "n", shardA)
		r := o.started("r")
		no := k.send(message("r", "m"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: no}}}, store.Committed)

		later := &owner{kit: k, s: k.harness.Join(k), node: store.Node{ID: "n", Boot: "n-2"}}
		_, err = later.s.Register(k.ctx, later.node)
		k.ok(err)
		later.take(shardB)
		there := later.started("there", func(s *store.Start) { s.Shard = shardB })
		no = k.send(message("there", "m"))
		later.turn(&store.Turn{Run: there.No, Shard: shardB, Consumed: []store.Consumption{{Item: no}}}, store.Committed)
		k.unchanged("a repeat of each boot's batch", func() {
			for _, each := range []*owner{o, later, o} {
				if v := each.again().Turns[0].Verdict; v != store.Committed {
					k.Errorf("the repeated batch of %s is %s", each.node.Boot, v)
				}
			}
		})
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
		later.turn(&store.Turn{Run: there.No, Shard: shardB, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
		later.again()
	}},
	{"AFormerNumberIsInvalid", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
		former := o.last
		former.No--
		k.unchanged("a former number", func() {
			_, err := k.s.Commit(k.ctx, former)
			k.fails("a former number", err, store.ErrInvalid)
		})
	}},
	{"NumbersMayBeLeftOut", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.no += 10
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
	}},
}

// runsCurrent puts the runs and items as they are now into the answers: a repeat
// describes them so.
func runsCurrent(k *kit, result store.BatchResult) store.BatchResult {
	current := func(answers []store.Answer, runs bool) (now []store.Answer) {
		for _, a := range answers {
			if runs && a.Run.No != 0 {
				a.Run = k.get(a.Run.No)
			}
			a.Repeated = a.Item != 0
			now = append(now, a)
		}
		return now
	}
	result.Commands = current(result.Commands, true)
	result.Turns = slices.Clone(result.Turns)
	for i := range result.Turns {
		result.Turns[i].Sends = current(result.Turns[i].Sends, false)
	}
	return result
}

var law10 = []testCase{
	{"TimesAreTheClocks", func(k *kit) {
		t0 := k.now()
		k.start("r")
		k.send(message("r", "m"))
		k.pass(second)
		t1 := k.now()
		o := k.owner(k.s, "n")
		if until := o.leases[0].Until; until != t1+store.Time(ttl) {
			k.Errorf("a lease taken at %s for %d µs ends at %s", t1, ttl, until)
		}
		c := o.claim(1, "w")
		k.pass(second)
		t2 := k.now()
		o.become(c.Runs[0].Run, store.Succeeded)
		r := k.get(c.Runs[0].Run.No)
		k.equal("the times of the run", []store.Time{r.Created, r.Started, r.Ended, c.Now}, []store.Time{t0, t1, t2, t1})
		k.equal("the time of the item", k.inbox(r.No, "m")[0].Sent, t0)
		_, now, err := k.s.Apply(k.ctx, nil)
		k.ok(err)
		seen, err := k.s.Register(k.ctx, o.node)
		k.ok(err)
		k.equal("the times of acts", []store.Time{now, seen}, []store.Time{t2, t2})
	}},
	{"TimeDoesNotGoBack", func(k *kit) {
		o := k.owner(k.s, "n")
		before := k.start("a").Created
		k.clock.step(-time.Hour)
		times := map[string]store.Time{"a start": k.start("b").Created}
		_, now, err := k.s.Renew(k.ctx, o.leases, ttl)
		k.ok(err)
		times["a renewal"] = now
		d, err := k.s.Describe(k.ctx)
		k.ok(err)
		times["a description"] = d.Now
		times["a claim"] = o.claim(1, "w").Now
		times["a batch"] = o.batch(nil).Now
		for what, t := range times {
			if t < before {
				k.Errorf("%s is at %s, after an act at %s", what, t, before)
			}
		}
	}},
}

var law12 = []testCase{
	{"InputIsNotKept", func(k *kit) {
		o := k.owner(k.s, "n")
		input, value := []byte("input"), []byte("value")
		start := k.startOf("r", func(s *store.Start) {
			s.Input, s.Items = input, []store.Item{{Kind: store.ItemMessage, ID: "i", Value: value}}
		})
		r := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0].Run
		input[0], value[0], start.Items[0].ID = 'X', 'X', "changed"
		entryValue, output, waits, verdict := []byte("entry"), []byte("output"), []byte("waits"), []byte("verdict")
		no := k.send(verb("r", "v", store.ItemResume))
		turn := &store.Turn{
			Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("a", store.Done,
				func(e *store.Entry) { e.Value = entryValue })},
			Consumed: []store.Consumption{{Item: no, Verdict: verdict}},
			Update:   &store.Update{Status: store.Running, Output: output, Waits: waits},
		}
		o.turn(turn, store.Committed)
		node := store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}}
		_, err := k.s.Register(k.ctx, node)
		k.ok(err)
		entryValue[0], output[0], waits[0], verdict[0], node.Workflows[0] = 'X', 'X', 'X', 'X', "X"
		turn.Entries[0].Loc, turn.Update.Reason = "changed", "changed"

		run := k.get(r.No)
		k.equal("the run's values", []string{string(run.Input), string(run.Output), string(run.Waits), run.Reason},
			[]string{"input", "output", "waits", ""})
		k.equal("the entry's value", string(k.history(r.No)[0].Value), "entry")
		items := k.inbox(r.No, "i", "v")
		if len(items) != 2 || string(items[0].Value) != "value" || string(items[1].Verdict) != "verdict" {
			k.Errorf("the items are %+v", items)
		}
		d, err := k.s.Describe(k.ctx)
		k.ok(err)
		k.equal("the node's workflows", d.Nodes[0].Workflows, []string{"w"})
	}},
	{"OutputBelongsToTheCaller", func(k *kit) {
		o := k.owner(k.s, "n")
		_, err := k.s.Register(k.ctx, store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}})
		k.ok(err)
		answer := o.batch([]store.Command{{Claim: true, Start: k.startOf("r")}})
		r := answer.Commands[0].Run
		k.send(message("r", "m"))
		o.turn(&store.Turn{
			Run: r.No, Shard: r.Shard, Entries: []store.Entry{entry("a", store.Done)},
			Update: &store.Update{Status: store.Running, Output: []byte("output"), Waits: []byte("waits")},
		}, store.Committed)
		k.unchanged("writing over returned values", func() {
			spoil(answer.Commands[0].Run.Input)
			answer.Commands[0].Outcome = 0
			again := o.again()
			again.Turns[0] = store.TurnResult{Verdict: store.Refused}
			claims := o.claim(10, "w")
			claims.Runs[0].Items[0].ID = "changed"
			spoil(claims.Runs[0].Items[0].Value)
			snaps, _, err := k.s.Load(k.ctx, []store.RunNo{r.No})
			k.ok(err)
			spoil(snaps[0].Run.Input, snaps[0].Run.Output, snaps[0].Run.Waits, snaps[0].Entries[0].Value,
				snaps[0].Items[0].Value)
			run := k.get(r.No)
			spoil(run.Input, run.Output, run.Waits)
			spoil(k.history(r.No)[0].Value, k.inbox(r.No)[0].Value)
			d, err := k.s.Describe(k.ctx)
			k.ok(err)
			d.Nodes[0].Workflows[0], d.Workflows[0], d.Leases[0].Epoch = "changed", "changed", 99
		})
		if v := o.again().Turns[0].Verdict; v != store.Committed {
			k.Errorf("after writing over the results of a repeat, the next repeat is %s", v)
		}
	}},
	{"InputIsNotChanged", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		make := func() store.Batch {
			e := entry("a", store.Done)
			e.Size = 77
			return store.Batch{
				Node: "n", Boot: "n-1", No: o.no + 1, Leases: []store.Lease{o.leases[0]},
				Turns: []*store.Turn{{Run: r.No, Shard: r.Shard, Entries: []store.Entry{e},
					Update: &store.Update{Status: store.Running}}},
				Commands: []store.Command{{Claim: true,
					Start: &store.Start{ID: "s", Shard: shardA, Workflow: "w", Items: []store.Item{
						{Kind: store.ItemMessage, ID: "i", No: 9, State: store.Consumed, Verdict: []byte("v")}}}}, message("r", "m")},
			}
		}
		given := make()
		_, err := k.s.Commit(k.ctx, given)
		k.ok(err)
		k.equal("the batch after the call", given, make())
	}},
}

func spoil(values ...[]byte) {
	for _, v := range values {
		for i := range v {
			v[i] = 0
		}
	}
}
