package committer

import "slices"

// share returns how many of the first turns and commands that wait make the next batch. c.mu must be held.
func (c *Committer) share() (turns, commands int) {
	apart := c.separate()
	if len(c.turns) > 0 && c.turns[0].leftOut > 0 {
		return 1, 0 // it is tried alone
	}
	room := c.room()
	for turns < len(c.turns) {
		t := &c.turns[turns]
		if t.leftOut > 0 || t.apart != apart || !room.take(sizeOfTurn(t.stored)) {
			break
		}
		turns++
	}
	if apart {
		return turns, 0
	}
	least := c.room().bounds // of which commands have a part, however many turns there are
	room.bounds = bounds{max(room.rows, least.rows/40), max(room.bytes, least.bytes/16)}
	room.used = false
	for commands < len(c.commands) && room.take(sizeOfCommand(&c.commands[commands].Command)) {
		commands++
	}
	for commands > 0 && c.commands[commands-1].together { // what was submitted at once is written at once
		commands++
	}
	return turns, commands
}

// separate reports whether the next batch is one of turns that the store writes apart (see store.Separator), and
// brings the turns of the next batch to the front. Such batches take turns with the others, so that nobody waits for
// more than one of the other kind. c.mu must be held.
func (c *Committer) separate() bool {
	apart, others := 0, len(c.commands)
	for i := range c.turns {
		if c.turns[i].apart {
			apart++
		} else {
			others++
		}
	}
	c.wasApart = apart > 0 && (others == 0 || !c.wasApart)
	if apart > 0 && apart < len(c.turns) {
		slices.SortStableFunc(c.turns, func(a, b Turn) int {
			switch {
			case a.apart == b.apart:
				return 0
			case a.apart == c.wasApart:
				return -1
			}
			return 1
		})
	}
	return c.wasApart
}
