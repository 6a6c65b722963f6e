package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Commit implements store.Store. A batch that is of one part is one act; else it is
// one act for each part and stage, see stages.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := s.validate(&b); err != nil {
		return store.BatchResult{}, err
	}
	if err := s.number(&b); err != nil {
		return store.BatchResult{}, err
	}
	c := committing{Store: s, b: &b}
	if err := c.resolve(ctx); err != nil {
		return store.BatchResult{}, err
	}
	if err := c.commit(ctx); err != nil {
		return store.BatchResult{}, err
	}
	s.hints.tell(storekit.ChangeOf(&b, &c.result))
	return c.result, nil
}

// validate reports whether a batch keeps the contract, of this store.
func (s *Store) validate(b *store.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if err := s.check(b.Commands); err != nil {
		return err
	}
	for _, t := range b.Turns {
		for _, sends := range t.Sent(store.Committed) {
			if err := s.check(sends); err != nil {
				return err
			}
		}
	}
	return nil
}

// number refuses a batch below the last one of its boot.
func (s *Store) number(b *store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{b.Node, b.Boot}
	if last := s.batches[key]; b.No < last {
		return fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid, last, b.No)
	}
	s.batches[key] = b.No
	return nil
}

// committing is a batch on its way.
type committing struct {
	*Store
	b      *store.Batch
	result store.BatchResult
}

func (c *committing) commit(ctx context.Context) error {
	c.result = store.BatchResult{Turns: make([]store.TurnResult, len(c.b.Turns)), Commands: make([]store.Answer, len(c.b.Commands))}
	for n, st := range c.stages() {
		if err := c.carryOut(ctx, n, &st); err != nil {
			if n > 0 {
				return fmt.Errorf("%w: %w", store.ErrUnknown, err) // former stages stand
			}
			return err
		}
	}
	return nil
}

// maxChunk bounds the turns and commands of one script, so that it keeps the server
// from others for a few milliseconds at most.
const maxChunk = 256

// carryOut carries out one stage: of each part one script, or some in their order.
func (c *committing) carryOut(ctx context.Context, number int, st *stage) error {
	type chunk struct {
		turns, commands []int
	}
	var order []int // parts, as they come up
	chunks := map[int][]chunk{}
	add := func(part int, turn bool, index int) {
		if chunks[part] == nil {
			order = append(order, part)
			chunks[part] = []chunk{{}}
		}
		last := &chunks[part][len(chunks[part])-1]
		if len(last.turns)+len(last.commands) == maxChunk {
			chunks[part] = append(chunks[part], chunk{})
			last = &chunks[part][len(chunks[part])-1]
		}
		if turn {
			last.turns = append(last.turns, index)
		} else {
			last.commands = append(last.commands, index)
		}
	}
	for _, i := range st.turns {
		add(c.partOf(c.b.Turns[i].Shard.Slot), true, i)
	}
	for _, i := range st.commands {
		add(c.partOf(c.slotOfCommand(&c.b.Commands[i])), false, i)
	}
	if len(order) == 0 {
		order, chunks[0] = []int{0}, []chunk{{}} // the time is asked for all the same
	}
	var acts []act
	positions := c.positions(st, c.reserve(c.needs(st)))
	for _, part := range order {
		for _, ch := range chunks[part] {
			acts = append(acts, c.newAct(part, ch.turns, ch.commands))
		}
	}
	replies, err := c.perform(ctx, acts, positions)
	if err != nil {
		return err
	}
	var r reader
	var posts, asked []post
	for i, m := range replies {
		f := r.tuple(m, 7)
		c.result.Now = c.observe(r.time(f[0]))
		if err := c.wentBack(&r, f[1]); err != nil {
			return err
		}
		c.carried(&r, acts[i].sections, f[2])
		before := len(posts)
		turns, answers := r.tuple(f[3], len(acts[i].turns)), r.tuple(f[4], len(acts[i].commands))
		for k, index := range acts[i].turns {
			posts = append(posts, c.turn(&r, acts[i].part, index, turns[k])...)
		}
		for k, index := range acts[i].commands {
			a := r.answer(answers[k], c.slots, &c.b.Commands[index])
			c.sawAnswer(&a)
			c.result.Commands[index] = a
		}
		if all := r.list(f[5]); len(all) > len(posts)-before { // starts have asked for permits
			for _, to := range all {
				asked = append(asked, post{from: acts[i].part, to: int(r.int(to)), turn: -1})
			}
		}
		c.learn(&acts[i], r.text(f[6]))
	}
	if r.err != nil {
		return fmt.Errorf("commit a batch: %w", r.err)
	}
	return c.deliver(ctx, append(posts, c.fetch(ctx, asked)...))
}

// perform carries out acts. Where the fence that was known is another now, the act has
// done nothing and is carried out again with its leases.
func (c *committing) perform(ctx context.Context, acts []act, at positions) ([]reply, error) {
	calls := make([]call, len(acts))
	for i := range acts {
		calls[i] = call{acts[i].part, c.arguments(&acts[i], at)}
	}
	replies, err := c.commitOn(ctx, calls)
	if err != nil {
		return nil, err
	}
	var again []call
	var which []int
	var r reader
	for i := range acts {
		if acts[i].fence != "" && len(r.list(replies[i])) == 1 {
			acts[i].fence = ""
			which, again = append(which, i), append(again, call{acts[i].part, c.arguments(&acts[i], at)})
		}
	}
	if len(again) == 0 {
		return replies, r.err
	}
	c.fences.forget(c.b.Node, c.b.Boot)
	second, err := c.run(ctx, commitScript, "commit a batch", again...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnknown, err) // the other acts stand
	}
	for k, i := range which {
		replies[i] = second[k]
	}
	return replies, r.err
}

// commitOn carries out calls of commit.lua: with one part, that of a numbered batch on
// the line.
func (c *committing) commitOn(ctx context.Context, calls []call) ([]reply, error) {
	const what = "commit a batch"
	if c.parts == 1 && len(calls) == 1 && c.b.No > 0 && c.client.Mode() == rueidis.ClientModeStandalone && !c.closed.Load() && ctx.Err() == nil {
		m, ok, err := c.line.commit(ctx, c.Store, commitScript, calls[0])
		switch {
		case err != nil:
			return nil, classify(what, err, false)
		case ok:
			return []reply{m}, nil
		}
	}
	return c.run(ctx, commitScript, what, calls...)
}

// turn reads what became of a turn. It returns what was posted.
func (c *committing) turn(r *reader, part, index int, m reply) (posts []post) {
	f := r.tuple(m, 2)
	result := &c.result.Turns[index]
	result.Verdict = store.Verdict(r.int(f[0]))
	c.refused(index, r.text(f[1]))
	sends := c.sent(index, result.Verdict)
	for i := range f[2:] {
		if i >= len(sends) {
			r.bad("more answers than the turn has sent")
			break
		}
		answer := r.list(f[2+i])
		if len(answer) == 4 && r.text(answer[0]) == "0" {
			posts = append(posts, post{from: part, to: int(r.int(answer[1])), no: r.int(answer[2]), blob: r.text(answer[3]), turn: index, send: i})
			result.Sends = append(result.Sends, store.Answer{})
			continue
		}
		a := r.answer(f[2+i], c.slots, sends[i])
		c.sawAnswer(&a)
		result.Sends = append(result.Sends, a)
	}
	return posts
}

// refused notes why a turn was refused, if it was.
func (c *committing) refused(index int, why string) {
	if result := &c.result.Turns[index]; result.Verdict == store.Refused {
		result.Reason = fmt.Sprintf("%q", why) // it may name a location
		result.Reason = result.Reason[1 : len(result.Reason)-1]
	}
}

// sent returns what a turn has sent.
func (c *committing) sent(index int, v store.Verdict) (list []*store.Command) {
	for _, sends := range c.b.Turns[index].Sent(v) {
		for i := range sends {
			list = append(list, &sends[i])
		}
	}
	return list
}

// wentBack notes epochs, and halts if one is lower than it was.
func (s *Store) wentBack(r *reader, m reply) error {
	for _, pair := range r.list(m) {
		f := r.tuple(pair, 2)
		if err := s.epoch(parseShard(r.text(f[0])), r.int(f[1])); err != nil {
			return err
		}
	}
	return nil
}
