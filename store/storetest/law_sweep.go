package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
)

// swept is the result of a whole pass.
type swept struct {
	Rows, Runs int
	Fenced     []store.Shard
	Kept       []store.RunNo
}

// pass carries out a whole pass.
func pass(ctx context.Context, s store.Store, req store.SweepRequest) (swept, error) {
	var all swept
	for range mostPages {
		part, err := s.Sweep(ctx, req)
		if err != nil {
			return all, err
		}
		if part.Rows > req.Bound() {
			return all, fmt.Errorf("a sweep has deleted %d rows in one act", part.Rows)
		}
		all.Rows, all.Runs, all.Fenced, all.Kept = all.Rows+part.Rows, all.Runs+part.Runs, part.Fenced, part.Kept
		if part.Done {
			return all, nil
		}
		req.From = part.Next
	}
	return all, fmt.Errorf("a pass of sweeps has no end after %d acts", mostPages)
}

func (g *generator) sweep() op {
	if g.chance(3) {
		o := &sweepOp{Handle: g.handle(), Items: g.chance(30)}
		for _, r := range g.w.spec.now.Runs {
			if g.chance(4) || r.Status.Terminal() && g.chance(3) {
				o.Runs = append(o.Runs, r.No)
			}
		}
		if g.chance(5) {
			o.Runs = append(o.Runs, 77)
		}
		return o
	}
	o := &sweepOp{Handle: g.handle(), Items: g.chance(2), Most: pick(g, []int{0, 7, 2000})}
	for _, l := range g.w.spec.now.Leases {
		epoch := l.Epoch
		if g.chance(8) {
			epoch = max(epoch-1, 1)
		}
		o.Leases = append(o.Leases, leaseRef{l.Shard, epoch})
	}
	for _, workflow := range []string{"w", "x"} {
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled} {
			if !g.chance(3) {
				o.Rules = append(o.Rules, store.Retention{Workflow: workflow, Status: status,
					Keep: pick(g, []store.Delay{0, second, minute, 2 * minute, 26 * hour})})
			}
		}
	}
	if g.chance(30) {
		o.Rules = append(o.Rules, store.Retention{Workflow: "w", Status: store.Running})
	}
	return o
}

// swept checks that the runs that are gone were to go.
func (c *checker) swept(o op, now *state) error {
	sweep, ok := o.(*sweepOp)
	for i := range c.former.Runs {
		r := &c.former.Runs[i]
		if slices.ContainsFunc(now.Runs, func(is store.Run) bool { return is.No == r.No }) {
			continue
		}
		named := ok && len(sweep.Runs) > 0 // which ones, by their numbers there, the comparison of both stores finds out
		ruled := ok && slices.ContainsFunc(sweep.Rules, func(rule store.Retention) bool {
			return r.Expires == 0 && rule.Workflow == r.Workflow && rule.Status == r.Status && r.Ended+
				store.Time(max(rule.Keep, minute)) <= now.Now
		}) || ok && r.Expires > 0 && r.Expires <= now.Now
		unexamined := slices.ContainsFunc(c.former.Items[r.No], func(it store.Item) bool { return it.State == store.New })
		if !named && !ruled || !r.Status.Terminal() || r.Claimed || unexamined {
			return fmt.Errorf("run number %d, %s since %s, is gone", r.No, r.Status, r.Ended)
		}
	}
	return nil
}

// sweptItem reports whether an item may be gone.
func sweptItem(o op, was *store.Item, now store.Time) bool {
	sweep, ok := o.(*sweepOp)
	return ok && sweep.Items && was.State == store.Consumed && was.Sent+store.Time(was.Window()) <= now &&
		(was.Kind != store.ItemUpdate || was.Verdict != nil)
}

// rules are rules for runs of the workflow w.
func rules(keep store.Delay) []store.Retention {
	var all []store.Retention
	for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled} {
		all = append(all, store.Retention{Workflow: "w", Status: status, Keep: keep})
	}
	return all
}

// sweeps carries out a pass and returns its result.
func (o *owner) sweeps(items bool, rules ...store.Retention) swept {
	o.Helper()
	got, err := pass(o.ctx, o.s, store.SweepRequest{Leases: o.leases, Rules: rules, Items: items})
	o.ok(err)
	return got
}

// removes deletes runs and returns the result.
func (k *kit) removes(runs ...store.RunNo) swept {
	k.Helper()
	got, err := pass(k.ctx, k.s, store.SweepRequest{Runs: runs})
	k.ok(err)
	return got
}

// runs returns the IDs of all runs, oldest first.
func (k *kit) runs() (ids string) {
	k.Helper()
	page, err := k.s.List(k.ctx, store.Filter{})
	k.ok(err)
	for _, r := range slices.Backward(page.Runs) {
		ids += r.ID + " "
	}
	return ids
}

var law24 = []testCase{
	{"WithTheRunGoesAllThatBelongsToIt", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r", func(s *store.Start) {
			s.Input, s.Tags = make([]byte, 2000),
				[]store.Pair{{Key: "k", Value: "v"}}
		})
		taken, left := k.send(message("r", "taken")), k.send(message("r", "left"))
		o.turn(&store.Turn{Run: r.No, Shard: shardA,
			Entries: []store.Entry{entry("a", store.Done),
				entry("b", store.Open, func(e *store.Entry) { e.Value = make([]byte, 9000) })},
			Consumed: []store.Consumption{{Item: taken}}, Values: []store.Setting{{Name: "v", Value: []byte("1")}},
			Appends: []store.Append{{Name: "s", Value: []byte("1")}, {Name: "s", Value: []byte("2")}},
			Audit:   []store.Audit{{Who: "ada", Verb: "pause"}},
			Update:  &store.Update{Status: store.Succeeded, Output: make([]byte, 2000)}}, store.Committed)
		k.pass(minute)
		got := o.sweeps(false, rules(0)...)
		k.equal("what was swept: 2 entries, 2 items, 2 feeds, 2 items of a stream, 1 act, 1 run",
			got, swept{Rows: 10, Runs: 1})
		k.equal("the runs", k.runs(), "")
		snaps, _, err := k.s.Load(k.ctx, []store.RunNo{r.No})
		k.ok(err)
		feeds, err := k.s.Feeds(k.ctx, store.FeedQuery{Runs: []store.RunNo{r.No}})
		k.ok(err)
		stream, err := k.s.Stream(k.ctx, store.StreamQuery{Run: r.No, Name: "s"})
		k.ok(err)
		audit, err := k.s.Audit(k.ctx, r.No)
		k.ok(err)
		tagged, err := k.s.List(k.ctx, store.Filter{Tags: []store.Pair{{Key: "k", Value: "v"}}})
		k.ok(err)
		k.equal("what is left of it", []int{len(snaps), len(k.history(r.No)), len(k.inbox(r.No, "taken", "left")),
			len(k.letters(store.DeadFilter{})),
			len(feeds), len(stream), len(audit), len(tagged.Runs)}, make([]int, 8))
		if a := k.apply(message("r", "m")); a.Outcome != store.NotFound {
			k.Errorf("a message to it: %+v", a)
		}
		again := o.started("r")
		if again.No <= r.No {
			k.Errorf("the run that has its ID has the number %d after %d", again.No, r.No)
		}
		if no := k.send(message("r", "m")); no <= left {
			k.Errorf("an item has the number %d after %d", no, left)
		}
		k.equal("the history of the new run", len(k.history(again.No)), 0)
		k.equal("the second pass", o.sweeps(true, rules(0)...), swept{})
	}},
	{"NothingGoesBeforeItsTime", func(k *kit) {
		o := k.owner(k.s, "n")
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled, store.Stalled,
			store.Suspended} {
			o.become(o.started(status.String()), status)
		}
		o.started("running")
		o.become(o.started("other", func(s *store.Start) { s.Workflow = "x" }), store.Succeeded)
		k.start("queued")
		all := k.runs()
		nothing := func(what string, rules ...store.Retention) {
			k.Helper()
			k.equal("what is swept "+what, o.sweeps(true, rules...), swept{})
			k.equal("the runs "+what, k.runs(), all)
		}
		k.pass(minute - 1)
		nothing("within a minute", rules(0)...)
		k.pass(1)
		nothing("without a rule")
		k.ok2(k.s.Renew(k.ctx, o.leases, 1000*hour))
		nothing("before it is due", rules(2*minute)...)
		k.pass(minute - 1)
		nothing("a microsecond before it is due", rules(2*minute)...)
		k.pass(1)
		k.equal("what is swept of one status",
			o.sweeps(false, store.Retention{Workflow: "w", Status: store.Failed, Keep: 2 * minute}), swept{Rows: 1, Runs: 1})
		k.equal("what is swept of the others", o.sweeps(false, rules(0)...), swept{Rows: 2, Runs: 2})
		k.pass(900 * hour)
		k.equal("what is swept in the end", o.sweeps(true, rules(0)...), swept{})
		k.equal("the runs that stay", k.runs(), "stalled suspended running other queued ")
	}},
	{"ARetentionOfItsOwnCountsInPlaceOfTheRules", func(k *kit) {
		o := k.owner(k.s, "n")
		k.ok2(k.s.Renew(k.ctx, o.leases, 1000*hour))
		end := func(id string, keep store.Delay) store.Run {
			k.Helper()
			r := o.started(id)
			o.turn(update(r, store.Update{Status: store.Failed, Keep: keep}), store.Committed)
			return r
		}
		ended := k.now()
		kept := map[string]store.Time{"ruled": 0, "ever": store.Never, "soon": ended + store.Time(minute),
			"hour": ended + store.Time(hour), "day": ended + store.Time(24*hour)}
		for id, keep := range map[string]store.Delay{"ruled": 0, "ever": store.KeepForever, "soon": 1, "hour": hour,
			"day": 24 * hour} {
			if r := k.get(end(id, keep).No); r.Expires != kept[id] {
				k.Errorf("the run that is kept for %d expires at %d; want %d", keep, r.Expires, kept[id])
			}
		}
		other := o.started("other", func(s *store.Start) { s.Workflow = "without rules" })
		o.turn(update(other, store.Update{Status: store.Succeeded, Keep: 2 * minute}), store.Committed)
		at := func(d store.Delay, want string) {
			k.Helper()
			k.pass(store.Delay(ended+store.Time(d)-k.now()) - 1)
			o.sweeps(false, rules(2*hour)...)
			k.pass(1)
			got := o.sweeps(false, rules(2*hour)...)
			k.equal(fmt.Sprintf("the runs %d µs after their end, of which %+v were swept", d, got),
				strings.Join(slices.Sorted(strings.FieldsSeq(k.runs())), " "), want)
			k.equal("how many were swept", got, swept{Rows: 1, Runs: 1})
		}
		at(minute, "day ever hour other ruled")
		at(2*minute, "day ever hour ruled")
		at(hour, "day ever ruled")
		at(2*hour, "day ever")
		at(24*hour, "ever")
		k.pass(900 * hour)
		k.equal("what is swept in the end", o.sweeps(true, rules(0)...), swept{})
	}},
	{"ARunThatGoesOnHasNoRetentionOfItsOwn", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.turn(update(r, store.Update{Status: store.Failed, Keep: hour}), store.Committed)
		expires := k.get(r.No).Expires
		again := func(status store.Status, keep store.Delay) store.Time {
			k.Helper()
			k.send(verb("r", fmt.Sprint(status, keep), store.ItemRetry))
			c := o.claim(10, "w")
			o.turn(&store.Turn{Run: r.No, Shard: shardA,
				Consumed: []store.Consumption{{Item: c.Runs[0].Items[0].No, Verdict: []byte("n")}},
				Update:   &store.Update{Status: status, Keep: keep}}, store.Committed)
			return k.get(r.No).Expires
		}
		k.pass(1)
		k.equal("when it expires if it stays ended", again(store.Failed, 0), expires)
		k.equal("when it expires while it goes on", again(store.Running, 0), store.Time(0))
		o.turn(update(r, store.Update{Status: store.Succeeded}), store.Committed)
		k.pass(minute)
		k.equal("what a rule sweeps then", o.sweeps(false, rules(0)...), swept{Rows: 3, Runs: 1})
	}},
	{"ManyRunsWithARetentionOfTheirOwnGoInParts", func(k *kit) {
		o := k.owner(k.s, "n")
		const n = store.SweepRows + 20
		for i := range n {
			o.turn(update(o.started(fmt.Sprintf("%04d", i)), store.Update{Status: store.Succeeded, Keep: minute}),
				store.Committed)
		}
		k.pass(minute)
		part, err := k.s.Sweep(k.ctx, store.SweepRequest{Leases: o.leases, Rules: rules(hour)})
		k.ok(err)
		k.equal("the first part", []any{part.Runs, part.Done}, []any{store.SweepRows, false})
		part, err = k.s.Sweep(k.ctx, store.SweepRequest{Leases: o.leases, Rules: rules(hour), From: part.Next})
		k.ok(err)
		k.equal("the second part", []any{part.Runs, part.Done}, []any{20, true})
	}},
	{"APartIsAsLargeAsItsRequest", func(k *kit) {
		o := k.owner(k.s, "n")
		for i := range 40 {
			r := o.started(fmt.Sprintf("%02d", i))
			o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("a", store.Done), entry("b", store.Done)},
				Update: &store.Update{Status: store.Succeeded}}, store.Committed)
		}
		k.pass(minute)
		req := store.SweepRequest{Leases: o.leases, Rules: rules(0), Most: 31}
		for done, gone := false, 0; !done; {
			part, err := k.s.Sweep(k.ctx, req)
			k.ok(err)
			if gone += part.Runs; part.Rows > 31 || !part.Done && part.Rows == 0 || part.Done && gone != 40 {
				k.Fatalf("a part of 31 rows: %+v, in all %d runs", part, gone)
			}
			done, req.From = part.Done, part.Next
		}
		for i := range 300 {
			o.turn(&store.Turn{Run: o.started(fmt.Sprintf("%03d", i)).No, Shard: shardA,
				Entries: []store.Entry{entry("a", store.Done)}, Update: &store.Update{Status: store.Succeeded}}, store.Committed)
		}
		k.pass(minute)
		part, err := k.s.Sweep(k.ctx, store.SweepRequest{Leases: o.leases, Rules: rules(0), Most: 2 * store.SweepRows})
		k.ok(err)
		k.equal("a large part", []any{part.Runs, part.Rows, part.Done}, []any{300, 600, true})
	}},
	{"OnlyTheOwnerSweeps", func(k *kit) {
		o := k.owner(k.s, "n")
		o.become(o.started("r"), store.Succeeded)
		former := slices.Clone(o.leases)
		o.release()
		other := k.owner(k.s, "m")
		k.pass(minute)
		got, err := pass(k.ctx, k.s, store.SweepRequest{Leases: former, Rules: rules(0), Items: true})
		k.ok(err)
		k.equal("what a former owner has swept", got, swept{Fenced: []store.Shard{shardA}})
		got, err = pass(k.ctx, k.s, store.SweepRequest{Rules: rules(0), Items: true})
		k.ok(err)
		k.equal("what is swept without a lease", got, swept{})
		k.equal("what the owner has swept", other.sweeps(true, rules(0)...), swept{Rows: 1, Runs: 1})
	}},
	{"ARunThatIsAskedSomethingStays", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		o.become(r, store.Failed)
		k.send(verb("r", "v", store.ItemResume))
		k.pass(minute)
		k.equal("what is swept of a run with a verb", o.sweeps(false, rules(0)...), swept{})
		c := o.claim(10, "w")
		k.equal("what is swept of a claimed run", o.sweeps(false, rules(0)...), swept{})
		o.turn(&store.Turn{Run: r.No, Shard: shardA,
			Consumed: []store.Consumption{{Item: c.Runs[0].Items[0].No, Verdict: []byte("n")}},
			Update:   &store.Update{Status: store.Failed}}, store.Committed)
		k.equal("what is swept after the verdict", o.sweeps(false, rules(0)...), swept{Rows: 2, Runs: 1})
	}},
	{"AChildStaysWhileItsParentNeedsIt", func(k *kit) {
		o := k.owner(k.s, "n")
		parent := o.started("parent")
		o.turn(&store.Turn{Run: parent.No, Shard: shardA,
			Entries: []store.Entry{entry("x", store.Done), entry("y", store.Done)}}, store.Committed)
		for id, loc := range map[string]string{"of x": "x", "of y": "y", "of nothing": "z"} {
			o.become(o.started(id, func(s *store.Start) { s.Parent, s.ParentLoc = parent.No, loc }), store.Succeeded)
		}
		k.pass(minute)
		k.equal("what is swept beside the children", o.sweeps(false, rules(0)...), swept{Rows: 1, Runs: 1})
		o.turn(&store.Turn{Run: parent.No, Shard: shardA, Prune: []store.Span{{From: "x", To: "y"}}}, store.Committed)
		k.equal("what is swept when an entry is pruned", o.sweeps(false, rules(0)...), swept{Rows: 1, Runs: 1})
		o.turn(continued(parent, store.Continuation{Workflow: "w", Seed: seedOf(99)}), store.Committed)
		k.equal("what is swept when the parent has continued as new, with an entry of it",
			o.sweeps(false, rules(0)...), swept{Rows: 2, Runs: 1})
		k.equal("the runs", k.runs(), "parent ")
	}},
	{"ChildrenOfFormerIncarnationsGo", func(k *kit) {
		o := k.owner(k.s, "n")
		parent := o.started("parent")
		child := func(id string) {
			o.become(o.started(id, func(s *store.Start) { s.Parent, s.ParentLoc = parent.No, "x" }), store.Succeeded)
		}
		x := []store.Entry{entry("x", store.Open)}
		o.turn(&store.Turn{Run: parent.No, Shard: shardA, Entries: x}, store.Committed)
		child("former")
		o.turn(continued(parent, store.Continuation{Workflow: "w", Seed: seedOf(99)}), store.Committed)
		k.pass(1)
		o.turn(&store.Turn{Run: parent.No, Shard: shardA, Incarnation: 1, Entries: x}, store.Committed)
		child("present")
		k.pass(minute)
		k.equal("what is swept: a child, and an entry of the former incarnation",
			o.sweeps(false, rules(0)...), swept{Rows: 2, Runs: 1})
		k.equal("the runs", k.runs(), "parent present ")
	}},
	{"LargeRunsGoInParts", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		turn := &store.Turn{Run: r.No, Shard: shardA, Update: &store.Update{Status: store.Failed}}
		for i := range store.SweepRows + 20 {
			turn.Entries = append(turn.Entries, entry(fmt.Sprint(i), store.Done))
		}
		o.turn(turn, store.Committed)
		k.pass(minute)
		req := store.SweepRequest{Leases: o.leases, Rules: rules(0)}
		part, err := k.s.Sweep(k.ctx, req)
		k.ok(err)
		k.equal("the first part", []int{part.Rows, part.Runs}, []int{store.SweepRows, 0})
		k.equal("the entries that are left", len(k.history(r.No)), 20)
		if part.Done || k.get(r.No).Marks != store.Expiring {
			k.Errorf("after the first part: %+v", k.get(r.No))
		}
		for _, kind := range []store.ItemKind{store.ItemMessage, store.ItemResume, store.ItemCancel} {
			if a := k.apply(item("r", store.Item{Kind: kind, ID: kind.String(), Origin: "o"})); a.Outcome != store.Ended {
				k.Errorf("a %s for a run that is being deleted: %+v", kind, a)
			}
		}
		sender := o.started("sender")
		o.turn(&store.Turn{Run: sender.No, Shard: shardA, Sends: []store.Command{watch("r")}}, store.Committed)
		if got := k.inbox(sender.No); len(got) != 1 || got[0].Kind != store.ItemEnd || !got[0].Failed {
			k.Errorf("a run that watches one that is being deleted has %+v in its inbox", got)
		}
		if a := k.apply(store.Command{Start: k.startOf("r")}); a.Outcome != store.Exists {
			k.Errorf("a start with its ID: %+v", a)
		}
		req.From = part.Next
		part, err = k.s.Sweep(k.ctx, req)
		k.ok(err)
		k.equal("the second part", []any{part.Rows, part.Runs, part.Done}, []any{21, 1, true})
		k.equal("the runs", k.runs(), "sender ")
		for _, id := range []string{"a", "b"} {
			o.become(o.started(id), store.Failed)
		}
		k.pass(minute)
		part, err = k.s.Sweep(k.ctx, store.SweepRequest{Leases: o.leases, Rules: rules(0)})
		k.ok(err)
		k.equal("one part of a pass is enough for small runs", []any{part.Rows, part.Runs, part.Done}, []any{2, 2, true})
	}},
	{"NamedRunsGoAtOnce", func(k *kit) {
		o := k.owner(k.s, "n")
		var nos []store.RunNo
		for _, status := range []store.Status{store.Succeeded, store.Failed, store.Cancelled, store.Stalled,
			store.Suspended} {
			r := o.started(status.String())
			o.become(r, status)
			nos = append(nos, r.No)
		}
		o.become(o.started("other"), store.Failed)
		nos = append(nos, o.started("running").No, k.start("queued").No, o.started("asked").No)
		o.become(k.get(nos[7]), store.Failed)
		k.send(verb("asked", "v", store.ItemRetry))
		nos = append(nos, 1<<30) // there is none
		k.equal("what is removed", k.removes(nos...), swept{Rows: 3, Runs: 3, Kept: nos[3:8]})
		k.equal("the runs", k.runs(), "stalled suspended other running queued asked ")
		k.equal("what is removed then", k.removes(nos...), swept{Kept: nos[3:8]})
		c := o.claim(10, "w")
		k.equal("what is removed of a claimed run", k.removes(nos[7]), swept{Kept: nos[7:8]})
		o.turn(&store.Turn{Run: nos[7], Shard: shardA,
			Consumed: []store.Consumption{{Item: c.Runs[0].Items[0].No, Verdict: []byte("n")}},
			Update:   &store.Update{Status: store.Failed}}, store.Committed)
		o.release()
		k.equal("what is removed after the verdict, without a lease", k.removes(nos[7]), swept{Rows: 2, Runs: 1})
	}},
	{"NamedRunsGoInParts", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		turn := &store.Turn{Run: r.No, Shard: shardA, Update: &store.Update{Status: store.Failed}}
		for i := range store.SweepRows + 20 {
			turn.Entries = append(turn.Entries, entry(fmt.Sprint(i), store.Done))
		}
		o.turn(turn, store.Committed)
		req := store.SweepRequest{Runs: []store.RunNo{r.No}}
		part, err := k.s.Sweep(k.ctx, req)
		k.ok(err)
		k.equal("the first part", []any{part.Rows, part.Runs, part.Done}, []any{store.SweepRows, 0, false})
		if a := k.apply(verb("r", "v", store.ItemRetry)); a.Outcome != store.Ended {
			k.Errorf("a verb for a run that is being deleted: %+v", a)
		}
		k.equal("the rest", k.removes(r.No), swept{Rows: 21, Runs: 1})
		k.equal("the runs", k.runs(), "")
	}},
	{"ANamedChildStaysWhileItsParentNeedsIt", func(k *kit) {
		o := k.owner(k.s, "n")
		parent := o.started("parent")
		o.turn(&store.Turn{Run: parent.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done)}}, store.Committed)
		var nos []store.RunNo
		for _, loc := range []string{"x", "z"} {
			r := o.started("of "+loc, func(s *store.Start) { s.Parent, s.ParentLoc = parent.No, loc })
			o.become(r, store.Succeeded)
			nos = append(nos, r.No)
		}
		k.equal("what is removed", k.removes(nos...), swept{Rows: 1, Runs: 1, Kept: nos[:1]})
		o.become(parent, store.Failed)
		k.equal("what is removed when the parent has ended", k.removes(nos...), swept{Rows: 1, Runs: 1})
		k.equal("the runs", k.runs(), "parent ")
	}},
	{"FormerIncarnationsGoAtOnce", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		large := entry("large", store.Done, func(e *store.Entry) { e.Value = make([]byte, 9000) })
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Entries: []store.Entry{entry("x", store.Done), large}}, store.Committed)
		o.turn(continued(r, store.Continuation{Workflow: "w", Seed: seedOf(97)}), store.Committed)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Incarnation: 1, Entries: []store.Entry{entry("x", store.Done)}},
			store.Committed)
		o.turn(continued(k.get(r.No), store.Continuation{Workflow: "w", Seed: seedOf(98)}), store.Committed)
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Incarnation: 2, Entries: []store.Entry{entry("x", store.Done), large}},
			store.Committed)
		k.equal("what is swept", o.sweeps(false), swept{Rows: 3})
		for incarnation, want := range []int{0, 0, 2} {
			entries, err := k.s.History(k.ctx, store.HistoryQuery{Run: r.No, Incarnation: incarnation, Values: true})
			k.ok(err)
			k.equal(fmt.Sprintf("the entries of incarnation %d", incarnation), len(entries), want)
		}
		k.equal("what is swept then", o.sweeps(false), swept{})
	}},
	{"ConsumedItemsGoAfterADay", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		ids := []string{"consumed", "seen", "new", "dead", "open", "answered"}
		var nos []store.ItemNo
		for _, id := range ids[:4] {
			nos = append(nos, k.send(message("r", id)))
		}
		for _, id := range ids[4:] {
			nos = append(nos, k.send(updateItem("r", id)))
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA,
			Consumed: []store.Consumption{{Item: nos[0]}, {Item: nos[4]}, {Item: nos[5]}},
			Seen:     nos[1:2], Dead: nos[3:4], Answers: []store.Consumption{{Item: nos[5], Verdict: []byte("y")}}},
			store.Committed)
		k.ok2(k.s.Renew(k.ctx, o.leases, 1000*hour))
		k.pass(24*hour - 1)
		k.equal("what is swept before", o.sweeps(true), swept{})
		if a := k.apply(message("r", "consumed")); a.Outcome != store.Applied || a.Item != nos[0] {
			k.Errorf("a repeat within the window: %+v", a)
		}
		k.pass(1)
		k.equal("what is swept if items are not requested", o.sweeps(false), swept{})
		k.equal("what is swept after a day", o.sweeps(true), swept{Rows: 2})
		var left string
		for _, it := range k.inbox(r.No, ids...) {
			left += it.ID + " "
		}
		k.equal("the items that are left", left, "seen new dead open ")
		if no := k.send(message("r", "next")); no <= nos[5] {
			k.Errorf("an item has the number %d after %d", no, nos[5])
		}
	}},
	{"AConsumedMessageWithoutAKeyGoesAfterMinutes", func(k *kit) {
		o := k.owner(k.s, "n")
		r := o.started("r")
		var nos []store.ItemNo
		for _, it := range []store.Item{
			{Kind: store.ItemMessage, ID: "unkeyed", Origin: "unkeyed"},
			{Kind: store.ItemMessage, ID: "keyed", Origin: "o"},
			{Kind: store.ItemEnd, ID: "end", Origin: "end"},
			{Kind: store.ItemMessage, ID: "waiting", Origin: "waiting"},
		} {
			nos = append(nos, k.send(item("r", it)))
		}
		var taken []store.Consumption
		for _, no := range nos[:3] {
			taken = append(taken, store.Consumption{Item: no})
		}
		o.turn(&store.Turn{Run: r.No, Shard: shardA, Consumed: taken}, store.Committed)
		k.ok2(k.s.Renew(k.ctx, o.leases, 1000*hour))
		k.pass(10*minute - 1)
		k.equal("what is swept before", o.sweeps(true), swept{})
		k.pass(1)
		k.equal("what is swept then", o.sweeps(true), swept{Rows: 1})
		var left string
		for _, it := range k.inbox(r.No, "unkeyed", "keyed", "end", "waiting") {
			left += it.ID + " "
		}
		k.equal("the items that are left", left, "keyed end waiting ")
		k.pass(24 * hour)
		k.equal("what is swept after a day", o.sweeps(true), swept{Rows: 2})
	}},
	{"BadRequestsChangeNothing", func(k *kit) {
		o := k.owner(k.s, "n")
		o.become(o.started("r"), store.Failed)
		k.pass(minute)
		for what, req := range map[string]store.SweepRequest{
			"a rule for live runs":      {Rules: []store.Retention{{Workflow: "w", Status: store.Running}}},
			"a rule without a workflow": {Rules: []store.Retention{{Status: store.Failed}}},
			"a negative retention":      {Rules: rules(-1)},
			"an unknown place":          {Rules: rules(0), From: store.SweepPlace{Stage: 7}},
			"runs and rules":            {Rules: rules(0), Runs: []store.RunNo{1}, Leases: o.leases},
			"runs and a place":          {Runs: []store.RunNo{1}, From: store.SweepPlace{Stage: 1}},
			"no number of a run":        {Runs: []store.RunNo{0}},
			"less than no rows":         {Rules: rules(0), Most: -1},
			"too many rows":             {Rules: rules(0), Most: store.MaxSweepRows + 1},
			"runs and a bound":          {Runs: []store.RunNo{1}, Most: 1},
			"too many runs":             {Runs: make([]store.RunNo, store.SweepRows+1)},
			"a lease twice":             {Rules: rules(0), Leases: []store.Lease{o.leases[0], o.leases[0]}},
		} {
			if req.Leases == nil && req.Runs == nil {
				req.Leases = o.leases
			}
			k.unchanged(what, func() {
				_, err := k.s.Sweep(k.ctx, req)
				k.fails(what, err, store.ErrInvalid)
			})
		}
	}},
}

// ok2 is ok for Renew.
func (k *kit) ok2(_ []store.Acquired, _ store.Time, err error) {
	k.Helper()
	k.ok(err)
}
