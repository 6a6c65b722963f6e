package redis

import "github.com/stet-run/stet/store"

// stage is turns, then commands, that may be carried out in one pipeline: indices in the
// batch.
type stage struct {
	turns    []int
	commands []int
}

// stages cuts a batch into stages. So items that a turn sends to another part arrive
// there in the order of the batch: before a later turn of that part, and before the
// commands. With one part there is one stage.
func (c *committing) stages() []stage {
	if c.parts == 1 {
		all := stage{make([]int, len(c.b.Turns)), make([]int, len(c.b.Commands))}
		for i := range all.turns {
			all.turns[i] = i
		}
		for i := range all.commands {
			all.commands[i] = i
		}
		return []stage{all}
	}
	list := []stage{{}}
	targets := map[int]bool{}
	cut := func() {
		list = append(list, stage{})
		clear(targets)
	}
	for i, t := range c.b.Turns {
		home := c.partOf(t.Shard.Slot)
		if targets[home] {
			cut()
		}
		last := &list[len(list)-1]
		last.turns = append(last.turns, i)
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				for _, to := range c.partsOf(&sends[k]) {
					if to != home && !c.elsewhere(to) {
						targets[to] = true
					}
				}
			}
		}
	}
	if len(targets) > 0 && len(c.b.Commands) > 0 {
		cut()
	}
	for i := range c.b.Commands {
		if c.undecided(&c.b.Commands[i]) {
			continue
		}
		last := &list[len(list)-1]
		last.commands = append(last.commands, i)
		if len(c.partsOf(&c.b.Commands[i])) > 1 && i+1 < len(c.b.Commands) {
			cut() // the permit that it asks for comes before the next command
		}
	}
	return list
}

// partsOf returns the part that a command is for, and the other one of the batch's lane that it
// sends to, if it does.
func (c *committing) partsOf(command *store.Command) []int {
	parts := []int{c.partOf(c.slotOfCommand(command))}
	if st := command.Start; st != nil && st.Queue != nil {
		if to := c.partOf(c.slotOfCommand(&st.Queue.Ask)); to != parts[0] && !c.elsewhere(to) {
			parts = append(parts, to)
		}
	}
	return parts
}

// positions are where the numbers that turns and commands may use begin, in the batch's
// order.
type positions struct {
	turns, commands map[int]floors
}

// positions reserves numbers for a stage. With one part its script has all numbers, and
// needs no position.
func (c *committing) positions(st *stage) positions {
	if c.parts == 1 {
		return positions{}
	}
	p := positions{map[int]floors{}, map[int]floors{}}
	var used floors
	for _, i := range st.turns {
		p.turns[i] = used
		t := c.b.Turns[i]
		used.items += int64(len(t.Returned))
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				used = used.plus(uses(&sends[k]))
			}
		}
	}
	for _, i := range st.commands {
		p.commands[i] = used
		used = used.plus(uses(&c.b.Commands[i]))
	}
	base := c.reserve(used)
	for _, list := range []map[int]floors{p.turns, p.commands} {
		for i := range list {
			list[i] = list[i].plus(base)
		}
	}
	return p
}
