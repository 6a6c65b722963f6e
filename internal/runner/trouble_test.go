package runner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// often is tried for ever.
var often = Policy{Attempts: -1, First: 2 * time.Second, Factor: 1, Max: 2 * time.Second}

// stubborn is a harness on a run with one step that is tried for ever, beside
// others, and is paused after two failures.
func stubborn(t *testing.T, others ...string) *harness {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for _, name := range others {
			spawn(b, name, "long")
		}
		v, err := b.Step(Step{Call: at("s"), Policy: often})
		return result(string(v), err)
	})
	h.cfg.PauseAfter = 2
	h.play()
	return h
}

// wantPaused fails the test unless the run is paused in the store, so often, and
// the last time for a reason that has the text.
func (h *harness) wantPaused(times int, why string) {
	h.t.Helper()
	acts := h.j.audit
	if h.j.run.Marks&store.Paused == 0 || !h.r.Paused() || len(acts) != times {
		h.t.Fatalf("the run has the marks %q, and what was done to it is %+v; want it paused %d times", h.j.run.Marks,
			acts, times)
	}
	if last := acts[len(acts)-1]; last.Verb != "pause" || last.Who != stored.Engine || !strings.Contains(last.Why, why) ||
		h.j.run.Reason != "paused: "+last.Why {
		h.t.Fatalf("the run was paused by %+v, with the reason %q; want %q", last, h.j.run.Reason, why)
	}
}

// wantGoing fails the test if the run is paused or is going to be.
func (h *harness) wantGoing() {
	h.t.Helper()
	if h.j.run.Marks&store.Paused != 0 || h.r.Pausing() {
		h.t.Fatal("the run is paused")
	}
}

// resumed begins another activation of a run that was paused.
func (h *harness) resumed() {
	h.t.Helper()
	h.j.run.Marks &^= store.Paused
	h.j.run.Reason = ""
	h.crash()
	h.play()
}

func TestARunIsPausedAfterFailuresInARow(t *testing.T) {
	h := stubborn(t)
	h.fail("s", "no line")
	h.wantGoing()
	h.pass(2 * time.Second)
	h.fail("s", "line busy")
	h.wantPaused(1, "step s has failed 2 times, at last with: line busy")
	if at, _ := h.r.NextTimer(); at != 0 {
		t.Error("a timer is due in a run that is paused")
	}
	h.resumed()
	h.wantGoing()
	h.wantFlight() // its delay is not over
	h.pass(2 * time.Second)
	h.fail("s", "no line")
	h.wantGoing()
	h.pass(2 * time.Second)
	h.fail("s", "fire")
	h.wantPaused(2, "step s has failed 4 times, at last with: fire")
	h.resumed()
	h.pass(2 * time.Second)
	h.end("s", "v")
	h.want(store.Succeeded, "v")
}

// TestTheLastFailureOfAStepDoesNotPause: the code is told of it.
func TestTheLastFailureOfAStepDoesNotPause(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.cfg.PauseAfter = 2
	h.play()
	h.fail("s", "one")
	h.pass(time.Second)
	h.fail("s", "two")
	h.want(store.Failed, "step s failed after 2 attempts: two")
}

// TestAPauseForFailuresWaitsForOtherBodies, and is not forgotten if the process ends
// meanwhile; nor made twice if it ends afterwards.
func TestAPauseForFailuresWaitsForOtherBodies(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := stubborn(t, "other")
		h.fail("s", "no line")
		h.pass(2 * time.Second)
		h.fail("s", "line busy")
		if !h.r.Pausing() || h.j.run.Marks&store.Paused != 0 {
			t.Fatal("the run is not about to be paused")
		}
		if crash {
			h.crash()
			h.play() // the long body was lost, and none is executing
			h.wantPaused(1, "step s has failed 2 times")
		} else {
			h.end("other/long", "l")
			h.wantPaused(1, "step s has failed 2 times")
		}
		h.resumed()
		h.wantGoing()
		h.pass(2 * time.Second)
		h.end("s", "v")
		if crash {
			h.end("other/long", "l")
		}
		h.want(store.Succeeded, "v")
	}
}

// TestAPauseByAPersonStandsForTheOneForFailures: they are one pause.
func TestAPauseByAPersonStandsForTheOneForFailures(t *testing.T) {
	h := stubborn(t)
	h.fail("s", "no line")
	h.pass(2 * time.Second)
	h.r.Pause(h.j.send(store.Item{Kind: store.ItemPause, Name: "ada", Sent: h.clock}))
	h.fail("s", "line busy")
	if len(h.j.audit) != 1 || h.j.audit[0].Who != "ada" || h.j.run.Marks&store.Paused == 0 {
		t.Fatalf("what was done to the run is %+v", h.j.audit)
	}
	h.resumed()
	h.wantGoing()
}

// TestACancelGoesBeforeAPauseForFailures: the run is to end.
func TestACancelGoesBeforeAPauseForFailures(t *testing.T) {
	h := stubborn(t)
	h.fail("s", "no line")
	h.pass(2 * time.Second)
	it := h.j.send(store.Item{Kind: store.ItemCancel, Name: "ada", Sent: h.clock})
	h.r.Deliver(it)
	h.fail("s", "line busy")
	h.want(store.Cancelled, "")
	if len(h.j.audit) != 1 || h.j.audit[0].Verb != "cancel" {
		t.Errorf("what was done to the run is %+v", h.j.audit)
	}
}

// TestATerminateEndsARunThatIsToBePausedForFailures while another body is executing.
func TestATerminateEndsARunThatIsToBePausedForFailures(t *testing.T) {
	h := stubborn(t, "other")
	h.fail("s", "no line")
	h.pass(2 * time.Second)
	h.fail("s", "line busy")
	h.r.Terminate(h.j.send(store.Item{Kind: store.ItemTerminate, Name: "ada", Sent: h.clock}))
	h.play()
	if over := h.r.Over(); over == nil || over.Reason != "terminated" || h.j.run.Status != store.Cancelled {
		t.Errorf("the run is %s, over %+v", h.j.run.Status, h.r.Over())
	}
}

// TestACompensationPausesToo: undoing goes on when the run is resumed.
func TestACompensationPausesToo(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Step(Step{Call: at("s"), Policy: once, Undo: &Undo{Policy: often, Func: compensation.Func}})
		if err == nil {
			err = &stored.Failure{Code: stored.CodeError, Message: "sold out"}
		}
		return result("", err)
	})
	h.cfg.PauseAfter, h.cfg.UndoFailed = 1, true
	h.play()
	h.end("s", "v")
	h.fail("s/undo", "bank is closed")
	h.wantPaused(1, "undo s/undo has failed 1 times, at last with: bank is closed")
	if h.j.run.Marks&store.Undoing == 0 {
		t.Error("it is not being undone any more")
	}
	h.resumed()
	h.wantGoing()
	h.pass(2 * time.Second)
	h.end("s/undo", "")
	h.want(store.Failed, "sold out")
}

// TestAPendingPauseIsWithdrawn: by a resume, and by a cancel, which the code then sees.
// What has ended meanwhile is handed over, and what was held back begins.
func TestAPendingPauseIsWithdrawn(t *testing.T) {
	for _, kind := range []store.ItemKind{store.ItemResume, store.ItemCancel} {
		h := stubborn(t, "one", "two")
		h.r.Pause(h.j.send(store.Item{Kind: store.ItemPause, Name: "ada", Sent: h.clock}))
		h.play()
		h.end("one/long", "1") // recorded, and not handed over
		h.play()
		if !h.r.Pausing() || h.r.Paused() {
			t.Fatal("the run does not stand still")
		}
		it := h.j.send(store.Item{Kind: kind, Name: "bob", Sent: h.clock})
		if !h.r.WithdrawPause(it) {
			t.Fatalf("a %s does not withdraw the pause", kind)
		}
		if h.r.WithdrawPause(it) {
			t.Fatal("it is withdrawn twice")
		}
		h.r.Deliver(it)
		h.play()
		h.wantGoing()
		if kind == store.ItemCancel {
			h.want(store.Cancelled, "")
		} else {
			h.end("two/long", "2")
			h.end("s", "v")
			h.want(store.Succeeded, "v")
		}
		if len(h.j.audit) != 1 || h.j.audit[0].Verb != kind.String() {
			t.Errorf("what was done to the run is %+v", h.j.audit)
		}
		for _, e := range h.j.entries {
			if e.State == store.Done && e.Seq == 0 {
				t.Errorf("%q has no number", e.Loc)
			}
		}
	}
}

// TestAPauseIsWithdrawnWhenSeveralBranchesHaveEnded: the first one that is handed over wins, and what
// the others have recorded stands.
func TestAPauseIsWithdrawnWhenSeveralBranchesHaveEnded(t *testing.T) {
	for what, undo := range map[string]*Undo{
		"steps": nil,
		"steps with compensations": {Policy: once, Func: func(context.Context, *Body, []byte) BodyResult {
			return BodyResult{}
		}},
	} {
		for _, crash := range []bool{false, true} {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				var all []*Future
				for _, name := range []string{"one", "two", "three"} {
					all = append(all, b.Go(at(name), func(b *Branch) (any, error) {
						return b.Step(Step{Call: at("s"), Policy: once, Undo: undo})
					}))
				}
				won, err := b.Compose(at("race"), Race, all)
				if err != nil {
					return result("", err)
				}
				v, err := step(b, "last")
				return result(fmt.Sprint(won, " ", v), err)
			})
			h.play()
			h.r.Pause(h.j.send(store.Item{Kind: store.ItemPause, Name: "ada", Sent: h.clock}))
			h.play()
			h.end("two/s", "2")
			h.end("one/s", "1")
			h.play()
			if !h.r.Pausing() || h.r.Paused() {
				t.Fatalf("%s: the run does not stand still", what)
			}
			it := h.j.send(store.Item{Kind: store.ItemResume, Name: "bob", Sent: h.clock})
			if !h.r.WithdrawPause(it) {
				t.Fatalf("%s: the pause is not withdrawn", what)
			}
			h.r.Deliver(it)
			h.play()
			if undo != nil {
				h.end("three/s", "3")
			}
			if crash {
				h.crash()
				h.play()
			}
			h.end("last", "v")
			h.want(store.Succeeded, "1 v")
		}
	}
}

// TestAPauseForFailuresIsWithdrawn: the step goes on as if nothing had been, also after a
// crash.
func TestAPauseForFailuresIsWithdrawn(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := stubborn(t, "other")
		h.fail("s", "no line")
		h.pass(2 * time.Second)
		h.fail("s", "line busy")
		if !h.r.WithdrawPause(h.j.send(store.Item{Kind: store.ItemResume, Name: "bob", Sent: h.clock})) {
			t.Fatal("the pause is not withdrawn")
		}
		h.play()
		if crash {
			h.crash()
			h.play()
		}
		h.wantGoing()
		h.pass(2 * time.Second)
		h.end("s", "v")
		h.end("other/long", "l")
		h.want(store.Succeeded, "v")
	}
}
