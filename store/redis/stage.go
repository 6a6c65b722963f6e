package redis

import "github.com/stet-run/stet/store"

// stage is what may be carried out in one pipeline: turns, then commands, each an
// index in the batch, and where each of their sends stands.
type stage struct {
	turns    []int
	commands []int
}

// stages cuts a batch into stages, so that what its turns send to other parts comes
// where it would if all were one act: before a later turn of the part that it is for,
// and before the commands. With one part there is one stage.
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
					if to != home {
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
		last := &list[len(list)-1]
		last.commands = append(last.commands, i)
		if len(c.partsOf(&c.b.Commands[i])) > 1 && i+1 < len(c.b.Commands) {
			cut() // what it asks for comes before the next command
		}
	}
	return list
}

// partsOf returns the part that a command is for, and another one that it sends
// something to.
func (c *committing) partsOf(command *store.Command) []int {
	parts := []int{c.partOf(c.slotOfCommand(command))}
	if st := command.Start; st != nil && st.Queue != nil {
		if to := c.partOf(c.slotOfCommand(&st.Queue.Ask)); to != parts[0] {
			parts = append(parts, to)
		}
	}
	return parts
}

// needs returns how many numbers a stage may use up.
func (c *committing) needs(st *stage) (sum floors) {
	add := func(f floors) { sum.runs, sum.items = sum.runs+f.runs, sum.items+f.items }
	for _, i := range st.turns {
		t := c.b.Turns[i]
		add(floors{0, int64(len(t.Returned))})
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				add(uses(&sends[k]))
			}
		}
	}
	for _, i := range st.commands {
		add(uses(&c.b.Commands[i]))
	}
	return sum
}

// positions are the numbers that turns and commands may use, in the batch's order.
type positions struct {
	turns, commands map[int]floors
}

func (c *committing) positions(st *stage, at floors) positions {
	p := positions{map[int]floors{}, map[int]floors{}}
	if c.parts == 1 {
		return p
	}
	for _, i := range st.turns {
		p.turns[i] = at
		t := c.b.Turns[i]
		at.items += int64(len(t.Returned))
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				f := uses(&sends[k])
				at.runs, at.items = at.runs+f.runs, at.items+f.items
			}
		}
	}
	for _, i := range st.commands {
		p.commands[i] = at
		f := uses(&c.b.Commands[i])
		at.runs, at.items = at.runs+f.runs, at.items+f.items
	}
	return p
}
