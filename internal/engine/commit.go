package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// pendingTurn is a turn on its way, and who is told its verdict.
type pendingTurn struct {
	turn *store.Turn
	done func(store.TurnResult)
}

// pendingCommand is a command on its way; done is told the answer or the error
// that it caused.
type pendingCommand struct {
	command store.Command
	done    func(answer store.Answer, now store.Time, err error)
}

// committer gathers what is ready and writes it in one batch at a time. While
// one is on its way the next one fills.
type committer struct {
	t     *tenure
	wake  chan struct{} // capacity 1: a hint that there is something to write
	ended chan struct{} // closed when the committer's goroutine has ended

	mu       sync.Mutex
	turns    []pendingTurn
	commands []pendingCommand
	busy     bool // a batch is on its way
	closed   bool
}

// maxBatchRows bounds one batch, so that a waiting caller never waits for more.
const maxBatchRows = 4000

var errNotOwner = errors.New("not the owner")

func newCommitter(t *tenure) *committer {
	return &committer{t: t, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (c *committer) submitTurn(p pendingTurn) {
	c.mu.Lock()
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
	c.commands = append(c.commands, commands...)
	c.mu.Unlock()
	hint(c.wake)
	return true
}

// idle reports whether nothing is queued or on its way.
func (c *committer) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.busy && len(c.turns) == 0 && len(c.commands) == 0
}

// take returns what goes into the next batch.
func (c *committer) take() ([]pendingTurn, []pendingCommand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows, nt := 0, 0
	for nt < len(c.turns) && rows < maxBatchRows {
		rows += len(c.turns[nt].turn.Entries) + 1
		nt++
	}
	nc := min(len(c.commands), max(maxBatchRows-rows, 100))
	turns, commands := c.turns[:nt:nt], c.commands[:nc:nc]
	c.turns, c.commands = c.turns[nt:], c.commands[nc:]
	if len(c.turns) == 0 {
		c.turns = nil
	}
	if len(c.commands) == 0 {
		c.commands = nil
	}
	c.busy = len(turns)+len(commands) > 0
	return turns, commands
}

// run writes batches until ctx ends. Commands that are then left get an error,
// turns are forgotten with their activations.
func (c *committer) run(ctx context.Context) {
	defer close(c.ended)
	for {
		turns, commands := c.take()
		if len(turns)+len(commands) == 0 {
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
			}
			c.mu.Lock()
			c.closed = true
			commands = c.commands
			c.commands, c.turns = nil, nil
			c.mu.Unlock()
			for _, p := range commands {
				p.done(store.Answer{}, 0, errNotOwner)
			}
			return
		}
		c.write(ctx, turns, commands)
	}
}

// write commits one batch, splitting it until a turn or command that the store
// cannot take stands alone.
func (c *committer) write(ctx context.Context, turns []pendingTurn, commands []pendingCommand) {
	result, err := c.commit(ctx, turns, commands)
	switch {
	case err == nil:
		for i, p := range turns {
			p.done(result.Turns[i])
		}
		for i, p := range commands {
			p.done(result.Commands[i], result.Now, nil)
		}
	case ctx.Err() != nil:
		for _, p := range commands {
			p.done(store.Answer{}, 0, errNotOwner)
		}
	case len(turns)+len(commands) > 1:
		nt, nc := len(turns)/2, len(commands)/2
		if nt+nc == 0 {
			nt = len(turns) // one turn and one command
		}
		c.write(ctx, turns[:nt], commands[:nc])
		c.write(ctx, turns[nt:], commands[nc:])
	case len(turns) == 1:
		c.t.log().Error("the store refused a turn", "error", err, "run_no", turns[0].turn.Run)
		turns[0].done(store.TurnResult{Verdict: store.Refused, Reason: err.Error()})
	default:
		commands[0].done(store.Answer{}, 0, err)
	}
}

// commit writes one batch and repeats it while the store is away or does not
// say what became of it. An error is the batch's own, or that ctx has ended.
func (c *committer) commit(ctx context.Context, turns []pendingTurn, commands []pendingCommand) (store.BatchResult, error) {
	b := store.Batch{
		Node: c.t.e.cfg.Node, Boot: c.t.e.boot, No: c.t.e.batches.Add(1), Leases: c.t.leases,
		Turns: make([]*store.Turn, len(turns)), Commands: make([]store.Command, len(commands)),
	}
	for i, p := range turns {
		b.Turns[i] = p.turn
	}
	for i, p := range commands {
		b.Commands[i] = p.command
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		result, err := c.t.e.cfg.Store.Commit(ctx, b)
		if err == nil {
			c.t.e.time.observe(result.Now)
			return result, nil
		}
		if ctx.Err() != nil {
			return store.BatchResult{}, err
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			return store.BatchResult{}, err
		}
		c.t.log().Error("committing; trying again", "error", err, "turns", len(turns), "commands", len(commands), "wait", wait)
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
