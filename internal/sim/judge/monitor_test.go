package judge

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/sim/wire"
	"github.com/stet-run/stet/store"
)

// TestAReleaseOfAFormerEpoch takes nothing from who has the shard now: the process that gives it back was paused, and
// was replaced (seed 325).
func TestAReleaseOfAFormerEpoch(t *testing.T) {
	shard := store.Shard{Group: store.DefaultGroup}
	for _, epoch := range []int64{1, 2} {
		o := newOracle(plan.Plan{Nodes: []plan.Node{{LeaseTTL: time.Second}}}, func() time.Duration { return 5 })
		m := newMonitor(o, func(string, ...any) {}, func(int) string { return "" })
		m.epochs[shard], m.holders[shard] = 2, holder{machine: 2}
		o.lates.runs[1] = &resting{Run: store.Run{Shard: shard, Status: store.Running, Claimed: true}, ready: -1}
		m.released([]store.Lease{{Shard: shard, Epoch: epoch}})
		_, held := m.holders[shard]
		if current := epoch == 2; held == current || o.lates.runs[1].Claimed == current {
			t.Errorf("after the release of epoch %d: held %t, claimed %t", epoch, held, o.lates.runs[1].Claimed)
		}
	}
}

// TestALeaseThatWasRenewedInVain is not given back: the answer came when the process had dropped its shards (seed
// 16312).
func TestALeaseThatWasRenewedInVain(t *testing.T) {
	for _, c := range []struct {
		faults []plan.Fault
		at     time.Duration
		said   bool
	}{
		{nil, time.Second, true},
		{[]plan.Fault{{Kind: plan.Slow}}, time.Second, false},
		{[]plan.Fault{{Kind: plan.Slow}}, 3 * time.Second, true},
	} {
		o := newOracle(plan.Plan{Length: 2 * time.Second, Faults: c.faults}, func() time.Duration { return 3 * time.Second })
		m := newMonitor(o, func(string, ...any) {}, func(int) string { return "" })
		m.holders[store.Shard{}] = holder{machine: 1, at: c.at}
		m.stopped(1, "node1-1", 10*time.Second)
		if said := len(o.violations) > 0; said != c.said {
			t.Errorf("renewed at %s with %d faults: %q", c.at, len(c.faults), o.violations)
		}
	}
}

// TestAPowerCutInACommit: what was to be written may be there afterwards, though nobody has heard of it (seeds 39 and
// 60 of worlds with SQLite).
func TestAPowerCutInACommit(t *testing.T) {
	steps := plan.Program{{Kind: plan.Step, Name: "st1"}, {Kind: plan.Step, Name: "st2"}}
	p := plan.Plan{Runs: []plan.Run{{ID: "r", Program: steps}}}
	for _, cut := range []bool{true, false} {
		o := newOracle(p, func() time.Duration { return 0 })
		m := newMonitor(o, func(string, ...any) {}, func(int) string { return "" })
		o.note(plan.Note{Kind: plan.BodyBegins, Run: "r", Op: "st1", Attempt: 1, Exec: "node1-1.1", Key: "1"})
		ctx, stop := context.WithCancel(t.Context())
		s := wire.NewRemote(func(_ byte, call uint32, body []byte) {
			m.asked(1, call, body)
			stop() // there is no answer
		})
		entry := store.Entry{Kind: store.KindStep, State: store.Done, Value: []byte("\x01\"node1-1.1\"")}
		sent := store.Command{RunID: "r", Item: &store.Item{Kind: store.ItemMessage, ID: "m"}}
		o.items.answered([]store.Command{sent}, []store.Answer{{Outcome: store.Applied, Run: store.Run{No: 1}, Item: 8}})
		turn := &store.Turn{Run: 1, Entries: []store.Entry{entry}, Seen: []store.ItemNo{8}}
		_, err := s.Commit(ctx, store.Batch{Turns: []*store.Turn{turn}})
		if err == nil {
			t.Fatal("the commit has an answer")
		}
		if cut {
			m.cut()
		}
		o.note(plan.Note{Kind: plan.BodyBegins, Run: "r", Op: "st2", Attempt: 1, Exec: "node1-1.2", Key: "2"})
		o.items.looked(&store.Turn{Run: 1, Update: &store.Update{Status: store.Suspended}}, "r", store.Committed)
		if said := len(o.violations); cut && said > 0 || !cut && said != 2 {
			t.Errorf("cut %t: %q", cut, o.violations)
		}
	}
}

// TestAnEventBeforeAContinuation is in the input of what the run goes on with, and in no entry (seed 3710).
func TestAnEventBeforeAContinuation(t *testing.T) {
	act := plan.Act{No: 30, Kind: plan.Publish, Name: "once"}
	for _, got := range []int{30, 31} {
		o := newOracle(plan.Plan{Acts: []plan.Act{act}}, func() time.Duration { return 0 })
		o.acts[act.No] = &plan.Note{Kind: plan.Done}
		m := newMonitor(o, func(string, ...any) {}, func(int) string { return "" })
		m.turn(&store.Turn{Run: 1, Update: &store.Update{
			Status: store.Running, Continue: &store.Continuation{Input: []byte("ev1=act " + strconv.Itoa(got))},
		}})
		if o.events(); len(o.violations) > 0 == (got == act.No) {
			t.Errorf("after act %d: %q", got, o.violations)
		}
	}
}
