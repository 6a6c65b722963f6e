package committer

import "github.com/stet-run/stet/store"

// bounds are numbers of rows and bytes: those of something, or how many a batch may have.
type bounds struct{ rows, bytes int }

// usual are the bounds of a batch.
var usual = bounds{maxBatchRows, maxBatchBytes}

// room is what is left in a batch that is being made.
type room struct {
	bounds
	used bool // it has something already, so what is too large waits for the next one
}

// take takes something into the batch. It reports false if there is no room for it.
func (r *room) take(size bounds) bool {
	if r.used && (r.rows < 1 || r.bytes < size.bytes) {
		return false
	}
	r.used = true
	r.rows, r.bytes = r.rows-size.rows, r.bytes-size.bytes
	return true
}

// room returns the room of an empty batch. c.mu must be held.
func (c *Committer) room() room {
	if c.most == (bounds{}) {
		return room{bounds: usual}
	}
	return room{bounds: c.most}
}

// narrow bounds the batches that follow one which the store found too large to half of it.
func (c *Committer) narrow(b *batch) {
	var size bounds
	for _, t := range b.turns {
		size.add(sizeOfTurn(t.stored))
	}
	for i := range b.commands {
		size.add(sizeOfCommand(&b.commands[i].Command))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = bounds{max(size.rows/2, fewestRows), max(size.bytes/2, fewestBytes)}
}

// widen lets batches become larger again, a little with each that the store has taken.
func (c *Committer) widen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most == (bounds{}) {
		return
	}
	c.most.add(bounds{c.most.rows/8 + 1, c.most.bytes/8 + fewestBytes})
	if c.most.rows >= maxBatchRows && c.most.bytes >= maxBatchBytes {
		c.most = bounds{}
	}
}

func (b *bounds) add(size bounds) { b.rows, b.bytes = b.rows+size.rows, b.bytes+size.bytes }

// sizeOfTurn returns the rows and bytes of a turn, as far as they count. What it sends and what it
// takes from the inbox are rows, too: a turn that asks for a hundred permits writes twice as many
// as it has entries, and how long the store is busy with a batch depends on all of them.
func sizeOfTurn(t *store.Turn) bounds {
	size := bounds{rows: 1 + len(t.Consumed) + len(t.Seen) + len(t.Prune)}
	for _, list := range [][]store.Entry{t.Entries, t.Rewrites} {
		for i := range list {
			size.add(bounds{1, len(list[i].Loc) + len(list[i].Value)})
		}
	}
	for _, v := range t.Values {
		size.add(bounds{1, len(v.Value)})
	}
	for _, v := range t.Appends {
		size.add(bounds{1, len(v.Value)})
	}
	for i := range t.Returned {
		size.add(bounds{1, len(t.Returned[i].Value)})
	}
	for _, list := range [][]store.Consumption{t.Consumed, t.Answers} {
		for i := range list {
			size.bytes += len(list[i].Verdict)
		}
	}
	if u := t.Update; u != nil {
		size.rows += len(u.Consumed)
		size.bytes += len(u.Output) + len(u.Waits)
		if u.Continue != nil {
			size.bytes += len(u.Continue.Input)
		}
	}
	for _, sends := range t.Sent(store.Committed) {
		for i := range sends {
			size.add(sizeOfCommand(&sends[i]))
		}
	}
	return size
}

// sizeOfCommand returns the rows and bytes of a command, as far as they count.
func sizeOfCommand(c *store.Command) bounds {
	size := bounds{rows: 1}
	if c.Item != nil {
		size.bytes += len(c.Item.Value) + len(c.Item.Headers)
	}
	st := c.Start
	if st == nil {
		return size
	}
	size.bytes += len(st.Input) + len(st.Headers)
	for i := range st.Items {
		size.add(bounds{1, len(st.Items[i].Value)})
	}
	if st.Fork != nil {
		for i := range st.Fork.Entries {
			size.add(bounds{1, len(st.Fork.Entries[i].Value)})
		}
	}
	return size
}
