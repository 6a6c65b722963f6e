package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Commit implements store.Store. A batch whose turns and commands are of one part is one
// act; another is one act for each part and stage, see stages.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := s.validate(&b); err != nil {
		return store.BatchResult{}, err
	}
	c := committing{Store: s, b: &b}
	if err := c.numbered(ctx); err != nil {
		return store.BatchResult{}, err
	}
	return c.result, nil
}

// numbered carries out a batch that has a number.
func (c *committing) numbered(ctx context.Context) error {
	b := c.b
	if err := c.number(b, c.boot()); err != nil {
		return err
	}
	if err := c.resolve(ctx); err != nil {
		return err
	}
	if err := c.commit(ctx); err != nil {
		return err
	}
	c.acknowledged(b, c.boot(), c.touched)
	c.hints.tell(storekit.ChangeOf(b, &c.result))
	return nil
}

// validate returns an error if a batch breaks the contract or a bound of this store.
func (s *Store) validate(b *store.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if err := storekit.RefuseLinesOf(b); err != nil {
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
func (s *Store) number(b *store.Batch, key boot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.batches[key]; b.No < last {
		return fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid, last, b.No)
	}
	s.batches[key] = b.No
	return nil
}

// committing is a batch on its way.
type committing struct {
	*Store
	lane    *lane // that the batch is of; nil: of any
	b       *store.Batch
	result  store.BatchResult
	touched []int                  // parts on which there were acts
	guessed map[string]store.RunNo // by name: the number of a run that may have been replaced, see resolve
}

// slotOfCommand is the slot of the run that a command is for.
func (c *committing) slotOfCommand(command *store.Command) int {
	no := command.RunNo
	if command.Start == nil && no == 0 {
		no = c.guessed[command.RunID]
	}
	switch {
	case command.Start != nil:
		return command.Start.Shard.Slot
	case no != 0:
		return c.SlotOf(no)
	}
	return c.slotOf(command.RunID)
}

// boot returns the boot that counts the batch.
func (c *committing) boot() boot {
	key := boot{c.b.Node, c.b.Boot, -1}
	if c.lane != nil {
		key.lane = c.lane.index
	}
	return key
}

// elsewhere reports whether a part is of another lane than the batch.
func (c *committing) elsewhere(part int) bool { return c.lane != nil && c.laneOf[part] != c.lane.index }

func (c *committing) commit(ctx context.Context) error {
	c.result = store.BatchResult{Turns: make([]store.TurnResult, len(c.b.Turns)),
		Commands: make([]store.Answer, len(c.b.Commands))}
	for i := range c.b.Commands {
		if c.undecided(&c.b.Commands[i]) {
			c.result.Commands[i].Outcome = store.Undecided
		}
	}
	for n, st := range c.stages() {
		if err := c.carryOut(ctx, &st); err != nil {
			if n > 0 {
				return fmt.Errorf("%w: %w", store.ErrUnknown, err) // earlier stages stand
			}
			return err
		}
	}
	return nil
}

// maxChunk bounds the turns and commands of one script, so that it keeps the server
// busy for a few milliseconds at most.
const maxChunk = 256

// acts returns the acts of a stage: of each part one, or several in their order.
func (c *committing) acts(st *stage) []act {
	type chunk struct {
		turns, commands []int
	}
	var order []int // parts, as they come up
	chunks := map[int][]chunk{}
	last := func(part int) *chunk {
		all := chunks[part]
		if all == nil {
			order = append(order, part)
		}
		if n := len(all); n == 0 || len(all[n-1].turns)+len(all[n-1].commands) == maxChunk {
			all = append(all, chunk{})
			chunks[part] = all
		}
		return &all[len(all)-1]
	}
	for _, i := range st.turns {
		to := last(c.partOf(c.b.Turns[i].Shard.Slot))
		to.turns = append(to.turns, i)
	}
	for _, i := range st.commands {
		to := last(c.partOf(c.slotOfCommand(&c.b.Commands[i])))
		to.commands = append(to.commands, i)
	}
	if len(order) == 0 {
		last(c.home()) // the time is needed all the same
	}
	var acts []act
	for _, part := range order {
		for _, ch := range chunks[part] {
			acts = append(acts, c.newAct(part, ch.turns, ch.commands))
		}
	}
	return acts
}

// carryOut carries out one stage.
func (c *committing) carryOut(ctx context.Context, st *stage) error {
	acts := c.acts(st)
	replies, err := c.perform(ctx, acts, c.positions(st))
	if err != nil {
		return err
	}
	var r reader
	var sent, unread []outgoing
	for i, m := range replies {
		more, asked, err := c.read(&r, &acts[i], m)
		if err != nil {
			return err
		}
		c.touched = append(c.touched, acts[i].part)
		sent, unread = append(sent, more...), append(unread, asked...)
	}
	if r.err != nil {
		return fmt.Errorf("commit a batch: %w", r.err)
	}
	sent, unread = c.post(sent), c.post(unread)
	return c.deliver(ctx, append(sent, c.fetch(ctx, unread)...))
}

// read reads the answer to an act. It returns the commands that its turns have put into the
// outbox, and the parts for which its starts have put commands there, which have to be
// read.
func (c *committing) read(r *reader, a *act, m reply) (sent, unread []outgoing, err error) {
	f := r.tuple(m, 7)
	c.result.Now = c.observe(r.time(f[0]))
	c.sawEpochs(r, f[1])
	c.readGroups(r, a.groups, f[2])
	turns, answers := r.tuple(f[3], len(a.turns)), r.tuple(f[4], len(a.commands))
	for k, index := range a.turns {
		sent = append(sent, c.turn(r, a.part, index, turns[k])...)
	}
	for k, index := range a.commands {
		answer := r.answer(answers[k], c.slots, &c.b.Commands[index])
		c.sawAnswer(&answer)
		c.result.Commands[index] = answer
	}
	if all := r.list(f[5]); len(all) > len(sent) { // starts have asked for permits
		for _, to := range all {
			unread = append(unread, outgoing{from: a.part, to: int(r.int(to)), turn: -1})
		}
	}
	c.learn(a, r.text(f[6]))
	return sent, unread, nil
}

// perform carries out acts. One whose fence is not the boot's any more has done nothing; it
// is carried out again with its leases.
func (c *committing) perform(ctx context.Context, acts []act, at positions) ([]reply, error) {
	calls := make([]call, len(acts))
	for i := range acts {
		calls[i] = call{acts[i].part, c.arguments(&acts[i], at)}
	}
	replies, err := c.commitOn(ctx, calls)
	if err != nil {
		return nil, err
	}
	var repeated []call
	var which []int
	var r reader
	for i := range acts {
		if acts[i].fence != "" && len(r.list(replies[i])) == 1 {
			acts[i].fence = ""
			which, repeated = append(which, i), append(repeated, call{acts[i].part, c.arguments(&acts[i], at)})
		}
	}
	if len(repeated) == 0 {
		return replies, r.err
	}
	c.fences.forget(c.b.Node, c.b.Boot)
	second, err := c.run(ctx, commitScript, "commit a batch", repeated...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnknown, err) // the other acts stand
	}
	for k, i := range which {
		replies[i] = second[k]
	}
	return replies, r.err
}

// commitOn executes commit.lua: for a numbered batch of one call, on a single server, over
// the connection for commits.
func (c *committing) commitOn(ctx context.Context, calls []call) ([]reply, error) {
	const what = "commit a batch"
	if c.parts == 1 && len(calls) == 1 && c.b.No > 0 && c.client.Mode() == rueidis.ClientModeStandalone &&
		!c.closed.Load() && ctx.Err() == nil {
		if err := c.promised(ctx, what); err != nil {
			return nil, err
		}
		m, ok, err := c.commitConn.commit(ctx, c.Store, commitScript, calls[0])
		switch {
		case err != nil:
			return nil, classify(ctx, what, err, false)
		case ok:
			return []reply{m}, c.kept(ctx, what)
		}
	}
	return c.run(ctx, commitScript, what, calls...)
}

// turn reads the result of a turn. It returns the commands that the turn has put into the
// outbox.
func (c *committing) turn(r *reader, part, index int, m reply) (sent []outgoing) {
	f := r.tuple(m, 2)
	result := &c.result.Turns[index]
	result.Verdict = store.Verdict(r.int(f[0]))
	c.refused(index, r.text(f[1]))
	sends := c.sent(index, result.Verdict)
	for i := range f[2:] {
		if i >= len(sends) {
			r.bad("more answers than the turn has sends")
			break
		}
		answer := r.list(f[2+i])
		if len(answer) == 4 && r.text(answer[0]) == putOut {
			sent = append(sent, outgoing{
				from: part, to: int(r.int(answer[1])), no: r.int(answer[2]), blob: r.text(answer[3]), turn: index, send: i,
			})
			result.Sends = append(result.Sends, store.Answer{})
			continue
		}
		a := r.answer(f[2+i], c.slots, sends[i])
		c.sawAnswer(&a)
		result.Sends = append(result.Sends, a)
	}
	return sent
}

// refused notes the reason for which a turn was refused, if it was.
func (c *committing) refused(index int, why string) {
	if result := &c.result.Turns[index]; result.Verdict == store.Refused {
		result.Reason = fmt.Sprintf("%q", why) // it may name a location
		result.Reason = result.Reason[1 : len(result.Reason)-1]
	}
}

// sent returns the commands that a turn with a verdict has sent.
func (c *committing) sent(index int, v store.Verdict) (list []*store.Command) {
	for _, sends := range c.b.Turns[index].Sent(v) {
		for i := range sends {
			list = append(list, &sends[i])
		}
	}
	return list
}

// sawEpochs notes the epochs of shards.
func (s *Store) sawEpochs(r *reader, m reply) {
	for _, m := range r.list(m) {
		f := r.tuple(m, 2)
		s.sawEpoch(parseShard(r.text(f[0])), r.int(f[1]))
	}
}

// told returns the number of the last batch of a boot that a part must have, if the boot
// knows the result of the batch last (law 29): with several parts a batch is kept where it
// has written.
func (s *Store) told(of boot, part int, last int64) int64 {
	if s.parts == 1 || last == 0 {
		return last
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.acked[of][part], last)
}

// acknowledged notes the parts on which a batch has acted. A boot that knows of no result
// begins again.
func (s *Store) acknowledged(b *store.Batch, key boot, parts []int) {
	if s.parts == 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acked[key] == nil || b.Last == 0 {
		s.acked[key] = map[int]int64{}
	}
	for _, part := range parts {
		s.acked[key][part] = b.No
	}
}
