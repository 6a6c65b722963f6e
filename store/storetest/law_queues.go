package storetest

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// place puts a start into a queue whose entity is the run with the ID.
func place(queue, ask string) func(*store.Start) {
	return func(s *store.Start) {
		s.Queue = &store.QueueEntry{Data: []byte("place of " + s.ID),
			Ask: store.Command{RunID: queue, Claim: true, Item: &store.Item{
				Kind: store.ItemAsk, ID: ask, Origin: "o", Value: []byte("for " + s.ID)}}}
	}
}

func grant(run, id string) store.Command {
	return item(run, store.Item{Kind: store.ItemGrant, ID: id, Origin: "o"})
}

// held starts the entity of a queue and a run that waits for a permit of it.
func (k *kit) held(queue, id string) store.Run {
	k.Helper()
	k.start(queue, func(s *store.Start) { s.Workflow = entityWorkflow })
	return k.start(id, place(queue, "ask "+id))
}

var law28 = []testCase{
	{"AStartInAQueueIsHeldAndAsks", func(k *kit) {
		o := k.owner(k.s, "n")
		entity := o.started("q", func(s *store.Start) { s.Workflow = entityWorkflow })
		o.become(entity, store.Suspended)
		a := o.batch([]store.Command{{Claim: true, Start: k.startOf("a", place("q", "ask a"))}}).Commands[0]
		if a.Outcome != store.Applied || a.Claimed || a.Run.Status != store.Queued || a.Run.Marks != store.Held ||
			string(a.Run.Queue) != "place of a" || a.Run.WakeAt != 0 {
			k.Fatalf("the start of a run in a queue: %+v", a)
		}
		k.equal("the run", k.get(a.Run.No).Queue, []byte("place of a"))
		asked := k.inbox(entity.No)
		if len(asked) != 1 || asked[0].ID != "ask a" || asked[0].Kind != store.ItemAsk || string(asked[0].Value) != "for a" {
			k.Fatalf("what the queue was asked: %+v", asked)
		}
		if r := k.get(entity.No); r.Claimed || r.Status != store.Suspended {
			k.Errorf("the queue was claimed by an ask: %+v", r)
		}
		if o.again(); len(k.inbox(entity.No)) != 1 {
			k.Error("a repeat of the start asked again")
		}
		if claims := o.claim(10, "w"); len(claims.Runs) != 0 || claims.More {
			k.Errorf("a run that is held was claimed: %+v", claims)
		}
		if claims := o.claim(10, "w", entityWorkflow); len(claims.Runs) != 1 || claims.Runs[0].Run.No != entity.No {
			k.Errorf("the queue was not claimed for what it is asked: %+v", claims)
		}
	}},
	{"AStartThatMakesNoRunAsksForNothing", func(k *kit) {
		r := k.held("q", "a")
		start := k.startOf("a", place("q", "other"))
		if a := k.apply(store.Command{Start: start}); a.Outcome != store.Exists {
			k.Errorf("the start of a run that exists: %+v", a)
		}
		start = k.startOf("a", place("q", "again"))
		start.Seed = r.Seed
		if a := k.apply(store.Command{Start: start}); a.Outcome != store.Applied {
			k.Errorf("the repeat of a start: %+v", a)
		}
		entity, err := k.s.List(k.ctx, store.Filter{IDs: []string{"q"}})
		k.ok(err)
		if asked := k.inbox(entity.Runs[0].No); len(asked) != 1 {
			k.Errorf("the queue was asked %d times", len(asked))
		}
		k.start("b", place("nobody", "ask b")) // is held for ever, and can be cancelled
	}},
	{"AGrantTakesUpAHeldRun", func(k *kit) {
		o := k.owner(k.s, "n")
		r := k.held("q", "a")
		k.send(message("a", "m"))
		k.send(verb("a", "watch", store.ItemWatch))
		if claims := o.claim(10, "w"); len(claims.Runs) != 0 {
			k.Fatalf("a held run was claimed for a message: %+v", claims)
		}
		k.send(grant("a", "g"))
		if claims := o.claim(10, "x"); len(claims.Runs) != 0 {
			k.Fatalf("a held run was claimed by a node without its code: %+v", claims)
		}
		claims := o.claim(10, "w")
		if len(claims.Runs) != 1 || !claims.Runs[0].New || claims.Runs[0].Run.Status != store.Running ||
			claims.Runs[0].Run.Marks != 0 || len(claims.Runs[0].Items) != 3 {
			k.Fatalf("the claim of a run that was granted: %+v", claims)
		}
		// The queue entry that its turns write stays until they write another.
		o.turn(update(r, store.Update{Status: store.Running, Queue: []byte("new place")}), store.Committed)
		o.turn(update(r, store.Update{Status: store.Running}), store.Committed)
		k.equal("the place", k.get(r.No).Queue, []byte("new place"))
	}},
	{"AGrantAdoptsAHeldRunAlone", func(k *kit) {
		o := k.owner(k.s, "n")
		k.held("q", "a")
		send := func(c store.Command) store.Answer {
			c.Claim = true
			return o.batch([]store.Command{c}).Commands[0]
		}
		if a := send(message("a", "m")); a.Claimed {
			k.Errorf("a held run was claimed by a message: %+v", a)
		}
		a := send(grant("a", "g"))
		if !a.Claimed || a.Run.Status != store.Running || a.Run.Marks != 0 || a.Run.Started == 0 {
			k.Fatalf("a grant for a held run: %+v", a)
		}
		for _, status := range []store.Status{store.Suspended, store.Running} {
			o.turn(update(a.Run, store.Update{Status: status, Marks: store.Held}), store.Committed)
			id := fmt.Sprintf("g %s", status)
			if a := send(grant("a", id)); !a.Claimed || a.Run.Status != store.Running || a.Run.Marks != 0 {
				k.Errorf("a grant for a held run that is %s: %+v", status, a)
			}
		}
	}},
	{"WhatAHeldRunIsClaimedFor", func(k *kit) {
		o := k.owner(k.s, "n")
		k.start("q", func(s *store.Start) { s.Workflow = entityWorkflow })
		for i, row := range []struct {
			kind          store.ItemKind
			begun, paused bool
			claimed       bool
			held          bool // then
		}{
			{kind: store.ItemCancel, claimed: true, held: true},
			{kind: store.ItemTerminate, claimed: true, held: true},
			{kind: store.ItemPause, claimed: true, held: true},
			{kind: store.ItemResume},
			{kind: store.ItemRetry},
			{kind: store.ItemNudge, begun: true},
			{kind: store.ItemNudge, begun: true, paused: true, claimed: true, held: true},
			{kind: store.ItemGrant, claimed: true},
			{kind: store.ItemCancel, begun: true},
			{kind: store.ItemTerminate, begun: true, claimed: true, held: true},
			{kind: store.ItemGrant, begun: true, claimed: true},
			{kind: store.ItemGrant, paused: true},
			{kind: store.ItemResume, paused: true, claimed: true, held: true},
			{kind: store.ItemCancel, paused: true, begun: true, claimed: true, held: true},
		} {
			id := fmt.Sprintf("r%d", i)
			r := k.start(id, place("q", id))
			status := store.Queued
			if row.begun {
				k.send(grant(id, "first"))
				status = store.Suspended
			} else {
				k.send(verb(id, "first", store.ItemPause))
			}
			first := o.claim(10, "w").Runs
			if len(first) != 1 {
				k.Fatalf("row %d: claimed %+v", i, first)
			}
			marks := store.Held
			if row.paused {
				marks |= store.Paused
			}
			turn := update(r, store.Update{Status: status, Marks: marks})
			turn.Seen = []store.ItemNo{first[0].Items[0].No}
			o.turn(turn, store.Committed)
			k.send(item(id, store.Item{Kind: row.kind, ID: "then", Origin: "o"}))
			got := o.claim(10, "w").Runs
			if !row.claimed {
				if len(got) != 0 {
					k.Errorf("row %d %+v: claimed %+v", i, row, got)
				}
				o.claim(10)
				k.send(verb(id, "end", store.ItemTerminate))
				got = o.claim(10, "w").Runs
			}
			if len(got) != 1 || got[0].Run.Marks&store.Held != 0 != (row.held || !row.claimed) {
				k.Fatalf("row %d %+v: claimed %+v", i, row, got)
			}
			want := store.Running
			if row.held || !row.claimed {
				want = status
			}
			if got[0].Run.Status != want {
				k.Errorf("row %d %+v: it was claimed and is %s; want %s", i, row, got[0].Run.Status, want)
			}
			end := update(r, store.Update{Status: store.Cancelled})
			for _, it := range got[0].Items {
				end.Consumed = append(end.Consumed, store.Consumption{Item: it.No, Verdict: []byte("y")})
			}
			o.turn(end, store.Committed)
		}
	}},
	{"AHeldRunGivesItselfBack", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, status := range []store.Status{store.Suspended, store.Running} {
			id := status.String()
			r := o.started(id)
			k.send(message(id, "m"))
			u := store.Update{Status: status, Marks: store.Held, WakeAt: k.now() + 1}
			if status == store.Running {
				u.WakeAt = 0
			}
			o.turn(update(r, u), store.Committed) // though something is new
			if r := k.get(r.No); r.Claimed || r.Status != status {
				k.Errorf("the run is %+v", r)
			}
		}
		k.pass(second)
		if claims := o.claim(10, "w"); len(claims.Runs) != 0 || claims.NextWake != 0 {
			k.Errorf("held runs were claimed: %+v", claims)
		}
		// Not suspect: no node worked on it.
		k.send(verb("running", "t", store.ItemTerminate))
		if got := o.claim(10, "w").Runs; len(got) != 1 || got[0].Run.Marks != store.Held {
			k.Fatalf("claimed %+v", got)
		}
		k.pass(ttl + second)
		other := k.owner(k.s, "n2")
		if got := other.claim(10, "w").Runs; len(got) != 1 || got[0].Run.Suspect != 0 || got[0].Run.Marks != store.Held {
			k.Errorf("claimed by the next owner: %+v", got)
		}
	}},
	{"BadPlacesAreRefused", func(k *kit) {
		k.start("q", func(s *store.Start) { s.Workflow = entityWorkflow })
		for what, change := range map[string]func(*store.Start){
			"a place without data":      func(s *store.Start) { s.Queue.Data = nil },
			"a place with much data":    func(s *store.Start) { s.Queue.Data = make([]byte, store.MaxHeaders+1) },
			"a delayed run in a queue":  func(s *store.Start) { s.After = second },
			"a run at a time":           func(s *store.Start) { s.At = 1 },
			"a place that asks nobody":  func(s *store.Start) { s.Queue.Ask = store.Command{} },
			"a place that asks itself":  func(s *store.Start) { s.Queue.Ask.RunID = s.ID },
			"a place that starts a run": func(s *store.Start) { s.Queue.Ask = store.Command{Start: k.startOf("z")} },
			"a place without an ID":     func(s *store.Start) { s.Queue.Ask.Item.ID = "" },
		} {
			start := k.startOf("a", place("q", "ask"), change)
			k.unchanged(what, func() {
				_, _, err := k.s.Apply(k.ctx, []store.Command{{Start: start}})
				k.fails(what, err, store.ErrInvalid)
			})
		}
	}},
}
