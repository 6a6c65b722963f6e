package runner

import (
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// TestACancelWithoutANumber: a history that has a cancel without a number, at a place that
// no code asks for, is no reason to panic.
func TestACancelWithoutANumber(t *testing.T) {
	for name, loc := range map[string]string{"of the run": string(cancelLocation), "elsewhere": ""} {
		if loc == "" {
			loc = string(location.Loc("").Name("x", 1))
		}
		entries := []store.Entry{{Loc: loc, Kind: store.KindCancel, State: store.Done}}
		r, err := Rehearse(Config{Run: newDurable().run, Entries: entries,
			Code: func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "a")) }})
		if err != nil || r.Over != nil && r.Over.Status != store.Stalled {
			t.Errorf("%s: the replay gives %+v, %v", name, r, err)
		}
	}
}

// TestANumberBelowOne: a history that has an entry with such a number is one that the code
// does not fit, asked for or not.
func TestANumberBelowOne(t *testing.T) {
	for _, name := range []string{"a", "x"} {
		entries := []store.Entry{{Loc: string(location.Loc("").Name(name, 1)), Kind: store.KindStep, State: store.Done,
			Seq: -1, Value: []byte("1"), Size: 1}}
		r, err := Rehearse(Config{Run: newDurable().run, Entries: entries,
			Code: func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "a")) }})
		switch {
		case err != nil:
			t.Errorf("%s: the replay gives %v", name, err)
		case name == "a" && (r.Over == nil || r.Over.Status != store.Succeeded):
			t.Errorf("a step that is done and has no number is recalled, found %+v", r.Over)
		case name == "x" && (r.Over == nil || r.Over.Stall == nil || r.Over.Stall.Location != "x"):
			t.Errorf("a step that the code does not ask for is no mismatch: %+v", r.Over)
		}
	}
}

// TestAPanicOfTheEngineStalls: a panic of the interpreter's own code stalls the run with
// the stack, and nothing of its turn is written.
func TestAPanicOfTheEngineStalls(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "a")) })
	h.play()
	steps := h.r.steps
	h.r.steps = nil // the next completion finds no steps
	h.r.Advance(h.clock+10, h.clock+10)
	h.r.steps = steps
	over := h.r.Over()
	if over == nil || over.Status != store.Stalled || !strings.HasPrefix(over.Reason, "broken invariant: ") ||
		!strings.Contains(over.Reason, "scheduler.go") {
		t.Fatalf("the run is %+v", over)
	}
	if turn := h.r.Take(); turn == nil || turn.Update.Status != store.Stalled || len(turn.Entries) > 0 {
		t.Errorf("the turn is %+v", turn)
	}
}
