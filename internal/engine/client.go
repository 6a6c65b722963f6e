package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// ErrPending says that a request stands and nobody has decided it yet.
var ErrPending = errors.New("request pending")

// Slot returns the slot of a run's ID.
func (e *Engine) Slot(runID string) int {
	return int(xxhash.Sum64String(runID) % uint64(e.slots))
}

// Apply carries out commands. As the owner it writes them in a group commit and
// adopts the runs they make ready.
func (e *Engine) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, error) {
	if x := e.executor.Load(); x != nil && !x.draining() {
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
		x.claimSoon() // it began meanwhile; the store does not report this process's own acts
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
	room := x.room()
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
				x.wakeBy(run.WakeAt)
			} else if run.Status == store.Queued {
				x.claimSoon()
			}
		case len(c.Start.Items) > 0 || run.Suspect > 0 || c.Start.Fork != nil:
			x.take(h, run.No)
		default:
			if a := x.expect(h, run.No); a != nil {
				x.introduce(a, run)
				a.post(event{snapshot: &store.Snapshot{Run: *run}})
			}
		}
		return
	}
	if answer.Outcome == store.Duplicate || answer.Repeated && !answer.Claimed {
		// It may have been received long ago, or be on its way here by a claim.
		if a := x.find(run.No); a == nil || a.shard != h || !a.post(event{behind: true}) {
			x.claimSoon()
		}
		return
	}
	item := *c.Item
	item.No, item.State, item.Sent = answer.Item, store.New, now
	if answer.Claimed {
		claimed := &store.Claimed{New: true, Run: *run, Items: []store.Item{item}}
		if !x.tell(in, event{claimed: claimed, adopted: true}, 0) {
			x.take(h, run.No)
		}
		return
	}
	// A run that is not in hand has to be claimed, though it be in memory.
	if a := x.find(run.No); a == nil || a.shard != h || !run.Claimed || !a.post(event{item: &item}) {
		x.claimSoon()
	}
}

// ended tells who waits for the end of a run.
func (e *Engine) ended(run store.Run) {
	e.told(run.ID, run)
	e.feeds.tell(run.No)
}

// answered tells who waits for the verdicts in a committed turn.
func (e *Engine) answered(consumed []store.Consumption) {
	for _, c := range consumed {
		if c.Verdict == nil {
			continue
		}
		e.mu.Lock()
		w := e.verdicts[c.Item]
		delete(e.verdicts, c.Item)
		e.mu.Unlock()
		if w != nil {
			w <- c.Verdict
		}
	}
}

// Wait returns the run once it has ended or stalled; until then it blocks. The
// error is store.ErrNotFound's likeness: ok is false if there is no such run.
func (e *Engine) Wait(ctx context.Context, runID string) (run store.Run, ok bool, err error) {
	w := make(chan store.Run, 1)
	register := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ends[runID] = append(e.ends[runID], w)
	}
	register()
	defer e.forget(runID, w)
	var unwatch func()
	defer func() {
		if unwatch != nil {
			unwatch()
		}
	}()
	for first := true; ; first = false {
		// The end of a run of this process is told; the poll is for a shard that is
		// lost meanwhile.
		if first && e.inMemory(runID) {
			goto wait
		}
		if unwatch == nil && (!e.Owner() || e.slots > 1 && !e.holds(run.Shard)) {
			unwatch = e.watch(runID)
		}
		if run, ok, err = e.lookups.read(ctx, runID); err != nil || !ok {
			return run, ok, err
		}
		if over(&run) {
			return run, true, nil
		}
	wait:
		select {
		case run := <-w:
			if run.No != 0 {
				return run, true, nil
			}
			register()
		case <-time.After(e.cfg.Poll):
		case <-ctx.Done():
			return run, true, context.Cause(ctx)
		}
	}
}

// inMemory reports whether the run is being executed by this process now.
func (e *Engine) inMemory(runID string) bool {
	x := e.executor.Load()
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ids[runID]
}

func (e *Engine) forget(runID string, w chan store.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiters := e.ends[runID]
	for i := range waiters {
		if waiters[i] == w {
			waiters = append(waiters[:i], waiters[i+1:]...)
			break
		}
	}
	if len(waiters) == 0 {
		delete(e.ends, runID)
		return
	}
	e.ends[runID] = waiters
}

// getAll returns those runs that are there, with their input, output and waits.
func (e *Engine) getAll(ctx context.Context, ids []string) ([]store.Run, error) {
	page, err := e.cfg.Store.List(ctx, store.Filter{IDs: ids, Limit: len(ids), Values: true})
	return page.Runs, err
}

// Get returns a run with its input, output and waits.
func (e *Engine) Get(ctx context.Context, runID string) (store.Run, bool, error) {
	page, err := e.cfg.Store.List(ctx, store.Filter{IDs: []string{runID}, Limit: 1, Values: true})
	if err != nil || len(page.Runs) == 0 {
		return store.Run{}, false, err
	}
	return page.Runs[0], true, nil
}

func pending(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrPending, context.Cause(ctx)) }

// Verdict waits for the owner's answer to a verb that was applied as item no
// with the given item ID. ErrPending: ctx has ended before; the request stands.
func (e *Engine) Verdict(ctx context.Context, run store.RunNo, no store.ItemNo, itemID string) ([]byte, error) {
	w := make(chan []byte, 1)
	e.mu.Lock()
	e.verdicts[no] = w
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.verdicts, no)
		e.mu.Unlock()
	}()
	unlisten := e.hub.listen()
	defer unlisten()
	for {
		changed := e.hub.wait()
		items, err := e.cfg.Store.Inbox(ctx, run, itemID)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && len(items) == 1 && items[0].State == store.Consumed && items[0].Verdict != nil:
			return items[0].Verdict, nil
		}
		select {
		case verdict := <-w:
			return verdict, nil
		case <-changed:
		case <-time.After(e.cfg.Poll):
		case <-ctx.Done():
			return nil, pending(ctx)
		}
	}
}
