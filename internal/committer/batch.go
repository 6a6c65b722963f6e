package committer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

const (
	// maxBatchRows bounds one batch, so that a waiting caller never waits for more; but
	// commands that were submitted at once are not parted.
	maxBatchRows = 2000
	// maxBatchBytes bounds one batch too. A turn of more than that is written alone.
	maxBatchBytes = 16 << 20
	// fewestRows and fewestBytes are what a batch may have however often the store found
	// one too large.
	fewestRows, fewestBytes = 1, 1 << 10
	// guiltyTries is how often a turn that the store does not take is tried alone where
	// nothing else is written that shows whether the store takes anything.
	guiltyTries = 5
	// fewLeases is how many leases stand in every batch; of more only those that it
	// touches.
	fewLeases = 4
	// longestPatience bounds how long the store is waited for with a batch that was
	// abandoned before.
	longestPatience = 10 * time.Minute
	// busyPause is how long a turn that was left out waits at first, and busyMost at
	// last.
	busyPause = 50 * time.Millisecond
	busyMost  = time.Second
)

// batch is a set of turns and commands that are written in one act.
type batch struct {
	turns     []Turn
	commands  []Command
	shards    *ownership.Shards // that were held when it was made
	contents  store.Batch
	sent      time.Time // first: a repeated batch has the answer of that time
	abandoned int       // how often the store's answer was not waited for any longer
	givenUp   bool      // once, because its leases were lost

	before    <-chan struct{} // closed when the batch before is delivered; nil: it is
	delivered chan struct{}   // closed when this one is
}

// newBatch makes a batch of the turns whose shard is still held, and of the commands; the
// other turns are answered as fenced.
func (c *Committer) newBatch(turns []Turn, commands []Command) *batch {
	number, last := c.cfg.Batches.next() // before the shards: if the store is held to nothing, those of before are lost
	in := c.owner.Shards()               // before the turns: a shard that is lost and taken again is seen there
	kept := turns
	if slices.ContainsFunc(turns, func(t Turn) bool { return t.Shard.Lost() }) {
		kept = nil
		for _, t := range turns {
			if t.Shard.Lost() {
				t.finish(store.TurnResult{Verdict: store.Fenced})
			} else {
				kept = append(kept, t)
			}
		}
	}
	b := &batch{turns: kept, commands: commands, shards: in}
	b.contents = store.Batch{
		Node: c.cfg.Node, Boot: c.cfg.Boot, No: number, Last: last, Leases: in.Leases(),
		Turns: make([]*store.Turn, len(b.turns)), Commands: make([]store.Command, len(b.commands)),
	}
	for i, t := range b.turns {
		b.contents.Turns[i] = t.stored
	}
	for i, p := range b.commands {
		b.contents.Commands[i] = p.Command
	}
	if len(in.Leases()) > fewLeases {
		b.contents.Leases = c.touched(b, number)
	}
	return b
}

// touched returns the leases of the shards in which the batch with the number may write. They
// are all of them if it may claim a run of which only the store knows the shard.
func (c *Committer) touched(b *batch, number int64) []store.Lease {
	anywhere := false
	leases := make([]store.Lease, 0, min(len(b.turns)+len(b.commands), len(b.shards.Leases())))
	touch := func(s *ownership.Shard) {
		if s != nil && s.FirstIn(number) {
			leases = append(leases, s.Lease())
		}
	}
	claims := func(commands []store.Command) {
		for i := range commands {
			if commands[i].Claim && !anywhere {
				c.claims = c.owner.Claims(c.claims[:0], b.shards, &commands[i])
				anywhere = len(c.claims) == 0
				for _, s := range c.claims {
					touch(s)
				}
			}
		}
	}
	for _, t := range b.turns {
		touch(t.Shard)
		for _, sends := range t.stored.Sent(store.Committed) {
			claims(sends)
		}
	}
	claims(b.contents.Commands)
	if anywhere {
		return b.shards.Leases()
	}
	return leases
}

func (b *batch) empty() bool { return len(b.turns)+len(b.commands) == 0 }

// awaitFormer waits until the batch before is delivered.
func (b *batch) awaitFormer() {
	if b.before != nil {
		<-b.before
	}
}

// hasFormer reports whether the batch before is still to be delivered.
func (b *batch) hasFormer() bool {
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

// lost reports whether the batch has leases and none of them is held any more. A turn may
// be of a shard that was taken after the batch's shards were read.
func (b *batch) lost() bool {
	leases := b.contents.Leases
	return len(leases) > 0 && !slices.ContainsFunc(leases, func(l store.Lease) bool {
		s := b.shards.Of(l.Shard)
		return s != nil && !s.Lost()
	}) && !slices.ContainsFunc(b.turns, func(t Turn) bool { return !t.Shard.Lost() })
}

// writeInline writes a batch on the goroutine of the caller that submits it. One that
// fails is left to the committer's.
func (c *Committer) writeInline(turns []Turn, commands []Command, delivered chan struct{}) {
	b := c.newBatch(turns, commands)
	b.delivered = delivered
	if b.empty() {
		c.end(b)
		return
	}
	result, err := c.attempt(c.ctx, b)
	if err != nil {
		c.mu.Lock()
		c.failed = b
		c.mu.Unlock()
		c.hint()
		return
	}
	if c.overlap(b) {
		c.hint()
	}
	c.deliver(b, result)
	c.end(b)
}

// nextBatch returns the next batch of the committer's goroutine; nil: there is nothing to
// write.
func (c *Committer) nextBatch() *batch {
	c.mu.Lock()
	if b := c.failed; b != nil {
		c.failed = nil
		c.mu.Unlock()
		return b
	}
	if c.writing || !c.queued() {
		c.mu.Unlock()
		return nil
	}
	before, delivered := c.undelivered, make(chan struct{})
	c.writing, c.undelivered = true, delivered
	if before == nil && c.gathering.due > 0 {
		c.mu.Unlock()
		c.gather()
		c.mu.Lock()
	}
	nt, nc := c.share()
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
	b.before, b.delivered = before, delivered
	return b
}

// write commits one batch and delivers its results. It reports false if another goroutine
// delivers them and ends the batch: there is more to write.
func (c *Committer) write(ctx context.Context, b *batch) bool {
	if b.empty() {
		b.awaitFormer()
		return true
	}
	result, err := c.commit(ctx, b)
	switch {
	case err != nil:
		c.bisect(ctx, b, err)
	case c.overlap(b):
		c.delivering.Go(func() {
			c.deliver(b, result)
			c.end(b)
		})
		return false
	default:
		c.deliver(b, result)
	}
	return true
}

// sayEvery is how often a line is logged while a batch is not written.
const sayEvery = time.Minute

// commit writes one batch and repeats it while the store is away or does not
// say what became of it. An error is the batch's own, or that ctx has ended.
func (c *Committer) commit(ctx context.Context, b *batch) (store.BatchResult, error) {
	var said time.Time // when the last line was logged
	tries := 0
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		result, err := c.attempt(ctx, b)
		if err == nil || ctx.Err() != nil {
			return result, err
		}
		if errors.Is(err, store.ErrClosed) {
			c.owner.StoreClosed(err)
			<-ctx.Done()
			return store.BatchResult{}, err
		}
		again := errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrTooLarge)
		if !again && !errors.Is(err, store.ErrUnknown) {
			return store.BatchResult{}, err
		}
		tries++
		if now := time.Now(); said.IsZero() || now.Sub(said) >= sayEvery {
			said = now
			c.cfg.Log.Error("committing; trying again",
				"error", err, "turns", len(b.turns), "commands", len(b.commands), "tries", tries)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return store.BatchResult{}, err
		}
	}
}

// attempt commits a batch once. A connection can fall silent without being cut, so the
// answer is not waited for without limit. The call is abandoned when all leases of the
// batch are lost, since its turns would be refused. It is abandoned at the latest after
// the length of a lease, or after a multiple of that if no answer had come after it before: the
// batch may be one that takes long. Then its outcome is unknown.
func (c *Committer) attempt(ctx context.Context, b *batch) (store.BatchResult, error) {
	patience := min(c.cfg.TTL<<min(b.abandoned, 20), max(longestPatience, c.cfg.TTL))
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.mu.Lock()
	c.inFlight, c.abandon = b, cancel
	c.mu.Unlock()
	if b.sent.IsZero() {
		b.sent = time.Now()
	}
	begun := time.Now()
	result, err := c.cfg.Store.Commit(limited, b.contents)
	c.mu.Lock()
	c.gathering.took = time.Since(begun)
	c.inFlight, c.abandon = nil, nil
	c.mu.Unlock()
	if err == nil {
		c.cfg.Batches.acknowledge(b.contents.No)
		c.widen()
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			b.abandoned++
		}
		err = fmt.Errorf("%w: no answer to a commit: %w", store.ErrUnknown, err)
	}
	return result, err
}

// bisect splits a batch that could not be committed until a turn or command that the
// store cannot take stands alone. If it was too large, the next ones are smaller.
func (c *Committer) bisect(ctx context.Context, b *batch, err error) {
	b.awaitFormer()
	part := func(turns []Turn, commands []Command) {
		p := c.newBatch(turns, commands)
		if p.empty() {
			return
		}
		if result, err := c.commit(ctx, p); err != nil {
			c.bisect(ctx, p, err)
		} else {
			c.deliver(p, result)
		}
	}
	switch {
	case errors.Is(err, store.ErrWentBack) && ctx.Err() == nil:
		// None of the batch is there, and no turn fits what is there. Commands do.
		c.owner.WentBack(b.contents.Last, err)
		for _, t := range b.turns {
			t.finish(store.TurnResult{Verdict: store.Fenced})
		}
		part(nil, b.commands)
	case ctx.Err() != nil:
		for _, p := range b.commands {
			p.Done(nil, store.Answer{}, 0, ErrNotOwner)
		}
	case len(b.turns)+len(b.commands) > 1:
		if errors.Is(err, store.ErrTooLarge) {
			c.narrow(b)
		}
		nt, nc := len(b.turns)/2, len(b.commands)/2
		if nt+nc == 0 {
			nt = len(b.turns) // one turn and one command
		}
		part(b.turns[:nt], b.commands[:nc])
		part(b.turns[nt:], b.commands[nc:])
	case len(b.turns) == 1:
		c.guilty(b.turns[0], err)
	default:
		b.commands[0].Done(nil, store.Answer{}, 0, err)
	}
}

// guilty decides about a turn that the store does not take although it is alone. It may be
// the store that takes nothing: then all runs would be stalled for a fault of the server. So
// the turn is put aside and tried again, and refused only if something else was written
// meanwhile, or, if the error is about the turn, after some tries.
func (c *Committer) guilty(t Turn, err error) {
	c.mu.Lock()
	written := c.written
	c.mu.Unlock()
	if t.tries++; t.tries == 1 {
		t.written = written
	}
	alone := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrDamaged)
	tried := t.tries > guiltyTries
	if others := written > t.written; others && (tried || t.tries > 1 && !alone) || tried && !alone {
		c.cfg.Log.Error("the store refuses a turn", "error", err, "run_no", t.Turn.Run, "tries", t.tries)
		t.finish(store.TurnResult{Verdict: store.Refused, Reason: err.Error()})
		return
	}
	c.cfg.Log.Error("the store does not take a turn; trying again", "error", err, "run_no", t.Turn.Run,
		"tries", t.tries)
	c.retryAlone(t)
}

// overlap lets the next batch go on its way before the results of this one are delivered.
// It reports false if there is none yet and they can be delivered at once.
func (c *Committer) overlap(b *batch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.hasFormer() && (!c.queued() || c.gathering.gathers(len(b.turns))) {
		return false
	}
	c.writing = false
	return true
}

// deliver hands the results of a batch to the callbacks, after those of the batch before:
// first all verdicts, then what the turns have sent, then the answers to commands.
func (c *Committer) deliver(b *batch, result store.BatchResult) {
	b.awaitFormer()
	c.cfg.Observe(b.sent, result.Now)
	c.mu.Lock()
	c.written++
	c.gathering.expect(goesOn(b, &result), time.Now())
	c.mu.Unlock()
	for i, t := range b.turns {
		if result.Turns[i].Verdict == store.Busy {
			c.retryAlone(t)
			continue
		}
		t.Done(result.Turns[i])
	}
	for i, t := range b.turns {
		c.logDropped(t.Turn, &result.Turns[i])
		c.owner.Sent(b.shards, t.Turn, &result.Turns[i], result.Now)
		if result.Turns[i].Verdict != store.Busy {
			t.Shard.TurnEnded()
		}
	}
	for i, p := range b.commands {
		if result.Commands[i].Outcome == store.Undecided {
			c.applyOutside(b.shards, p)
			continue
		}
		p.Done(b.shards, result.Commands[i], result.Now, nil)
	}
}

// end ends a batch that is delivered, and leaves it to the committer's goroutine to write
// more.
func (c *Committer) end(b *batch) {
	c.mu.Lock()
	close(b.delivered)
	if c.undelivered == b.delivered { // otherwise the next one is on its way, or being delivered
		c.undelivered, c.writing = nil, false
	}
	more := !c.writing && c.queued()
	c.mu.Unlock()
	if more {
		c.hint()
	}
}

// retryAlone requeues a Busy turn after a pause; it then gets a batch of its own. A
// transaction that an application has begun on the store's database, and has not ended,
// decides what becomes of it: it has started a run of the same ID, or sent an item of the
// same ID.
func (c *Committer) retryAlone(t Turn) {
	pause := min(busyPause<<min(t.leftOut, 10), busyMost)
	t.leftOut++
	c.owner.Go(func() {
		select {
		case <-time.After(pause):
			c.mu.Lock()
			c.turns = append(c.turns, t)
			c.mu.Unlock()
			c.hint()
		case <-c.ctx.Done(): // the turn is forgotten with its activation
		}
	})
}

// applyOutside applies an Undecided command outside of the batches, where it may wait for
// the transaction of an application that decides about it.
func (c *Committer) applyOutside(in *ownership.Shards, p Command) {
	c.owner.Go(func() {
		for {
			answers, now, err := c.cfg.Store.Apply(c.ctx, []store.Command{p.Command})
			switch {
			case err == nil:
				p.Done(in, answers[0], now, nil)
				return
			case c.ctx.Err() != nil:
				p.Done(nil, store.Answer{}, 0, ErrNotOwner)
				return
			case !errors.Is(err, store.ErrUnavailable):
				p.Done(nil, store.Answer{}, 0, err)
				return
			}
			c.cfg.Log.Warn("a command waits for a transaction; trying again", "error", err)
			select {
			case <-time.After(busyPause):
			case <-c.ctx.Done():
			}
		}
	})
}
