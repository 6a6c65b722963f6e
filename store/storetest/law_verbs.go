package storetest

import (
	"fmt"
	"strings"

	"github.com/stet-run/stet/store"
)

var law18 = []testCase{
	{"APausedRunIsClaimedForAVerbAlone", func(k *kit) {
		o := k.owner(k.s, "n")
		pause := func(id string, status store.Status) store.Run {
			r := o.started(id)
			o.turn(update(r, store.Update{Status: status, Marks: store.Paused, WakeAt: k.now() + 1, Waits: []byte("w")}),
				store.Committed)
			return k.get(r.No)
		}
		suspended, running := pause("suspended", store.Suspended), pause("running", store.Running)
		if suspended.Claimed || running.Claimed {
			k.Errorf("after the turns that paused them: claimed %t and %t", suspended.Claimed, running.Claimed)
		}
		k.pass(second)
		k.send(message("suspended", "m"))
		k.send(message("running", "m"))
		k.unchanged("a claim while there is no verb", func() {
			if c := o.claim(10, "w"); len(c.Runs) != 0 || c.NextWake != 0 || c.More {
				k.Errorf("runs that are paused are claimed: %+v", c)
			}
		})
		for i, kind := range []store.ItemKind{store.ItemResume, store.ItemRetry, store.ItemRewind, store.ItemEdit,
			store.ItemCancel, store.ItemTerminate, store.ItemPause, store.ItemNudge} {
			for _, r := range []store.Run{suspended, running} {
				no := k.send(verb(r.ID, fmt.Sprint("v", i), kind))
				c := o.claim(10) // without the code
				if ids := claimedIDs(c); len(ids) != 1 || ids[0] != r.ID {
					k.Fatalf("with a %s claimed are %v; want %s", kind, ids, r.ID)
				}
				want := r
				want.Claimed = true
				k.equal(fmt.Sprintf("what is claimed for a %s", kind), k.get(r.No), want)
				o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: no}},
					Update: &store.Update{Status: r.Status, Marks: store.Paused, WakeAt: r.WakeAt, Waits: r.Waits}}, store.Committed)
				k.equal("what is put back", k.get(r.No), r)
			}
		}
	}},
	{"ARunToBePausedIsClaimedAtRest", func(k *kit) {
		o := k.owner(k.s, "n")
		suspended := o.started("suspended")
		o.turn(update(suspended, store.Update{Status: store.Suspended, WakeAt: k.now() + 1, Waits: []byte("w")}),
			store.Committed)
		k.start("delayed", func(s *store.Start) { s.After = hour })
		k.start("due", func(s *store.Start) { s.After = 1 })
		k.start("queued")
		k.pass(second)
		for _, id := range []string{"suspended", "delayed", "due", "queued"} {
			k.send(verb(id, "p", store.ItemPause))
		}
		before := map[store.RunNo]store.Run{}
		page, err := k.s.List(k.ctx, store.Filter{Values: true})
		k.ok(err)
		for _, r := range page.Runs {
			before[r.No] = r
		}
		c := o.claim(10, "w")
		k.equal("how many are claimed", len(claimedIDs(c)), 4)
		for _, claimed := range c.Runs {
			want := before[claimed.Run.No]
			want.Claimed = true
			k.equal("the run at rest", claimed.Run, want)
		}
		o.release()
		for no, want := range before {
			k.equal("the run whose lease was given back", k.get(no), want)
		}
		o.take()
		for _, claimed := range o.claim(10).Runs {
			r := before[claimed.Run.No]
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: claimed.Items[0].No}},
				Update: &store.Update{Status: r.Status, WakeAt: r.WakeAt, Waits: r.Waits}}, store.Committed)
			if r.WakeAt != 0 && r.WakeAt <= k.now() && r.Status == store.Queued {
				r.WakeAt = 0
			}
			k.equal("the run that is not to be paused after all", k.get(r.No), r)
		}
		k.equal("what is ready then", claimedIDs(o.claim(10, "w")), []string{"suspended", "due", "queued"})
	}},
	{"AtRestNobodyIsSuspect", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(update(r, store.Update{Status: store.Running, Marks: store.Paused}), store.Committed)
		k.start("queued")
		k.send(verb("queued", "p", store.ItemPause))
		k.send(verb("r", "v", store.ItemEdit))
		k.equal("the claimed", claimedIDs(o.claim(10)), []string{"r", "queued"})
		k.pass(ttl + 1)
		next := k.owner(k.s, "other")
		if got := k.get(r.No); got.Suspect != 0 || got.Claimed || got.Status != store.Running {
			k.Errorf("the run whose owner died while it was at rest: %+v", got)
		}
		k.equal("the claimed of the next owner", claimedIDs(next.claim(10)), []string{"r", "queued"})
	}},
	{"APausedRunIsNotAdopted", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(update(r, store.Update{Status: store.Suspended, Marks: store.Paused}), store.Committed)
		free := o.started("free")
		o.become(free, store.Suspended)
		for _, c := range []store.Command{message("r", "m"), verb("r", "v", store.ItemResume),
			verb("free", "p", store.ItemPause)} {
			c.Claim = true
			if a := o.batch([]store.Command{c}).Commands[0]; a.Outcome != store.Applied || a.Claimed {
				k.Errorf("a %s for %s: %+v", c.Item.Kind, c.RunID, a)
			}
		}
	}},
	{"WhatIsNewDoesNotHoldBackAPause", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(message("r", "m"))
		o.turn(update(r, store.Update{Status: store.Suspended, Marks: store.Paused}), store.Committed)
		if got := k.get(r.No); got.Status != store.Suspended || got.Marks != store.Paused || got.Claimed {
			k.Errorf("the paused run is %+v", got)
		}
		k.send(verb("r", "v", store.ItemResume))
		k.equal("the claimed", claimedIDs(o.claim(10, "w")), []string{"r"})
		o.turn(update(r, store.Update{Status: store.Suspended}), store.StillReady)
		o.become(r, store.Running)
		if got := k.get(r.No); got.Marks != 0 || !got.Claimed {
			k.Errorf("the run that goes on is %+v", got)
		}
	}},
}

var law19 = []testCase{
	{"ARewriteReplacesWhatStands", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		large := strings.Repeat("x", store.LargeValue)
		stands := []store.Entry{
			entry("a", store.Done, func(e *store.Entry) { e.Seq, e.At, e.Value = 1, 5, []byte(large) }),
			entry("b", store.FailedEntry, func(e *store.Entry) { e.Seq, e.At = 2, 6 }),
			entry("c", store.Open), entry("d", store.Done), entry("e", store.Withdrawn),
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: stands}, store.Committed)
		var rewrites []store.Entry
		for i, e := range stands[:4] {
			e.State, e.Seq, e.At, e.Attempt, e.Generation, e.Value = store.Open, 0, 0, 0, i, nil
			if i == 2 {
				e.State, e.Value, e.Seq = store.Done, []byte(large+"y"), 3
			}
			rewrites = append(rewrites, e)
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Rewrites: rewrites}, store.Committed)
		for i := range rewrites {
			rewrites[i].Size = len(rewrites[i].Value)
		}
		last := stands[4]
		last.Size = len(last.Value)
		k.equal("the history", k.history(r.No), append(rewrites, last))
		again := entry("a", store.Done)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{again}}, store.Committed)
	}},
	{"PruneComesFirstThenRewrites", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardA,
			Entries: []store.Entry{entry("a", store.Done), entry("b", store.Done), entry("c", store.Done)}}, store.Committed)
		k.unchanged("a turn that rewrites what it prunes, or nothing", func() {
			for _, t := range []store.Turn{
				{Prune: []store.Span{{From: "a", To: "b"}}, Rewrites: []store.Entry{entry("a", store.Open)}},
				{Rewrites: []store.Entry{entry("b", store.Open), entry("x", store.Open)}},
				{Rewrites: []store.Entry{entry("b", store.Done, func(e *store.Entry) { e.Attempt = 9 })},
					Entries: []store.Entry{entry("b", store.Done)}},
			} {
				t.Run, t.Shard = r.No, shardA
				o.turn(&t, store.Refused)
			}
		})
		other := entry("a", store.FailedEntry)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Prune: []store.Span{{From: "a", To: "b"}},
			Rewrites: []store.Entry{entry("c", store.Open)},
			Entries:  []store.Entry{other, entry("c", store.Withdrawn)}}, store.Committed)
		var got []string
		for _, e := range k.history(r.No) {
			got = append(got, e.Loc+" "+e.State.String())
		}
		k.equal("the history", got, []string{"a failed", "b done", "c withdrawn"})
	}},
}

var law20 = []testCase{
	{"AReturnedItemIsNewInItsPlace", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		first := k.send(message("r", "1"))
		k.send(message("r", "2"))
		before := k.inbox(r.No)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{before[1].No},
			Consumed: []store.Consumption{{Item: first}}}, store.Committed)
		k.pass(second)
		k.send(message("r", "3"))
		back := before[0]
		back.No += 1000 // that it has one is known by its ID
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Returned: []store.Item{back}}, store.Committed)
		got := k.inbox(r.No)
		if len(got) != 3 {
			k.Fatalf("in the inbox: %+v", got)
		}
		k.equal("the item that is back", got[0], before[0])
		o.turn(update(r, store.Update{Status: store.Suspended}), store.StillReady)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: first}}}, store.Committed)
		if a := k.apply(message("r", "1")); a.Item != first {
			k.Errorf("its repeat after it was returned and consumed: %+v", a)
		}
	}},
	{"AnItemThatIsGoneComesWithItsNumber", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.send(message("r", "1"))
		other := k.start("other")
		taken := k.send(message("other", "1"))
		k.send(message("r", "2"))
		sent := k.now()
		k.pass(second)
		gone := store.Item{Kind: store.ItemMessage, Name: "m", ID: "gone", No: taken, Sent: sent, Value: []byte("v")}
		resolution := store.Item{Kind: store.ItemResolution, ID: "p", Incarnation: 0, Generation: 2, Loc: "x", Failed: true,
			Sent: sent, Value: nil}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Returned: []store.Item{gone, resolution}}, store.Committed)
		items := k.inbox(r.No)
		if len(items) != 4 || items[2].No <= items[1].No {
			k.Fatalf("in the inbox: %+v", items)
		}
		gone.No, gone.State, resolution.No, resolution.State = items[2].No, store.New, items[3].No, store.New
		k.equal("items returned with numbers that are not free", items[2:], []store.Item{gone, resolution})
		k.equal("the item whose number it had", k.inbox(other.No)[0].No, taken)
		if next := k.send(message("r", "4")); next <= items[3].No {
			k.Errorf("the next item has the number %d after %d", next, items[3].No)
		}
	}},
	{"AnUpdateThatWasAnsweredStays", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		answered, open := k.send(updateItem("r", "answered")), k.send(updateItem("r", "open"))
		back := k.inbox(r.No)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: answered}, {Item: open}},
			Answers: []store.Consumption{{Item: answered, Verdict: []byte("y")}}}, store.Committed)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Returned: back}, store.Committed)
		k.equal("the inbox", k.inbox(r.No), back[1:])
		k.equal("the answer", k.inbox(r.No, "answered")[0].Verdict, []byte("y"))
	}},
	{"OneThatIsNotConsumedRefuses", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		no := k.send(message("r", "1"))
		it := *message("r", "1").Item
		it.No = no
		refused := func(what string, returned ...store.Item) {
			k.unchanged(what, func() {
				o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)}, Returned: returned},
					store.Refused)
			})
		}
		refused("returning an item that is new", it)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{no}}, store.Committed)
		refused("returning an item that was seen", it)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: no}}}, store.Committed)
		refused("returning an item twice", it, it)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Returned: []store.Item{it}}, store.Committed)
	}},
}

var law21 = []testCase{
	{"AuditsAreNumberedAndTimed", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		act := func(verb string) store.Audit {
			return store.Audit{No: 77, Time: 5, Who: "ü", Verb: verb, Why: "why\nelse", Detail: "detail"}
		}
		times := []store.Time{k.now()}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Audit: []store.Audit{act("a"), act("b")}}, store.Committed)
		k.pass(second)
		times = append(times, k.now())
		o.turn(&store.Turn{Run: other.No, Shard: shardA, Audit: []store.Audit{{Verb: "x"}}}, store.Committed)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Audit: []store.Audit{act("c")},
			Update: &store.Update{Status: store.Failed}}, store.Committed)
		want := []store.Audit{act("a"), act("b"), act("c")}
		for i := range want {
			want[i].No, want[i].Time = i+1, times[i/2]
		}
		for range 2 {
			got, err := k.s.Audit(k.ctx, r.No)
			k.ok(err)
			k.equal("the acts", got, want)
			o.again()
			if len(got) > 0 {
				got[0].Who = "changed"
			}
		}
		for no, n := range map[store.RunNo]int{other.No: 1, r.No + 1000: 0, -1: 0} {
			got, err := k.s.Audit(k.ctx, no)
			k.ok(err)
			k.equal("how many acts", len(got), n)
		}
	}},
	{"WhatIsRefusedLeavesNone", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.unchanged("a turn that is refused", func() {
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Audit: []store.Audit{{Verb: "x"}}, Seen: []store.ItemNo{999}},
				store.Refused)
		})
	}},
	{"AGenerationGrows", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(update(r, store.Update{Status: store.Running, Generation: 2}), store.Committed)
		o.turn(update(r, store.Update{Status: store.Running}), store.Committed)
		k.equal("the generation", k.get(r.No).Generation, 2)
		k.unchanged("a generation that does not grow", func() {
			o.turn(update(r, store.Update{Status: store.Running, Generation: 2, Reason: "x"}), store.Refused)
			o.turn(update(r, store.Update{Status: store.Running, Generation: 1, Reason: "x"}), store.Refused)
		})
	}},
	{"AForkBeginsWithAHistory", func(k *kit) {
		o := k.owner(k.s, "n")
		t0 := k.now()
		k.pass(second)
		fork := &store.Fork{
			Random: seedOf(99), Started: t0,
			Entries: []store.Entry{
				entry("b", store.Done, func(e *store.Entry) {
					e.Seq, e.At, e.Generation, e.Value = 1, t0, 3,
						make([]byte, store.LargeValue+10)
				}),
				entry("a", store.Open),
			},
			Items: []store.Item{
				{Kind: store.ItemMessage, Name: "m", ID: "old", Sent: t0, State: store.Consumed},
				{Kind: store.ItemMessage, Name: "m", ID: "back", Sent: t0, State: store.New, Value: []byte("v")},
			},
			Audit: []store.Audit{{Who: "w", Verb: "fork"}},
		}
		start := k.startOf("f", func(s *store.Start) { s.Fork, s.Items = fork, []store.Item{*message("", "first").Item} })
		a := k.apply(store.Command{Start: start})
		if a.Outcome != store.Applied || a.Run.Random != fork.Random || a.Run.Started != t0 || a.Run.Status != store.Queued {
			k.Fatalf("the fork: %+v", a)
		}
		r := k.get(a.Run.No)
		k.equal("the answer", a.Run, r)
		for i := range fork.Entries {
			fork.Entries[i].Size = len(fork.Entries[i].Value)
		}
		k.equal("its history", k.history(r.No), []store.Entry{fork.Entries[1], fork.Entries[0]})
		items := k.inbox(r.No, "old", "back", "first")
		if len(items) != 3 || items[0].State != store.Consumed || items[0].Sent != t0 || items[1].Sent != t0 ||
			items[1].State != store.New ||
			items[2].Sent != k.now() || items[1].No <= items[0].No || items[2].No <= items[1].No {
			k.Errorf("its inbox: %+v", items)
		}
		acts, err := k.s.Audit(k.ctx, r.No)
		k.ok(err)
		k.equal("its acts", acts, []store.Audit{{No: 1, Time: k.now(), Who: "w", Verb: "fork"}})
		if b := k.apply(store.Command{Start: start}); b.Outcome != store.Applied || b.Run.No != r.No {
			k.Errorf("the fork again: %+v", b)
		}
		c := o.claim(1, "w")
		if len(c.Runs) != 1 || c.Runs[0].Run.Started != t0 || c.Runs[0].Run.Random != fork.Random ||
			len(c.Runs[0].Items) != 2 {
			k.Errorf("the claimed fork: %+v", c.Runs)
		}
	}},
	{"MalformedActsChangeNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.unchanged("a malformed turn or fork", func() {
			for what, t := range map[string]store.Turn{
				"an act without a verb":        {Audit: []store.Audit{{Who: "w"}}},
				"an act with a long reason":    {Audit: []store.Audit{{Verb: "v", Why: strings.Repeat("x", store.MaxWhy+1)}}},
				"an act with a long detail":    {Audit: []store.Audit{{Verb: "v", Detail: strings.Repeat("x", store.MaxDetail+1)}}},
				"an act with a name of a line": {Audit: []store.Audit{{Verb: "v", Who: "a\nb"}}},
				"an act of an update":          {Update: &store.Update{Status: store.Running, Audit: []store.Audit{{Who: "w"}}}},
				"a rewrite without a location": {Rewrites: []store.Entry{{Kind: store.KindStep, State: store.Open}}},
				"a generation below 0":         {Entries: []store.Entry{entry("x", store.Open, func(e *store.Entry) { e.Generation = -1 })}},
				"a returned verb":              {Returned: []store.Item{{Kind: store.ItemCancel, ID: "i"}}},
				"a returned item without ID":   {Returned: []store.Item{{Kind: store.ItemMessage}}},
				"an item returned from before": {Returned: []store.Item{{Kind: store.ItemMessage, ID: "i", Sent: -1}}},
				"a run's generation below 0":   {Update: &store.Update{Status: store.Running, Generation: -1}},
			} {
				t.Run, t.Shard = r.No, shardA
				_, err := k.s.Commit(k.ctx, store.Batch{Node: "n", Boot: "n-1", No: o.no + 1, Leases: o.leases,
					Turns: []*store.Turn{&t}})
				k.fails(what, err, store.ErrInvalid)
			}
			for what, f := range map[string]*store.Fork{
				"an entry without a kind": {Entries: []store.Entry{{Loc: "x", State: store.Open}}},
				"two entries in a place":  {Entries: []store.Entry{entry("x", store.Open), entry("x", store.Done)}},
				"an item without a state": {Items: []store.Item{{Kind: store.ItemMessage, ID: "i"}}},
				"an item that was seen":   {Items: []store.Item{{Kind: store.ItemMessage, ID: "i", State: store.Seen}}},
				"a consumed value":        {Items: []store.Item{{Kind: store.ItemMessage, ID: "i", State: store.Consumed, Value: []byte("v")}}},
				"an item from before":     {Items: []store.Item{{Kind: store.ItemMessage, ID: "i", State: store.New, Sent: -1}}},
				"an ID of a first item":   {Items: []store.Item{{Kind: store.ItemMessage, ID: "first", State: store.New}}},
				"an act without a verb":   {Audit: []store.Audit{{}}},
				"a time below 0":          {Started: -1},
			} {
				start := k.startOf("f", func(s *store.Start) { s.Fork, s.Items = f, []store.Item{*message("", "first").Item} })
				_, _, err := k.s.Apply(k.ctx, []store.Command{{Start: start}})
				k.fails("a fork with "+what, err, store.ErrInvalid)
			}
		})
	}},
}
