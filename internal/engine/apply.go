package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Apply carries out commands. As the owner it writes them in a group commit and
// adopts the runs they make ready.
func (e *Engine) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, error) {
	if x := e.executor.Load(); x != nil && !x.memory.drains() {
		answers, err := x.apply(ctx, commands)
		if !errors.Is(err, committer.ErrNotOwner) {
			return answers, err
		}
	}
	answers, now, err := e.cfg.Store.Apply(ctx, commands)
	if err == nil {
		e.time.observe(now)
	}
	if x := e.executor.Load(); x != nil {
		x.dispatcher.claimSoon() // it began meanwhile; the store does not report this process's own acts
	}
	return answers, err
}

// applied is the answer to one of several commands.
type applied struct {
	index  int
	answer store.Answer
	err    error
}

func (x *executor) apply(ctx context.Context, commands []store.Command) ([]store.Answer, error) {
	sealed, err := x.e.cfg.Payloads.SealCommands(ctx, commands)
	if err != nil {
		return nil, err
	}
	room := x.memory.room()
	results := make(chan applied, len(commands))
	pending := make([]committer.Command, len(commands))
	for i, c := range commands {
		c.Claim = i < room && x.adopts(&c)
		written := sealed[i]
		if written.Claim = c.Claim; c.Claim {
			x.e.brand(written.Start)
		}
		done := func(in *ownership.Shards, answer store.Answer, now store.Time, err error) {
			if err == nil {
				x.adopt(in, &c, &answer, now)
			}
			results <- applied{i, answer, err}
		}
		pending[i] = committer.Command{Command: written, Done: done}
	}
	if !x.committer.SubmitCommands(pending) {
		return nil, committer.ErrNotOwner
	}
	answers := make([]store.Answer, len(commands))
	var failed error
	for range commands {
		select {
		case r := <-results:
			answers[r.index] = r.answer
			if r.err != nil && failed == nil {
				failed = r.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
		}
	}
	x.e.cfg.Payloads.OpenAnswers(ctx, answers)
	return answers, failed
}

// adopt takes up a run that a command of this process has made ready, or tells
// it what has come. in is the hand with which it was committed. The committer calls
// it.
func (x *executor) adopt(in *ownership.Shards, c *store.Command, answer *store.Answer, now store.Time) {
	run := &answer.Run
	h := in.Of(run.Shard)
	if h == nil || answer.Outcome != store.Applied && answer.Outcome != store.Duplicate {
		return
	}
	if c.Start != nil {
		if run.Incarnation == 0 {
			run.Input = c.Start.Input // and not as it is stored
		}
		switch {
		case !answer.Claimed:
			if run.WakeAt != 0 {
				x.dispatcher.wakeBy(run.WakeAt)
			} else if run.Status == store.Queued {
				x.dispatcher.claimSoon()
			}
		case len(c.Start.Items) > 0 || run.Suspect > 0 || c.Start.Fork != nil:
			x.take(h, run.No)
		default:
			if a := x.memory.expect(h, run.No); a != nil {
				x.memory.introduce(a, run)
				a.post(snapshotLoaded{&store.Snapshot{Run: *run}})
			}
		}
		return
	}
	if answer.Outcome == store.Duplicate || answer.Repeated && !answer.Claimed {
		// It may have been received long ago, or be on its way here by a claim.
		if a := x.memory.find(run.No); a == nil || a.shard != h || !a.post(inboxUncertain{}) {
			x.dispatcher.claimSoon()
		}
		return
	}
	item := *c.Item
	item.No, item.State, item.Sent = answer.Item, store.New, now
	if answer.Claimed {
		claimed := &store.Claimed{New: true, Run: *run, Items: []store.Item{item}}
		if !x.dispatcher.post(in, &runClaimed{Claimed: claimed, byCommand: true}, 0) {
			x.take(h, run.No)
		}
		return
	}
	// A run that is not in hand has to be claimed, though it be in memory.
	if a := x.memory.find(run.No); a == nil || a.shard != h || !run.Claimed || !a.post((*itemArrived)(&item)) {
		x.dispatcher.claimSoon()
	}
}
