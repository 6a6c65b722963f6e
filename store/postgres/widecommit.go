package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// part is the part of a batch that one database writes in one act.
type part struct {
	store.Batch
	posts    []post
	turns    []int // indices in the batch
	commands []int
}

// sent says what became of a send of a turn: the place of its answer in the result of the
// turn's database, or the number of the post.
type sent struct {
	remote bool
	number int64
}

// wideBatch is a batch on its way into several databases.
type wideBatch struct {
	w      *Wide
	b      *store.Batch
	call   *call
	sends  [][]sent             // by turn: its sends, then those of its update
	given  map[int]store.Answer // to commands that are not carried out
	late   map[int]error        // why something for a database is delivered later
	homes  map[string]int       // by name: the database of a run that may have been replaced, see lane.resolveTurns
	result store.BatchResult
}

// turn returns the turn as its own database writes it, with what it sends there alone, and the
// posts for others.
func (c *wideBatch) turn(i int, p *part) *store.Turn {
	t := c.b.Turns[i]
	home := c.w.place.Slots[t.Shard.Slot]
	local := *t
	split := func(list []store.Command, update bool) (kept []store.Command) {
		for k := range list {
			cmd := list[k]
			if ask := c.w.place.asks(&cmd); ask != nil && c.of(&cmd) == home {
				ask.turn, ask.update, ask.start = len(p.turns), update, c.kept(i)
				p.posts = append(p.posts, *ask)
			}
			if c.of(&cmd) == home {
				c.sends[i] = append(c.sends[i], sent{})
				kept = append(kept, cmd)
				continue
			}
			number := c.call.send(cmd.Claim)
			c.sends[i] = append(c.sends[i], sent{true, number})
			cmd.Claim = false
			o := post{target: c.of(&cmd), shard: t.Shard.String(), turn: len(p.turns), update: update, start: -1,
				posted: posted{Command: cmd, Process: c.w.process, Call: c.call.number, Send: number}}
			if cmd.Item != nil && cmd.Item.Kind == store.ItemWatch {
				o.By = t.Run
			}
			p.posts = append(p.posts, o)
		}
		return kept
	}
	for k := range t.Returned {
		if it := &t.Returned[k]; slot(c.w.place, it.No) != t.Shard.Slot { // its number would tell another slot
			local.Returned = slices.Clone(t.Returned)
			break
		}
	}
	for k := range local.Returned {
		if it := &local.Returned[k]; slot(c.w.place, it.No) != t.Shard.Slot {
			it.No = 0
		}
	}
	c.sends[i] = nil
	local.Sends = split(t.Sends, false)
	if t.Update != nil && len(t.Update.Sends) > 0 {
		u := *t.Update
		u.Sends = split(u.Sends, true)
		local.Update = &u
	}
	return &local
}

// of returns the database of a command's run.
func (c *wideBatch) of(cmd *store.Command) int {
	if home, ok := c.homes[cmd.RunID]; ok && cmd.Start == nil && cmd.RunNo == 0 {
		return home
	}
	return c.w.place.of(cmd)
}

// kept returns how many sends of a turn stay in its database, so far.
func (c *wideBatch) kept(i int) (n int) {
	for _, s := range c.sends[i] {
		if !s.remote {
			n++
		}
	}
	return n
}

// stage is turns, then commands, that are written in one act of each database: indices in
// the batch.
type stage struct{ turns, commands []int }

// stages cuts a batch into stages, so that what a turn sends to another database arrives there in
// the order of the batch: before a later turn of that database, and before the commands.
func (c *wideBatch) stages() []stage {
	list := []stage{{}}
	targets := map[int]bool{}
	cut := func() {
		list = append(list, stage{})
		clear(targets)
	}
	for i, t := range c.b.Turns {
		home := c.w.place.Slots[t.Shard.Slot]
		if targets[home] {
			cut()
		}
		last := &list[len(list)-1]
		last.turns = append(last.turns, i)
		for _, sends := range t.Sent(store.Committed) {
			for k := range sends {
				for _, to := range c.w.reaches(&sends[k]) {
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
		if _, known := c.given[i]; known {
			continue
		}
		last := &list[len(list)-1]
		last.commands = append(last.commands, i)
		if len(c.w.reaches(&c.b.Commands[i])) > 1 && i+1 < len(c.b.Commands) {
			cut() // the permit that it asks for comes before the next command
		}
	}
	return list
}

// reaches returns the database of a command's run, and that of the queue that it asks, if that is
// another one.
func (w *Wide) reaches(c *store.Command) []int {
	list := []int{w.place.of(c)}
	if ask := w.place.asks(c); ask != nil {
		list = append(list, ask.target)
	}
	return list
}

// parts returns the parts of a stage, by database.
func (c *wideBatch) parts(st *stage) map[int]*part {
	parts := map[int]*part{}
	at := func(database int) *part {
		if parts[database] == nil {
			parts[database] = &part{}
		}
		return parts[database]
	}
	for _, i := range st.turns {
		p := at(c.w.place.Slots[c.b.Turns[i].Shard.Slot])
		p.Turns = append(p.Turns, c.turn(i, p))
		p.turns = append(p.turns, i)
	}
	for _, i := range st.commands {
		cmd := c.b.Commands[i]
		p := at(c.w.place.of(&cmd))
		if ask := c.w.place.asks(&cmd); ask != nil {
			ask.start = len(p.commands)
			p.posts = append(p.posts, *ask)
		}
		p.Commands = append(p.Commands, cmd)
		p.commands = append(p.commands, i)
	}
	if len(parts) == 0 {
		at(0) // the time is needed all the same
	}
	return parts
}

// write writes a part.
func (w *Wide) write(ctx context.Context, index int, p *part) (store.BatchResult, error) {
	s, err := w.at(ctx, index)
	if err != nil {
		return store.BatchResult{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.BatchResult{}, err
	}
	defer s.leave()
	return commit(ctx, s, &p.Batch, p.posts)
}

// leasesIn returns the leases of the slots of a database.
func (w *Wide) leasesIn(index int, leases []store.Lease) (own []store.Lease) {
	for _, l := range leases {
		if w.place.Slots[l.Shard.Slot] == index {
			own = append(own, l)
		}
	}
	return own
}

// checkSlots returns an error if something is in a slot that the store does not have.
func (w *Wide) checkSlots(slots ...int) error {
	for _, slot := range slots {
		if slot < 0 || slot >= len(w.place.Slots) {
			return fmt.Errorf("%w: expected a slot below %d, found %d", store.ErrInvalid, len(w.place.Slots), slot)
		}
	}
	return nil
}

func (w *Wide) validate(b *store.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if err := storekit.RefuseLinesOf(b); err != nil {
		return err
	}
	for i := range b.Leases {
		if err := w.checkSlots(b.Leases[i].Shard.Slot); err != nil {
			return err
		}
	}
	for _, t := range b.Turns {
		if err := w.checkSlots(t.Shard.Slot); err != nil {
			return err
		}
		for _, sends := range [][]store.Command{t.Sends, sendsOf(t.Update)} {
			if err := w.checkCommands(sends); err != nil {
				return err
			}
		}
	}
	return w.checkCommands(b.Commands)
}

func sendsOf(u *store.Update) []store.Command {
	if u == nil {
		return nil
	}
	return u.Sends
}

func (w *Wide) checkCommands(list []store.Command) error {
	for i := range list {
		if st := list[i].Start; st != nil {
			if err := w.checkSlots(st.Shard.Slot); err != nil {
				return err
			}
		}
	}
	return nil
}

// Commit implements store.Store. A batch that concerns several databases is one act for each of
// them and stage.
func (w *Wide) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := w.validate(&b); err != nil {
		return store.BatchResult{}, err
	}
	if err := w.checkNumber(ctx, &b); err != nil {
		return store.BatchResult{}, err
	}
	b.Commands = slices.Clone(b.Commands)
	given, err := w.resolve(ctx, b.Commands)
	if err != nil {
		return store.BatchResult{}, err
	}
	turns := make([]*store.Turn, len(b.Turns))
	for i, t := range b.Turns {
		if turns[i], err = w.resolveTurn(ctx, t); err != nil {
			return store.BatchResult{}, err
		}
	}
	b.Turns = turns
	c := &wideBatch{w: w, b: &b, given: given, call: newCall(w, b.Leases), sends: make([][]sent, len(b.Turns))}
	defer endCall(w, c.call)
	c.result = store.BatchResult{Turns: make([]store.TurnResult, len(b.Turns)),
		Commands: make([]store.Answer, len(b.Commands))}
	stages := c.stages()
	if len(stages) >= 1<<stageBits {
		return store.BatchResult{}, fmt.Errorf("commit a batch: %w: expected less than %d stages, found %d",
			store.ErrTooLarge, 1<<stageBits, len(stages))
	}
	for n := range stages {
		if err := c.carryOut(ctx, n, &stages[n]); err != nil {
			if n > 0 && !errors.Is(err, store.ErrUnknown) {
				err = fmt.Errorf("%w: %w", store.ErrUnknown, err) // earlier stages stand
			}
			return store.BatchResult{}, err
		}
	}
	if err := c.ask(ctx); err != nil {
		return store.BatchResult{}, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	for i := range c.result.Turns {
		c.gather(&c.result.Turns[i], c.sends[i], len(b.Turns[i].Sends))
	}
	for i, a := range given {
		c.result.Commands[i] = a
	}
	return c.result, nil
}

// gather puts the answers to the posts of a turn between those of its own database. The turn has
// so many sends that are not of its update.
func (c *wideBatch) gather(r *store.TurnResult, sends []sent, first int) {
	own := r.Sends
	switch r.Verdict {
	case store.Committed:
	case store.StillReady:
		sends = sends[:first]
	default:
		return
	}
	r.Sends = nil
	for _, s := range sends {
		if s.remote {
			r.Sends = append(r.Sends, c.call.answered(s.number))
		} else if len(own) > 0 {
			r.Sends, own = append(r.Sends, own[0]), own[1:]
		}
	}
}

// carryOut writes one stage, and delivers what it has sent to other databases.
func (c *wideBatch) carryOut(ctx context.Context, n int, st *stage) error {
	parts := c.parts(st)
	results := make(map[int]store.BatchResult, len(parts))
	var mu sync.Mutex
	errs := map[int]error{}
	var writing sync.WaitGroup
	for index, p := range parts {
		p.Node, p.Boot, p.No = c.b.Node, c.b.Boot, c.b.No<<stageBits+int64(n)
		p.Last = c.w.told(c.b, index)
		p.Leases = c.w.leasesIn(index, c.b.Leases)
		writing.Go(func() {
			result, err := c.w.write(ctx, index, p)
			mu.Lock()
			defer mu.Unlock()
			if results[index] = result; err != nil {
				errs[index] = err
			}
		})
	}
	writing.Wait()
	for _, err := range errs {
		if len(parts) > 1 && len(errs) < len(parts) && !errors.Is(err, store.ErrUnknown) {
			err = fmt.Errorf("%w: %w", store.ErrUnknown, err) // the others stand
		}
		return err
	}
	routes := map[[2]int]bool{}
	for index, p := range parts {
		result := results[index]
		c.w.acknowledged(c.b, index, p.No)
		c.result.Now = max(c.result.Now, result.Now)
		for k, i := range p.turns {
			c.result.Turns[i] = result.Turns[k]
		}
		for k, i := range p.commands {
			c.result.Commands[i] = result.Commands[k]
		}
		for to := range targets(p.posts) {
			routes[[2]int{index, to}] = true
		}
	}
	for to, err := range c.w.flush(ctx, routes, c.call) {
		if c.late == nil {
			c.late = map[int]error{}
		}
		c.late[to] = err
	}
	return nil
}

// flush delivers what stands in outboxes, and what that brings about. What cannot be delivered
// now is left to the relay: late says why, by receiver.
func (w *Wide) flush(ctx context.Context, routes map[[2]int]bool, c *call) (late map[int]error) {
	late = map[int]error{}
	for len(routes) > 0 {
		next := map[[2]int]bool{}
		for route := range routes {
			onward, err := flushOne(ctx, w, route[0], route[1], c)
			if err != nil {
				w.cfg.log.Warn("what was sent to other slots is delivered later", "error", err)
				w.relay.Later(route[0], route[1])
				late[route[1]] = err
			}
			for _, to := range onward {
				next[[2]int{route[1], to}] = true
			}
		}
		routes = next
	}
	return late
}

func flushOne(ctx context.Context, w *Wide, from, to int, c *call) (next []int, err error) {
	var arrived []int64
	for {
		posts, err := outboxes{w}.Read(ctx, from, to, arrived, deliverChunk)
		if err != nil || len(posts) == 0 {
			return next, err
		}
		more, err := w.deliver(ctx, from, to, posts, c)
		if err != nil {
			return next, err
		}
		next, arrived = append(next, more...), nil
		for _, p := range posts {
			arrived = append(arrived, p.No)
		}
	}
}
