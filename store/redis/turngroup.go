package redis

import (
	"strconv"

	"github.com/stet-run/stet/store"
)

// section is turns of one group that are much alike: steps, which add one small entry and
// do nothing else, or turns that add at most that and have an update that says hardly more
// than a status. The server has little to do for each, and looks at their runs at once.
type section struct {
	kind
	turns []int
}

// kind is what the turns of a section have in common.
type kind struct {
	group  string
	update string // see args.update; "" for steps
	build  string
}

// add adds a turn to the section of its kind.
func add(list []section, k kind, index int) []section {
	for i := range list {
		if list[i].kind == k {
			list[i].turns = append(list[i].turns, index)
			return list
		}
	}
	return append(list, section{k, []int{index}})
}

// short reports whether a turn has at most one small entry, and nothing else but an update.
func (c *committing) short(t *store.Turn) bool {
	n := len(t.Entries)
	return (n == 1 && len(t.Entries[0].Value) < store.LargeValue || n == 0 && t.Update != nil) && entriesOnly(t) &&
		t.Shard.Slot == int(int64(t.Run)%int64(c.slots))
}

// plain reports whether an update says no more than a status, which is running or an end,
// a build and an output.
func plain(u *store.Update) bool {
	return (u.Status == store.Running || u.Status.Terminal()) && u.Marks == 0 && u.WakeAt == 0 && u.Generation == 0 && !u.Isolate && !u.EndIsolation && !u.Unclaim &&
		!says(u) && u.Continue == nil && len(u.Sends) == 0
}

// sectionArguments adds a section, see section in commit.lua.
func (c *committing) sectionArguments(a *args, s *section) {
	a.text(s.group, s.update, s.build)
	a.count(len(s.turns))
	var places []byte
	for k, i := range s.turns {
		if k > 0 {
			places = append(places, ',')
		}
		places = strconv.AppendInt(places, int64(i), 10)
	}
	a.text(string(places))
	for _, i := range s.turns {
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

// carried reads what became of sections.
func (c *committing) carried(r *reader, all []section, m reply) {
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
