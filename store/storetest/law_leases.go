package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

var law02 = []testCase{
	{"ATakenShardIsFenced", func(k *kit) {
		o := k.owner(k.s, "old", shardA, shardB)
		a := o.started("a")
		b := o.started("b", func(s *store.Start) { s.Shard = shardB })
		k.pass(ttl / 2)
		renewed, _, err := k.s.Renew(k.ctx, o.leases[1:], ttl)
		k.ok(err)
		k.pass(ttl/2 + 1)
		next := k.owner(k.harness.Join(k), "new", shardA)
		next.claim(10, "w")

		results := o.batch([]store.Command{{Claim: true, Start: k.startOf("c")}},
			&store.Turn{Run: a.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
				Sends:  []store.Command{message("b", "from a")},
				Update: &store.Update{Status: store.Succeeded, Output: []byte("o")}},
			&store.Turn{Run: b.No, Shard: shardB, Entries: []store.Entry{entry("x", store.Done)}})
		if v := results.Turns[0].Verdict; v != store.Fenced {
			k.Errorf("the turn of the shard that was taken is %s", v)
		}
		if v := results.Turns[1].Verdict; v != store.Committed || !renewed[0].Held {
			k.Errorf("the turn of the shard that was kept is %s", v)
		}
		if c := results.Commands[0]; c.Claimed || c.Run.Claimed || c.Outcome != store.Applied {
			k.Errorf("a start by the former owner is claimed, or not applied: %+v", c)
		}
		if r := k.get(a.No); len(k.history(a.No)) != 0 || r.Status != store.Running || r.Output != nil ||
			len(k.inbox(b.No)) != 0 {
			k.Errorf("a fenced turn has written: %+v", r)
		}
		if len(k.history(b.No)) != 1 {
			k.Error("the turn of the other shard is not there")
		}
	}},
	{"NothingIsWrittenAfterTheTakeover", func(k *kit) {
		o := k.owner(k.s, "old")
		r := o.started("r")
		next := k.harness.Join(k)
		k.pass(ttl)
		committed := make(chan int, 1)
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		go func() { // goes on as if nothing had happened
			defer begin()
			b := store.Batch{Node: o.node.ID, Boot: o.node.Boot, No: o.no, Leases: o.leases}
			for i := range 1_000_000 {
				b.No++
				b.Turns = []*store.Turn{{Run: r.No, Shard: shardA,
					Entries: []store.Entry{entry(fmt.Sprintf("%07d", i), store.Done)}}}
				result, err := k.s.Commit(k.ctx, b)
				if err != nil || result.Turns[0].Verdict != store.Committed {
					committed <- i
					return
				}
				if i == 5 {
					begin()
				}
			}
		}()
		<-begun
		n := k.owner(next, "new")
		at, err := next.History(k.ctx, store.HistoryQuery{Run: r.No})
		k.ok(err)
		count := <-committed
		if after := k.history(r.No); len(after) != len(at) || len(after) != count || n.leases[0].Epoch <= o.leases[0].Epoch {
			k.Errorf("the old owner has written %d entries and got answers to %d; at the takeover there were %d",
				len(after), count, len(at))
		}
	}},
	{"OnlyTheCurrentEpochCounts", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		good := o.leases[0]
		o.take()
		o.claim(10, "w")
		current := o.leases[0]
		for what, l := range map[string]store.Lease{
			"a former epoch of the same boot": good,
			"an epoch that is not yet":        {Shard: shardA, Epoch: current.Epoch + 1, Node: "n", Boot: "n-1"},
			"no epoch":                        {Shard: shardA, Node: "n", Boot: "n-1"},
		} {
			o.leases = []store.Lease{l}
			k.unchanged("a batch with "+what, func() {
				o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry(what, store.Done)}}, store.Fenced)
				claims := o.claim(10, "w")
				k.equal("the fenced shards", claims.Fenced, []store.Shard{shardA})
				k.equal("the claimed runs", claims.Runs, []store.Claimed(nil))
			})
		}
		o.leases = []store.Lease{{Shard: shardA, Epoch: current.Epoch}}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)}}, store.Committed)
	}},
	{"AReleasedOrUnknownShardIsFenced", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.release()
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Fenced)
		o.leases = []store.Lease{{Shard: shardB, Epoch: 1, Node: "n", Boot: "n-1"}}
		o.turn(&store.Turn{Run: r.No, Shard: shardB, Entries: []store.Entry{entry("a", store.Done)}}, store.Fenced)
		o.leases[0].Epoch = 0
		o.turn(&store.Turn{Run: r.No, Shard: shardB, Entries: []store.Entry{entry("a", store.Done)}}, store.Fenced)
		if len(k.history(r.No)) != 0 {
			k.Error("a fenced turn has written")
		}
	}},
	{"ALeaseThatEndedAndNobodyTookIsCurrent", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		k.pass(100 * ttl)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
		renewed, now, err := k.s.Renew(k.ctx, o.leases, ttl)
		k.ok(err)
		if !renewed[0].Held || renewed[0].Lease.Until != now+store.Time(ttl) || renewed[0].Lease.Epoch != o.leases[0].Epoch {
			k.Errorf("renewed at %s: %+v", now, renewed[0])
		}
	}},
	{"ARunOfAnotherShardIsRefused", func(k *kit) {
		o := k.owner(k.s, "n", shardA, shardB)
		r := o.started("r")
		o.turn(&store.Turn{Run: r.No, Shard: shardB, Entries: []store.Entry{entry("a", store.Done)}}, store.Refused)
		if len(k.history(r.No)) != 0 {
			k.Error("a refused turn has written")
		}
	}},
}

var law03 = []testCase{
	{"EveryTenureHasAHigherEpoch", func(k *kit) {
		var last int64
		grows := func(what string, o *owner) {
			k.Helper()
			if e := o.leases[0].Epoch; e <= last {
				k.Errorf("%s: epoch %d after %d", what, e, last)
			}
			last = o.leases[0].Epoch
		}
		o := k.owner(k.s, "a")
		grows("the first", o)
		o.take()
		grows("the same boot again", o)
		o.release()
		o.take()
		grows("after giving back", o)
		k.pass(ttl + 1)
		b := k.owner(k.harness.Join(k), "b")
		grows("after the lease's end", b)
		b.release()
		k.clock.step(-240 * time.Hour)
		o.take()
		grows("with a clock that went back", o)
		k.harness.Kill(k, k.s)
		k.harness.Kill(k, b.s)
		k.pass(480 * hour)
		k.s = k.harness.Join(k)
		grows("after the death of all", k.owner(k.s, "c"))
	}},
	{"AHeldLeaseIsNotTaken", func(k *kit) {
		o := k.owner(k.s, "a")
		k.pass(ttl - 1)
		s := k.harness.Join(k)
		for what, n := range map[string]store.Node{"another node": {ID: "b", Boot: "b-1"},
			"another boot": {ID: "a", Boot: "a-2"}} {
			got, _, err := s.Acquire(k.ctx, n, []store.Shard{shardB, shardA}, ttl)
			k.ok(err)
			if !got[0].Held || got[1].Held || got[1].Lease != o.leases[0] {
				k.Errorf("%s: got %+v; want the free shard and the holder %+v", what, got, o.leases[0])
			}
			k.ok(s.Release(k.ctx, []store.Lease{got[0].Lease}))
		}
		k.pass(1)
		got, _, err := s.Acquire(k.ctx, store.Node{ID: "b", Boot: "b-1"}, []store.Shard{shardA}, ttl)
		k.ok(err)
		if !got[0].Held || got[0].Clean {
			k.Errorf("at the end of the lease: got %+v; want it held, not clean", got[0])
		}
	}},
	{"ARenewedLeaseLastsLonger", func(k *kit) {
		o := k.owner(k.s, "a")
		k.pass(ttl / 2)
		renewed, now, err := k.s.Renew(k.ctx, append(o.leases, store.Lease{Shard: shardB, Epoch: 1}), ttl)
		k.ok(err)
		want := o.leases[0]
		want.Until = now + store.Time(ttl)
		k.equal("the renewed and the unknown lease", renewed, []store.Acquired{{Held: true, Lease: want, Clean: true}, {}})
		k.pass(ttl/2 + 1)
		got, _, err := k.harness.Join(k).Acquire(k.ctx, store.Node{ID: "b", Boot: "b-1"}, []store.Shard{shardA}, ttl)
		k.ok(err)
		if got[0].Held {
			k.Error("a renewed lease was taken at the end of the former time")
		}
	}},
	{"ATakenLeaseIsNotRenewed", func(k *kit) {
		o := k.owner(k.s, "a")
		k.pass(ttl)
		b := k.owner(k.harness.Join(k), "b")
		k.unchanged("the renewal", func() {
			renewed, _, err := k.s.Renew(k.ctx, o.leases, 10*ttl)
			k.ok(err)
			k.equal("the lost lease", renewed, []store.Acquired{{Lease: b.leases[0]}})
		})
	}},
	{"ACleanReleaseMakesRunsReadyWithoutSuspicion", func(k *kit) {
		o := k.owner(k.s, "a")
		r := o.started("r")
		o.release()
		if got := k.get(r.No); got.Claimed || got.Suspect != 0 || got.Status != store.Running {
			k.Errorf("after giving back: %+v", got)
		}
		d, err := k.s.Describe(k.ctx)
		k.ok(err)
		k.equal("the leases", d.Leases, []store.Lease(nil))
		b := &owner{kit: k, s: k.harness.Join(k), node: store.Node{ID: "b", Boot: "b-1"}}
		got := b.take()
		if !got[0].Clean || got[0].Suspects != 0 {
			k.Errorf("after a clean release: %+v", got[0])
		}
		claims := b.claim(10, "w")
		if len(claims.Runs) != 1 || claims.Runs[0].Run.No != r.No || claims.Runs[0].Run.Suspect != 0 {
			k.Errorf("the next owner claims %+v", claims.Runs)
		}
		k.unchanged("giving back leases that are not held", o.release)
	}},
	{"ADeadOwnersRunsAreSuspect", func(k *kit) {
		s := k.harness.Join(k)
		o := k.owner(s, "a")
		hand, alone, idle := o.started("hand"), o.started("alone"), o.started("idle")
		o.become(idle, store.Suspended)
		o.turn(update(alone, store.Update{Status: store.Running, Isolate: true}), store.Committed)
		if !k.harness.Kill(k, s) {
			k.pass(ttl + 1)
		}
		b := &owner{kit: k, s: k.s, node: store.Node{ID: "b", Boot: "b-1"}}
		got := b.take()
		if got[0].Clean || got[0].Suspects != 2 {
			k.Errorf("after a death with two claimed runs: %+v", got[0])
		}
		suspicion := func(what string, no store.RunNo, suspect, strikes int, alone bool) {
			k.Helper()
			if r := k.get(no); r.Suspect != suspect || r.Strikes != strikes || r.Alone != alone {
				k.Errorf("%s: suspect %d, strikes %d, alone %t; want %d, %d, %t",
					what, r.Suspect, r.Strikes, r.Alone, suspect, strikes, alone)
			}
		}
		suspicion("claimed", hand.No, 1, 0, false)
		suspicion("alone", alone.No, 1, 1, false)
		suspicion("idle", idle.No, 0, 0, false)

		b.claim(10, "w")
		b.turn(&store.Turn{Run: hand.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Committed)
		suspicion("after a turn without an update", hand.No, 1, 0, false)
		b.turn(update(alone, store.Update{Status: store.Running, EndIsolation: true}), store.Committed)
		suspicion("spared", alone.No, 1, 0, false)
		b.turn(update(hand, store.Update{Status: store.Running, Isolate: true}), store.Committed)
		suspicion("to be alone", hand.No, 1, 0, true)
		b.turn(update(hand, store.Update{Status: store.Running}), store.Committed)
		suspicion("after a turn with an update", hand.No, 0, 0, false)
		b.turn(update(alone, store.Update{Status: store.Running, Isolate: true}), store.Committed)
		b.release()
		suspicion("after giving back", alone.No, 1, 0, false)
	}},
	{"OnlyRunsThatWereExecutedBecomeMoreSuspect", func(k *kit) {
		s := k.harness.Join(k)
		o := k.owner(s, "0")
		runs := map[string]store.Run{}
		for _, id := range []string{"alone", "tried", "spared", "waiting", "new"} {
			runs[id] = o.started(id)
		}
		elsewhere := k.owner(k.s, "elsewhere", shardB).started("elsewhere", func(s *store.Start) { s.Shard = shardB })
		isolate, try := store.Update{Isolate: true}, store.Update{Isolate: true, EndIsolation: true}
		spare, commit := store.Update{EndIsolation: true}, store.Update{}
		for i, life := range []struct {
			acts map[string][]store.Update // of runs in this life
			want map[string][2]int         // suspect and strikes after it
		}{
			{nil, map[string][2]int{"alone": {1, 0}, "tried": {1, 0}, "spared": {1, 0}, "waiting": {1, 0}, "new": {1, 0}}},
			{map[string][]store.Update{"new": {commit}},
				map[string][2]int{"alone": {2, 0}, "tried": {2, 0}, "spared": {2, 0}, "waiting": {2, 0}, "new": {1, 0}}},
			{map[string][]store.Update{"alone": {isolate}, "tried": {try}, "spared": {isolate, spare}, "new": {commit}},
				map[string][2]int{"alone": {3, 1}, "tried": {3, 1}, "spared": {2, 0}, "waiting": {2, 0}, "new": {1, 0}}},
			{map[string][]store.Update{"alone": {isolate}, "tried": {try}},
				map[string][2]int{"alone": {4, 2}, "tried": {4, 1}, "spared": {2, 0}, "waiting": {2, 0}, "new": {2, 0}}},
			{map[string][]store.Update{"waiting": {isolate}, "tried": {isolate}},
				map[string][2]int{"alone": {3, 0}, "tried": {5, 2}, "spared": {2, 0}, "waiting": {3, 1}, "new": {2, 0}}},
			{nil, map[string][2]int{"alone": {2, 0}, "tried": {4, 0}, "spared": {2, 0}, "waiting": {2, 0}, "new": {2, 0}}},
		} {
			if i > 0 {
				o.claim(10, "w")
			}
			for id, updates := range life.acts {
				for _, u := range updates {
					u.Status = store.Running
					o.turn(update(runs[id], u), store.Committed)
					if r := k.get(runs[id].No); r.Alone != u.Isolate {
						k.Errorf("life %d: %s is alone: %t; want %t", i, id, r.Alone, u.Isolate)
					}
				}
			}
			if !k.harness.Kill(k, s) {
				k.pass(ttl)
			}
			s = k.harness.Join(k)
			o = k.owner(s, fmt.Sprint(i+1))
			for id, want := range life.want {
				if r := k.get(runs[id].No); r.Suspect != want[0] || r.Strikes != want[1] || r.Alone {
					k.Errorf("after life %d %s is suspect %d times, has %d strikes, is alone: %t; want %d, %d, false",
						i, id, r.Suspect, r.Strikes, r.Alone, want[0], want[1])
				}
			}
		}
		if r := k.get(elsewhere.No); r.Suspect != 0 {
			k.Errorf("a run of another shard is suspect %d times", r.Suspect)
		}
	}},
	{"AnOwnerThatOutstaysItsLeaseLeavesSuspects", func(k *kit) {
		o := k.owner(k.s, "a")
		r := o.started("r")
		k.pass(ttl)
		got := (&owner{kit: k, s: k.harness.Join(k), node: store.Node{ID: "b", Boot: "b-1"}}).take()
		if got[0].Clean || got[0].Suspects != 1 || k.get(r.No).Suspect != 1 {
			k.Errorf("after the end of a lease with a claimed run: %+v", got[0])
		}
	}},
	{"AnotherTenureOfTheSameBootIsClean", func(k *kit) {
		o := k.owner(k.s, "a")
		r := o.started("r")
		k.pass(2 * ttl)
		got := o.take()
		if run := k.get(r.No); !got[0].Clean || got[0].Suspects != 0 || run.Suspect != 0 || run.Claimed {
			k.Errorf("taken again: %+v, the run %+v", got[0], run)
		}
		if claims := o.claim(10, "w"); len(claims.Runs) != 1 || !claims.Runs[0].New {
			k.Errorf("runs that were claimed before are claimed as %+v", claims.Runs)
		}
	}},
	{"ALaterBootOfANodeIsAnotherOwner", func(k *kit) {
		o := k.owner(k.s, "a")
		o.started("r")
		k.pass(ttl)
		later := &owner{kit: k, s: k.s, node: store.Node{ID: "a", Boot: "a-2"}}
		if got := later.take(); got[0].Clean || got[0].Suspects != 1 {
			k.Errorf("taken by a later boot: %+v", got[0])
		}
	}},
	{"LeasesAreListedByShard", func(k *kit) {
		third := store.Shard{Group: "aaa"}
		b := k.owner(k.s, "b", shardB, third)
		a := k.owner(k.harness.Join(k), "a", shardA)
		k.pass(2 * ttl)
		d, err := k.s.Describe(k.ctx)
		k.ok(err)
		k.equal("the leases, ended or not", d.Leases, []store.Lease{b.leases[1], a.leases[0], b.leases[0]})
	}},
}

var law30 = []testCase{
	{"AReplacedLeaseIsTaken", func(k *kit) {
		o := k.owner(k.s, "a")
		r := o.started("r")
		s := k.harness.Join(k)
		k.unchanged("what replaces nobody", func() {
			for what, n := range map[string]store.Node{
				"another node":                      {ID: "b", Boot: "z", Replaces: true},
				"the same boot of another node":     {ID: "b", Boot: o.node.Boot, Replaces: true},
				"an earlier boot":                   {ID: "a", Boot: "a", Replaces: true},
				"a later boot that does not say so": {ID: "a", Boot: "a-2"},
			} {
				got, _, err := s.Acquire(k.ctx, n, []store.Shard{shardA}, ttl)
				k.ok(err)
				if got[0].Held || got[0].Lease != o.leases[0] {
					k.Errorf("%s: got %+v; want the holder %+v", what, got, o.leases[0])
				}
			}
		})
		later := store.Node{ID: "a", Boot: "a-2", Replaces: true}
		got, _, err := s.Acquire(k.ctx, later, []store.Shard{shardA}, ttl)
		k.ok(err)
		if !got[0].Held || got[0].Clean || got[0].Suspects != 1 || got[0].Lease.Boot != "a-2" ||
			got[0].Lease.Epoch <= o.leases[0].Epoch {
			k.Fatalf("the later boot got %+v; want the shard, not clean, with one suspect", got[0])
		}
		renewed, _, err := k.s.Renew(k.ctx, o.leases, ttl)
		k.ok(err)
		k.equal("the lease of the earlier boot", renewed, []store.Acquired{{Lease: got[0].Lease}})
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done)}}, store.Fenced)
		again, _, err := k.s.Acquire(k.ctx, store.Node{ID: "a", Boot: o.node.Boot, Replaces: true},
			[]store.Shard{shardA}, ttl)
		k.ok(err)
		if again[0].Held {
			k.Error("the earlier boot has taken the shard back")
		}
	}},
}
