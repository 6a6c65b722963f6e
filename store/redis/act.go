package redis

import (
	"strconv"

	"github.com/stet-run/stet/store"
)

// act is what one execution of commit.lua carries out, all of one part: places in the
// batch.
type act struct {
	part     int
	sections []section
	turns    []int // the others
	commands []int
	leases   []int
	adopting []int  // those of the leases under which commands may adopt
	fence    string // under which the boot has the leases, or ""
}

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

// newAct makes an act. Sections come first, those of steps before others. That changes
// nothing: what a step adds does not concern what other turns do to other runs, and a turn
// stays behind an earlier one of its run, behind one that may adopt a run, and if it has an
// update behind all that send anything.
func (c *committing) newAct(part int, turns, commands []int) act {
	a := act{part: part, commands: commands}
	var updates []section
	behind, sends, adopts := map[store.RunNo]bool{}, false, false
	for _, i := range turns {
		t := c.b.Turns[i]
		if !adopts && !behind[t.Run] && c.short(t) {
			if t.Update == nil {
				a.sections = add(a.sections, kind{group: t.Shard.Group}, i)
				continue
			}
			if plain(t.Update) && !sends {
				behind[t.Run] = true
				updates = add(updates, kind{t.Shard.Group, common(t.Update), t.Update.Build}, i)
				continue
			}
		}
		a.turns = append(a.turns, i)
		behind[t.Run] = true
		for _, command := range c.sent(i, store.Committed) {
			sends, adopts = true, adopts || command.Claim
		}
	}
	a.sections = append(a.sections, updates...)
	c.addLeases(&a, turns)
	return a
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

// entriesOnly reports whether a turn has entries and nothing else but an update.
func entriesOnly(t *store.Turn) bool {
	return len(t.Prune)+len(t.Rewrites)+len(t.Seen)+len(t.Consumed)+len(t.Returned)+len(t.Answers)+len(t.Values)+
		len(t.Appends)+len(t.Tags)+len(t.Dead)+len(t.Audit)+len(t.Sends) == 0 && !t.Rewound
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

// says reports whether an update has what most have not.
func says(u *store.Update) bool { return u.Reason != "" || u.Waits != nil || u.Queue != nil }

// fewLeases are passed to every script; of more only those that it may need.
const fewLeases = 16

// addLeases finds the leases that an act may need, and the fence if the boot is known to
// have them.
func (c *committing) addLeases(a *act, turns []int) {
	few := len(c.b.Leases) <= fewLeases
	shards, slots := map[store.Shard]bool{}, map[int]bool{} // of turns, of commands that adopt
	adopts := func(list []store.Command) {
		for i := range list {
			if list[i].Claim {
				slots[c.slotOfCommand(&list[i])] = true
			}
		}
	}
	for _, i := range turns {
		shards[c.b.Turns[i].Shard] = true
		for _, sends := range c.b.Turns[i].Sent(store.Committed) {
			adopts(sends)
		}
	}
	for _, i := range a.commands {
		adopts(c.b.Commands[i : i+1])
	}
	led := map[store.Shard]bool{}
	for i := range c.b.Leases {
		shard := c.b.Leases[i].Shard
		if c.partOf(shard.Slot) != a.part {
			continue
		}
		if shards[shard] {
			led[shard] = true
		}
		if slots[shard.Slot] {
			a.adopting = append(a.adopting, i)
		}
		if few || slots[shard.Slot] || shards[shard] {
			a.leases = append(a.leases, i)
		}
	}
	if c.fenced(a) && len(led) == len(shards) {
		a.fence = c.fences.know(c.b.Node, c.b.Boot, c.b.Leases, a.leases)
	}
}

// fenced reports whether an act is of a store with fences, and has leases.
func (c *committing) fenced(a *act) bool { return c.parts == 1 && len(a.leases) > 0 }

// learn notes what an act has told: a fence, if all its leases are the boot's.
func (c *committing) learn(a *act, fence string) {
	if a.fence == "" {
		c.fences.learn(c.b.Node, c.b.Boot, fence, c.b.Leases, a.leases)
	}
}

// arguments returns the arguments of commit.lua.
func (c *committing) arguments(act *act, at positions) []string {
	a := args{make([]string, 0, 32+16*(len(act.turns)+len(act.commands)))}
	a.text(c.b.Node, c.b.Boot)
	number := ""
	if c.b.No > 0 {
		number = strconv.FormatInt(c.b.No, 10)
	}
	a.text(number)
	a.count(act.part)
	a.count(c.parts)
	a.text(act.fence)
	next := ""
	if act.fence == "" && c.fenced(act) {
		next = random()
	}
	a.text(next)
	if act.fence != "" {
		each(&a, act.adopting, func(i int) { a.shard(c.b.Leases[i].Shard) })
	} else {
		each(&a, act.leases, func(i int) {
			a.shard(c.b.Leases[i].Shard)
			a.int(c.b.Leases[i].Epoch)
		})
	}
	a.count(len(act.sections))
	for i := range act.sections {
		c.sectionArguments(&a, &act.sections[i])
	}
	a.count(len(act.turns))
	for _, i := range act.turns {
		a.count(i)
		c.turnArguments(&a, c.b.Turns[i], at.turns[i])
	}
	first := 0
	if len(act.commands) > 0 {
		first = act.commands[0]
	}
	a.count(first)
	a.count(len(act.commands))
	for _, i := range act.commands {
		c.command(&a, &c.b.Commands[i], at.commands[i])
	}
	return a.list
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

// turnArguments adds a turn, see readTurn in commit.lua.
func (c *committing) turnArguments(a *args, t *store.Turn, at floors) {
	entries := entriesOnly(t)
	what := wholeTurn
	switch {
	case entries && t.Update == nil:
		what = entriesTurn
	case entries && t.Update.Continue == nil && len(t.Update.Sends) == 0:
		what = updateTurn
	}
	a.text(what)
	a.int(int64(t.Run))
	a.shard(t.Shard)
	a.count(t.Incarnation)
	if what != wholeTurn {
		a.entries(t.Entries)
		if what == updateTurn {
			a.update(t.Update)
		}
		return
	}
	a.int(at.items)
	at.items += int64(len(t.Returned))
	each(a, t.Prune, func(s store.Span) { a.text(s.From, s.To) })
	a.entries(t.Rewrites)
	a.entries(t.Entries)
	a.items(t.Seen)
	consumptions := func(list []store.Consumption) {
		each(a, list, func(c store.Consumption) {
			a.int(int64(c.Item))
			a.value(c.Verdict)
		})
	}
	consumptions(t.Consumed)
	a.count(len(t.Returned))
	for i := range t.Returned {
		a.item(&t.Returned[i])
		a.int(int64(t.Returned[i].No))
		a.int(int64(t.Returned[i].Sent))
	}
	consumptions(t.Answers)
	each(a, t.Values, func(v store.Setting) { a.text(v.Name, value(v.Value)) })
	a.bool(t.Rewound)
	each(a, t.Appends, func(v store.Append) { a.text(v.Name, value(v.Value)) })
	each(a, t.Tags, func(p store.Pair) { a.text(p.Key, p.Value) })
	a.items(t.Dead)
	a.audit(t.Audit)
	sends := func(list []store.Command) {
		a.count(len(list))
		for i := range list {
			c.command(a, &list[i], at)
			f := uses(&list[i])
			at.runs, at.items = at.runs+f.runs, at.items+f.items
		}
	}
	sends(t.Sends)
	a.bool(t.Update != nil)
	u := t.Update
	if u == nil {
		return
	}
	a.update(u)
	a.bool(u.Continue != nil)
	if n := u.Continue; n != nil {
		a.text(n.Workflow, value(n.Input))
		a.seed(n.Seed)
		a.int(int64(n.At))
		first := ""
		if n.First != (store.Origin{}) {
			first = origin(&n.First)
		}
		a.text(first)
	}
	sends(u.Sends)
}

// update adds what changes in a run's row, see readUpdate in commit.lua.
func (a *args) update(u *store.Update) {
	a.text(common(u), u.Build)
	a.value(u.Output)
	if says(u) {
		a.text(u.Reason)
		a.value(u.Waits)
		a.value(u.Queue)
	}
}

// common is what many updates have in common, see commonOf in commit.lua.
func common(u *store.Update) string {
	b := strconv.AppendInt(make([]byte, 0, 16), int64(u.Status), 10)
	for _, n := range [...]int64{int64(u.Marks), int64(u.WakeAt), int64(u.Generation)} {
		b = strconv.AppendInt(append(b, ';'), n, 10)
	}
	b = append(b, ';')
	for _, f := range [...]struct {
		is   bool
		flag byte
	}{
		{u.Isolate, isolateFlag}, {u.EndIsolation, endIsolationFlag}, {u.Discard, discardFlag}, {u.Unclaim, unclaimFlag},
		{says(u), moreFlag},
	} {
		if f.is {
			b = append(b, f.flag)
		}
	}
	return string(b)
}
