package runner

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestStepsOneAfterTheOther(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		first, err := step(b, "first")
		if err != nil {
			return result("", err)
		}
		return result(step(b, "after-"+first))
	})
	h.play()
	h.wantFlight("first")
	h.end("first", "one")
	h.wantFlight("after-one")
	h.end("after-one", "two")
	h.want(store.Succeeded, "two")
	h.wantOrder("first", "after-one")
	h.replays()
}

func TestRunWithoutOperations(t *testing.T) {
	h := newHarness(t, func(*Branch) ([]byte, *stored.Failure) { return text("done") })
	h.play()
	h.want(store.Succeeded, "done")
	if h.j.turns != 1 {
		t.Errorf("it takes %d turns, want 1", h.j.turns)
	}
	h.replays()
}

// The last step and the end of the run share one commit.
func TestLastStepAndEndAreOneTurn(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "only")) })
	h.play()
	before := h.j.turns
	h.end("only", "v")
	h.want(store.Succeeded, "v")
	if got := h.j.turns - before; got != 1 {
		t.Errorf("the end takes %d turns, want 1", got)
	}
}

func TestStepIsRetriedAfterItsFailureIsDurable(t *testing.T) {
	var causes []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("flaky"), Policy: Policy{Attempts: 3, First: time.Minute, Factor: 2, Max: time.Hour}})
		var f *stored.Failure
		if errors.As(err, &f) {
			for _, c := range f.Causes {
				causes = append(causes, c.Message)
			}
		}
		return result(string(v), err)
	})
	h.play()
	h.fail("flaky", "one")
	h.wantFlight() // waits for its second attempt
	if e, _ := h.j.at("flaky"); e.State != store.Open || e.Attempt != 1 || e.Wake != birth.Add(time.Minute) {
		t.Fatalf("the failed attempt is recorded as %+v", e)
	}
	if h.j.run.Status != store.Suspended || h.j.run.WakeAt != stored.WakeAt(birth.Add(time.Minute)) {
		t.Fatalf("the run is %s and wakes %s", h.j.run.Status, h.j.run.WakeAt)
	}
	h.crash()
	h.play()
	h.pass(time.Minute)
	if len(h.flight) != 1 || h.flight[0].Attempt != 2 {
		t.Fatalf("in flight is %+v, want attempt 2", h.flight)
	}
	h.fail("flaky", "two")
	h.pass(2 * time.Minute)
	h.fail("flaky", "three")
	h.want(store.Failed, "step flaky failed after 3 attempts: three")
	if want := []string{"one", "two", "three"}; !slices.Equal(causes, want) {
		t.Errorf("the causes are %q, want %q", causes, want)
	}
	h.replays()
}

func TestNextAttemptWaitsForTheRecordOfTheLast(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: Policy{Attempts: 2, Factor: 1}})
		return result(string(v), err)
	})
	h.play()
	b := h.flight[0]
	h.flight = nil
	h.r.Complete(b.ID, 1, &BodyResult{Failure: &stored.Failure{Code: stored.CodeError, Message: "no"}})
	h.advance()
	h.start()
	h.wantFlight()
	h.take()
	h.start()
	h.wantFlight()
	h.commit()
	h.start()
	h.wantFlight("s")
}

// A run that has failed begins nothing that was asked for before.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		spawn(b, "x", "s")
		if _, err := step(b, "first"); err != nil {
			return result("", err)
		}
		spawn(b, "y", "s")
		_, _ = b.Await(at("z"), b.Go(at("z"), func(b *Branch) (any, error) { return step(b, "") }))
		return text("")
	})
	h.play()
	h.wantFlight("first", "x/s")
	h.end("first", "")
	h.want(store.Failed, "misuse")
	h.wantFlight("x/s")
}

// An attempt that was lost with its process has no record and is not counted.
func TestLostAttemptIsNotCounted(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("flaky"), Policy: twice})
		return result(string(v), err)
	})
	h.play()
	key := h.flight[0].Key()
	h.crash()
	h.play()
	if b := h.flight[0]; b.Attempt != 1 || b.Key() != key {
		t.Fatalf("after the crash the attempt is %d with key %s, want 1 with %s", b.Attempt, b.Key(), key)
	}
	h.end("flaky", "v")
	h.want(store.Succeeded, "v")
}

func TestFailureThatIsFinalIsNotRetried(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.play()
	h.complete("s", BodyResult{Failure: &stored.Failure{Code: stored.CodeError, Message: "no"}, Final: true})
	h.want(store.Failed, "step s failed: no")
}

func TestOverallTimeEndsTheAttempts(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: Policy{Attempts: -1, First: time.Minute, Factor: 1, Max: time.Minute,
			Overall: 90 * time.Second}})
		return result(string(v), err)
	})
	h.play()
	if d := h.flight[0].Deadline; d != birth.Add(90*time.Second) {
		t.Fatalf("the deadline of the first attempt is %s", d)
	}
	h.fail("s", "one")
	h.pass(time.Minute)
	if d := h.flight[0].Deadline; d != birth.Add(90*time.Second) {
		t.Fatalf("the deadline of the second attempt is %s", d)
	}
	h.fail("s", "two")
	h.want(store.Failed, "after 2 attempts: two")
}

// Only the current attempt's result is accepted, and only once.
func TestResultOfAnOldAttemptIsDropped(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.play()
	id := h.flight[0].ID
	h.fail("s", "timeout")
	h.pass(time.Second)
	h.r.Complete(id, 1, &BodyResult{Value: []byte("late")})
	h.play()
	h.wantFlight("s")
	h.end("s", "in time")
	h.r.Complete(id, 2, &BodyResult{Value: []byte("again")})
	h.want(store.Succeeded, "in time")
}

func TestHeartbeatIsThereInTheNextAttempt(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		v, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result(string(v), err)
	})
	h.cfg.Limits.Value = 100
	h.play()
	id := h.flight[0].ID
	if !h.r.Heartbeat(id, 1, []byte("half")) {
		t.Fatal("the current attempt's heartbeat is refused")
	}
	if !h.r.Heartbeat(id, 1, make([]byte, 101)) {
		t.Fatal("a heartbeat with a large detail is refused")
	}
	h.play()
	h.crash()
	h.play()
	if got := string(h.flight[0].Detail); got != "half" {
		t.Fatalf("after a crash the detail is %q", got)
	}
	h.fail("s", "no")
	h.pass(time.Second)
	if got := string(h.flight[0].Detail); got != "half" {
		t.Fatalf("in the second attempt the detail is %q", got)
	}
	if h.r.Heartbeat(id, 1, []byte("late")) {
		t.Error("an old attempt's heartbeat is accepted")
	}
}
