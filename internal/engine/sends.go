package engine

import (
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// address completes the commands that a turn sends: it sets the shards of the runs that
// they start, and whether this process claims their runs in the same commit.
func (x *executor) address(turn *store.Turn) {
	room := -1
	turn.Sends = x.e.entities.Introduce(turn.Sends)
	if turn.Update != nil {
		turn.Update.Sends = x.e.entities.Introduce(turn.Update.Sends)
	}
	for _, sends := range turn.Sent(store.Committed) {
		for i := range sends {
			c := &sends[i]
			if room < 0 {
				room = x.memory.Room()
			}
			if c.Start != nil {
				c.Start.Shard.Slot = x.e.Slot(c.Start.ID)
				if c.Start.Queue == nil { // otherwise its group is known
					c.Start.Shard = x.e.home(c.Start.ID)
				}
			}
			// What goes to another server has no claim: its answer is not waited for.
			if c.Claim = room > 0 && x.mayClaim(c) && x.e.laneOf(c) == x.e.lanes.LaneOf(turn.Shard.Slot); c.Claim {
				x.e.stampBuild(c.Start)
				room--
			}
		}
	}
}

// stampBuild sets this node's build in a start that claims its run, so that the run's
// first turn need not write it. st may be nil.
func (e *Engine) stampBuild(st *store.Start) {
	if st != nil && st.Fork == nil && e.cfg.Entities[st.Workflow] == nil {
		st.Build = e.cfg.Build
	}
}

// Sent implements committer.Owner: it activates the runs that a turn has made ready, and
// posts what it has sent to runs that are in memory.
func (x *executor) Sent(in *ownership.Shards, turn *store.Turn, result *store.TurnResult, now store.Time) {
	n := 0
	for _, sends := range turn.Sent(result.Verdict) {
		for i := range sends {
			if n == len(result.Sends) {
				x.dispatchers.claimSoon() // the store does not know yet
				return
			}
			answer := &result.Sends[n]
			if n++; answer.Outcome == store.Posted {
				continue // another server's lane will hear of it
			}
			x.e.entities.Learn(sends[i:i+1], result.Sends[n-1:n])
			if answer.Outcome == store.NotFound || answer.Outcome == store.Ended {
				x.dispatchers.claimSoon() // if it was a watch, the store has answered it
			}
			if sends[i].Admit != "" {
				x.answeredAdmit(in, turn.Run, &sends[i], answer, now)
				continue
			}
			x.applied(in, &sends[i], answer, now)
		}
	}
}

// Claims implements committer.Owner. Of a run that is named by number, and is not in
// memory, it knows no shard.
func (x *executor) Claims(list []*ownership.Shard, in *ownership.Shards, c *store.Command) []*ownership.Shard {
	switch {
	case c.Start != nil:
		return append(list, in.Of(c.Start.Shard))
	case c.RunNo != 0 && c.Admit == "":
		if a := x.memory.Find(c.RunNo); a != nil {
			list = append(list, in.Of(a.shard.ID()))
		}
		return list
	}
	slot := x.e.Slot(c.RunID)
	for _, group := range x.groups {
		list = append(list, in.Of(store.Shard{Group: group, Slot: slot}))
	}
	return list
}

// Go implements committer.Owner.
func (x *executor) Go(f func()) { x.crew.Go(f) }
