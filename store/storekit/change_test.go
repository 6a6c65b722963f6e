package storekit_test

import (
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// TestChangesAsText: what is sent as text is what was meant, and what another version
// sends is anything.
func TestChangesAsText(t *testing.T) {
	var some store.ShardSet
	some.Add(store.Shard{Group: store.DefaultGroup, Slot: 3})
	some.Add(store.Shard{Group: store.SystemGroup, Slot: 255})
	for _, c := range []store.Change{
		{Ready: some}, {Ready: some, Answered: true, Nodes: true}, {Ready: store.AllShards()}, {Ready: store.AllShards(), Nodes: true},
		{Answered: true}, {Nodes: true}, store.Anything(),
	} {
		if got := storekit.DecodeChange(storekit.EncodeChange(c)); got != c {
			t.Errorf("%q: expected %+v, found %+v", storekit.EncodeChange(c), c, got)
		}
	}
	for _, text := range []string{"", "x", "tx", "s", "s00", "t s"} {
		if got := storekit.DecodeChange(text); got != store.Anything() {
			t.Errorf("%q: expected anything, found %+v", text, got)
		}
	}
}

// TestChangeOf: which acts mean something to other processes, and in which shards.
func TestChangeOf(t *testing.T) {
	at := func(slots ...int) (set store.ShardSet) {
		for _, slot := range slots {
			set.Add(store.Shard{Group: store.DefaultGroup, Slot: slot})
		}
		return set
	}
	shard := func(slot int) store.Shard { return store.Shard{Group: store.DefaultGroup, Slot: slot} }
	run := func(slot int) store.Answer {
		return store.Answer{Run: store.Run{No: 1, Shard: shard(slot)}}
	}
	send := store.Command{RunID: "r", Item: &store.Item{}}
	start := store.Command{Start: &store.Start{}}
	queued := store.Command{Start: &store.Start{Queue: &store.QueueEntry{}}}
	claimed := run(5)
	claimed.Claimed = true
	for _, row := range []struct {
		what   string
		batch  store.Batch
		result store.BatchResult
		want   store.Change
	}{
		{"a completed step", store.Batch{Turns: []*store.Turn{{Shard: shard(1), Entries: []store.Entry{{}}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Committed}}}, store.Change{}},
		{"a permit that is given back", store.Batch{Turns: []*store.Turn{{Shard: shard(1), Hints: []store.Shard{shard(3)}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Committed}}}, store.Change{Ready: at(3)}},
		{"a turn that is fenced", store.Batch{Turns: []*store.Turn{{Shard: shard(1), Hints: []store.Shard{shard(3)}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Fenced}}}, store.Change{}},
		{"a run that is taken in hand", store.Batch{Commands: []store.Command{start}},
			store.BatchResult{Commands: []store.Answer{claimed}}, store.Change{}},
		{"a start", store.Batch{Commands: []store.Command{start}}, store.BatchResult{Commands: []store.Answer{run(5)}},
			store.Change{Ready: at(5)}},
		{"an item for a run that is not there", store.Batch{Commands: []store.Command{send}},
			store.BatchResult{Commands: []store.Answer{{}}}, store.Change{}},
		{"a start on a queue", store.Batch{Commands: []store.Command{queued}},
			store.BatchResult{Commands: []store.Answer{claimed}}, store.Change{Ready: store.AllShards()}},
		{"an end that is told", store.Batch{Turns: []*store.Turn{{Shard: shard(1), Sends: []store.Command{send},
			Update: &store.Update{Status: store.Succeeded, Sends: []store.Command{send}}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Committed, Sends: []store.Answer{run(2), run(3)}}}},
			store.Change{Answered: true, Ready: at(2, 3)}},
		{"a send that has no answer yet", store.Batch{Turns: []*store.Turn{{Shard: shard(1), Sends: []store.Command{send}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Committed}}}, store.Anything()},
		{"a run that is given back", store.Batch{Turns: []*store.Turn{{Shard: shard(1),
			Update: &store.Update{Status: store.Running, Unclaim: true}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Committed}}},
			store.Change{Answered: true, Ready: at(1)}},
		{"a turn that was refused", store.Batch{Turns: []*store.Turn{{Shard: shard(1), Sends: []store.Command{send},
			Update: &store.Update{Status: store.Succeeded}}}},
			store.BatchResult{Turns: []store.TurnResult{{Verdict: store.Refused}}}, store.Change{}},
	} {
		if got := storekit.ChangeOf(&row.batch, &row.result); got != row.want {
			t.Errorf("%s: expected %+v, found %+v", row.what, row.want, got)
		}
	}
}
