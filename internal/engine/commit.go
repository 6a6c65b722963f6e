package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// pendingTurn is a turn on its way, and who is told its verdict.
type pendingTurn struct {
	h      *ownership.Shard // of the run's shard
	turn   *store.Turn
	done   func(store.TurnResult)
	sealed *store.Turn // as it is written; submitTurn sets it
	busy   int         // how often the store has left it out (Busy)
}

// pendingCommand is a command on its way; done is told the answer or the error
// that it caused.
type pendingCommand struct {
	command store.Command
	done    func(in *ownership.Shards, answer store.Answer, now store.Time, err error)
}

// committer gathers what is ready and writes it in one batch at a time. While
// one is on its way the next one fills, and goes on its way while the results of the
// first are told: batches overlap by that, and results are told in the order of the
// batches. When nothing is to be written or told, who submits writes its batch itself,
// which saves two switches between goroutines; the committer's own goroutine writes what
// has gathered meanwhile, and what failed at first.
type committer struct {
	t     *tenure
	wake  chan struct{} // capacity 1: a hint that there is something to write
	ended chan struct{} // closed when the committer's goroutine has ended

	mu       sync.Mutex
	turns    []pendingTurn
	commands []pendingCommand
	failed   *batch        // written by who submitted it, and to be repeated
	busy     bool          // a batch is on its way
	last     chan struct{} // closed when the latest batch has been told of; nil: it has been
	closed   bool
	tellers  sync.WaitGroup // goroutines that tell results

	under  *batch             // waits for the store; nil: none
	giveUp context.CancelFunc // … and this ends that
}

// batch is what is written at once.
type batch struct {
	number   int64
	turns    []pendingTurn
	commands []pendingCommand
	shards   *ownership.Shards // when it was made
	contents store.Batch
	given    int // how often it was given up

	before chan struct{} // closed when the batch before has been told of; nil: it has been
	told   chan struct{} // closed when this one has been
}

// newBatch makes a batch of what is still of this tenure's shards; turns of others
// are answered.
func (c *committer) newBatch(turns []pendingTurn, commands []pendingCommand) *batch {
	in := c.t.shards.Now() // before the look at the turns: a shard that is lost and taken again is seen there
	kept := turns
	if slices.ContainsFunc(turns, func(p pendingTurn) bool { return p.h.Lost() }) {
		kept = nil
		for _, p := range turns {
			if p.h.Lost() {
				p.finish(store.TurnResult{Verdict: store.Fenced})
			} else {
				kept = append(kept, p)
			}
		}
	}
	b := &batch{number: c.t.e.batches.Add(1), turns: kept, commands: commands, shards: in}
	b.contents = store.Batch{
		Node: c.t.e.cfg.Node, Boot: c.t.e.boot, No: b.number, Leases: in.Leases(),
		Turns: make([]*store.Turn, len(b.turns)), Commands: make([]store.Command, len(b.commands)),
	}
	for i, p := range b.turns {
		b.contents.Turns[i] = p.sealed
	}
	for i, p := range b.commands {
		b.contents.Commands[i] = p.command
	}
	if len(in.Leases()) > fewLeases {
		b.contents.Leases = c.t.touched(b)
	}
	return b
}

func (b *batch) empty() bool { return len(b.turns)+len(b.commands) == 0 }

// wait waits until the batch before has been told of.
func (b *batch) wait() {
	if b.before != nil {
		<-b.before
	}
}

// waits reports whether wait would.
func (b *batch) waits() bool {
	if b.before == nil {
		return false
	}
	select {
	case <-b.before:
		return false
	default:
		return true
	}
}

// finish tells the verdict.
func (p *pendingTurn) finish(result store.TurnResult) {
	p.done(result)
	p.h.TurnEnded()
}

// fewLeases is how many leases stand in every batch; of more only those that it
// touches.
const fewLeases = 4

// touched returns the leases of the shards in which a batch may write. Of runs that
// are named by number, and are not in memory, it knows no shard: these are not
// adopted, but claimed.
func (t *tenure) touched(b *batch) []store.Lease {
	in := b.shards
	leases := make([]store.Lease, 0, min(len(b.turns)+len(b.contents.Commands), len(in.Leases())))
	touch := func(h *ownership.Shard) {
		if h != nil && h.FirstIn(b.number) {
			leases = append(leases, h.Lease())
		}
	}
	adopts := func(commands []store.Command) {
		for i := range commands {
			switch c := &commands[i]; {
			case !c.Claim:
			case c.Start != nil:
				touch(in.Of(c.Start.Shard))
			case c.RunNo != 0:
				if a := t.find(c.RunNo); a != nil {
					touch(in.Of(a.h.ID()))
				}
			default:
				slot := t.e.Slot(c.RunID)
				for _, group := range t.groups {
					touch(in.Of(store.Shard{Group: group, Slot: slot}))
				}
			}
		}
	}
	for _, p := range b.turns {
		touch(p.h)
		for _, sends := range p.sealed.Sent(store.Committed) {
			adopts(sends)
		}
	}
	adopts(b.contents.Commands)
	return leases
}

// maxBatchRows bounds one batch, so that a waiting caller never waits for more.
const maxBatchRows = 4000

var errNotOwner = errors.New("not the owner")

func newCommitter(t *tenure) *committer {
	return &committer{t: t, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// submitTurn hands over a turn. It may wait for objects outside the store, so the
// committer's goroutine does not call it.
func (c *committer) submitTurn(p pendingTurn) {
	p.h.TurnBegun()
	if !c.seal(&p) {
		p.h.TurnEnded()
		return
	}
	c.mu.Lock()
	if told := c.lead(); told != nil {
		c.mu.Unlock()
		c.writeHere([]pendingTurn{p}, nil, told)
		return
	}
	c.turns = append(c.turns, p)
	c.mu.Unlock()
	hint(c.wake)
}

// submitCommands reports false when the committer takes no more.
func (c *committer) submitCommands(commands []pendingCommand) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	if told := c.lead(); told != nil {
		c.mu.Unlock()
		c.writeHere(nil, commands, told)
		return true
	}
	c.commands = append(c.commands, commands...)
	c.mu.Unlock()
	hint(c.wake)
	return true
}

// lead reports whether the caller, who holds the lock, may write a batch now, by what is
// to be closed when it has been told of. While results are told nobody may: he may be the
// one who tells them.
func (c *committer) lead() (told chan struct{}) {
	if c.busy || c.closed || c.last != nil || len(c.turns)+len(c.commands) > 0 {
		return nil
	}
	c.busy, c.last = true, make(chan struct{})
	return c.last
}

// writeHere writes a batch on the caller's goroutine. One that fails is left to
// the committer's.
func (c *committer) writeHere(turns []pendingTurn, commands []pendingCommand, told chan struct{}) {
	b := c.newBatch(turns, commands)
	b.told = told
	if b.empty() {
		c.release(b)
		return
	}
	result, err := c.attempt(c.t.held, b)
	if err != nil {
		c.mu.Lock()
		c.failed = b
		c.mu.Unlock()
		hint(c.wake)
		return
	}
	if c.next(b) {
		hint(c.wake)
	}
	c.answer(b, result)
	c.release(b)
}

// next lets the next batch go on its way before the results of this one are told. It
// reports false if there is none yet and they can be told at once.
func (c *committer) next(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.turns)+len(c.commands) == 0 && !b.waits() {
		return false
	}
	c.busy = false
	return true
}

// release ends a batch that has been told of, and hands over to the committer's goroutine
// if more is there.
func (c *committer) release(b *batch) {
	c.mu.Lock()
	close(b.told)
	if c.last == b.told {
		c.last, c.busy = nil, false // else the next one is on its way, or being told of
	}
	more := !c.busy && len(c.turns)+len(c.commands) > 0
	c.mu.Unlock()
	if more {
		hint(c.wake)
	}
}

// answer tells who has submitted something what became of it, after the batch before.
func (c *committer) answer(b *batch, result store.BatchResult) {
	b.wait()
	c.t.e.time.observe(result.Now)
	for i, p := range b.turns {
		if result.Turns[i].Verdict == store.Busy {
			c.later(p)
			continue
		}
		p.done(result.Turns[i])
	}
	for i, p := range b.turns {
		c.t.sent(b.shards, p.turn, &result.Turns[i], result.Now)
		if result.Turns[i].Verdict != store.Busy {
			p.h.TurnEnded()
		}
	}
	for i, p := range b.commands {
		if result.Commands[i].Outcome == store.Undecided {
			c.elsewhere(b.shards, p)
			continue
		}
		p.done(b.shards, result.Commands[i], result.Now, nil)
	}
}

// idle reports whether nothing is queued or on its way.
func (c *committer) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.busy && c.last == nil && len(c.turns) == 0 && len(c.commands) == 0
}

// take returns what is to be written next, or nil.
func (c *committer) take() *batch {
	c.mu.Lock()
	if b := c.failed; b != nil {
		c.failed = nil
		c.mu.Unlock()
		return b
	}
	if c.busy || len(c.turns)+len(c.commands) == 0 {
		c.mu.Unlock()
		return nil
	}
	before, told := c.last, make(chan struct{})
	c.busy, c.last = true, told
	rows, nt := 0, 0
	for nt < len(c.turns) && rows < maxBatchRows && c.turns[nt].busy == 0 {
		rows += len(c.turns[nt].turn.Entries) + len(c.turns[nt].turn.Values) + len(c.turns[nt].turn.Appends) + 1
		nt++
	}
	nc := min(len(c.commands), max(maxBatchRows-rows, 100))
	if nt == 0 && len(c.turns) > 0 {
		nt, nc = 1, 0 // one that was left out is tried alone
	}
	turns, commands := c.turns[:nt:nt], c.commands[:nc:nc]
	c.turns, c.commands = c.turns[nt:], c.commands[nc:]
	if len(c.turns) == 0 {
		c.turns = nil
	}
	if len(c.commands) == 0 {
		c.commands = nil
	}
	c.mu.Unlock()
	b := c.newBatch(turns, commands)
	b.before, b.told = before, told
	return b
}

// run writes batches until ctx ends. Commands that are then left get an error,
// turns are forgotten with their activations.
func (c *committer) run(ctx context.Context) {
	defer close(c.ended)
	defer c.tellers.Wait()
	for {
		if b := c.take(); b != nil {
			if c.write(ctx, b) {
				c.release(b)
			}
			continue
		}
		select {
		case <-c.wake:
			continue
		case <-ctx.Done():
		}
		c.mu.Lock()
		c.closed = true
		commands := c.commands
		if c.failed != nil {
			commands = append(commands, c.failed.commands...)
		}
		c.commands, c.turns, c.failed = nil, nil, nil
		c.mu.Unlock()
		for _, p := range commands {
			p.done(nil, store.Answer{}, 0, errNotOwner)
		}
		return
	}
}

// write commits one batch. It reports false if its results are told, and it is released,
// by another goroutine: more is to be written.
func (c *committer) write(ctx context.Context, b *batch) bool {
	if b.empty() {
		b.wait()
		return true
	}
	result, err := c.commit(ctx, b)
	switch {
	case err != nil:
		c.divide(ctx, b, err)
	case c.next(b):
		c.tellers.Go(func() {
			c.answer(b, result)
			c.release(b)
		})
		return false
	default:
		c.answer(b, result)
	}
	return true
}

// divide splits a batch that could not be committed until a turn or command that the
// store cannot take stands alone.
func (c *committer) divide(ctx context.Context, b *batch, err error) {
	b.wait()
	part := func(turns []pendingTurn, commands []pendingCommand) {
		p := c.newBatch(turns, commands)
		if p.empty() {
			return
		}
		if result, err := c.commit(ctx, p); err != nil {
			c.divide(ctx, p, err)
		} else {
			c.answer(p, result)
		}
	}
	switch {
	case ctx.Err() != nil:
		for _, p := range b.commands {
			p.done(nil, store.Answer{}, 0, errNotOwner)
		}
	case len(b.turns)+len(b.commands) > 1:
		nt, nc := len(b.turns)/2, len(b.commands)/2
		if nt+nc == 0 {
			nt = len(b.turns) // one turn and one command
		}
		part(b.turns[:nt], b.commands[:nc])
		part(b.turns[nt:], b.commands[nc:])
	case len(b.turns) == 1:
		c.t.log().Error("the store refused a turn", "error", err, "run_no", b.turns[0].turn.Run)
		b.turns[0].finish(store.TurnResult{Verdict: store.Refused, Reason: err.Error()})
	default:
		b.commands[0].done(nil, store.Answer{}, 0, err)
	}
}

// commit writes one batch and repeats it while the store is away or does not
// say what became of it. An error is the batch's own, or that ctx has ended.
func (c *committer) commit(ctx context.Context, b *batch) (store.BatchResult, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		result, err := c.attempt(ctx, b)
		if err == nil || ctx.Err() != nil {
			return result, err
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			return store.BatchResult{}, err
		}
		c.t.log().Error("committing; trying again", "error", err, "turns", len(b.turns), "commands", len(b.commands), "wait", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return store.BatchResult{}, err
		}
	}
}

// hint wakes who waits on ch, unless it is already being woken.
func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
