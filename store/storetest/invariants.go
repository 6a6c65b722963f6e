package storetest

import (
	"bytes"
	"fmt"

	"github.com/stet-run/stet/store"
)

// checker checks the invariants of a store at rest after every operation, without the specification.
type checker struct {
	former *state
	epochs map[store.Shard]int64
	pruned int // entries
}

func (c *checker) init() {
	c.former, c.epochs = &state{}, map[store.Shard]int64{}
}

// after checks a state against the one before the operation.
func (c *checker) after(o op, now *state) error {
	defer func() { c.former = now }()
	if now.Now < c.former.Now {
		return fmt.Errorf("the time went back from %s to %s", c.former.Now, now.Now)
	}
	held := map[store.Shard]bool{}
	for _, l := range now.Leases {
		held[l.Shard] = true
		if l.Epoch < c.epochs[l.Shard] {
			return fmt.Errorf("the epoch of %s went back from %d to %d", l.Shard, c.epochs[l.Shard], l.Epoch)
		}
		c.epochs[l.Shard] = l.Epoch
	}
	for _, l := range c.former.Leases {
		for _, next := range now.Leases {
			if l.Shard == next.Shard && l.Epoch == next.Epoch && (l.Node != next.Node || l.Boot != next.Boot) {
				return fmt.Errorf("epoch %d of %s went from %s to %s", l.Epoch, l.Shard, l.Node, next.Node)
			}
		}
	}
	former := map[store.RunNo]*store.Run{}
	for i := range c.former.Runs {
		former[c.former.Runs[i].No] = &c.former.Runs[i]
	}
	gone := len(former)
	for i := range now.Runs {
		r := &now.Runs[i]
		if i > 0 && r.No <= now.Runs[i-1].No {
			return fmt.Errorf("run number %d comes after %d", r.No, now.Runs[i-1].No)
		}
		if r.Claimed && !held[r.Shard] {
			return fmt.Errorf("run number %d is claimed, but no node holds %s", r.No, r.Shard)
		}
		if err := alone(r); err != nil {
			return fmt.Errorf("run number %d: %w", r.No, err)
		}
		if err := items(now.Items[r.No]); err != nil {
			return fmt.Errorf("run number %d: %w", r.No, err)
		}
		if err := c.feeds(r, now); err != nil {
			return fmt.Errorf("run number %d: %w", r.No, err)
		}
		if former[r.No] == nil {
			continue
		}
		gone--
		if err := c.changed(o, former[r.No], r, now); err != nil {
			return fmt.Errorf("run number %d: %w", r.No, err)
		}
	}
	if gone > 0 {
		if err := c.swept(o, now); err != nil {
			return err
		}
	}
	return counts(now)
}

// alone checks a run by itself.
func alone(r *store.Run) error {
	switch {
	case !r.Status.Valid():
		return fmt.Errorf("it has the status %d", r.Status)
	case r.Status.Terminal() != (r.Ended != 0):
		return fmt.Errorf("it is %s and ended at %s", r.Status, r.Ended)
	case r.Expires != 0 && !r.Status.Terminal() || r.Expires < store.Never:
		return fmt.Errorf("it is %s and expires at %d", r.Status, r.Expires)
	case r.WakeAt != 0 && r.Status != store.Queued && r.Status != store.Suspended:
		return fmt.Errorf("it is %s and wakes at %s", r.Status, r.WakeAt)
	case r.Status != store.Queued && r.Status != store.Cancelled && r.Status != store.Stalled && r.Started == 0:
		return fmt.Errorf("it is %s and has never started", r.Status)
	case r.Strikes > r.Suspect:
		return fmt.Errorf("it has %d strikes and was suspect %d times", r.Strikes, r.Suspect)
	case r.InputSize != len(r.Input) || r.OutputSize != len(r.Output):
		return fmt.Errorf("input and output are said to have %d and %d bytes, and have %d and %d",
			r.InputSize, r.OutputSize, len(r.Input), len(r.Output))
	}
	return nil
}

// items checks an inbox by itself.
func items(inbox []store.Item) error {
	ids := map[string]bool{}
	for i := range inbox {
		it := &inbox[i]
		switch {
		case ids[it.ID]:
			return fmt.Errorf("two items have the ID %q", it.ID)
		case it.ID == "" || it.No < 1 || !it.Kind.Valid():
			return fmt.Errorf("an item is %+v", *it)
		case it.State < store.New || it.State > store.Dead:
			return fmt.Errorf("item %q has the state %d", it.ID, it.State)
		case it.State == store.Consumed && (it.Value != nil || it.Headers != nil):
			return fmt.Errorf("item %q is consumed and has a value or headers", it.ID)
		case (it.State == store.New || it.State == store.Seen) && it.Verdict != nil:
			return fmt.Errorf("item %q is pending and has a verdict", it.ID)
		}
		ids[it.ID] = true
	}
	return nil
}

// changed checks the changes of a run.
func (c *checker) changed(o op, old, r *store.Run, now *state) error {
	_, isCommit := o.(*commitOp)
	renewed := r.Incarnation != old.Incarnation
	switch {
	case renewed && (!isCommit || r.Incarnation != old.Incarnation+1 || r.First != old.Origin() ||
		r.Random != store.Seed{} || len(now.Entries[r.No]) > 0):
		return fmt.Errorf("it continues as new from %+v to %+v with %d entries", *old, *r, len(now.Entries[r.No]))
	case !renewed && (old.Seed != r.Seed || old.Random != r.Random || old.Workflow != r.Workflow ||
		!bytes.Equal(old.Input, r.Input) ||
		old.First != r.First || old.Began != r.Began):
		return fmt.Errorf("its incarnation has changed from %+v to %+v", *old, *r)
	case old.No != r.No || old.Shard != r.Shard || old.Created != r.Created || old.Parent != r.Parent ||
		old.ParentLoc != r.ParentLoc ||
		!bytes.Equal(old.Headers, r.Headers):
		return fmt.Errorf("what it was started with has changed from %+v to %+v", *old, *r)
	case old.ID != r.ID && r.ID != fmt.Sprintf("%s@%d", old.ID, old.No):
		return fmt.Errorf("its ID %q became %q", old.ID, r.ID)
	case old.Started != 0 && old.Started != r.Started:
		return fmt.Errorf("its first claim moved from %s to %s", old.Started, r.Started)
	case !reachable(old.Status, r.Status):
		return fmt.Errorf("it went from %s to %s", old.Status, r.Status)
	case old.Status.Terminal() && old.Status != r.Status && !isCommit:
		return fmt.Errorf("it had ended and is %s, without a turn", r.Status)
	}
	if err := c.rested(old, r, now); err != nil {
		return err
	}
	entries := map[string]*store.Entry{}
	for i := range now.Entries[r.No] {
		entries[now.Entries[r.No][i].Loc] = &now.Entries[r.No][i]
	}
	for i := range c.former.Entries[r.No] {
		if renewed {
			break
		}
		was := &c.former.Entries[r.No][i]
		is := entries[was.Loc]
		if is == nil {
			if prunes(o, was.Loc) {
				c.pruned++
				continue
			}
			return fmt.Errorf("the entry at %q is gone", was.Loc)
		}
		if was.State != store.Done && was.State != store.FailedEntry || prunes(o, was.Loc) || rewrites(o, was.Loc) {
			continue
		}
		if was.State != is.State || !bytes.Equal(was.Value, is.Value) ||
			was.Seq != 0 && (was.Seq != is.Seq || was.At != is.At) || was.Owes != is.Owes {
			return fmt.Errorf("the final entry at %q became %+v", was.Loc, *is)
		}
	}
	return c.inboxChanged(o, old, r, now)
}

// inboxChanged checks the changes of a run's items, and that no earlier item held the run back (law 5).
func (c *checker) inboxChanged(o op, old, r *store.Run, now *state) error {
	items := map[store.ItemNo]*store.Item{}
	for i := range now.Items[r.No] {
		items[now.Items[r.No][i].No] = &now.Items[r.No][i]
	}
	suspended := old.Status != store.Suspended && r.Status == store.Suspended
	taken := old.Status.Terminal() && !r.Status.Terminal() // up again: dead letters are new
	ended := !old.Status.Terminal() && r.Status.Terminal()
	undoes := r.Marks&^old.Marks&store.Undoing != 0
	for _, was := range c.former.Items[r.No] {
		is := items[was.No]
		switch {
		case is == nil && sweptItem(o, &was, now.Now):
			continue
		case is == nil || is.ID != was.ID && (is.ID != store.RefusedID(is.No) || is.Verdict == nil) ||
			is.Kind != was.Kind || is.Sent != was.Sent:
			return fmt.Errorf("item %q is gone or another", was.ID)
		case was.Verdict != nil && !bytes.Equal(is.Verdict, was.Verdict):
			return fmt.Errorf("the answer to item %q has changed", was.ID)
		case is.State < was.State && !(was.State == store.Dead && is.State == store.Consumed) && !taken && !returns(o, is.ID):
			return fmt.Errorf("item %q went from state %d to %d", was.ID, was.State, is.State)
		case was.State == store.Consumed && is.State != was.State && !returns(o, is.ID):
			return fmt.Errorf("item %q was consumed and has the state %d", was.ID, is.State)
		case is.Kind.CanBeDead() && r.Status.Terminal() && (is.State == store.New || is.State == store.Seen):
			return fmt.Errorf("item %q is pending though the run has ended", is.ID)
		case suspended && is.State == store.New && r.Marks&(store.Paused|store.Held) == 0:
			return fmt.Errorf("it became suspended though item %q is unexamined", is.ID)
		case ended && is.State == store.New && (is.Kind == store.ItemCancel || is.Kind == store.ItemTerminate):
			return fmt.Errorf("it has ended though the %s %q is unexamined", is.Kind, is.ID)
		case undoes && is.State == store.New && (is.Kind == store.ItemCancel || is.Kind == store.ItemTerminate):
			return fmt.Errorf("its undoing has begun though the %s %q is unexamined", is.Kind, is.ID)
		}
	}
	return nil
}

// reachable reports whether one operation can bring a run from one status to another: by a claim or a turn, or by a
// turn and a command with Claim in one batch.
func reachable(from, to store.Status) bool {
	for _, mid := range store.AllStatuses() {
		if from.CanBecome(mid) && mid.CanBecome(to) {
			return true
		}
	}
	return false
}

// counts checks Count against List.
func counts(now *state) error {
	listed := map[store.Tally]int64{}
	for i := range now.Runs {
		listed[store.Tally{Workflow: now.Runs[i].Workflow, Status: now.Runs[i].Status}]++
	}
	var total int64
	for _, t := range now.Counts {
		if n := listed[store.Tally{Workflow: t.Workflow, Status: t.Status}]; n != t.Runs {
			return fmt.Errorf("%d runs of %s are counted %s, and %d listed", t.Runs, t.Workflow, t.Status, n)
		}
		total += t.Runs
	}
	if total != int64(len(now.Runs)) {
		return fmt.Errorf("%d runs are counted, and %d listed", total, len(now.Runs))
	}
	return nil
}
