package storetest

import (
	"fmt"
	"strings"

	"github.com/stet-run/stet/store"
)

var startCases = []testCase{
	{"ASecondStartFindsTheFirst", func(k *kit) {
		first := k.startOf("r", func(s *store.Start) { s.Items = []store.Item{*message("", "m").Item} })
		want := k.apply(store.Command{Start: first})
		k.unchanged("a second start", func() {
			k.equal("the answer to the same start", k.apply(store.Command{Start: first}), want)
			other := k.startOf("r", func(s *store.Start) { s.Input, s.Workflow = []byte("other"), "x" })
			k.equal("the answer to another start", k.apply(store.Command{Start: other}),
				store.Answer{Outcome: store.Exists, Run: want.Run})
			k.equal("a replacement of a live run", k.apply(store.Command{Start: k.startOf("r", replace)}),
				store.Answer{Outcome: store.Exists, Run: want.Run})
		})
	}},
	{"ARunIsAsItWasStarted", func(k *kit) {
		parent := k.start("parent")
		for _, input := range [][]byte{nil, {}, []byte("x"), []byte(strings.Repeat("y", 512)),
			[]byte(strings.Repeat("z", 100_000))} {
			start := k.startOf(fmt.Sprint("r", len(input), input == nil), func(s *store.Start) {
				s.Input, s.Parent, s.ParentLoc, s.Shard.Slot = input, parent.No, "loc\x00\xff", 0
			})
			a := k.apply(store.Command{Start: start})
			want := store.Run{No: a.Run.No, ID: start.ID, Shard: shardA, Workflow: "w", Status: store.Queued, Seed: start.Seed,
				Parent:    parent.No,
				ParentLoc: "loc\x00\xff", Created: k.now(), Input: input, InputSize: len(input)}
			k.equal("the answer", a, store.Answer{Outcome: store.Applied, Run: want})
			k.equal("the run", k.get(a.Run.No), want)
			if a.Run.No <= parent.No {
				k.Errorf("the run number %d does not grow", a.Run.No)
			}
		}
	}},
	{"AReplacementTakesTheIDOfARunThatHasEnded", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, row := range []struct {
			policy   store.ExistingPolicy
			status   store.Status
			replaced bool
		}{
			{store.KeepExisting, store.Failed, false},
			{store.ReplaceFailed, store.Running, false}, {store.ReplaceFailed, store.Suspended, false},
			{store.ReplaceFailed, store.Succeeded, false}, {store.ReplaceFailed, store.Stalled, false},
			{store.ReplaceFailed, store.Failed, true}, {store.ReplaceFailed, store.Cancelled, true},
			{store.ReplaceEnded, store.Running, false}, {store.ReplaceEnded, store.Suspended, false},
			{store.ReplaceEnded, store.Succeeded, true}, {store.ReplaceEnded, store.Stalled, false},
			{store.ReplaceEnded, store.Failed, true}, {store.ReplaceEnded, store.Cancelled, true},
		} {
			old := o.started(fmt.Sprint(row.status, row.policy))
			o.turn(&store.Turn{Run: old.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)},
				Update: &store.Update{Status: row.status}}, store.Committed)
			kept := k.get(old.No)
			start := k.startOf(old.ID, func(s *store.Start) { s.Existing = row.policy })
			a := o.batch([]store.Command{{Claim: true, Start: start}}).Commands[0]
			if !row.replaced {
				if a.Outcome != store.Exists || a.Run.No != old.No || a.Claimed {
					k.Errorf("replacing a %s run by policy %d: %+v", row.status, row.policy, a)
				}
				k.equal("the run that stays", k.get(old.No), kept)
				continue
			}
			if a.Outcome != store.Applied || a.Run.No <= old.No || a.Run.ID != old.ID || !a.Claimed {
				k.Fatalf("replacing a %s run by policy %d: %+v", row.status, row.policy, a)
			}
			kept.ID = fmt.Sprintf("%s@%d", old.ID, old.No)
			k.equal("the replaced run", k.get(old.No), kept)
			k.equal("the runs with the ID", []int{len(k.history(a.Run.No)), len(k.history(old.No))}, []int{0, 1})
			if to := k.apply(verb(kept.ID, "v", store.ItemResume)); to.Outcome != store.Applied || to.Run.No != old.No {
				k.Errorf("an item for the replaced run: %+v", to)
			}
			if to := k.apply(verb(old.ID, "v", store.ItemResume)); to.Outcome != store.Applied || to.Run.No != a.Run.No {
				k.Errorf("an item for the new run: %+v", to)
			}
			again := k.apply(store.Command{Start: start})
			if again.Outcome != store.Applied || again.Run.No != a.Run.No {
				k.Errorf("the replacement again: %+v", again)
			}
		}
	}},
	{"AReplacedRunDoesNotTakeAName", func(k *kit) {
		o := k.owner(k.s, "n")
		long := strings.Repeat("x", store.MaxRunID)
		for _, id := range []string{"r", long} {
			r := o.started(id)
			o.become(r, store.Failed)
			if id == "r" {
				k.start(fmt.Sprintf("r@%d", r.No))
			}
			k.unchanged("a replacement for whose old run there is no name", func() {
				if a := k.apply(store.Command{Start: k.startOf(id, replace)}); a.Outcome != store.Exists || a.Run.No != r.No {
					k.Errorf("the replacement of %.10s: %+v", id, a)
				}
			})
		}
	}},
}

func replace(s *store.Start) { s.Existing = store.ReplaceFailed }
