package storetest

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// lined puts a start into the line of a queue.
func lined(queue, key string, priority int) func(*store.Start) {
	return func(s *store.Start) {
		s.Queue = &store.QueueEntry{Data: []byte("place of " + s.ID),
			Line: &store.Line{Queue: queue, Key: key, Priority: priority}}
	}
}

func admit(queue string, r store.Run) store.Command { return store.Command{RunNo: r.No, Admit: queue} }

// queue starts the entity of a queue, which the owner has claimed.
func (o *owner) queue(id string) store.Run {
	o.Helper()
	return o.started(id, func(s *store.Start) { s.Workflow = entityWorkflow })
}

// admits lets a queue's entity admit runs, and returns the answers.
func (o *owner) admits(queue store.Run, runs ...store.Run) []store.Answer {
	o.Helper()
	turn := &store.Turn{Run: queue.No, Shard: queue.Shard}
	for _, r := range runs {
		turn.Sends = append(turn.Sends, admit(queue.ID, r))
	}
	result := o.batch(nil, turn).Turns[0]
	if result.Verdict != store.Committed || len(result.Sends) != len(runs) {
		o.Fatalf("the turn of a queue that admits %d runs: %+v", len(runs), result)
	}
	return result.Sends
}

// waiting returns the IDs of the runs that a query finds.
func (k *kit) waiting(q store.WaitingQuery) string {
	k.Helper()
	found, err := k.s.Waiting(k.ctx, q)
	k.ok(err)
	text := ""
	for i := range found {
		w := &found[i]
		if r := k.get(w.No); r.ID != w.ID || string(r.Queue) != string(w.Place) {
			k.Errorf("the waiter %+v is the run %+v", w, r)
		}
		text += w.ID + " "
	}
	return text
}

// lines reports whether the store has lines. One that has none refuses them.
func (k *kit) lines() bool {
	k.Helper()
	d, err := k.s.Describe(k.ctx)
	k.ok(err)
	if !d.Lines {
		_, _, err := k.s.Apply(k.ctx, []store.Command{{Start: k.startOf("a", lined("q", "", 0))}})
		k.fails("a line", err, store.ErrInvalid)
	}
	return d.Lines
}

// inLines skips the cases for a store without lines, which must refuse a Line.
func inLines(cases []testCase) []testCase {
	for i := range cases {
		run := cases[i].run
		cases[i].run = func(k *kit) {
			if k.lines() {
				run(k)
			}
		}
	}
	return cases
}

var law31 = inLines([]testCase{
	{"AStartWaitsInItsRow", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		a := o.batch([]store.Command{{Claim: true, Start: k.startOf("a", lined("q", "k", 7))}}).Commands[0]
		if a.Outcome != store.Applied || a.Claimed || a.Run.Status != store.Queued || a.Run.Marks != store.Held ||
			string(a.Run.Queue) != "place of a" || a.Run.WakeAt != 0 {
			k.Fatalf("the start of a run in a line: %+v", a)
		}
		if asked := k.inbox(q.No); len(asked) != 0 {
			k.Errorf("a start in a line has sent %+v", asked)
		}
		found, err := k.s.Waiting(k.ctx, store.WaitingQuery{Queue: "q"})
		k.ok(err)
		k.equal("who waits", found, []store.Waiter{
			{No: a.Run.No, ID: "a", Key: "k", Priority: 7, Due: a.Run.Created, Place: []byte("place of a")}})
		o.again()
		k.equal("after a repeat", k.waiting(store.WaitingQuery{Queue: "q"}), "a ")
		k.pass(hour)
		if claims := o.claim(10, "w"); len(claims.Runs) != 0 || claims.More || claims.NextWake != 0 {
			k.Errorf("a run that waits was claimed: %+v", claims)
		}
	}},
	{"ThoseThatWaitAreInOrder", func(k *kit) {
		k.start("q", func(s *store.Start) { s.Workflow = entityWorkflow })
		at := k.now() + store.Time(minute)
		later := func(s *store.Start) { s.At = at }
		k.start("later", lined("q", "", 0), later)
		k.start("low", lined("q", "", -5))
		k.start("first", lined("q", "x", 0))
		k.start("after", lined("q", "", 0), func(s *store.Start) { s.After = 2 * second })
		k.start("second", lined("q", "y", 0))
		k.start("high", lined("q", "", 1000), later)
		k.start("other", lined("p", "", 0))
		k.start("asks", place("q", "ask"))
		const order = "high first second after later low "
		k.equal("the waiting runs", k.waiting(store.WaitingQuery{Queue: "q"}), order)
		k.equal("of another queue", k.waiting(store.WaitingQuery{Queue: "p"}), "other ")
		k.equal("of none", k.waiting(store.WaitingQuery{Queue: "z"}), "")
		k.equal("admitted ones", k.waiting(store.WaitingQuery{Queue: "q", Admitted: true}), "")
		text, q := "", store.WaitingQuery{Queue: "q", Limit: 2}
		for {
			page, err := k.s.Waiting(k.ctx, q)
			k.ok(err)
			for i := range page {
				text, q.After = text+page[i].ID+" ", &page[i]
			}
			if len(page) < q.Limit {
				break
			}
		}
		k.equal("by pages", text, order)
	}},
	{"WhoRestsDoesNotWait", func(k *kit) {
		o := k.owner(k.s, "n")
		o.queue("q")
		marks := map[string]store.Update{
			"paused":    {Status: store.Queued, Marks: store.Held | store.Paused},
			"cancelled": {Status: store.Cancelled, Marks: store.Held},
			"stalled":   {Status: store.Stalled, Marks: store.Held},
			"free":      {Status: store.Running},
			"waits":     {Status: store.Queued, Marks: store.Held},
		}
		for id, u := range marks {
			r := k.start(id, lined("q", "", 0))
			k.send(verb(id, "p", store.ItemPause))
			if claims := o.claim(10, "w"); len(claims.Runs) != 1 || claims.Runs[0].Run.Marks != store.Held {
				k.Fatalf("claimed for a pause: %+v", claims)
			}
			turn := update(r, u)
			turn.Consumed = []store.Consumption{{Item: k.inbox(r.No)[0].No, Verdict: []byte("y")}}
			o.turn(turn, store.Committed)
		}
		k.equal("the waiting runs", k.waiting(store.WaitingQuery{Queue: "q"}), "waits ")
	}},
	{"AnUpdateLetsARunWaitAgain", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		for _, status := range []store.Status{store.Suspended, store.Running} {
			id := status.String()
			r := k.start(id, lined("q", "", 3))
			k.pass(second)
			o.admits(q, r)
			o.claim(10, "w")
			k.pass(second)
			o.turn(update(r, store.Update{Status: status, Marks: store.Held}), store.Committed)
			found, err := k.s.Waiting(k.ctx, store.WaitingQuery{Queue: "q"})
			k.ok(err)
			if len(found) != 1 || found[0].ID != id || found[0].Due != k.now() || found[0].Priority != 3 {
				k.Fatalf("a run that waits again: %+v", found)
			}
			k.pass(second)
			k.send(verb(id, "p", store.ItemTerminate))
			claims := o.claim(10, "w")
			if len(claims.Runs) != 1 {
				k.Fatalf("claimed for its end: %+v", claims)
			}
			back := update(r, store.Update{Status: status, Marks: store.Held})
			back.Seen = []store.ItemNo{claims.Runs[0].Items[0].No}
			o.turn(back, store.Committed)
			if again, _ := k.s.Waiting(k.ctx, store.WaitingQuery{Queue: "q"}); len(again) != 1 || again[0].Due != found[0].Due {
				k.Errorf("a run that goes on waiting: %+v; want it due at %d", again, found[0].Due)
			}
			o.admits(q, r)
			o.claim(10, "w")
			o.become(r, store.Succeeded)
		}
	}},
	{"BadLinesAreRefused", func(k *kit) {
		for what, change := range map[string]func(*store.Start){
			"a line and an item":   func(s *store.Start) { s.Queue.Ask = message("q", "m") },
			"a line of nobody":     func(s *store.Start) { s.Queue.Line.Queue = "" },
			"its own line":         func(s *store.Start) { s.Queue.Line.Queue = s.ID },
			"a large priority":     func(s *store.Start) { s.Queue.Line.Priority = 1 << 40 },
			"a line without place": func(s *store.Start) { s.Queue.Data = nil },
			"a key that is long":   func(s *store.Start) { s.Queue.Line.Key = string(make([]byte, store.MaxName+1)) },
		} {
			start := k.startOf("a", lined("q", "", 0), change)
			k.unchanged(what, func() {
				_, _, err := k.s.Apply(k.ctx, []store.Command{{Start: start}})
				k.fails(what, err, store.ErrInvalid)
			})
		}
		k.unchanged("an Admit outside of a turn", func() {
			_, _, err := k.s.Apply(k.ctx, []store.Command{{RunNo: 1, Admit: "q"}})
			k.fails("an Admit outside of a turn", err, store.ErrInvalid)
		})
		_, err := k.s.Waiting(k.ctx, store.WaitingQuery{})
		k.fails("a line of no queue", err, store.ErrInvalid)
	}},
})

var law32 = inLines([]testCase{
	{"AnAdmitMakesReady", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		a, b := k.start("a", lined("q", "", 0)), k.start("b", lined("q", "", 0), func(s *store.Start) { s.After = hour })
		for i, answer := range o.admits(q, a, b) {
			if answer.Outcome != store.Applied || answer.Repeated || answer.Claimed || answer.Run.Marks != store.Admitted ||
				answer.Run.Status != store.Queued {
				k.Errorf("the answer to Admit %d: %+v", i, answer)
			}
		}
		k.equal("the waiting runs", k.waiting(store.WaitingQuery{Queue: "q"}), "")
		k.equal("those admitted", k.waiting(store.WaitingQuery{Queue: "q", Admitted: true}), "a b ")
		next := store.WaitingQuery{Queue: "q", Admitted: true, After: &store.Waiter{No: a.No}}
		k.equal("after the first", k.waiting(next), "b ")
		if again := o.admits(q, a)[0]; again.Outcome != store.Applied || !again.Repeated || again.Claimed {
			k.Errorf("a second Admit: %+v", again)
		}
		claims := o.claim(10, "w")
		if len(claims.Runs) != 2 || claims.Runs[0].Run.Marks != store.Admitted ||
			claims.Runs[0].Run.Status != store.Running ||
			claims.Runs[0].Run.Started == 0 {
			k.Fatalf("the claim of those admitted: %+v", claims)
		}
		if again := o.admits(q, a)[0]; again.Outcome != store.Applied || !again.Repeated {
			k.Errorf("an Admit of a run that executes: %+v", again)
		}
		// A new owner finds them with their marks.
		k.pass(ttl + second)
		if got := k.owner(k.s, "n2").claim(10, "w").Runs; len(got) != 2 || got[0].Run.Marks != store.Admitted {
			k.Errorf("claimed by the next owner: %+v", got)
		}
	}},
	{"AnAdmitMayClaim", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		a := k.start("a", lined("q", "", 0))
		far := k.start("far", lined("q", "", 0), func(s *store.Start) { s.Shard = shardB })
		turn := &store.Turn{Run: q.No, Shard: q.Shard, Sends: []store.Command{admit("q", a), admit("q", far)}}
		for i := range turn.Sends {
			turn.Sends[i].Claim = true
		}
		got := o.batch(nil, turn).Turns[0].Sends
		if len(got) != 2 || !got[0].Claimed || got[0].Run.Status != store.Running || got[0].Run.Marks != store.Admitted ||
			got[0].Run.Started == 0 || got[1].Claimed || got[1].Run.Marks != store.Admitted {
			k.Fatalf("an Admit that claims: %+v", got)
		}
		if r := k.get(a.No); !r.Claimed {
			k.Errorf("the run that was claimed: %+v", r)
		}
		if again := o.again().Turns[0].Sends; len(again) != 2 || !again[0].Claimed || again[1].Claimed {
			k.Errorf("the repeat: %+v", again)
		}
		o.become(a, store.Succeeded)
	}},
	{"WhoIsNotAdmitted", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		other, asks, free := k.start("other", lined("p", "", 0)), k.start("asks", place("q", "ask")), k.start("free")
		paused, claimed := k.start("paused", lined("q", "", 0)), k.start("claimed", lined("q", "", 0))
		ended := o.started("ended")
		o.become(ended, store.Failed)
		k.send(verb("paused", "p", store.ItemPause))
		o.claim(10, "x")
		turn := update(paused, store.Update{Status: store.Queued, Marks: store.Held | store.Paused})
		turn.Consumed = []store.Consumption{{Item: k.inbox(paused.No)[0].No, Verdict: []byte("y")}}
		o.turn(turn, store.Committed)
		k.send(verb("claimed", "t", store.ItemTerminate))
		o.claim(10, "x")
		runs := []store.Run{other, asks, free, paused, claimed, ended}
		var before []store.Run
		for _, r := range runs {
			before = append(before, k.get(r.No))
		}
		got := o.admits(q, append(runs, store.Run{No: 999})...)
		for i, want := range []store.Outcome{store.Duplicate, store.Duplicate, store.Duplicate, store.Duplicate,
			store.Duplicate, store.Ended, store.NotFound} {
			if got[i].Outcome != want {
				k.Errorf("Admit %d: outcome %v; want %v", i, got[i].Outcome, want)
			}
		}
		for _, r := range before {
			k.equal("run "+r.ID, k.get(r.No), r)
		}
	}},
	{"AFormerOwnerAdmitsNobody", func(k *kit) {
		o := k.owner(k.s, "n")
		q, a := o.queue("q"), k.start("a", lined("q", "", 0))
		k.pass(ttl + second)
		k.owner(k.s, "n2")
		turn := &store.Turn{Run: q.No, Shard: q.Shard, Sends: []store.Command{admit("q", a)}}
		if result := o.batch(nil, turn).Turns[0]; result.Verdict != store.Fenced || len(result.Sends) != 0 {
			k.Errorf("the turn of a former owner: %+v", result)
		}
		k.equal("the waiting runs", k.waiting(store.WaitingQuery{Queue: "q"}), "a ")
	}},
	{"ManyAreAdmittedAtOnce", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		var runs []store.Run
		for i := range 30 {
			runs = append(runs, k.start(fmt.Sprintf("r%02d", i), lined("q", fmt.Sprint(i%3), i%2)))
		}
		for _, answer := range o.admits(q, runs...) {
			if answer.Outcome != store.Applied || answer.Repeated || answer.Run.Marks != store.Admitted {
				k.Errorf("one of many: %+v", answer)
			}
		}
		if got := o.claim(100, "w").Runs; len(got) != len(runs) {
			k.Errorf("claimed %d runs; want %d", len(got), len(runs))
		}
	}},
})

var law33 = inLines([]testCase{
	{"AnEndOrAYieldClearsIt", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		for i, row := range []struct {
			update store.Update
			stays  bool
		}{
			{store.Update{Status: store.Running}, true},
			{store.Update{Status: store.Suspended, Marks: store.Admitted}, true},
			{store.Update{Status: store.Running, Marks: store.Paused}, true},
			{store.Update{Status: store.Stalled}, true},
			{store.Update{Status: store.Suspended, Yield: true}, false},
			{store.Update{Status: store.Running, Marks: store.Admitted, Yield: true}, false},
			{store.Update{Status: store.Suspended, Marks: store.Held, Yield: true}, false},
			{store.Update{Status: store.Succeeded, Marks: store.Admitted}, false},
			{store.Update{Status: store.Failed, Marks: store.Cancelling}, false},
			{store.Update{Status: store.Cancelled}, false},
		} {
			r := k.start(fmt.Sprintf("r%d", i), lined("q", "", 0))
			o.admits(q, r)
			o.claim(10, "w")
			o.turn(update(r, row.update), store.Committed)
			want := row.update.Marks &^ store.Admitted
			if row.stays {
				want |= store.Admitted
			}
			if got := k.get(r.No); got.Marks != want {
				k.Errorf("after %+v: the marks %q; want %q", row.update, got.Marks, want)
			}
		}
		k.equal("those admitted", k.waiting(store.WaitingQuery{Queue: "q", Admitted: true}), "r0 r1 r2 r3 ")
	}},
	{"NoUpdateSetsIt", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("a")
		o.turn(update(r, store.Update{Status: store.Running, Marks: store.Admitted}), store.Committed)
		if got := k.get(r.No); got.Marks != 0 {
			k.Errorf("an update has set the marks %q", got.Marks)
		}
	}},
	{"ATurnThatIsStillReadyLeavesIt", func(k *kit) {
		o := k.owner(k.s, "n")
		q, r := o.queue("q"), k.start("a", lined("q", "", 0))
		o.admits(q, r)
		o.claim(10, "w")
		k.send(message("a", "m"))
		o.turn(update(r, store.Update{Status: store.Suspended}), store.StillReady)
		if got := k.get(r.No); got.Marks != store.Admitted {
			k.Errorf("the marks %q", got.Marks)
		}
	}},
})

var law34 = inLines([]testCase{
	{"AnEntityThatRestsIsCalledByItsLine", func(k *kit) {
		o := k.owner(k.s, "n")
		q := o.queue("q")
		o.become(q, store.Suspended)
		idle := func(when string) {
			k.Helper()
			if claims := o.claim(10, "w", entityWorkflow); len(claims.Runs) != 0 || claims.More {
				k.Errorf("%s: claimed %+v", when, claims)
			}
		}
		idle("without a line")
		k.start("of another", lined("p", "", 0))
		idle("with a run in another line")
		a := k.start("a", lined("q", "", 0), func(s *store.Start) { s.After = hour })
		if claims := o.claim(10, "w"); len(claims.Runs) != 0 {
			k.Errorf("claimed by a node without its code: %+v", claims)
		}
		claims := o.claim(10, "w", entityWorkflow)
		if len(claims.Runs) != 1 || !claims.Runs[0].New || claims.Runs[0].Run.No != q.No ||
			claims.Runs[0].Run.Status != store.Running {
			k.Fatalf("the claim of an entity with a line: %+v", claims)
		}
		idle("while it is claimed")
		o.admits(q, a)
		o.become(q, store.Suspended)
		if claims := o.claim(10, entityWorkflow); len(claims.Runs) != 0 {
			k.Errorf("an entity whose runs are admitted was claimed: %+v", claims)
		}
	}},
	{"AnEntityThatIsStalledOrPausedIsNot", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, u := range []store.Update{{Status: store.Stalled}, {Status: store.Suspended, Marks: store.Paused}} {
			id := "q-" + u.Status.String()
			q := o.queue(id)
			k.start("of "+id, lined(id, "", 0))
			o.turn(update(q, u), store.Committed)
		}
		if claims := o.claim(10, entityWorkflow); len(claims.Runs) != 0 {
			k.Errorf("claimed %+v", claims)
		}
	}},
	{"ARunThatIsNoEntityIsNot", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.start("a", lined("r", "", 0))
		o.become(r, store.Suspended)
		if claims := o.claim(10, "w"); len(claims.Runs) != 0 {
			k.Errorf("claimed %+v", claims)
		}
	}},
})
