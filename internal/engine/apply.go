package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Apply carries out commands. While this process holds shards it writes them in a group
// commit, and claims the runs that they make ready in the same commit.
func (e *Engine) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, error) {
	if x := e.executor.Load(); x != nil && !x.memory.Drains() {
		answers, err := x.apply(ctx, commands)
		if !errors.Is(err, committer.ErrNotOwner) {
			return answers, err
		}
	}
	sealed, err := e.cfg.Payloads.SealCommands(ctx, commands)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	answers, now, err := e.outsider.Apply(ctx, sealed)
	e.cfg.Payloads.OpenAnswers(ctx, answers)
	if err == nil {
		e.time.Observe(sent, now)
	}
	if x := e.executor.Load(); x != nil { // it began meanwhile
		x.appliedBeside(answers)
	}
	return answers, err
}

// appliedBeside acts on the answers to commands that did not go through the committer. The
// store does not report this process's own acts, so a claim is due. Until it has come, a run
// in memory gets no later item: those of a sender keep their order.
func (x *executor) appliedBeside(answers []store.Answer) {
	in := x.shards.Now()
	for i := range answers {
		run := &answers[i].Run
		if shard := in.Of(run.Shard); shard != nil {
			if a := x.memory.Find(run.No); a != nil && a.shard == shard {
				a.post(inboxUncertain{}) // if it is gone, the run is loaded with its inbox
			}
		}
	}
	x.dispatchers.claimSoon()
	for _, d := range x.dispatchers {
		x.hintLines(d, false)
	}
}

// SentOutside notes commands that a transaction of the caller carries, by their answers.
func (e *Engine) SentOutside(commands []store.Command, answers []store.Answer) {
	for i := range answers {
		if commands[i].Item != nil {
			e.outside.Add(answers[i].Run.No)
		}
	}
}

func (x *executor) apply(ctx context.Context, commands []store.Command) ([]store.Answer, error) {
	sealed, err := x.e.cfg.Payloads.SealCommands(ctx, commands)
	if err != nil {
		return nil, err
	}
	room := x.memory.Room()
	written := slices.Clone(sealed)
	for i := range written {
		if written[i].Claim = i < room && x.mayClaim(&commands[i]); written[i].Claim {
			x.e.stampBuild(written[i].Start)
		}
	}
	answers, err := x.committer.Apply(ctx, written, func(
		i int, in *ownership.Shards, answer *store.Answer, now store.Time,
	) {
		c := commands[i]
		c.Claim = written[i].Claim
		x.applied(in, &c, answer, now)
	})
	x.e.cfg.Payloads.OpenAnswers(ctx, answers)
	return answers, err
}

// applied acts on a command of this process that was committed: it activates the run that
// the command has claimed, posts its item to a run in memory, or requests a claim. in are
// the shards that were held at the commit. The committer calls it.
func (x *executor) applied(in *ownership.Shards, c *store.Command, answer *store.Answer, now store.Time) {
	if c.Start != nil {
		x.joined(in, c.Start, answer)
	}
	shard := in.Of(answer.Run.Shard)
	switch {
	case shard == nil, answer.Outcome != store.Applied && answer.Outcome != store.Duplicate:
	case c.Start != nil:
		x.started(shard, c.Start, answer)
	default:
		x.sentItem(in, shard, c.Item, answer, now)
	}
}

// started acts on a start. Only a run without a history, an inbox or a suspicion is known
// by the answer; others are loaded.
func (x *executor) started(shard *ownership.Shard, start *store.Start, answer *store.Answer) {
	run, claimed := &answer.Run, store.Time(0)
	if answer.Outcome == store.Applied && !answer.Repeated {
		claimed = 1 // it was not executed before
	}
	run.Input = start.Input // the answer has it as it is stored
	switch {
	case !answer.Claimed && run.Marks&store.Held != 0 && start.Queue != nil && start.Queue.Line != nil: // see joined
	case !answer.Claimed && run.WakeAt != 0:
		x.of(shard).wakeBy(run.WakeAt)
	case !answer.Claimed && run.Status == store.Queued:
		x.of(shard).claimSoon()
	case !answer.Claimed:
	case len(start.Items) > 0 || run.Suspect > 0 || start.Fork != nil || run.Incarnation > 0,
		x.e.code.IsShared(run.Workflow):
		if a := x.memory.Expect(shard, run.No); a != nil {
			a.claimed = claimed
			x.load(a)
		}
	default:
		if a := x.memory.Expect(shard, run.No); a != nil {
			a.claimed = claimed
			x.introduce(a, run)
			a.post(snapshotLoaded{&store.Snapshot{Run: *run}})
		}
	}
}

// sentItem acts on an item that was sent to a run. A run in memory gets the item itself,
// but only if the answer proves that it is new and comes in its order; otherwise a claim
// finds it.
func (x *executor) sentItem(
	in *ownership.Shards, shard *ownership.Shard, sent *store.Item, answer *store.Answer, now store.Time,
) {
	run := &answer.Run
	post := func(ev event) bool {
		a := x.memory.Find(run.No)
		return a != nil && a.shard == shard && a.post(ev)
	}
	if x.e.outside.Has(run.No) {
		post(inboxUncertain{})
	}
	item := *sent
	item.No, item.State, item.Sent = answer.Item, store.New, now
	switch {
	case answer.Outcome == store.Duplicate, answer.Repeated && !answer.Claimed, !run.Claimed:
		// It may have been received long ago, or be on its way here by a claim; or there was no room
		// for the run, and the next item, which claims it, is not to come first.
		if !post(inboxUncertain{}) {
			x.of(shard).claimSoon()
		}
	case answer.Claimed:
		claimed := &store.Claimed{New: true, Run: *run, Items: []store.Item{item}}
		if !x.of(shard).post(in, &runClaimed{Claimed: claimed, byCommand: true}, 0) {
			x.takeSince(shard, run.No, now)
		}
	case !post((*itemArrived)(&item)):
		x.of(shard).claimSoon()
	}
}
