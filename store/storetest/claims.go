package storetest

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

// claimedIDs are the IDs of the runs that were newly claimed.
func claimedIDs(c store.Claims) []string {
	var ids []string
	for _, r := range c.Runs {
		if r.New {
			ids = append(ids, r.Run.ID)
		}
	}
	return ids
}

var claimCases = []testCase{
	{"ByTurnsDueThenCalledThenMarked", func(k *kit) {
		o := k.owner(k.s, "n", shardA, shardB)
		suspend := func(id string, wake store.Delay, change ...func(*store.Start)) {
			r := o.started(id, change...)
			u := store.Update{Status: store.Suspended}
			if wake != 0 {
				u.WakeAt = k.now() + store.Time(wake)
			}
			o.turn(update(r, u), store.Committed)
		}
		inB := func(s *store.Start) { s.Shard = shardB }
		k.start("marked 1")
		suspend("called 1", 0)
		k.start("due 3", func(s *store.Start) { s.After = 3 * second })
		k.start("due 1", func(s *store.Start) { s.After = second })
		suspend("due 2", 2*second, inB)
		suspend("called 2", hour, inB)
		k.start("marked 2", inB)
		suspend("asleep", hour)
		suspend("due 1 again", second)
		k.start("called 3")
		k.send(message("called 3", "m"))
		k.send(message("called 2", "m"))
		k.send(message("called 1", "m"))
		k.send(message("due 3", "m"))
		k.pass(3 * second)
		want := []string{
			"due 1",
			"due 1 again", "called 1",
			"due 2", "called 2", "marked 1",
			"due 3", "called 3", "marked 2",
		}
		var got []string
		for limit := 1; len(got) < len(want); limit++ {
			c := o.claim(limit, "w")
			ids := claimedIDs(c)
			if len(ids) == 0 {
				k.Fatalf("after %v nothing is claimed", got)
			}
			got = append(got, ids...)
			if len(ids) > limit || c.More != (len(got) < len(want)) {
				k.Errorf("of %d, with the limit %d: %d claimed after %d, more %t", len(want), limit, len(ids), len(got), c.More)
			}
		}
		k.equal("the order", got, want)
	}},
	{"NoWorkflowWaitsForTheBacklogOfAnother", func(k *kit) {
		o := k.owner(k.s, "n", shardA, shardB)
		other := func(s *store.Start) { s.Workflow, s.Shard = "x", shardB }
		for i := range 30 {
			k.start(fmt.Sprint("due ", i), func(s *store.Start) { s.After = second })
			k.start(fmt.Sprint("marked ", i))
		}
		k.start("other due", other, func(s *store.Start) { s.After = 2 * second })
		k.start("other marked", other)
		k.pass(3 * second)
		k.equal("the first of 62", claimedIDs(o.claim(8, "w", "x")), []string{
			"due 0", "other due", "marked 0", "other marked", "due 1", "marked 1", "due 2", "marked 2"})
	}},
	{"AClaimedRunIsWholeAndRunning", func(k *kit) {
		o := k.owner(k.s, "n")
		r := k.start("r", func(s *store.Start) { s.After, s.Input = second, make([]byte, 10_000) })
		k.pass(second)
		t1 := k.now()
		c := o.claim(5, "w")
		want := r
		want.Status, want.Claimed, want.Started, want.WakeAt = store.Running, true, t1, 0
		k.equal("the claimed run", c.Runs, []store.Claimed{{New: true, Run: want}})
		o.turn(update(r, store.Update{Status: store.Suspended, WakeAt: t1.Add(time.Second), Waits: []byte("w"),
			Output: make([]byte, 600)}), store.Committed)
		k.pass(2 * second)
		c = o.claim(5, "w")
		want.Waits, want.Output, want.OutputSize = []byte("w"), make([]byte, 600), 600
		k.equal("the run that was claimed again", c.Runs, []store.Claimed{{New: true, Run: want}})
	}},
	{"ItemsOfRunsInHandAreNews", func(k *kit) {
		o := k.owner(k.s, "n", shardA, shardB)
		a, b := o.started("a"), o.started("b", func(s *store.Start) { s.Shard = shardB })
		k.start("c")
		seen := k.send(message("b", "seen"))
		o.turn(&store.Turn{Run: b.No, Shard: shardB, Seen: []store.ItemNo{seen}}, store.Committed)
		k.send(message("b", "1"))
		k.send(message("a", "2"))
		k.send(verb("b", "3", store.ItemCancel))
		for _, limit := range []int{0, 0, 5} {
			c := o.claim(limit)
			got := map[store.RunNo]string{}
			var last store.RunNo
			for _, r := range c.Runs {
				if r.New || r.Run.No <= last {
					k.Errorf("with the limit %d: fresh %t, run number %d after %d", limit, r.New, r.Run.No, last)
				}
				last = r.Run.No
				k.equal("the run of old claims", r.Run, store.Run{No: r.Run.No})
				for _, it := range r.Items {
					got[r.Run.No] += it.ID
				}
			}
			k.equal("the items", got, map[store.RunNo]string{a.No: "2", b.No: "13"})
		}
		if c := o.claim(0, "w"); !c.More || len(claimedIDs(c)) != 0 {
			k.Errorf("the limit 0 with a run that is ready: claimed %v, more %t", claimedIDs(c), c.More)
		}
		o.leases = o.leases[:1]
		if c := o.claim(0); len(c.Runs) != 1 || c.Runs[0].Run.No != a.No {
			k.Errorf("with the lease of one shard: %+v", c.Runs)
		}
	}},
	{"WithoutTheCodeOnlyWhatNeedsNone", func(k *kit) {
		o := k.owner(k.s, "n")
		statuses := map[string]store.Status{"queued": 0, "delayed": 0, "due": 0, "running": store.Running,
			"suspended": store.Suspended, "woken": store.Suspended,
			"stalled": store.Stalled, "succeeded": store.Succeeded, "failed": store.Failed, "cancelled": store.Cancelled}
		for _, row := range []struct {
			kind store.ItemKind
			want []string // claimed without the code
		}{
			{0, nil},
			{store.ItemMessage, nil},
			{store.ItemResolution, nil},
			{store.ItemTerminate, []string{"queued", "delayed", "due", "running", "suspended", "woken", "stalled", "succeeded",
				"failed", "cancelled"}},
			{store.ItemCancel, []string{"queued", "delayed", "due", "stalled", "succeeded", "failed", "cancelled"}},
			{store.ItemResume, []string{"stalled", "succeeded", "failed", "cancelled"}},
			{store.ItemNudge, []string{"stalled", "succeeded", "failed", "cancelled"}},
		} {
			for _, workflows := range [][]string{nil, {"x", "y"}} {
				want := map[string]bool{}
				for name, status := range statuses {
					id := fmt.Sprint(name, row.kind, len(workflows))
					switch {
					case name == "delayed":
						k.start(id, func(s *store.Start) { s.After = 100 * hour })
					case name == "due":
						k.start(id, func(s *store.Start) { s.After = 1 })
					case status == 0:
						k.start(id)
					default:
						u := store.Update{Status: status}
						if name == "woken" {
							u.WakeAt = k.now() + 1
						}
						o.turn(update(o.started(id), u), store.Committed)
					}
					for _, wanted := range row.want {
						want[id] = want[id] || wanted == name
					}
					if row.kind != 0 {
						k.apply(item(id, store.Item{Kind: row.kind, ID: "i"}))
					}
				}
				o.release() // makes the running ones ready
				k.pass(1)
				o.take()
				got := map[string]bool{}
				for _, id := range claimedIDs(o.claim(1000, workflows...)) {
					got[id] = true
				}
				for id := range want {
					if want[id] != got[id] {
						k.Errorf("with %q as the only news, and code for %q: claimed %t; want %t", id, workflows, got[id], want[id])
					}
				}
				for _, c := range o.claim(1000, "w").Runs { // out of the way of the next
					turn := &store.Turn{Run: c.Run.No, Shard: shardA}
					for _, it := range c.Items {
						turn.Seen = append(turn.Seen, it.No)
					}
					o.turn(turn, store.Committed)
				}
			}
		}
	}},
	{"ADelayedStartWaitsWhateverComes", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, row := range []struct {
			kind store.ItemKind
			want bool
		}{
			{store.ItemMessage, false}, {store.ItemResolution, false}, {store.ItemResume, false}, {store.ItemTerminate, true},
			{store.ItemCancel, true}, {store.ItemNudge, false},
		} {
			id := row.kind.String()
			r := k.start(id, func(s *store.Start) { s.After = hour })
			k.send(item(id, store.Item{Kind: row.kind, ID: "i"}))
			c := o.claim(10, "w")
			if got := len(claimedIDs(c)) == 1; got != row.want {
				k.Errorf("a delayed run with a %s: claimed %t", id, got)
			}
			if now := k.get(r.No); (now.WakeAt == 0) != row.want {
				k.Errorf("a delayed run with a %s wakes at %s", id, now.WakeAt)
			}
		}
		k.pass(hour - 1)
		if ids := claimedIDs(o.claim(10, "w")); len(ids) != 0 {
			k.Errorf("a moment before its time %v is claimed", ids)
		}
		k.pass(1)
		k.equal("claimed at its time", claimedIDs(o.claim(10, "w")), []string{"message", "resolution", "resume", "nudge"})
	}},
	{"TheLaterOfTimeAndDelayCounts", func(k *kit) {
		now := k.start("now").Created
		for _, row := range []struct {
			at    store.Time
			after store.Delay
			want  store.Time
		}{
			{0, 0, 0}, {now, 0, 0}, {now - 5, 0, 0}, {now + 5, 0, now + 5}, {0, 5, now + 5}, {now + 5, 7, now + 7},
			{now + 7, 5, now + 7}, {1, 5, now + 5},
			{0, store.MaxDelay, now + store.Time(store.MaxDelay)},
		} {
			r := k.start(fmt.Sprint(row), func(s *store.Start) { s.At, s.After = row.at, row.after })
			if r.WakeAt != row.want || r.Status != store.Queued {
				k.Errorf("start at %d after %d: %s, wakes at %d; want %d", row.at, row.after, r.Status, r.WakeAt, row.want)
			}
		}
	}},
	{"ADateOfTheFarFutureIsADate", func(k *kit) {
		o := k.owner(k.s, "n")
		for year := 9999; year > 2200; year -= 1291 { // beyond 2^53 microseconds, and beyond what a Duration holds
			at := store.TimeOf(time.Date(year, 12, 31, 23, 59, 59, 999_999_000, time.UTC))
			delayed := k.start(fmt.Sprint("delayed until ", year), func(s *store.Start) { s.At = at })
			r := o.started(fmt.Sprint("suspended until ", year))
			o.turn(update(r, store.Update{Status: store.Suspended, WakeAt: at + 1}), store.Committed)
			k.pass(3600 * second)
			c := o.claim(10, "w")
			// A store that keeps the order of times as floating-point numbers rounds the next one.
			if len(c.Runs) != 0 || c.NextWake.Sub(at).Abs() > time.Millisecond {
				k.Errorf("%d runs are claimed, the next wakes at %s; want none, and %s", len(c.Runs), c.NextWake, at)
			}
			for no, want := range map[store.RunNo]store.Time{delayed.No: at, r.No: at + 1} {
				if run := k.get(no); run.WakeAt != want {
					k.Errorf("run %q wakes at %d; want %d", run.ID, run.WakeAt, want)
				}
			}
		}
	}},
	{"NextWakeIsTheEarliestToCome", func(k *kit) {
		o := k.owner(k.s, "n", shardA, shardB)
		t0 := k.now()
		if c := o.claim(10, "w"); c.NextWake != 0 {
			k.Errorf("nothing is to come, but the next wake time is %s", c.NextWake)
		}
		k.start("other code", func(s *store.Start) { s.After, s.Workflow = second, "x" })
		k.start("other shard", func(s *store.Start) { s.After, s.Shard = 2*second, store.Shard{Group: "third"} })
		k.start("in B", func(s *store.Start) { s.After, s.Shard = 4*second, shardB })
		r := o.started("suspended")
		o.turn(update(r, store.Update{Status: store.Suspended, WakeAt: t0 + 3*store.Time(second)}), store.Committed)
		next := func(want store.Delay, workflows ...string) {
			k.Helper()
			wake := t0 + store.Time(want)
			if want == 0 {
				wake = 0
			}
			if c := o.claim(0, workflows...); c.NextWake != wake {
				k.Errorf("with code for %q the next wake time is %s; want %s", workflows, c.NextWake, wake)
			}
		}
		next(3*second, "w")
		next(second, "w", "x")
		next(0)
		k.pass(3 * second)
		next(4*second, "w", "x") // due runs are not among those to come
		k.equal("claimed", claimedIDs(o.claim(10, "w")), []string{"suspended"})
		k.pass(second)
		next(0, "w")
		k.equal("claimed", claimedIDs(o.claim(10, "w")), []string{"in B"})
		called := o.started("called")
		o.turn(update(called, store.Update{Status: store.Suspended, WakeAt: k.now() + 1}), store.Committed)
		next(4*second+1, "w")
		k.send(message("called", "m"))
		if c := o.claim(10, "w"); len(claimedIDs(c)) != 1 || c.NextWake != 0 {
			k.Errorf("of the run that this call has claimed, %v, the wake time %s is still to come", claimedIDs(c), c.NextWake)
		}
	}},
	{"AnAnswerIsBounded", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		commands := make([]store.Command, store.MaxClaim+5)
		for i := range commands {
			commands[i] = item("r", store.Item{Kind: store.ItemMessage, ID: fmt.Sprint(i)})
		}
		_, _, err := k.s.Apply(k.ctx, commands)
		k.ok(err)
		for left := len(commands); ; {
			c := o.claim(0, "w")
			turn := &store.Turn{Run: r.No, Shard: shardA}
			for _, claimed := range c.Runs {
				for _, it := range claimed.Items {
					turn.Seen = append(turn.Seen, it.No)
				}
			}
			got := len(turn.Seen)
			if got > store.MaxClaim || got == 0 && left > 0 || c.MoreItems != (got < left) || c.More {
				k.Errorf("got %d items of %d, more of them %t, more runs %t", got, left, c.MoreItems, c.More)
				return
			}
			if got == 0 {
				return
			}
			o.turn(turn, store.Committed)
			left -= got
		}
	}},
	{"ARunIsInOneHand", func(k *kit) {
		o := k.owner(k.s, "n")
		for i := range 5 {
			k.start(fmt.Sprint(i))
		}
		o.claim(2, "w")
		k.equal("the others", claimedIDs(o.claim(10, "w")), []string{"2", "3", "4"})
		k.equal("no more", claimedIDs(o.claim(10, "w")), []string(nil))
	}},
}
