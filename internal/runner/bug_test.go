package runner

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// TestBugsStallAndGoOn: random programs, cut at random points, panic now and then where
// they should not, and are fixed. Each bug stalls the run, and the fixed code goes on as if
// there had been none: nothing is shown twice or lost, executed again or undone, and the
// whole history replays.
func TestBugsStallAndGoOn(t *testing.T) {
	seed := seedOf(t)
	stopped, cuts := 0, 0
	for i := range count(t, 2000) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		d := newDriver(t, generate(random, 4+random.IntN(25)), random)
		d.cfg.FailBugs = false
		d.bugs = 1 + random.IntN(3)
		d.shows = random.IntN(2) == 0
		d.cruel = random.IntN(4) == 0
		often := 3 + random.IntN(40)
		over := d.run(func() bool { return random.IntN(often) == 0 })
		d.bugs = 0
		cuts, stopped = cuts+d.cuts, stopped+d.stopped
		if d.shows && !d.j.cancelSeen() {
			d.shownAll(t, i)
		}
		if problem := d.verify(over); problem != "" {
			t.Fatalf("program %d, stopped %d times: %s", i, d.stopped, problem)
		}
	}
	t.Logf("%d stalls, %d cuts", stopped, cuts)
	if stopped == 0 || cuts == 0 {
		t.Error("something of this never happened")
	}
}

// cancelSeen reports whether the code has seen a cancel: what it shows because of that, and
// before the next completion, may be lost if it stalls then.
func (d *durable) cancelSeen() bool {
	_, seen := d.entries[string(cancelLocation)]
	return seen
}

// stalls makes a harness whose bugs stall the run.
func stalls(t *testing.T, code func(*Branch) ([]byte, *stored.Failure)) *harness {
	h := newHarness(t, code)
	h.cfg.FailBugs = false
	return h
}

// wantBug fails the test unless the run has stalled for the cause, and records no more
// than entries.
func (h *harness) wantBug(cause stored.Cause, text string, entries int) {
	h.t.Helper()
	got := stored.CauseOf(&h.j.run)
	if got != cause || !strings.Contains(h.j.run.Reason, text) || len(h.j.entries) != entries {
		h.t.Fatalf("the run is %s for %q: %s, with %d entries; want %q: %s, with %d", h.j.run.Status, got, h.j.run.Reason,
			len(h.j.entries), cause, text, entries)
	}
}

// fixed resumes a stalled run with other code.
func (h *harness) fixed(code func(*Branch) ([]byte, *stored.Failure)) {
	h.leave()
	h.code = code
	h.j.run.Status, h.j.run.Reason = store.Running, ""
	h.flight = nil
	h.play()
}

// TestAPanicRecordsNothingOfWhatItCutsShort: what the code did since the last hand-over is
// done again by the fixed code, and the step that was handed over is not executed again.
func TestAPanicRecordsNothingOfWhatItCutsShort(t *testing.T) {
	code := func(bug bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			v, err := step(b, "a")
			if err != nil {
				return result("", err)
			}
			if bug {
				_ = b.Set(at("v"), []byte("of the bug"))
				_, _ = child(b, "c")
				defer func() { _, _ = step(b, "unlock") }()
				panic("on purpose")
			}
			if n := b.Version(at("change"), 1); n != 1 {
				return text("version %d", n)
			}
			_ = b.Set(at("v"), []byte("fixed"))
			w, err := step(b, "b")
			return result(v+w, err)
		}
	}
	h := stalls(t, code(true))
	h.play()
	h.end("a", "x")
	h.wantBug(stored.CausePanic, "bug_test.go", 1)
	if h.j.values["v"] != "" || len(h.flight) > 0 {
		t.Errorf("the bug has shown %q, and %v are in flight", h.j.values["v"], h.flying())
	}
	f, err := stored.RunFailed(&h.j.run)
	if err != nil || !strings.Contains(f.Stack, "TestAPanicRecordsNothing") {
		t.Errorf("the failure is %+v, %v", f, err)
	}
	h.fixed(code(false))
	h.end("b", "y")
	h.want(store.Succeeded, "xy")
	if h.j.values["v"] != "fixed" || h.begun["a"] != 1 {
		t.Errorf("the value is %q; a was executed %d times", h.j.values["v"], h.begun["a"])
	}
}

// TestAPanicKeepsNoPermit: the permit of a step is given back, and its grant consumed, with
// the end of the step, also if the code panics when it is handed that.
func TestAPanicKeepsNoPermit(t *testing.T) {
	code := func(bug bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			v, err := b.Step(Step{Call: at("a"), Policy: once, Permit: &permit.Place{Queue: "q"}})
			if bug {
				panic("on purpose")
			}
			return result(string(v), err)
		}
	}
	h := stalls(t, code(true))
	h.play()
	for ticket, a := range h.j.queues.asked {
		a.granted = 1
		h.deliver(*permit.GrantStep("q", ticket, h.j.run.ID, string(location.Loc("a"))).Item)
	}
	h.play()
	h.end("a", "x")
	h.wantBug(stored.CausePanic, "on purpose", 1)
	if permit := h.j.unreturned(); permit != "" {
		t.Error(permit)
	}
	if it := h.j.item(1); it.State != store.Consumed {
		t.Errorf("the grant is %d", it.State)
	}
	h.fixed(code(false))
	h.want(store.Succeeded, "x")
}

// TestAPanicTakesNoMessage: a message that was handed over to code that panics arrives
// again.
func TestAPanicTakesNoMessage(t *testing.T) {
	code := func(bug bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			got, err := b.Receive(Receive{Call: at("r"), Names: []string{"m"}, Max: 1})
			if bug {
				panic("on purpose")
			}
			return result(string(got[0].Value), err)
		}
	}
	h := stalls(t, code(true))
	h.play()
	h.send("m", "hello")
	h.play()
	h.wantBug(stored.CausePanic, "on purpose", 0)
	h.fixed(code(false))
	h.want(store.Succeeded, "hello")
}

// TestUndecodableStalls: a value that does not fit stalls the run, in a replay before the
// mismatch that would follow, and the branch goes no further.
func TestUndecodableStalls(t *testing.T) {
	value := &journal.Undecodable{What: "result of a", Recorded: "7", Wanted: "main.Parcel", Reason: "no object"}
	code := func(bug bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			v, err := step(b, "a")
			if bug {
				b.Undecodable(value, false)
				return nil, &stored.Failure{Code: stored.CodeError, Message: "went on"}
			}
			w, err2 := step(b, "b")
			return result(v+w, errors.Join(err, err2))
		}
	}
	h := stalls(t, code(false))
	h.play()
	h.end("a", "x")
	h.end("b", "y")
	h.want(store.Succeeded, "xy")
	h = stalls(t, code(false))
	h.play()
	h.end("a", "x")
	h.play()
	h.leave()
	h.code = code(true)
	h.play()
	h.wantBug(stored.CauseDecode, "decode at a: recorded is 7: result of a is no main.Parcel: no object; restore", 1)
	h.fixed(code(false))
	h.end("b", "y")
	h.want(store.Succeeded, "xy")

	h.j.run.Status = store.Failed
	h.cfg.FailBugs = true
	h.leave()
	h.code = code(true)
	h.advance()
	if over := h.r.Over(); over == nil || over.Stall == nil || over.Stall.Cause != stored.CauseDecode {
		t.Errorf("where bugs fail the run, code that goes on without a value ends with %+v", over)
	}
}

// TestUndecodableOfABody: the value that a body is given, or a compensation, is no failed
// attempt.
func TestUndecodableOfABody(t *testing.T) {
	value := &journal.Undecodable{What: "detail", Recorded: "7", Wanted: "string", Reason: "no string"}
	bad := BodyResult{Failure: &stored.Failure{Code: stored.CodeError, Message: "bad"}, Undecodable: value}
	h := stalls(t, func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := b.Step(undoable("a")); err != nil {
			return result("", err)
		}
		return nil, &stored.Failure{Code: stored.CodeError, Message: "on purpose"}
	})
	h.cfg.UndoFailed = true
	h.play()
	h.complete("a", bad)
	h.wantBug(stored.CauseDecode, "decode at a: recorded is 7", 0)
	h.fixed(h.code)
	h.end("a", "x")
	h.complete("a/undo", bad)
	h.wantBug(stored.CauseDecode, "decode at a/undo: ", 1)
	h.fixed(h.code)
	h.end("a/undo", "")
	h.want(store.Failed, "on purpose")
}

func undoable(name string) Step {
	return Step{Call: at(name), Policy: once, Undo: &Undo{
		Func: func(context.Context, *Body, []byte) BodyResult { return BodyResult{} }, Policy: once,
	}}
}

// TestMisuseThatTheCodeDoesNotSee: a foreign goroutine's operation is refused, and the end
// of the function sees it, or the turn that would end the run.
func TestMisuseThatTheCodeDoesNotSee(t *testing.T) {
	h := stalls(t, func(b *Branch) ([]byte, *stored.Failure) {
		done := make(chan struct{})
		go func() { _, _ = step(b, "foreign"); close(done) }()
		<-done
		return result("", nil)
	})
	h.play()
	h.wantBug(stored.CauseMisuse, `operation "foreign" was called`, 0)
	if len(h.begun) > 0 {
		t.Errorf("begun are %v", h.begun)
	}
	for _, fails := range []bool{false, true} {
		var branch *Branch
		h = stalls(t, func(b *Branch) ([]byte, *stored.Failure) { branch = b; return result("", nil) })
		h.cfg.FailBugs = fails
		h.advance()
		_, _ = step(branch, "late") // by a foreign goroutine, when the function has returned
		h.play()
		if fails {
			h.want(store.Failed, `operation "late" was called`)
		} else {
			h.wantBug(stored.CauseMisuse, `operation "late" was called`, 0)
		}
	}
}
