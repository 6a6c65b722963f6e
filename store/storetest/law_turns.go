package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// entry returns an entry of a step.
func entry(loc string, state store.EntryState, change ...func(*store.Entry)) store.Entry {
	e := store.Entry{Loc: loc, Kind: store.KindStep, State: state, Attempt: 1, Started: 100, Value: []byte("value")}
	if state == store.Done || state == store.FailedEntry {
		e.Ended = 200
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

var law04 = []testCase{
	{"WhatIsFinalStands", func(k *kit) {
		o := k.owner(k.s, "n")
		large := func(last string) func(*store.Entry) {
			return func(e *store.Entry) { e.Value = []byte(strings.Repeat("x", store.LargeValue) + last) }
		}
		numbered := func(e *store.Entry) { e.Seq, e.At = 7, 300 }
		set := func(change func(*store.Entry)) store.Entry { return entry("x", store.Done, change) }
		type row struct {
			name  string
			old   store.Entry
			next  store.Entry
			want  store.Verdict
			stays bool // the old one, otherwise the next
		}
		done, failed := entry("x", store.Done), entry("x", store.FailedEntry)
		rows := []row{
			{"open by open", entry("x", store.Open), entry("x", store.Open, func(e *store.Entry) { e.Attempt, e.Wake = 2, 500 }),
				store.Committed, false},
			{"open by done", entry("x", store.Open), done, store.Committed, false},
			{"open by failed", entry("x", store.Open), failed, store.Committed, false},
			{"open by withdrawn", entry("x", store.Open), entry("x", store.Withdrawn), store.Committed, false},
			{"open by another kind", entry("x", store.Open),
				entry("x", store.Open, func(e *store.Entry) { e.Kind = store.KindSleep }), store.Committed, false},
			{"withdrawn by open", entry("x", store.Withdrawn), entry("x", store.Open), store.Committed, false},
			{"withdrawn by done", entry("x", store.Withdrawn), done, store.Committed, false},
			{"large open by small", entry("x", store.Open, large("")), done, store.Committed, false},
			{"small open by large", entry("x", store.Open), entry("x", store.Done, large("")), store.Committed, false},
			{"done by the same", done, done, store.Committed, true},
			{"failed by the same", failed, failed, store.Committed, true},
			{"numbered by the same", set(numbered), set(numbered), store.Committed, true},
			{"large by the same", set(large("")), set(large("")), store.Committed, true},
			{"done by open", done, entry("x", store.Open), store.Refused, true},
			{"done by withdrawn", done, entry("x", store.Withdrawn), store.Refused, true},
			{"done by failed", done, failed, store.Refused, true},
			{"failed by done", failed, done, store.Refused, true},
			{"done gets its number", done, set(numbered), store.Committed, false},
			{"failed gets its number", failed, entry("x", store.FailedEntry, numbered), store.Committed, false},
			{"large gets its number", set(large("")), entry("x", store.Done, large(""), numbered), store.Committed, false},
			{"another number", set(numbered), set(func(e *store.Entry) { e.Seq, e.At = 8, 300 }), store.Refused, true},
			{"no number again", set(numbered), done, store.Refused, true},
			{"another time of the hand-over", set(numbered), set(func(e *store.Entry) { e.Seq, e.At = 7, 301 }), store.Refused, true},
			{"a time without a number", done, set(func(e *store.Entry) { e.At = 300 }), store.Refused, true},
			{"a number and another value", done, entry("x", store.Done, numbered,
				func(e *store.Entry) { e.Value = []byte("other") }), store.Refused, true},
			{"another value", done, set(func(e *store.Entry) { e.Value = []byte("valuf") }), store.Refused, true},
			{"no value", done, set(func(e *store.Entry) { e.Value = nil }), store.Refused, true},
			{"an empty value for none", set(func(e *store.Entry) { e.Value = nil }),
				set(func(e *store.Entry) { e.Value = []byte{} }), store.Refused, true},
			{"another large value", set(large("a")), set(large("b")), store.Refused, true},
			{"a longer value", set(large("")), set(large("a")), store.Refused, true},
			{"another kind", done, set(func(e *store.Entry) { e.Kind = store.KindSleep }), store.Refused, true},
			{"another birth", done, set(func(e *store.Entry) { e.Born = 1 }), store.Refused, true},
			{"another wake time", done, set(func(e *store.Entry) { e.Wake = 1 }), store.Refused, true},
			{"another attempt", done, set(func(e *store.Entry) { e.Attempt = 2 }), store.Refused, true},
			{"another debt", done, set(func(e *store.Entry) { e.Owes = true }), store.Refused, true},
			{"a debt without its number", set(func(e *store.Entry) { e.Owes = true }),
				entry("x", store.Done, numbered, func(e *store.Entry) { e.Owes = true }), store.Committed, false},
			{"another beginning", done, set(func(e *store.Entry) { e.Started = 101 }), store.Refused, true},
			{"another end", done, set(func(e *store.Entry) { e.Ended = 201 }), store.Refused, true},
		}
		for i, row := range rows {
			separate, together := o.started(fmt.Sprint("r", i)), o.started(fmt.Sprint("t", i))
			o.turn(&store.Turn{Run: separate.No, Shard: shardA, Entries: []store.Entry{row.old}}, store.Committed)
			if got := o.batch(nil, &store.Turn{Run: separate.No, Shard: shardA,
				Entries: []store.Entry{row.next}}).Turns[0].Verdict; got != row.want {
				k.Errorf("%s: the turn is %s; want it %s", row.name, got, row.want)
			}
			want := row.next
			if row.stays {
				want = row.old
			}
			want.Size = len(want.Value)
			k.equal(row.name+": the entry", k.history(separate.No), []store.Entry{want})

			got := o.batch(nil, &store.Turn{Run: together.No, Shard: shardA,
				Entries: []store.Entry{row.old, row.next}}).Turns[0].Verdict
			if got != row.want {
				k.Errorf("%s in one turn: it is %s; want it %s", row.name, got, row.want)
			}
			if row.want == store.Committed {
				k.equal(row.name+" in one turn: the entry", k.history(together.No), []store.Entry{want})
			} else {
				k.equal(row.name+" in one turn: the entry", k.history(together.No), []store.Entry(nil))
			}
		}
	}},
	{"ALocationIsOfOneRun", func(k *kit) {
		o := k.owner(k.s, "n")
		a, b := o.started("a"), o.started("b")
		o.turn(&store.Turn{Run: a.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)}}, store.Committed)
		o.turn(&store.Turn{Run: b.No, Shard: shardA, Entries: []store.Entry{entry("x", store.FailedEntry)}}, store.Committed)
		if got := k.history(a.No); len(got) != 1 || got[0].State != store.Done {
			k.Errorf("the entry of one run after that of another: %+v", got)
		}
	}},
	{"AnotherIncarnationIsRefused", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Incarnation: 1, Entries: []store.Entry{entry("x", store.Done)}},
			store.Refused)
	}},
	{"ARunThatIsNotClaimedIsRefused", func(k *kit) {
		o := k.owner(k.s, "n")
		r := k.start("r")
		turn := &store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
			Update: &store.Update{Status: store.Running}}
		k.unchanged("a turn of an idle run", func() { o.turn(turn, store.Refused) })
		o.claim(10, "w")
		o.become(r, store.Suspended)
		k.unchanged("a turn of a suspended run", func() { o.turn(turn, store.Refused) })
	}},
}

// inbox05 lists the items that may be in the inbox when a turn wants to suspend or end its run.
var inbox05 = []struct {
	name     string
	kind     store.ItemKind
	suspends bool // with this unexamined
	ends     bool
}{
	{"a message", store.ItemMessage, false, true},
	{"a resolution", store.ItemResolution, false, true},
	{"a cancel", store.ItemCancel, false, false},
	{"a terminate", store.ItemTerminate, false, false},
	{"a resume", store.ItemResume, false, true},
}

var law05 = []testCase{
	{"WhatIsNewHoldsBack", func(k *kit) {
		o := k.owner(k.s, "n")
		for i, row := range inbox05 {
			for _, status := range []store.Status{store.Suspended, store.Succeeded, store.Failed, store.Cancelled, store.Stalled,
				store.Running} {
				want := store.Committed
				if status == store.Suspended && !row.suspends || status.Terminal() && !row.ends {
					want = store.StillReady
				}
				r := o.started(fmt.Sprint(i, status))
				k.send(item(r.ID, store.Item{Kind: row.kind, ID: "new", Origin: "o"}))
				got := o.batch(nil, &store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
					Update: &store.Update{Status: status}}).Turns[0].Verdict
				if got != want {
					k.Errorf("%s unexamined, to %s: the turn is %s; want it %s", row.name, status, got, want)
				}
				now := k.get(r.No)
				if stays := want == store.StillReady; stays && (now.Status != store.Running || !now.Claimed) ||
					!stays && now.Status != status {
					k.Errorf("%s unexamined, to %s: the run is %s, claimed %t", row.name, status, now.Status, now.Claimed)
				}
				if len(k.history(r.No)) != 1 {
					k.Errorf("%s unexamined, to %s: the entry is not there", row.name, status)
				}
			}
		}
	}},
	{"WhatIsNewHoldsBackTheBeginOfUndoing", func(k *kit) {
		o := k.owner(k.s, "n")
		begin := store.Update{Status: store.Running, Marks: store.Undoing, Output: []byte("the outcome")}
		for _, row := range inbox05 {
			r := o.started(fmt.Sprint("r", row.kind))
			k.send(item(r.ID, store.Item{Kind: row.kind, ID: "new"}))
			want := store.Committed
			if !row.ends {
				want = store.StillReady
			}
			o.turn(update(r, begin), want)
			if now := k.get(r.No); (now.Marks == store.Undoing) != row.ends || (now.Output != nil) != row.ends ||
				now.Status != store.Running {
				k.Errorf("%s unexamined: the run is %s with the marks %q and the output %q",
					row.name, now.Status, now.Marks, now.Output)
			}
		}
		r := o.started("begun")
		o.turn(update(r, begin), store.Committed)
		k.send(item(r.ID, store.Item{Kind: store.ItemCancel, ID: "late"}))
		o.turn(update(r, begin), store.Committed) // it is no begin any more
	}},
	{"WhatTheTurnExaminesDoesNot", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, row := range inbox05 {
			for _, status := range []store.Status{store.Suspended, store.Cancelled} {
				seen, consumed := o.started(fmt.Sprint("s", row.kind, status)), o.started(fmt.Sprint("c", row.kind, status))
				a := k.send(item(seen.ID, store.Item{Kind: row.kind, ID: "new"}))
				b := k.send(item(consumed.ID, store.Item{Kind: row.kind, ID: "new"}))
				results := o.batch(nil,
					&store.Turn{Run: seen.No, Shard: shardA, Seen: []store.ItemNo{a}, Update: &store.Update{Status: status}},
					&store.Turn{Run: consumed.No, Shard: shardA, Consumed: []store.Consumption{{Item: b}},
						Update: &store.Update{Status: status}}).Turns
				for i, r := range []store.Run{seen, consumed} {
					if now := k.get(r.No); results[i].Verdict != store.Committed || now.Status != status || now.Claimed {
						k.Errorf("%s examined, to %s: the turn is %s, the run %s, claimed %t",
							row.name, status, results[i].Verdict, now.Status, now.Claimed)
					}
				}
			}
		}
	}},
	{"OneNewItemAmongSeenOnesIsEnough", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		first, second := k.send(message("r", "1")), k.send(message("r", "2"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{second},
			Update: &store.Update{Status: store.Suspended}}, store.StillReady)
		if items := k.inbox(r.No); items[0].State != store.New || items[1].State != store.Seen {
			k.Errorf("the marks of a turn that is held back: %+v", items)
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{first, second},
			Update: &store.Update{Status: store.Suspended}}, store.Committed)
	}},
	{"OfTheUpdateOnlyBuildAndTheEndOfSuspicionTakeEffect", func(k *kit) {
		s := k.harness.Join(k)
		dead := k.owner(s, "dead")
		r := dead.started("r", func(s *store.Start) { s.Items = []store.Item{{Kind: store.ItemMessage, ID: "new"}} })
		dead.turn(update(r, store.Update{Status: store.Running, Isolate: true, Output: []byte("old"), Waits: []byte("old"),
			Reason: "old"}), store.Committed)
		if !k.harness.Kill(k, s) {
			k.pass(ttl)
		}
		o := k.owner(k.s, "n")
		o.claim(10, "w")
		want := k.get(r.No)
		refusedUpdate := store.Update{Status: store.Suspended, Marks: store.Cancelling, WakeAt: k.now().Add(time.Hour),
			Reason: "new", Build: "v2",
			Output: []byte("new"), Waits: []byte("new"), Isolate: true}
		want.Build = "v2"
		o.turn(update(r, refusedUpdate), store.StillReady)
		k.equal("the run, which should stay alone", k.get(r.No), want)
		refusedUpdate.Isolate, refusedUpdate.Build = false, ""
		want.Suspect, want.Strikes, want.Alone = 0, 0, false
		o.turn(update(r, refusedUpdate), store.StillReady)
		k.equal("the run", k.get(r.No), want)
	}},
	{"WhatTheUpdateConsumesGoesWithIt", func(k *kit) {
		o := k.owner(k.s, "n")
		yes := func(no store.ItemNo) []store.Consumption {
			return []store.Consumption{{Item: no, Verdict: []byte("yes")}}
		}
		for what, u := range map[string]store.Update{
			"an end":               {Status: store.Cancelled, Reason: "because"},
			"the begin of undoing": {Status: store.Running, Marks: store.Undoing},
			"a suspension":         {Status: store.Suspended, Waits: []byte("w")},
		} {
			r := o.started(what)
			command := verb(r.ID, "t", store.ItemTerminate)
			command.Item.Value = []byte("why")
			terminate, cancel := k.send(command), k.send(verb(r.ID, "c", store.ItemCancel))
			before := k.inbox(r.No)
			u.Consumed, u.Audit = yes(terminate), []store.Audit{{Verb: "terminate"}}
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
				Audit: []store.Audit{{Verb: "before"}}, Update: &u}, store.StillReady)
			o.again()
			k.equal(what+" that is held back leaves the inbox", k.inbox(r.No), before)
			if c := o.claim(10, "w"); len(c.Runs) != 1 || c.Runs[0].New || len(c.Runs[0].Items) != 2 {
				k.Errorf("%s that is held back: a claim finds %+v", what, c.Runs)
			}
			turn := update(r, u)
			turn.Consumed = []store.Consumption{{Item: cancel, Verdict: []byte("no")}}
			o.turn(turn, store.Committed)
			for id, answer := range map[string]string{"t": "yes", "c": "no"} {
				if it := k.inbox(r.No, id)[0]; it.State != store.Consumed || string(it.Verdict) != answer || it.Value != nil {
					k.Errorf("%s: the item %s is %+v", what, id, it)
				}
			}
			if now := k.get(r.No); now.Status != u.Status || now.Marks != u.Marks || len(k.history(r.No)) != 1 {
				k.Errorf("%s: the run is %+v", what, now)
			}
			var acts []string
			audit, err := k.s.Audit(k.ctx, r.No)
			k.ok(err)
			for _, a := range audit {
				acts = append(acts, fmt.Sprint(a.No, a.Verb))
			}
			k.equal(what+": the acts", acts, []string{"1before", "2terminate"})
		}
	}},
	{"OneCancelThatTheUpdateConsumesDoesNotHoldItBack", func(k *kit) {
		o := k.owner(k.s, "n")
		var turns []*store.Turn
		for i := range 3 { // without an act, in one batch
			r := o.started(fmt.Sprint(i))
			no := k.send(verb(r.ID, "c", store.ItemCancel))
			turns = append(turns, update(r, store.Update{Status: store.Cancelled,
				Consumed: []store.Consumption{{Item: no, Verdict: []byte("yes")}}}))
		}
		for i, result := range o.batch(nil, turns...).Turns {
			it := k.inbox(turns[i].Run, "c")[0]
			if result.Verdict != store.Committed || it.State != store.Consumed || string(it.Verdict) != "yes" ||
				k.get(turns[i].Run).Status != store.Cancelled {
				k.Errorf("the turn is %s, the cancel %+v", result.Verdict, it)
			}
		}
	}},
	{"WhatTheUpdateCannotConsumeRefusesTheTurn", func(k *kit) {
		o := k.owner(k.s, "n")
		r, other := o.started("r"), o.started("other")
		gone := k.send(verb("r", "gone", store.ItemTerminate))
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: []store.Consumption{{Item: gone}}}, store.Committed)
		terminate, strange := k.send(verb("r", "t", store.ItemTerminate)), k.send(verb("other", "t", store.ItemTerminate))
		ends := func(nos ...store.ItemNo) *store.Turn {
			t := update(r, store.Update{Status: store.Cancelled})
			for _, no := range nos {
				t.Update.Consumed = append(t.Update.Consumed, store.Consumption{Item: no})
			}
			return t
		}
		both := ends(terminate)
		both.Consumed = both.Update.Consumed
		refused := func() {
			for _, turn := range []*store.Turn{ends(terminate, gone), ends(terminate, strange), ends(terminate, terminate),
				ends(terminate, 99999), both} {
				o.turn(turn, store.Refused)
			}
		}
		k.unchanged("an update that consumes what it cannot", refused)
		k.send(verb("r", "c", store.ItemCancel))
		k.unchanged("one that would be held back besides", refused)
		if got := k.get(other.No); got.Status != store.Running {
			k.Errorf("another run is %s", got.Status)
		}
	}},
	{"WhatAFormerTurnOfTheBatchSendsHoldsBack", func(k *kit) {
		o := k.owner(k.s, "n")
		sender, receiver := o.started("sender"), o.started("receiver")
		results := o.batch(nil, &store.Turn{Run: sender.No, Shard: shardA, Sends: []store.Command{message("receiver", "m")}},
			update(receiver, store.Update{Status: store.Suspended})).Turns
		if results[1].Verdict != store.StillReady {
			k.Errorf("the receiver's turn is %s", results[1].Verdict)
		}
	}},
	{"WhatComesLaterMakesReady", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(update(r, store.Update{Status: store.Suspended, WakeAt: k.now().Add(time.Hour)}), store.Committed)
		if c := o.claim(10, "w"); len(c.Runs) != 0 {
			k.Fatalf("a suspended run was claimed: %+v", c.Runs)
		}
		no := k.send(message("r", "m"))
		c := o.claim(10, "w")
		if len(c.Runs) != 1 || !c.Runs[0].New || len(c.Runs[0].Items) != 1 || c.Runs[0].Items[0].No != no ||
			c.Runs[0].Run.Status != store.Running || c.Runs[0].Run.WakeAt != 0 {
			k.Errorf("with a new item, a suspended run is claimed as %+v", c.Runs)
		}
	}},
	{"NoWakeIsLostInARace", func(k *kit) {
		const messages = 60
		o := k.owner(k.s, "n")
		o.become(o.started("r"), store.Suspended)
		sender := k.harness.Join(k)
		sent := make(chan error, 1)
		go func() {
			for i := range messages {
				if _, _, err := sender.Apply(k.ctx, []store.Command{message("r", fmt.Sprint(i))}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		got := 0
		for got < messages {
			k.ok(k.ctx.Err()) // or a message was lost: the run sleeps and is not claimed
			for _, c := range o.claim(10, "w").Runs {
				turn := update(store.Run{No: c.Run.No, Shard: shardA}, store.Update{Status: store.Suspended})
				for _, it := range c.Items {
					turn.Consumed = append(turn.Consumed, store.Consumption{Item: it.No})
				}
				got += len(c.Items)
				o.batch(nil, turn)
			}
		}
		k.ok(<-sent)
	}},
	{"AnItemOfTheSameBatchMakesReady", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		result := o.batch([]store.Command{message("r", "m")}, update(r, store.Update{Status: store.Suspended}))
		if result.Turns[0].Verdict != store.Committed {
			k.Fatalf("commands come after the turns, but the turn is %s", result.Turns[0].Verdict)
		}
		if c := o.claim(10, "w"); len(c.Runs) != 1 {
			k.Error("the run is not ready")
		}
	}},
	{"AnUpdateIsWrittenAsItStands", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		want := k.get(r.No)
		o.turn(update(r, store.Update{Status: store.Running, Marks: store.Cancelling, Reason: "why", Build: "v1",
			Output: []byte{}, Waits: []byte{},
			WakeAt: k.now().Add(time.Hour)}), store.Committed)
		want.Marks, want.Reason, want.Build, want.Output, want.Waits = store.Cancelling, "why", "v1", []byte{}, []byte{}
		k.equal("the run", k.get(r.No), want)
		output := []byte(strings.Repeat("o", 5000))
		wake := k.now().Add(time.Minute)
		o.turn(update(r, store.Update{Status: store.Suspended, WakeAt: wake, Output: output, Waits: []byte("w")}),
			store.Committed)
		want.Status, want.Claimed, want.WakeAt, want.Marks, want.Reason, want.Output, want.OutputSize,
			want.Waits = store.Suspended, false, wake, 0, "", output, len(output), []byte("w")
		k.equal("the suspended run", k.get(r.No), want)
		k.pass(minute)
		o.claim(1, "w")
		k.pass(minute)
		o.turn(update(r, store.Update{Status: store.Failed, Output: []byte("short"), WakeAt: wake}), store.Committed)
		want.Status, want.WakeAt, want.Ended, want.Output, want.OutputSize, want.Waits = store.Failed, 0, k.now(),
			[]byte("short"), 5, nil
		k.equal("the failed run", k.get(r.No), want)
	}},
}

var law08 = []testCase{
	{"EveryPairOfStatuses", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, from := range []store.Status{store.Running, store.Stalled, store.Succeeded, store.Failed, store.Cancelled} {
			for _, to := range store.AllStatuses() {
				r := o.started(fmt.Sprint(from, "-", to))
				if from != store.Running {
					o.become(r, from)
					ended := k.get(r.No).Ended
					no := k.send(verb(r.ID, "v", store.ItemResume))
					k.pass(second)
					if c := o.claim(1); len(c.Runs) != 1 || c.Runs[0].Run.Status != from || c.Runs[0].Run.Ended != ended {
						k.Fatalf("a %s run with a Resume is claimed as %+v", from, c.Runs)
					}
					o.turn(&store.Turn{Run: r.No, Shard: shardA, Seen: []store.ItemNo{no}}, store.Committed)
				}
				want := store.Refused
				if from.CanBecome(to) {
					want = store.Committed
				}
				before := k.get(r.No)
				got := o.batch(nil, &store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
					Update: &store.Update{Status: to}}).Turns[0]
				after := k.get(r.No)
				if got.Verdict != want {
					k.Errorf("from %s to %s: the turn is %s; want it %s", from, to, got.Verdict, want)
				}
				if want == store.Refused {
					k.equal(fmt.Sprintf("the run that cannot go from %s to %s", from, to), after, before)
					o.become(r, from)
					continue
				}
				if after.Status != to || after.Claimed != (to == store.Running) || (after.Ended != 0) != to.Terminal() {
					k.Errorf("from %s to %s: the run is %+v", from, to, after)
				}
				if from.Terminal() && to.Terminal() && after.Ended != before.Ended {
					k.Errorf("from %s to %s: ended at %s, before at %s", from, to, after.Ended, before.Ended)
				}
			}
		}
	}},
}
