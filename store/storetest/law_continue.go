package storetest

import (
	"crypto/sha256"
	"strings"

	"github.com/stet-run/stet/store"
)

// continued returns the turn with which a run continues as new.
func continued(r store.Run, c store.Continuation) *store.Turn {
	return &store.Turn{Run: r.No, Shard: r.Shard, Incarnation: r.Incarnation,
		Update: &store.Update{Status: store.Running, Continue: &c}}
}

var law22 = []testCase{
	{"TheNextIncarnation", func(k *kit) {
		o := k.owner(k.s, "n")
		first := o.started("r", func(s *store.Start) { s.Input = []byte("first") })
		sent, asked := k.send(message("r", "m")), k.send(verb("r", "v", store.ItemCancel))
		o.turn(&store.Turn{Run: first.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
			Seen: []store.ItemNo{sent}}, store.Committed)
		long := []byte(strings.Repeat("i", 5000))
		want := k.get(first.No)
		o.turn(continued(first, store.Continuation{Workflow: "next", Input: long, Seed: seedOf(99), At: 77}), store.Committed)

		want.Incarnation, want.Workflow, want.Input, want.InputSize, want.Seed, want.Began = 1, "next", long, len(long),
			seedOf(99), k.now()
		want.First = store.Origin{Workflow: "w", Seed: first.Seed, Input: sha256.Sum256([]byte("first"))}
		k.equal("the run", k.get(first.No), want)
		snaps, _, err := k.s.Load(k.ctx, []store.RunNo{first.No})
		k.ok(err)
		k.equal("the run that is loaded", snaps[0].Run, want)
		k.equal("its history", snaps[0].Entries, []store.Entry(nil))
		var nos []store.ItemNo
		var states []store.ItemState
		for _, it := range snaps[0].Items {
			nos, states = append(nos, it.No), append(states, it.State)
		}
		k.equal("its inbox", nos, []store.ItemNo{sent, asked})
		k.equal("the states of its items", states, []store.ItemState{store.Seen, store.New})

		// of the first incarnation
		o.turn(&store.Turn{Run: first.No, Shard: shardA, Entries: []store.Entry{entry("y", store.Done)}}, store.Refused)
		o.turn(&store.Turn{Run: first.No, Shard: shardA, Incarnation: 1,
			Entries: []store.Entry{entry("x", store.FailedEntry)}}, store.Committed)
		o.turn(continued(k.get(first.No), store.Continuation{Workflow: "w", Seed: seedOf(98), At: k.now() + 78}),
			store.Committed)
		third := k.get(first.No)
		k.equal("how it began", third.First, want.First)
		if third.Incarnation != 2 || third.Input != nil || third.InputSize != 0 || third.Began != k.now()+78 ||
			!third.Claimed {
			k.Errorf("the third incarnation is %+v", third)
		}
	}},
	{"OnlyARunningRunContinues", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.become(r, store.Stalled)
		k.send(verb("r", "v", store.ItemResume))
		k.pass(second)
		o.claim(1)
		k.unchanged("a continuation of a stalled run", func() {
			o.turn(continued(r, store.Continuation{Workflow: "w", Seed: seedOf(9)}), store.Refused)
		})
	}},
	{"AStartIsComparedWithTheFirst", func(k *kit) {
		o := k.owner(k.s, "n")
		start := k.startOf("r", func(s *store.Start) { s.Input = []byte("first") })
		r := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0].Run
		o.turn(continued(r, store.Continuation{Workflow: "next", Input: []byte("next"), Seed: seedOf(99)}), store.Committed)
		if a := k.apply(store.Command{Start: start}); a.Outcome != store.Applied || a.Run.Incarnation != 1 {
			k.Errorf("the same start again: %+v", a)
		}
		other := *start
		other.Seed = seedOf(99) // that of the present incarnation
		a := k.apply(store.Command{Start: &other})
		if a.Outcome != store.Exists || a.Run.Origin().Input != sha256.Sum256(start.Input) ||
			a.Run.Origin().Workflow != start.Workflow {
			k.Errorf("another start: %+v", a)
		}
	}},
	{"APausedRunContinuesAtRest", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		turn := continued(r, store.Continuation{Workflow: "w", Seed: seedOf(99)})
		turn.Update.Marks = store.Paused
		o.turn(turn, store.Committed)
		if got := k.get(r.No); got.Incarnation != 1 || got.Claimed || got.Marks != store.Paused {
			k.Errorf("the run is %+v", got)
		}
	}},
	{"ARepeatContinuesOnce", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(continued(r, store.Continuation{Workflow: "w", Seed: seedOf(99)}), store.Committed)
		k.unchanged("the same batch again", func() { o.again() })
	}},
}
