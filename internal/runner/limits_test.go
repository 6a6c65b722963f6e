package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestResultLargerThanAValue(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Step(Step{Call: at("s"), Policy: twice})
		return result("", err)
	})
	h.cfg.Limits.Value = 10
	h.play()
	h.end("s", "12345678901")
	h.want(store.Failed, "step s failed: result of step s has 11 bytes, more than the limit of 10")
	h.replays()
}

func TestBudgetOfEntries(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for i := range 20 {
			// A timer that loses at once leaves no entry and costs nothing.
			first := b.Go(at("first"), func(*Branch) (any, error) { return nil, nil })
			if _, err := b.Select(at("select"), []Case{{Timer: &Timer{Call: at("timer"), At: b.Now().Add(time.Millisecond)}},
				{Future: first}}); err != nil {
				return result("", err)
			}
			if _, err := step(b, fmt.Sprint("s", i)); err != nil {
				return result("", err)
			}
		}
		return text("")
	})
	h.cfg.Limits.Entries = 10
	h.finish()
	h.wantBug(stored.CauseBudget, "operation timer#11 exceeds the budget of a run: 10 entries (limit 10)", 10)
	warned := []string{"the run has used half of its budget", "the run has used 80 % of its budget"}
	if got := h.noted("of its budget"); !slices.Equal(got, warned) {
		t.Errorf("the log has %q", got)
	}
	h.cfg.Limits.Entries = 100
	h.fixed(h.code)
	h.finish()
	h.want(store.Succeeded, "")
	if got := h.noted("of its budget"); len(got) > 0 {
		t.Errorf("with a larger budget the log has %q", got)
	}
	h.replays()
}

func TestBudgetOfBytes(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		for {
			if _, err := step(b, "s"); err != nil {
				return result("", err)
			}
		}
	})
	h.cfg.Limits.Bytes = 100
	h.play()
	h.end("s", strings.Repeat("x", 99))
	h.end("s#2", "x")
	h.wantBug(stored.CauseBudget, "with 100 bytes (limit 100)", 2)
}

// What a failed attempt leaves is written over by the next: it counts once.
func TestBytesOfAnEntryThatIsWrittenAgain(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Step(Step{Call: at("s"), Policy: Policy{Attempts: 10, Factor: 1}})
		return result("", err)
	})
	h.play()
	for range 5 {
		h.fail("s", "no")
	}
	e, _ := h.j.at("s")
	if h.bytes() != len(e.Value) {
		t.Errorf("the run counts %d bytes, its only entry has %d", h.bytes(), len(e.Value))
	}
}

func TestTurnIsCut(t *testing.T) {
	const branches = 2500
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		futures, _, err := b.Map(at("m"), branches, branches, func(i int) string { return fmt.Sprint(i) },
			func(b *Branch, _ int) (any, error) { return step(b, "s") })
		return result(fmt.Sprint(len(futures)), err)
	})
	h.play()
	if len(h.flight) != branches {
		t.Fatalf("%d bodies are in flight, want %d", len(h.flight), branches)
	}
	for _, b := range h.flight {
		h.r.Complete(b.ID, 1, &BodyResult{Value: []byte("v")})
	}
	var sizes []int
	for h.advance(); h.take(); h.advance() {
		sizes = append(sizes, len(h.pending.Entries))
		h.advance() // the next turn fills while one is under way, and is full
		if n := len(h.r.j.Log.Entries()); n > 1000 {
			t.Fatalf("the filling turn has %d entries", n)
		}
		h.commit()
	}
	if fmt.Sprint(sizes) != "[1000 1000 500]" {
		t.Errorf("the turns have %v entries, want [1000 1000 500]", sizes)
	}
	h.want(store.Succeeded, "2500")
	h.replays()
}

func TestTurnIsCutByBytes(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		return result("", errOf(b.Compose(at("all"), Join, []*Future{spawn(b, "a", "s"), spawn(b, "b", "s"),
			spawn(b, "c", "s")})))
	})
	h.cfg.Limits.TurnBytes = 100
	h.play()
	for _, b := range h.flight {
		h.r.Complete(b.ID, 1, &BodyResult{Value: make([]byte, 60)})
	}
	h.advance()
	if h.take(); len(h.pending.Entries) != 2 {
		t.Errorf("the turn has %d entries, want the 2 that make it full", len(h.pending.Entries))
	}
}

func errOf(_ int, err error) error { return err }

func TestNamesAndLocations(t *testing.T) {
	deep := func(b *Branch) ([]byte, *stored.Failure) {
		var nest func(b *Branch) (any, error)
		nest = func(b *Branch) (any, error) {
			name := strings.Repeat("n", 60)
			return b.Await(at(name), b.Go(at(name), nest))
		}
		_, err := nest(b)
		return result("", err)
	}
	for name, c := range map[string]struct {
		code func(b *Branch) ([]byte, *stored.Failure)
		want string
	}{
		"no name": {func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "")) }, "expected 1 to 64 bytes"},
		"a long name": {func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, strings.Repeat("x", 65))) },
			"expected 1 to 64 bytes"},
		"a long place": {deep, "expected at most 4096 bytes"},
		"a bad key": {func(b *Branch) ([]byte, *stored.Failure) {
			_, err := b.Step(Step{Call: Call{Name: "s", Key: "\n"}, Policy: once})
			return result("", err)
		}, "expected no control characters"},
		"a bad key of a map": {func(b *Branch) ([]byte, *stored.Failure) {
			_, _, err := b.Map(at("m"), 1, 1, func(int) string { return "" },
				func(*Branch, int) (any, error) { return nil, nil })
			return result("", err)
		}, `key "": expected 1 to 128 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, c.code)
			h.play()
			h.want(store.Failed, c.want)
		})
	}
}

// An error's text need not be text; its record must be.
func TestFailureThatIsNoText(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := step(b, "s")
		if err == nil {
			return text("")
		}
		return result(fmt.Sprintf("%q", err.Error()), nil)
	})
	h.play()
	h.fail("s", "a\xffb")
	h.want(store.Succeeded, `a�b`)
	h.replays()
}

// A source that many have waited for in vain, and a queue that is never empty,
// do not grow.
func TestNothingGrowsInALoop(t *testing.T) {
	var answer *Promise
	var forever *Future
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		answer, _ = b.NewPromise(at("answer"), nil)
		forever = b.Go(at("forever"), func(b *Branch) (any, error) { return receive(b, "never", 0) })
		for range 500 {
			if _, err := b.Select(at("select"), []Case{
				{Promise: answer}, {Future: forever}, {Timer: &Timer{Call: at("tick"), At: b.Now().Add(time.Millisecond)}},
			}); err != nil {
				return result("", err)
			}
		}
		v, err := step(b, "s")
		return result(v, err)
	})
	h.play()
	for len(h.flight) == 0 {
		h.pass(time.Millisecond)
	}
	if n := answer.op.Waits() + forever.Waits(); n > 0 {
		t.Errorf("%d waits are kept after they are over", n)
	}
}

func TestDamagedRecords(t *testing.T) {
	for name, e := range map[string]store.Entry{
		"failure":  {Kind: store.KindStep, State: store.FailedEntry, Seq: 1, Value: []byte{0xff}},
		"progress": {Kind: store.KindStep, State: store.Open, Value: []byte{0xff}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "s")) })
			e.Loc = string(path("s"))
			h.j.entries[e.Loc] = e
			h.play()
			if over := h.r.Over(); over == nil || over.Status != store.Stalled ||
				!strings.HasPrefix(over.Reason, "damaged entry s: ") {
				t.Fatalf("the run ends %+v", over)
			}
			if h.j.entries[e.Loc].State != e.State {
				t.Error("the damaged entry has changed")
			}
		})
	}
}

// noted returns the texts of the notes that contain text, and forgets all.
func (h *harness) noted(text string) []string {
	var found []string
	for _, n := range h.notes {
		if strings.Contains(n.Text, text) {
			found = append(found, n.Text)
		}
	}
	h.notes = nil
	return found
}
