package storetest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/stet-run/stet/store"
)

var law25 = []testCase{
	{"ABuildIsRaised", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		for _, row := range []struct{ build, want string }{
			{"", ""}, {"v10", "v10"}, {"v1", "v10"}, {"", "v10"}, {"v2", "v2"}, {"v10", "v2"}, {"V3", "v2"}, {"v2~", "v2~"},
			{"v2é", "v2é"}, {"v2z", "v2é"},
		} {
			o.turn(update(r, store.Update{Status: store.Running, Build: row.build}), store.Committed)
			if got := k.get(r.No).Build; got != row.want {
				k.Errorf("after a turn under the build %q the run has %q; want %q", row.build, got, row.want)
			}
		}
		k.send(message("r", "m"))
		o.turn(update(r, store.Update{Status: store.Suspended, Build: "v1"}), store.StillReady)
		o.turn(update(r, store.Update{Status: store.Suspended, Build: "w"}), store.StillReady)
		if got := k.get(r.No).Build; got != "w" {
			k.Errorf("after turns that were held back the run has the build %q; want %q", got, "w")
		}
	}},
	{"ABuildIsTakenAway", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		turn := func(build string, any bool, status store.Status, want store.Verdict, left string) {
			k.Helper()
			o.turn(update(r, store.Update{Status: status, Build: build, AnyBuild: any}), want)
			if got := k.get(r.No).Build; got != left {
				k.Errorf("after a turn under the build %q, for any build %t, the run has %q; want %q", build, any, got, left)
			}
		}
		turn("v2", false, store.Running, store.Committed, "v2")
		turn("", true, store.Running, store.Committed, "")
		turn("", true, store.Running, store.Committed, "")
		turn("v2", false, store.Running, store.Committed, "v2")
		turn("v1", true, store.Running, store.Committed, "v1")
		k.send(message("r", "m"))
		turn("v0", true, store.Suspended, store.StillReady, "v0")
		many := o.started("many")
		other := o.started("other")
		o.batch(nil, update(many, store.Update{Status: store.Running, Build: "v3"}),
			update(other, store.Update{Status: store.Running, Build: "v3"}))
		o.batch(nil, update(many, store.Update{Status: store.Running, AnyBuild: true}),
			update(other, store.Update{Status: store.Running}))
		k.equal("of one in a batch of two", k.get(many.No).Build, "")
		k.equal("of the other one", k.get(other.No).Build, "v3")
		o.turn(update(many, store.Update{Status: store.Stalled, Build: "v3"}), store.Committed)
		k.send(verb("many", "v", store.ItemResume))
		o.release()
		o.take()
		k.equal("claimed for an earlier build", claimedIDs(o.claimFor("v1", 100, "w")), []string{"r", "many"})
		o.turn(update(many, store.Update{Status: store.Running, AnyBuild: true, Unclaim: true}), store.Committed)
		k.equal("claimed by an earlier build", claimedIDs(o.claimFor("v1", 100, "w")), []string{"many"})
	}},
	{"ARunThatItsStartAdoptsHasItsBuild", func(k *kit) {
		o := k.owner(k.s, "n")
		start := func(id string, claim bool, more ...func(*store.Start)) store.Command {
			st := k.startOf(id, more...)
			st.Build = "v2"
			return store.Command{Claim: claim, Start: st}
		}
		later := func(s *store.Start) { s.After = second }
		tagged := func(s *store.Start) { s.Tags = []store.Pair{{Key: "k", Value: "v"}} }
		commands := []store.Command{
			start("claimed", true), start("tagged", true, tagged), start("not asked for", false), start("later", true, later),
			start("later and tagged", true, later, tagged),
		}
		outside := k.apply(start("outside", true)).Run
		k.equal("of a run that is not claimed", outside.Build, "")
		k.equal("of a run that is not claimed, as it is read", k.get(outside.No).Build, "")
		for i, want := range []string{"v2", "v2", "", "", ""} {
			c := commands[i]
			r := o.batch([]store.Command{c}).Commands[0].Run
			k.equal("of the run "+c.Start.ID, r.Build, want)
			k.equal("of the run "+c.Start.ID+", as it is read", k.get(r.No).Build, want)
		}
		var many []store.Command
		for _, c := range commands {
			st := *c.Start
			st.ID = "one of many " + st.ID
			many = append(many, store.Command{Claim: c.Claim, Start: &st})
		}
		for i, a := range o.batch(many).Commands {
			want := []string{"v2", "v2", "", "", ""}[i]
			k.equal("of "+many[i].Start.ID, a.Run.Build, want)
			k.equal("of "+many[i].Start.ID+", as it is read", k.get(a.Run.No).Build, want)
		}
		again := start("claimed", true)
		again.Start.Build = "v3"
		r := o.batch([]store.Command{again}).Commands[0].Run
		k.equal("of a repeat", r.Build, "v2")
		o.turn(update(r, store.Update{Status: store.Running, Build: "v1"}), store.Committed)
		k.equal("after a turn of an earlier build", k.get(r.No).Build, "v2")
		child := start("child", true)
		child.Start.Parent, child.Start.ParentLoc = r.No, "l"
		turn := update(r, store.Update{Status: store.Running})
		turn.Sends = []store.Command{child}
		sent := o.batch(nil, turn).Turns[0].Sends[0]
		k.equal("of a child that is claimed: "+fmt.Sprint(sent.Claimed), sent.Run.Build,
			map[bool]string{true: "v2"}[sent.Claimed])
		fork := start("fork", true)
		fork.Start.Fork = &store.Fork{}
		_, err := k.s.Commit(k.ctx, store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: 1 << 40, Leases: o.leases,
			Commands: []store.Command{fork}})
		k.fails("a fork with a build", err, store.ErrInvalid)
	}},
	{"AClaimLeavesRunsOfALaterBuild", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, id := range []string{"none", "v1", "v2", "v3"} {
			build := id
			if id == "none" {
				build = ""
			}
			for _, status := range []store.Status{store.Running, store.Suspended, store.Stalled} {
				u := store.Update{Status: status, Build: build}
				if status == store.Suspended {
					u.WakeAt = k.now() + 1
				}
				o.turn(update(o.started(id+" "+status.String()), u), store.Committed)
			}
		}
		o.release()
		k.pass(1)
		o.take()
		claim := func(build string, want ...string) {
			k.Helper()
			c, err := k.s.Claim(k.ctx, store.ClaimRequest{
				Node: o.node.ID, Boot: o.node.Boot, Leases: o.leases, Workflows: []string{"w"}, Build: build, Limit: 100,
			})
			k.ok(err)
			k.equal("claimed for the build "+build, claimedIDs(c), want)
		}
		claim("v1", "none suspended", "none running", "v1 suspended", "v1 running")
		k.send(message("v3 stalled", "m"))
		k.send(verb("v3 stalled", "r", store.ItemResume))
		k.send(verb("v3 suspended", "t", store.ItemTerminate))
		k.send(verb("v3 running", "c", store.ItemCancel))
		claim("v1", "v3 suspended", "v3 stalled")
		claim("v2", "v2 suspended", "v2 running")
		claim("", "v3 running")
	}},
	{"NextWakeIsOfRunsThatTheBuildLoads", func(k *kit) {
		o := k.owner(k.s, "n")
		now := k.now()
		for build, wake := range map[string]store.Delay{"v1": 3 * second, "v2": 2 * second} {
			o.turn(update(o.started(build), store.Update{Status: store.Suspended, Build: build, WakeAt: now + store.Time(wake)}),
				store.Committed)
		}
		for build, want := range map[string]store.Delay{"v1": 3 * second, "v2": 2 * second, "": 2 * second} {
			c, err := k.s.Claim(k.ctx, store.ClaimRequest{Node: "n", Boot: "n-1", Leases: o.leases, Workflows: []string{"w"},
				Build: build})
			k.ok(err)
			if c.NextWake != now+store.Time(want) {
				k.Errorf("for the build %q the next wake time is %s after now", build, c.NextWake.Sub(now))
			}
		}
	}},
	{"WhatIsLeftIsTold", func(k *kit) {
		o := k.owner(k.s, "n", shardB, shardA)
		in := func(shard store.Shard, workflow string) func(*store.Start) {
			return func(s *store.Start) { s.Shard, s.Workflow = shard, workflow }
		}
		for id, change := range map[string]func(*store.Start){
			"a1": in(shardA, "w"), "a2": in(shardA, "w"), "a3": in(shardA, "x"), "b1": in(shardB, "w"),
			"elsewhere": in(store.Shard{Group: "third"}, "w"),
		} {
			k.start(id, change)
		}
		k.start("later", func(s *store.Start) { s.Workflow, s.After = "y", hour })
		asleep := o.started("asleep", in(shardB, "z"))
		o.turn(update(asleep, store.Update{Status: store.Suspended, Build: "v7"}), store.Committed)
		dead := o.started("dead", in(shardB, "d"))
		o.turn(update(dead, store.Update{Status: store.Stalled, Build: "v7"}), store.Committed)
		for id, build := range map[string]string{"a1": "v2", "a2": "v3"} {
			r := o.claimed(id)
			o.turn(update(r, store.Update{Status: store.Running, Build: build, Unclaim: true}), store.Committed)
		}
		ask := func(build string, limit int, workflows ...string) []store.Unservable {
			k.Helper()
			c, err := k.s.Claim(k.ctx, store.ClaimRequest{
				Node: "n", Boot: "n-1", Leases: o.leases, Workflows: workflows, Build: build, Unservable: true, Limit: limit,
			})
			k.ok(err)
			return c.Unservable
		}
		all := []store.Unservable{{Shard: shardA, Workflow: "w", Build: "v3"}, {Shard: shardA, Workflow: "x"},
			{Shard: shardB, Workflow: "w"}}
		k.equal("without code", ask("", 0), all)
		k.equal("without code, for a late build", ask("v9", 0), all)
		k.equal("with code of an early build", ask("v1", 0, "w"),
			[]store.Unservable{{Shard: shardA, Workflow: "w", Build: "v3"}, {Shard: shardA, Workflow: "x"}})
		k.equal("with all code of the build between",
			ask("v2", 0, "w", "x", "y"), []store.Unservable{{Shard: shardA, Workflow: "w", Build: "v3"}})
		k.equal("with all code of a late build", ask("v3", 0, "w", "x", "y"), []store.Unservable(nil))
		k.send(message("asleep", "m"))
		k.send(message("dead", "m"))
		woken := store.Unservable{Shard: shardB, Workflow: "d", Build: "v7"}
		k.equal("an item is for their code", ask("v9", 0, "w", "x"),
			[]store.Unservable{woken, {Shard: shardB, Workflow: "z", Build: "v7"}})
		k.send(verb("asleep", "t", store.ItemTerminate))
		k.equal("which is claimed without its code", ask("v9", 0, "w", "x"), []store.Unservable{woken})
		k.pass(hour)
		k.equal("one that is due", ask("v9", 0, "w", "x", "z"), []store.Unservable{{Shard: shardA, Workflow: "y"}, woken})
		claims, err := k.s.Claim(k.ctx, store.ClaimRequest{Node: "n", Boot: "n-1", Leases: o.leases, Limit: 10})
		k.ok(err)
		k.equal("of a claim that does not ask for them", claims.Unservable, []store.Unservable(nil))
	}},
	{"ARunIsGivenBack", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)},
			Update: &store.Update{Status: store.Running, Build: "v2", Unclaim: true}}, store.Committed)
		if got := k.get(r.No); got.Claimed || got.Status != store.Running || len(k.history(r.No)) != 1 {
			k.Errorf("the run that was given back: %+v", got)
		}
		o.turn(update(r, store.Update{Status: store.Running}), store.Refused)
		k.equal("claimed again", claimedIDs(o.claim(10, "w")), []string{"r"})
		o.turn(update(r, store.Update{Status: store.Succeeded}), store.Committed)
		for what, u := range map[string]store.Update{
			"a suspended one": {Status: store.Suspended, Unclaim: true}, "a paused one": {Status: store.Running, Marks: store.Paused, Unclaim: true},
		} {
			_, err := k.s.Commit(k.ctx, store.Batch{Node: "n", Boot: "n-1", No: o.no + 1, Leases: o.leases,
				Turns: []*store.Turn{update(r, u)}})
			k.fails("giving back "+what, err, store.ErrInvalid)
		}
	}},
}

// claimed claims the ready runs and returns one of them; the others are given back.
func (o *owner) claimed(id string) (found store.Run) {
	o.Helper()
	for _, c := range o.claim(100, "w", "x").Runs {
		switch {
		case c.New && c.Run.ID == id:
			found = c.Run
		case c.New:
			o.turn(update(c.Run, store.Update{Status: store.Running, Unclaim: true}), store.Committed)
		}
	}
	if found.No == 0 {
		o.Fatalf("the run %s was not claimed", id)
	}
	return found
}

var law26 = []testCase{
	{"TheMarkStays", func(k *kit) {
		n := store.Node{
			ID: "n", Boot: "n-1", Build: "v1", Host: "h", PID: 3, Workflows: []string{"w"}, Groups: []string{"default", "g"},
			TTL: 7,
			Requirements: []store.Requirement{{Shard: shardB, Workflow: "x", Build: "v2", Until: 77},
				{Shard: shardA, Workflow: "w"}},
			Bodies: []store.Body{{RunID: "r 1", Workflow: "w", Location: "pay#2", Attempt: 2, Since: 5},
				{RunID: "s", Attempt: 1}},
			Tasks: []string{"resize"},
			Zones: "5eed", Lines: true, Lacks: []string{"the zone of noon", "a key"},
			Lost: []store.Loss{{Node: "m", Boot: "m-1", SeenAt: 3}, {Node: "o", Boot: "o-1"}},
		}
		others := []string{"Draining", "Stopped", "SeenAt"}
		for field, v := range reflect.ValueOf(n).Fields() {
			if field.Tag.Get("json") != "-" && v.IsZero() && !slices.Contains(others, field.Name) {
				k.Errorf("this case registers a node without %s: give it a value, so that a store that drops it is found",
					field.Name)
			}
		}
		register := func(n store.Node) {
			k.Helper()
			_, err := k.s.Register(k.ctx, n)
			k.ok(err)
		}
		listed := func(what string, want ...store.Node) {
			k.Helper()
			d, err := k.s.Describe(k.ctx)
			k.ok(err)
			for i := range d.Nodes {
				d.Nodes[i].SeenAt = 0
			}
			k.equal(what, d.Nodes, want)
		}
		drain := store.Node{ID: "n", Boot: "n-1", Draining: true}
		register(drain)
		listed("a node that is not listed", []store.Node(nil)...)
		register(n)
		listed("registered", n)
		seen := k.now()
		k.pass(5)
		register(store.Node{ID: "n", Boot: "n-2", Draining: true})
		register(drain)
		marked := n
		marked.Draining = true
		listed("to be drained", marked)
		if d, err := k.s.Describe(k.ctx); err != nil || d.Nodes[0].SeenAt != seen {
			k.Errorf("the mark counts as a heartbeat: %+v, %v", d.Nodes, err)
		}
		marked.Zones, marked.Lacks = "", nil
		marked.PID, marked.Requirements, marked.Bodies, marked.Tasks, marked.Lost = 4, nil, nil, nil, nil
		beat := marked
		beat.Draining = false
		register(beat)
		listed("after a heartbeat", marked)
		next := n
		next.Boot = "n-2"
		register(next)
		listed("another boot", next)
		register(beat)
		listed("the former boot once more", beat)
	}},
	{"ComingGoingAndDrainingAreTold", func(k *kit) {
		other := k.harness.Join(k)
		o := &owner{kit: k, s: k.s, node: store.Node{ID: "n", Boot: "n-1"}}
		for _, act := range []struct {
			what string
			do   func()
		}{
			{"a node that comes", func() { _, err := k.s.Register(k.ctx, o.node); k.ok(err) }},
			{"a node that takes a shard", func() { o.take() }},
			{"a node that gives it back", func() { o.release() }},
			{"a node that is to be drained", func() {
				_, err := k.s.Register(k.ctx, store.Node{ID: "n", Boot: "n-1", Draining: true})
				k.ok(err)
			}},
			{"a node that goes", func() { _, err := k.s.Register(k.ctx, store.Node{ID: "n", Boot: "n-1", Stopped: true}); k.ok(err) }},
		} {
			k.hinted(other, act.what, store.Change{Nodes: true}, act.do)
		}
	}},
}
