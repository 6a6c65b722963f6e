package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stet-run/stet/store"
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
	if len(b.Turns)+len(b.Commands) > 0 && tells(&b) {
		s.hints.tell()
	}
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

// tells reports whether a batch may matter to other processes: not if its turns only
// add to the history.
func tells(b *store.Batch) bool {
	if len(b.Commands) > 0 {
		return true
	}
	for _, t := range b.Turns {
		if t.Update != nil || len(t.Sends)+len(t.Consumed)+len(t.Answers)+len(t.Values)+len(t.Appends)+len(t.Returned)+len(t.Dead) > 0 || t.Rewound {
			return true
		}
	}
	return false
}

// committing is a batch on its way.
type committing struct {
	*Store
	b      *store.Batch
	result store.BatchResult
}

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
	var calls []call
	var contents []chunk
	at := c.reserve(c.needs(st))
	positions := c.positions(st, at)
	for _, part := range order {
		for _, ch := range chunks[part] {
			calls = append(calls, call{part, c.arguments(part, ch.turns, ch.commands, positions)})
			contents = append(contents, ch)
		}
	}
	replies, err := c.run(ctx, commitScript, "commit a batch", calls...)
	if err != nil {
		return err
	}
	var r reader
	var posts, asked []post
	for i, m := range replies {
		f := r.tuple(m, 5)
		c.result.Now = c.observe(r.time(f[0]))
		if err := c.wentBack(&r, f[1]); err != nil {
			return err
		}
		before := len(posts)
		turns, answers := r.tuple(f[2], len(contents[i].turns)), r.tuple(f[3], len(contents[i].commands))
		for k, index := range contents[i].turns {
			posts = append(posts, c.turn(&r, calls[i].part, index, turns[k])...)
		}
		for k, index := range contents[i].commands {
			a := r.answer(answers[k], c.slots)
			c.sawAnswer(&a)
			c.result.Commands[index] = a
		}
		if all := r.list(f[4]); len(all) > len(posts)-before { // starts have asked for permits
			for _, to := range all {
				asked = append(asked, post{from: calls[i].part, to: int(r.int(to)), turn: -1})
			}
		}
	}
	if r.err != nil {
		return fmt.Errorf("commit a batch: %w", r.err)
	}
	return c.deliver(ctx, append(posts, c.fetch(ctx, asked)...))
}

// turn reads what became of a turn. It returns what was posted.
func (c *committing) turn(r *reader, part, index int, m reply) (posts []post) {
	f := r.tuple(m, 2)
	result := &c.result.Turns[index]
	result.Verdict, result.Reason = store.Verdict(r.int(f[0])), r.text(f[1])
	if result.Verdict == store.Refused {
		result.Reason = fmt.Sprintf("%q", result.Reason) // it may name a location
		result.Reason = result.Reason[1 : len(result.Reason)-1]
	} else {
		result.Reason = ""
	}
	for i := range f[2:] {
		answer := r.list(f[2+i])
		if len(answer) == 4 && r.text(answer[0]) == "0" {
			posts = append(posts, post{from: part, to: int(r.int(answer[1])), no: r.int(answer[2]), blob: r.text(answer[3]), turn: index, send: i})
			result.Sends = append(result.Sends, store.Answer{})
			continue
		}
		a := r.answer(f[2+i], c.slots)
		c.sawAnswer(&a)
		result.Sends = append(result.Sends, a)
	}
	return posts
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

// fewLeases are passed to every script; of more only those that it may need.
const fewLeases = 16

// arguments returns the arguments of commit.lua.
func (c *committing) arguments(part int, turns, commands []int, at positions) []string {
	var a args
	a.text(c.b.Node, c.b.Boot)
	number := ""
	if c.b.No > 0 {
		number = strconv.FormatInt(c.b.No, 10)
	}
	a.text(number)
	a.count(part)
	a.count(c.parts)
	each(&a, c.needed(part, turns, commands), func(i int) {
		a.shard(c.b.Leases[i].Shard)
		a.int(c.b.Leases[i].Epoch)
	})
	a.count(len(turns))
	for _, i := range turns {
		a.count(i)
		c.turnArguments(&a, c.b.Turns[i], at.turns[i])
	}
	first := 0
	if len(commands) > 0 {
		first = commands[0]
	}
	a.count(first)
	a.count(len(commands))
	for _, i := range commands {
		c.command(&a, &c.b.Commands[i], at.commands[i])
	}
	return a.list
}

// needed returns the leases of a part that a script may need.
func (c *committing) needed(part int, turns, commands []int) (leases []int) {
	few := len(c.b.Leases) <= fewLeases
	shards, slots := map[store.Shard]bool{}, map[int]bool{}
	adopts := func(list []store.Command) {
		for i := range list {
			if list[i].Adopt {
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
	for _, i := range commands {
		adopts(c.b.Commands[i : i+1])
	}
	for i := range c.b.Leases {
		shard := c.b.Leases[i].Shard
		if c.partOf(shard.Slot) == part && (few || slots[shard.Slot] || shards[shard]) {
			leases = append(leases, i)
		}
	}
	return leases
}

// turnArguments adds a turn, see readTurn in commit.lua.
func (c *committing) turnArguments(a *args, t *store.Turn, at floors) {
	short := len(t.Prune)+len(t.Rewrites)+len(t.Seen)+len(t.Consumed)+len(t.Returned)+len(t.Answers)+len(t.Values)+
		len(t.Appends)+len(t.Tags)+len(t.Dead)+len(t.Audit)+len(t.Sends) == 0 && !t.Rewound && t.Update == nil
	if short {
		a.text("E")
	} else {
		a.text("F")
	}
	a.int(int64(t.Run))
	a.shard(t.Shard)
	a.count(t.Incarnation)
	if short {
		a.entries(t.Entries)
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
	a.int(int64(u.Status))
	a.int(int64(u.Marks))
	a.int(int64(u.WakeAt))
	a.count(u.Generation)
	a.text(u.Reason, u.Build)
	a.bool(u.Alone)
	a.bool(u.Spared)
	a.value(u.Output)
	a.value(u.Waits)
	a.bool(u.Discard)
	a.bool(u.Back)
	a.value(u.Queue)
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
