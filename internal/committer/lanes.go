package committer

import (
	"context"
	"fmt"
	"sync"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Lanes are the committers of a process, one for each server of its store. None of them
// waits for another.
type Lanes struct {
	All []*Committer
	// LaneOf returns the index of the lane that has a shard, and Lane that of a command's run.
	LaneOf func(slot int) int
	Lane   func(*store.Command) int
}

// of returns the committer of a shard.
func (l *Lanes) of(shard *ownership.Shard) *Committer {
	if len(l.All) == 1 {
		return l.All[0]
	}
	return l.All[l.LaneOf(shard.ID().Slot)]
}

// SubmitTurn is Committer.SubmitTurn.
func (l *Lanes) SubmitTurn(t Turn) { l.of(t.Shard).SubmitTurn(t) }

// SubmitCommands is Committer.SubmitCommands. It reports false if a lane takes no more: of
// the commands some may then be written all the same.
func (l *Lanes) SubmitCommands(commands []Command) bool {
	if len(l.All) == 1 {
		return l.All[0].SubmitCommands(commands)
	}
	parts := make([][]Command, len(l.All))
	for _, c := range commands {
		lane := l.Lane(&c.Command)
		parts[lane] = append(parts[lane], c)
	}
	for i, part := range parts {
		if len(part) > 0 && !l.All[i].SubmitCommands(part) {
			return false
		}
	}
	return true
}

// Apply writes commands, in their stored form, and returns their answers, with the first error
// that one has caused. It calls applied with each answer, from any goroutine. ErrNotOwner: a
// lane takes no more.
func (l *Lanes) Apply(
	ctx context.Context, commands []store.Command,
	applied func(i int, in *ownership.Shards, answer *store.Answer, now store.Time),
) ([]store.Answer, error) {
	type indexed struct {
		index  int
		answer store.Answer
		err    error
	}
	results := make(chan indexed, len(commands)) // room for all: nobody waits for one that gives up
	pending := make([]Command, len(commands))
	for i, c := range commands {
		pending[i] = Command{Command: c, Done: func(in *ownership.Shards, answer store.Answer, now store.Time, err error) {
			if err == nil {
				applied(i, in, &answer, now)
			}
			results <- indexed{i, answer, err}
		}}
	}
	if !l.SubmitCommands(pending) {
		return nil, ErrNotOwner
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
	return answers, failed
}

// ShardsLost is Committer.ShardsLost of all.
func (l *Lanes) ShardsLost() {
	for _, c := range l.All {
		c.ShardsLost()
	}
}

// Idle reports whether all are.
func (l *Lanes) Idle() bool {
	for _, c := range l.All {
		if !c.Idle() {
			return false
		}
	}
	return true
}

// Run is Committer.Run of all.
func (l *Lanes) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range l.All[1:] {
		running.Go(func() { c.Run(ctx) })
	}
	l.All[0].Run(ctx)
	running.Wait()
}
