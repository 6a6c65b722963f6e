package redis

import (
	"strconv"

	"github.com/stet-run/stet/store"
)

// act is one execution of commit.lua, on one part. Turns, commands and leases are indices
// in the batch.
type act struct {
	part     int
	groups   []turnGroup
	turns    []int // the others
	commands []int
	leases   []int
	claiming []int  // those of the leases under which commands may claim
	fence    string // under which the boot has the leases, or ""
}

// newAct makes an act. Groups come first, those of steps before others. The outcome is the
// same as in the order of the batch, because a step concerns no other run, and a turn stays
//
//   - behind an earlier one of its run;
//   - behind one that may claim a run;
//   - if it has an update, behind all that send anything.
func (c *committing) newAct(part int, turns, commands []int) act {
	a := act{part: part, commands: commands}
	var updates []turnGroup
	behind, sends, claims := map[store.RunNo]bool{}, false, false
	for _, i := range turns {
		t := c.b.Turns[i]
		if !claims && !behind[t.Run] && c.isSmall(t) {
			if t.Update == nil {
				a.groups = addTurn(a.groups, shape{group: t.Shard.Group}, i)
				continue
			}
			if isPlain(t.Update) && !sends {
				behind[t.Run] = true
				updates = addTurn(updates, shape{t.Shard.Group, updateText(t.Update), t.Update.Build}, i)
				continue
			}
		}
		a.turns = append(a.turns, i)
		behind[t.Run] = true
		for _, command := range c.sent(i, store.Committed) {
			sends, claims = true, claims || command.Claim
		}
	}
	a.groups = append(a.groups, updates...)
	c.addLeases(&a, turns)
	return a
}

// fewLeases is how many leases are passed to every script; of more only those that it may
// need.
const fewLeases = 16

// addLeases finds the leases that an act may need, and the fence if the boot is known to
// have them.
func (c *committing) addLeases(a *act, turns []int) {
	few := len(c.b.Leases) <= fewLeases
	shards, slots := map[store.Shard]bool{}, map[int]bool{} // of turns; of commands that claim
	claims := func(list []store.Command) {
		for i := range list {
			if !list[i].Claim {
				continue
			}
			slots[c.slotOfCommand(&list[i])] = true
			if no := replaced(list[i].RunID); no > 0 { // on one part resolve has not looked who that is
				slots[c.SlotOf(no)] = true
			}
		}
	}
	for _, i := range turns {
		shards[c.b.Turns[i].Shard] = true
		for _, sends := range c.b.Turns[i].Sent(store.Committed) {
			claims(sends)
		}
	}
	for _, i := range a.commands {
		claims(c.b.Commands[i : i+1])
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
			a.claiming = append(a.claiming, i)
		}
		if few || slots[shard.Slot] || shards[shard] {
			a.leases = append(a.leases, i)
		}
	}
	if c.fenced(a) && len(led) == len(shards) {
		a.fence = c.fences.know(c.b.Node, c.b.Boot, c.b.Leases, a.leases)
	}
}

// fenced reports whether an act may have a fence: it has leases, and the store one part.
func (c *committing) fenced(a *act) bool { return c.parts == 1 && len(a.leases) > 0 }

// learn notes the fence that an act has answered, if all its leases are the boot's.
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
	a.int(c.told(c.boot(), act.part, c.b.Last))
	a.count(act.part)
	a.count(c.parts)
	a.text(act.fence)
	next := ""
	if act.fence == "" && c.fenced(act) {
		next = random()
	}
	a.text(next)
	if act.fence != "" {
		each(&a, act.claiming, func(i int) { a.shard(c.b.Leases[i].Shard) })
	} else {
		each(&a, act.leases, func(i int) {
			a.shard(c.b.Leases[i].Shard)
			a.int(c.b.Leases[i].Epoch)
		})
	}
	a.count(len(act.groups))
	for i := range act.groups {
		c.groupArguments(&a, &act.groups[i])
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
