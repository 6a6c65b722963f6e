package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// The acts of operators on runs: some are paused for a while; failed ones are tried again; some that have succeeded are
// rewound, forked, or get an equal result, once each. All of them come to the same ends as before.

// forkSuffix ends the ID of a fork, which carries out the program of its origin.
const forkSuffix = "-fork"

// maxRetries bounds how often a run is tried again. One that needs more is found to
// have failed in the end.
const maxRetries = 20

// pause pauses a run at a random moment. The goroutine that looks at the runs resumes it.
func (h *harness) pause(ctx context.Context, id string) error {
	if err := pause(ctx, rand.N(3*time.Second)); err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	granted, err := h.client.engine.Runs().Pause(ctx, id, stet.Act{Why: "torture"})
	switch {
	case granted:
		return h.client.acknowledge(line{Kind: ackVerb, Run: id, Key: "pause"})
	case errors.Is(err, stet.ErrNotFound):
		return fmt.Errorf("pause %s: %w", id, err)
	}
	return nil // not granted, or unknown: it is seen if it is paused
}

// resume resumes a run that was seen paused.
func (h *harness) resume(ctx context.Context, id string) error {
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.runs[id].resuming = false
	}()
	if err := pause(ctx, rand.N(500*time.Millisecond)); err != nil {
		return err
	}
	_, _, err := h.definite(ctx, id, "resume",
		func(ctx context.Context) (bool, error) { return h.client.engine.Runs().Resume(ctx, id, stet.Act{}) })
	return err
}

// definite repeats a request until it is decided, and logs it if it was granted. A repeated request may be carried out
// twice. One that is refused at last may have been carried out if an earlier answer was lost; unsure reports that.
func (h *harness) definite(ctx context.Context, id, verb string, ask func(context.Context) (bool, error)) (granted,
	unsure bool, err error) {
	for {
		granted, err := ask(ctx)
		switch {
		case granted: // even if the answer to an earlier request was lost
			h.report.count("done: "+verb, 1)
			return true, unsure, h.client.acknowledge(line{Kind: ackVerb, Run: id, Key: verb})
		case errors.Is(err, stet.ErrRefused), errors.Is(err, stet.ErrTerminal), errors.Is(err, stet.ErrExists):
			h.report.count("refused: "+verb, 1)
			return false, unsure, nil
		case ctx.Err() != nil:
			return false, unsure, ctx.Err()
		case !indefinite(err):
			return false, unsure, fmt.Errorf("%s %s: %w", verb, id, err)
		}
		unsure = true
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return false, unsure, err
		}
	}
}

// repair does something about a run that has ended, or nothing.
func (h *harness) repair(r *store.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, id := h.runs[r.ID], r.ID
	if known.poison || r.Status == store.Stalled {
		return
	}
	verb := ""
	switch choice := known.seed >> 8 % 6; {
	case r.Status == store.Failed && known.retries < maxRetries:
		known.retries++
		verb = "retry"
	case known.repaired:
	case r.Status != store.Succeeded:
	case choice < 2:
		verb = "rewind"
	case choice == 2:
		verb = "edit"
	case choice < 5 && !strings.HasSuffix(id, forkSuffix):
		verb = "fork"
	}
	if verb == "" {
		return
	}
	known.repaired = known.repaired || verb != "retry"
	known.ended, known.repairing = false, true
	h.live++
	h.attend(func(ctx context.Context) error {
		granted, unsure, err := h.definite(ctx, id, verb,
			func(ctx context.Context) (bool, error) { return h.ask(ctx, id, verb) })
		if verb == "retry" || verb == "rewind" {
			err = errors.Join(err, h.watched.effects.append(line{Kind: lineTaken, Process: h.client.name, Run: id}))
		}
		if granted && verb == "fork" {
			h.meet(id + forkSuffix)
			err = errors.Join(err, h.client.acknowledge(line{Kind: ackStart, Run: id + forkSuffix}))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		known.repairing, known.decided = false, h.looks
		switch {
		case !granted && !unsure:
		case verb == "retry" || verb == "rewind":
			h.offerAgain(known)
		case verb == "edit" && known.asked:
			known.taken = true // it lives again, and a cancel that came too late may be granted now
		}
		return err
	})
}

// ask requests the verb. A verb that reverts operations is logged before the request, so that executions afterwards may
// repeat earlier ones. It is logged again after the verdict, so that operations seen meanwhile may be gone.
func (h *harness) ask(ctx context.Context, id, verb string) (bool, error) {
	e := h.client.engine
	switch verb {
	case "edit":
		return h.edit(ctx, id)
	case "fork":
		return h.fork(ctx, id)
	}
	at, err := h.anyPlace(ctx, id)
	if err != nil {
		return false, err
	}
	taken := line{Kind: lineTaken, Process: h.client.name, Run: id, Key: takenAsked}
	if err := h.watched.effects.append(taken); err != nil {
		return false, err
	}
	if verb == "retry" {
		return e.Runs().Retry(ctx, id, stet.Act{Why: "torture"})
	}
	return e.Runs().Rewind(ctx, id, at, stet.Act{Why: "torture"})
}

// anyPlace returns a location of a run's history, or "/".
func (h *harness) anyPlace(ctx context.Context, id string) (string, error) {
	entries, err := h.client.engine.Runs().History(ctx, id, stet.HistoryQuery{})
	if err != nil || len(entries) == 0 || rand.IntN(4) == 0 {
		return "/", err
	}
	return entries[rand.IntN(len(entries))].Location, nil
}

// edit replaces the result of a step by itself.
func (h *harness) edit(ctx context.Context, id string) (bool, error) {
	entries, err := h.client.engine.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
	if err != nil {
		return false, err
	}
	for i := range entries {
		if _, ok, err := resultOf(&entries[i]); err != nil {
			return false, err
		} else if !ok {
			continue
		}
		var result stepResult
		if err := entries[i].Decode(&result); err != nil {
			return false, err
		}
		if result.Process != "" {
			return h.client.engine.Runs().EditResult(ctx, id, entries[i].Location, result, stet.Act{Why: "torture"})
		}
	}
	return false, fmt.Errorf("no step: %w", stet.ErrRefused)
}

// fork forks a run: from its beginning, or from anywhere if nothing is sent to it
// from outside, which would have to know what the fork has received already.
func (h *harness) fork(ctx context.Context, id string) (_ bool, err error) {
	h.mu.Lock()
	known := h.runs[id]
	h.mu.Unlock()
	at := "/"
	if known.alone() {
		if at, err = h.anyPlace(ctx, id); err != nil {
			return false, err
		}
	}
	_, err = h.client.engine.Runs().Fork(ctx, id, at, stet.Act{Why: "torture"}, stet.ID(id+forkSuffix))
	return err == nil || errors.Is(err, stet.ErrExists), err // it exists if the answer was lost
}

// alone reports whether nothing is sent to runs of the program.
func (p *program) alone() bool {
	for _, n := range p.nodes {
		switch n.kind {
		case kindReceive, kindSelect, kindPromise:
			return false
		}
	}
	return true
}

// offerAgain sends a run the messages that it may wait for again: their sender may have given up when the run had
// ended. The caller holds the lock.
func (h *harness) offerAgain(r *run) {
	r.taken = true
	h.attend(func(ctx context.Context) error { return h.client.sendAll(ctx, r.program, 0) })
	for token, node := range r.tokens {
		h.attend(func(ctx context.Context) error { return h.client.resolve(ctx, r.program, r.nodes[node], token, 0) })
	}
}

// takenBack counts how often a part of a run's history was reverted before a place of the log of effects.
func (x *executions) takenBack(run string, before int64) (n int) {
	for _, taking := range x.taken[run] {
		if taking.place < before {
			n++
		}
	}
	return n
}

// checkVerbs checks that granted requests are in the audits.
func (a *audit) checkVerbs(ctx context.Context, acks []placed) error {
	granted := map[string]map[string]int{} // by run and verb
	for _, ack := range acks {
		if ack.Kind != ackVerb || ack.Key == "fork" {
			continue
		}
		if granted[ack.Run] == nil {
			granted[ack.Run] = map[string]int{}
		}
		granted[ack.Run][ack.Key]++
	}
	for id, verbs := range granted {
		acts, err := a.client.engine.Runs().Audit(ctx, id)
		if err != nil {
			return err
		}
		done := map[string]int{}
		for i := range acts {
			done[acts[i].Verb]++
		}
		for verb, n := range verbs {
			if done[verb] < n {
				a.report.violated(acknowledgedLost, "run %s: %d times %s was granted, and its audit has it %d times",
					id, n, verb, done[verb])
			}
		}
	}
	return nil
}
