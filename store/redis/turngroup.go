package redis

import (
	"strconv"

	"github.com/stet-run/stet/store"
)

// turnGroup is turns of one shard group and shape, which one loop of commit.lua writes: it
// looks up all their runs at once, and has little else to do for each. They are steps,
// which add one small entry and do nothing else, or turns that add at most one and have an
// update which says hardly more than a status.
type turnGroup struct {
	shape
	turns []int // indices in the batch
}

// shape is what the turns of a group have in common.
type shape struct {
	group  string // of shards
	update string // see updateText; "" for steps
	build  string
}

// addTurn adds a turn to the group of its shape.
func addTurn(list []turnGroup, is shape, index int) []turnGroup {
	for i := range list {
		if list[i].shape == is {
			list[i].turns = append(list[i].turns, index)
			return list
		}
	}
	return append(list, turnGroup{is, []int{index}})
}

// isSmall reports whether a turn has at most one small entry, and nothing else but an
// update.
func (c *committing) isSmall(t *store.Turn) bool {
	n := len(t.Entries)
	return (n == 1 && len(t.Entries[0].Value) < store.LargeValue || n == 0 && t.Update != nil) && hasOnlyEntries(t) &&
		t.Shard.Slot == int(int64(t.Run)%int64(c.slots))
}

// isPlain reports whether an update has only a status, which is running or an end, a build
// and an output.
func isPlain(u *store.Update) bool {
	return (u.Status == store.Running || u.Status.Terminal()) && u.Marks == 0 && u.WakeAt == 0 && u.Generation == 0 &&
		!u.Isolate && !u.EndIsolation && !u.Unclaim && !u.AnyBuild && !hasMore(u) && u.Continue == nil &&
		len(u.Sends)+len(u.Consumed)+len(u.Audit) == 0
}

// groupArguments adds a group, see turnGroup in commit.lua.
func (c *committing) groupArguments(a *args, g *turnGroup) {
	a.text(g.group, g.update, g.build)
	a.count(len(g.turns))
	var places []byte
	for k, i := range g.turns {
		if k > 0 {
			places = append(places, ',')
		}
		places = strconv.AppendInt(places, int64(i), 10)
	}
	a.text(string(places))
	for _, i := range g.turns {
		t := c.b.Turns[i]
		a.int(int64(t.Run))
		a.count(t.Incarnation)
		if len(t.Entries) == 0 {
			a.text("", "")
		} else {
			h, _ := head(&t.Entries[0])
			a.text(t.Entries[0].Loc, h)
		}
		if t.Update != nil {
			a.value(t.Update.Output)
		}
	}
}

// readGroups reads the verdicts of the turns of groups.
func (c *committing) readGroups(r *reader, all []turnGroup, m reply) {
	verdicts := r.tuple(m, len(all))
	for k := range all {
		turns := all[k].turns
		if verdicts[k].IsString() {
			for _, i := range turns {
				c.result.Turns[i].Verdict = store.Committed
			}
			continue
		}
		list := r.tuple(verdicts[k], len(turns))
		for n, i := range turns {
			text := r.text(list[n])
			c.result.Turns[i].Verdict = store.Verdict(r.number(text[:min(len(text), 1)]))
			c.refused(i, text[min(len(text), 1):])
		}
	}
}
