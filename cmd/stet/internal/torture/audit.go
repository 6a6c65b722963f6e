package torture

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// audit compares the logs with the store at rest.
type audit struct {
	*harness
	executions *executions
	facts      facts
	lines      []placed // of the log of effects
	stored     map[string]*store.Run
	outputs    map[string]*output // of the runs that have succeeded
	// Places where history that was seen may be gone: loops of runs, and the runs' incarnations.
	loops        map[operation]bool
	incarnations map[string]int
}

// check checks everything. An error says that it could not.
func (a *audit) check(ctx context.Context) error {
	effects, err := readJournal(a.effects)
	if err != nil {
		return err
	}
	a.lines = effects
	acks, err := readJournal(a.acks)
	if err != nil {
		return err
	}
	if err := a.readRuns(ctx); err != nil {
		return err
	}
	a.facts = facts{Pauses: a.pauses, Made: a.queues.since, Shards: map[string]string{}}
	for id, r := range a.stored {
		a.facts.Shards[id] = r.Shard.String()
	}
	for id, r := range a.stored {
		if err := a.checkRun(ctx, r, a.runs[id]); err != nil {
			return err
		}
	}
	if err := a.checkStalls(ctx); err != nil {
		return err
	}
	if err := a.checkAcks(ctx, acks); err != nil {
		return err
	}
	if err := errors.Join(a.checkVerbs(ctx, acks), a.checkBrief(ctx), a.checkQueues(ctx), a.checkSchedules(ctx),
		a.checkTopics(ctx), a.checkUpdates(ctx, acks), a.checkTrips(ctx), a.checkReaders(ctx)); err != nil {
		return err
	}
	a.executions = a.facts.judge(a.report, a.lines)
	a.checkSightings()
	a.report.count("runs", len(a.stored))
	return a.facts.write(filepath.Join(filepath.Dir(a.effects), factsFile))
}

// readRuns reads all runs of this torture.
func (a *audit) readRuns(ctx context.Context) error {
	a.loops, a.incarnations = map[operation]bool{}, map[string]int{}
	a.stored, a.outputs = map[string]*store.Run{}, map[string]*output{}
	f := store.Filter{IDPrefix: fmt.Sprintf("%s%016x-", prefix, a.cfg.Seed), Limit: 1000, Values: true}
	for {
		page, err := a.db.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			a.stored[page.Runs[i].ID] = &page.Runs[i]
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}

// stalled notes a run that is stalled, to be judged with the log.
func (a *audit) stalled(r *store.Run, what string, args ...any) {
	a.facts.Stalled = append(a.facts.Stalled, stalledRun{fmt.Sprintf(what, args...), r.Shard.String(), r.Reason})
}

// checkStalls looks for runs that are stalled, whose parents may therefore wait. Those that others look at are found
// there.
func (a *audit) checkStalls(ctx context.Context) error {
	f := store.Filter{Workflows: []string{childRef.Name(), briefRef.Name(), limitedRef.Name(), tickRef.Name(),
		listenerRef.Name()}, Statuses: []store.Status{store.Stalled}, Limit: store.MaxPage}
	page, err := a.db.List(ctx, f)
	for i := range page.Runs {
		r := &page.Runs[i]
		a.stalled(r, "run %s of %s", r.ID, r.Workflow)
	}
	return err
}

// checkRun checks how a run has ended, and its history.
func (a *audit) checkRun(ctx context.Context, r *store.Run, known *run) error {
	a.report.count("runs: "+r.Status.String(), 1)
	switch {
	case known == nil:
		a.report.violated(unexpectedErrors, "run %s was not in a listing before", r.ID)
		return nil
	case known.poison:
		if r.Status != store.Stalled {
			a.report.violated(poisonAlive, "run %s, which kills its process, is %s after %d suspicions and %d strikes",
				r.ID, r.Status, r.Suspect, r.Strikes)
		}
		return nil
	case r.Status == store.Stalled:
		a.stalled(r, "run %s", r.ID)
	case !r.Status.Terminal():
		a.report.violated(stuck, "run %s is %s since %s, claimed %t, wakes %s, waits for %s",
			r.ID, r.Status, r.Created, r.Claimed, r.WakeAt, r.Waits)
	case r.Status == store.Failed:
		a.report.violated(wrongResults, "run %s has failed: %s", r.ID, r.Output)
	case r.Status == store.Cancelled && !known.asked:
		a.report.violated(wrongResults, "run %s is cancelled without a request: %s", r.ID, r.Reason)
	case r.Status == store.Succeeded:
		if err := a.checkOutput(ctx, known.program); err != nil {
			return err
		}
	}
	if !known.taken && !strings.HasSuffix(r.ID, forkSuffix) { // otherwise it repeats items, or begins in the middle
		if err := a.checkStream(ctx, r); err != nil {
			return err
		}
	}
	a.incarnations[r.ID] = r.Incarnation
	a.report.count("continued as new", r.Incarnation)
	if r.Status.Terminal() {
		if err := a.checkChildren(ctx, r); err != nil {
			return err
		}
	}
	return a.checkSteps(ctx, r)
}

// checkSteps checks the entries of a run's steps.
func (a *audit) checkSteps(ctx context.Context, r *store.Run) error {
	runID := r.ID
	a.facts.Shards[runID] = r.Shard.String() // of children too
	entries, err := a.client.engine.Runs().History(ctx, runID, stet.HistoryQuery{Values: true})
	if err != nil {
		return err
	}
	a.report.count("entries", len(entries))
	if r.Status.Terminal() && r.Workflow != tripRef.Name() {
		a.checkUndone(r, entries)
	}
	if known := a.runs[runID]; a.shared() && (known == nil || !known.taken) && !strings.HasSuffix(runID, forkSuffix) {
		checkBuilds(a.report, runID, workOf(entries))
	}
	for i := range entries {
		if entries[i].Kind == store.KindLoop {
			a.loops[operation{runID, entries[i].Location}] = true
		}
		result, ok, err := resultOf(&entries[i])
		if err != nil {
			return fmt.Errorf("result of %s in run %s: %w", entries[i].Location, runID, err)
		}
		if ok && result.Process != "" {
			a.facts.Recorded = append(a.facts.Recorded, recordedStep{runID, entries[i].Location, result})
		}
	}
	return nil
}

// checkOutput compares a result with the one that follows from the seed.
func (a *audit) checkOutput(ctx context.Context, p *program) error {
	out, err := treeRef.Handle(a.client.engine, p.runID).Wait(ctx)
	if err != nil {
		return err
	}
	a.outputs[p.runID] = &out
	want, err := p.expected(&out.choices)
	switch {
	case err != nil:
		a.report.violated(wrongResults, "run %s: %v", p.runID, err)
	case out.Value != want:
		a.report.violated(wrongResults, "run %s: expected %d, found %d", p.runID, want, out.Value)
	}
	for _, id := range out.Early {
		a.report.violated(earlyTimers, "run %s: by its own time %s was over before its end", p.runID, p.nodes[id].name())
	}
	if out.Spoiled != "" {
		a.report.violated(wrongResults, "run %s: the large result of step %s has come back as another", p.runID, out.Spoiled)
	}
	for _, id := range out.Reordered {
		a.report.violated(wrongResults, "run %s: %s has found another order than the one that is recorded",
			p.runID, p.nodes[id].name())
	}
	return nil
}

// checkAcks checks that everything that was acknowledged is there.
func (a *audit) checkAcks(ctx context.Context, acks []placed) error {
	for _, ack := range acks {
		a.report.count("acknowledged: "+ack.Kind, 1)
		if ack.Kind == ackAccount || ack.Kind == ackUpdate {
			continue // checkUpdates
		}
		r := a.stored[ack.Run]
		if r == nil {
			a.report.violated(acknowledgedLost, "%s of run %s, acknowledged to %s: there is no such run",
				ack.Kind, ack.Run, ack.Process)
			continue
		}
		switch known := a.runs[ack.Run]; {
		case known == nil || !known.taken || ack.Kind == ackSend:
		default:
			continue // it has gone on since, perhaps with another promise
		}
		switch ack.Kind {
		case ackSend:
			if err := a.checkSent(ctx, r, ack.line); err != nil {
				return err
			}
		case ackResolve:
			out := a.outputs[r.ID]
			if out == nil {
				continue
			}
			if got, ok := out.Promised[ack.Node]; ok && got != ack.Value {
				a.report.violated(acknowledgedLost, "run %s: promise %d was resolved with %d, and has got %d",
					r.ID, ack.Node, ack.Value, got)
			}
		case ackCancel:
			if r.Status.Terminal() && r.Status != store.Cancelled {
				a.report.violated(acknowledgedLost, "run %s: its cancel was granted, and it has %s", r.ID, r.Status)
			}
		case ackEnd:
			if ack.Status != r.Status.String() || ack.Value != textHash(string(r.Output)) {
				a.report.violated(acknowledgedLost, "run %s: it was seen %s, and is %s, perhaps with another result",
					r.ID, ack.Status, r.Status)
			}
		}
	}
	return nil
}

// checkSent looks for the item of an acknowledged message, which stays after it
// was received. Its ID has its name, and the key, which begins with the name.
func (a *audit) checkSent(ctx context.Context, r *store.Run, ack line) error {
	name, _, _ := strings.Cut(ack.Key, "/")
	items, err := a.db.Inbox(ctx, r.No, fmt.Sprintf("m:%d:%s:%s", len(name), name, ack.Key))
	if err != nil {
		return err
	}
	if len(items) != 1 {
		a.report.violated(acknowledgedLost, "run %s: message %s was sent by %s, and is in the inbox %d times",
			r.ID, ack.Key, ack.Process, len(items))
	}
	return nil
}

// checkSightings checks that completed steps that were seen have not changed.
func (a *audit) checkSightings() {
	a.report.count("steps seen done on the way", len(a.watched.seen))
	for at, seen := range a.watched.seen {
		now, ok := a.executions.recorded[at]
		if a.executions.takenBack(at.run, math.MaxInt64) > a.executions.takenBack(at.run, seen.from) {
			a.report.count("steps seen done that may have been taken back", 1)
			continue
		}
		if !ok && a.mayBeGone(at) {
			a.report.count("steps seen done that were pruned", 1)
		} else if now != seen.result {
			a.report.violated(acknowledgedLost, "run %s: %s was seen done with %+v, and is %+v",
				at.run, at.location, seen.result, now)
		}
		a.executions.checkAfter(a.report, at, seen.place, "it was seen done")
	}
}

// mayBeGone reports whether the history of a step may have been pruned by its loop,
// or left behind with an incarnation.
func (a *audit) mayBeGone(at operation) bool {
	if a.incarnations[at.run] > 0 {
		return true
	}
	loc, err := location.Parse(at.location)
	if err != nil {
		return false
	}
	for loop := range loc.Loops() {
		if a.loops[operation{at.run, loop.String()}] {
			return true
		}
	}
	return false
}
