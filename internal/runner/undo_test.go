package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// saga is a run whose steps carry compensations; what these are given is noted.
type saga struct {
	*harness
	undone []string
}

func newSaga(t *testing.T, code func(s *saga, b *Branch) ([]byte, *stored.Failure)) *saga {
	t.Helper()
	s := &saga{}
	s.harness = newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return code(s, b) })
	s.cfg.UndoFailed, s.cfg.UndoCancelled = true, true
	return s
}

// do asks for a step with a compensation.
func (s *saga) do(b *Branch, name string) (string, error) { return s.try(b, at(name), once) }

func (s *saga) try(b *Branch, call Call, policy Policy) (string, error) {
	v, err := b.Step(Step{Call: call, Policy: once, Undo: &Undo{Policy: policy,
		Func: func(_ context.Context, body *Body, value []byte) BodyResult {
			s.undone = append(s.undone, fmt.Sprintf("%s of %s", body.Location, value))
			return BodyResult{}
		}}})
	return string(v), err
}

// steps asks for several.
func (s *saga) steps(b *Branch, names ...string) error {
	for _, name := range names {
		if _, err := s.do(b, name); err != nil {
			return err
		}
	}
	return nil
}

var errSaga = errors.New("broken on purpose")

func (s *saga) wantUndone(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.undone, want) {
		s.t.Errorf("undone were %q, want %q", s.undone, want)
	}
}

// wantMarks fails the test unless the run's row has the marks.
func (s *saga) wantMarks(want store.Marks) {
	s.t.Helper()
	if got := s.j.run.Marks; got != want {
		s.t.Errorf("the run has the marks %q, want %q", got, want)
	}
}

// The compensations of completed steps run in reverse completion order, one at a
// time, each recorded; the run ends as it has failed.
func TestUndoReverseOrder(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		x := b.Go(at("x"), func(b *Branch) (any, error) { return nil, s.steps(b, "one", "two") })
		y := b.Go(at("y"), func(b *Branch) (any, error) { return nil, s.steps(b, "one") })
		if _, err := b.Compose(at("all"), Join, []*Future{x, y}); err != nil {
			return result("", err)
		}
		if _, err := step(b, "plain"); err != nil {
			return result("", err)
		}
		_, _ = s.do(b, "fails")
		return result("", errSaga)
	})
	s.play()
	s.end("x/one", "a")
	s.end("y/one", "b")
	s.end("x/two", "c")
	s.end("plain", "d")
	s.fail("fails", "no")
	s.wantMarks(store.Undoing)
	s.wantFlight("x/two/undo") // and only that one
	if e, _ := s.j.at("x/two"); !e.Owes {
		t.Error("the record does not say that the step owes its undoing")
	}
	if e, _ := s.j.at("plain"); e.Owes {
		t.Error("a step without a compensation owes something")
	}
	if e, _ := s.j.at("fails"); !e.Owes || e.State != store.FailedEntry {
		t.Error("the record of a failed step does not say that it carries a compensation, which an edit needs to know")
	}
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.wantUndone("x/two/undo of c", "y/one/undo of b", "x/one/undo of a")
	s.wantOrder("x/one", "y/one", "x/two", "plain", "fails", "x/two/undo", "y/one/undo", "x/one/undo")
	s.wantMarks(0)
	e, _ := s.j.at("y/one/undo")
	if e.Kind != store.KindUndo || e.State != store.Done || e.Attempt != 1 || e.Value != nil || e.Owes {
		t.Errorf("the record of a compensation is %+v", e)
	}
	s.undone = nil
	s.replays()
	s.wantUndone()
}

// A run that succeeds owes nothing, and neither does one that is not to be undone.
func TestUndoOnlyWhenWanted(t *testing.T) {
	for _, c := range []struct {
		name              string
		onFailure, cancel bool
		fails, cancelled  bool
		asks              bool
		status            store.Status
		undone            bool
	}{
		{"success", true, true, false, false, false, store.Succeeded, false},
		{"success that asks", true, true, false, false, true, store.Succeeded, false},
		{"failure", true, false, true, false, false, store.Failed, true},
		{"failure, not wanted", false, true, true, false, false, store.Failed, false},
		{"failure, asked for", false, false, true, false, true, store.Failed, true},
		{"cancel", false, true, false, true, false, store.Cancelled, true},
		{"cancel, not wanted", true, false, true, true, false, store.Cancelled, false},
		{"cancel, asked for", false, false, true, true, true, store.Cancelled, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
				if c.asks {
					b.Rollback()
				}
				if err := s.steps(b, "one"); err != nil {
					return result("", err)
				}
				if _, err := step(b, "last"); err != nil || c.fails {
					return result("", errSaga)
				}
				return result("fine", nil)
			})
			s.cfg.UndoFailed, s.cfg.UndoCancelled = c.onFailure, c.cancel
			s.play()
			s.end("one", "a")
			if c.cancelled {
				s.cancel()
			} else {
				s.end("last", "b")
			}
			if over := s.finish(); over.Status != c.status {
				t.Errorf("the run ends %s, want %s", over.Status, c.status)
			}
			if (len(s.undone) > 0) != c.undone {
				t.Errorf("undone were %q", s.undone)
			}
			s.replays()
		})
	}
}

// Late successes of losers are undone too: in the order of their completion.
func TestUndoLateSuccess(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		loser := b.Go(at("loser"), func(b *Branch) (any, error) { return nil, s.steps(b, "reserve") })
		if _, err := b.Compose(at("race"), Race, []*Future{loser, spawn(b, "stop", "s")}); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	s.end("stop/s", "")
	s.wantMarks(0) // the loser's end is not known yet
	s.end("loser/reserve", "late")
	s.finish()
	s.wantUndone("loser/reserve/undo of late")
	s.wantOrder("stop/s", "loser/reserve", "loser/reserve/undo")
	s.replays()
}

// The compensation begins when its record of the begin is durable, and after a
// crash at any point goes on where it was: what is recorded is not executed again,
// what is not gets the same key.
func TestUndoAfterCrash(t *testing.T) {
	code := func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "one", "two"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	}
	s := newSaga(t, code)
	s.play()
	s.end("one", "a")
	s.arrive("two")
	s.advance()
	if s.wantFlight(); !s.take() || s.pending.Update == nil || s.pending.Update.Marks != store.Undoing {
		t.Fatalf("the turn is %+v", s.pending)
	}
	if bodies := slices.Collect(s.r.Bodies()); len(bodies) > 0 {
		t.Fatalf("%v begin before the mark is durable", bodies)
	}
	s.crash() // before the begin
	s.play()
	s.end("two", "of two")
	s.wantMarks(store.Undoing)
	s.wantFlight("two/undo")
	key, step := s.flight[0].Key(), s.r.steps.Key(path("two"), 0)
	if key == step {
		t.Error("the compensation has the key of its step")
	}
	s.crash() // after the begin
	s.play()
	s.wantFlight("two/undo")
	if s.flight[0].Key() != key {
		t.Error("the compensation has another key after a crash")
	}
	s.end("two/undo", "")
	s.crash() // between two
	s.play()
	s.wantFlight("one/undo")
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.wantUndone("one/undo of a") // the test itself ended the other
	s.wantOrder("one", "two", "two/undo", "one/undo")
	s.replays()
}

// A compensation is retried by its own policy, over a crash; if it fails for good
// the run stalls, and when it is resumed it has all its attempts again.
func TestUndoRetries(t *testing.T) {
	policy := Policy{Attempts: 2, First: 5 * time.Second, Factor: 1, Max: time.Minute, Overall: time.Minute}
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if _, err := s.try(b, at("one"), policy); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	s.end("one", "a")
	s.fail("one/undo", "first")
	if s.j.run.Status != store.Suspended || s.j.run.Marks != store.Undoing ||
		!strings.Contains(string(s.j.run.Waits), `"one/undo","kind":"undo"`) {
		t.Errorf("between two attempts the run is %s, %s and waits for %s", s.j.run.Status, s.j.run.Marks, s.j.run.Waits)
	}
	s.crash()
	s.pass(4 * time.Second)
	s.wantFlight() // the delay is kept
	s.pass(2 * time.Second)
	s.fail("one/undo", "second")
	over := s.r.Over()
	if over == nil || over.Status != store.Stalled || !strings.HasPrefix(over.Reason, "undo: one/undo failed: second") {
		t.Fatalf("the run ends %+v", over)
	}
	s.wantMarks(store.Undoing)
	if e, _ := s.j.at("one/undo"); e.State != store.Open || e.Attempt != 2 {
		t.Errorf("the record is %+v", e)
	}

	s.clock = s.clock.Add(time.Hour) // a person has mended the cause, late
	s.j.run.Status = store.Running
	s.crash()
	s.play()
	s.wantFlight("one/undo")
	if b := s.flight[0]; b.Attempt != 3 || b.Deadline != s.clock.Add(time.Minute) {
		t.Errorf("after the stall the attempt is %d until %s", b.Attempt, b.Deadline)
	}
	since := s.clock
	s.fail("one/undo", "third")
	s.crash()
	s.pass(6 * time.Second)
	s.wantFlight("one/undo") // one more of this round
	if b := s.flight[0]; b.Attempt != 4 || b.Deadline != since.Add(time.Minute) {
		t.Errorf("the second attempt of the round is %d until %s", b.Attempt, b.Deadline)
	}
	s.fail("one/undo", "fourth")
	if over := s.r.Over(); over == nil || over.Status != store.Stalled {
		t.Fatalf("the run ends %+v", over)
	}
	s.j.run.Status = store.Running
	s.crash()
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.replays()
}

// The commit in which undoing begins fixes the outcome: a cancel before it wins,
// one after it is refused and says why.
func TestUndoAgainstCancel(t *testing.T) {
	code := func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "one"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	}
	verdict := func(s *saga) string { return string(s.j.items[0].Verdict) }
	for _, onCancel := range []bool{true, false} {
		// begin stops where the turn that begins the undoing is ready.
		begin := func(t *testing.T) *saga {
			s := newSaga(t, code)
			s.cfg.UndoCancelled = onCancel
			s.play()
			s.arrive("one")
			s.advance()
			return s
		}
		wantCancelled := func(s *saga) {
			over := s.finish()
			if over.Status != store.Cancelled || over.Reason != "cancelled" || verdict(s) != "y" {
				t.Errorf("the run ends %+v, the answer is %q", over, verdict(s))
			}
			if onCancel != (len(s.undone) == 1) {
				t.Errorf("undone were %q", s.undone)
			}
			s.wantMarks(0)
		}
		t.Run(fmt.Sprint("before the turn, ", onCancel), func(t *testing.T) {
			s := begin(t)
			s.cancel()
			wantCancelled(s)
		})
		t.Run(fmt.Sprint("held back, ", onCancel), func(t *testing.T) {
			s := begin(t)
			s.take()
			it := s.j.send(store.Item{Kind: store.ItemCancel, Name: "operator", Sent: s.clock})
			s.commit() // still ready
			if s.j.run.Marks != 0 {
				t.Fatal("undoing has begun although a cancel was there")
			}
			s.r.Deliver(it)
			wantCancelled(s)
		})
		t.Run(fmt.Sprint("told before the verdict, ", onCancel), func(t *testing.T) {
			s := begin(t)
			s.take()
			s.r.Deliver(s.j.send(store.Item{Kind: store.ItemCancel, Name: "operator", Sent: s.clock}))
			s.commit()
			wantCancelled(s)
		})
	}
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("after the commit, after a crash ", crash), func(t *testing.T) {
			s := newSaga(t, code)
			s.play()
			s.end("one", "a")
			if crash {
				s.crash()
			}
			s.cancel()
			s.wantFlight("one/undo")
			if s.j.run.Marks != store.Undoing || !strings.HasPrefix(verdict(s), "nundoing has begun") {
				t.Errorf("the run is %s, the answer is %q", s.j.run.Marks, verdict(s))
			}
			s.finish()
			s.want(store.Failed, errSaga.Error())
		})
	}
	t.Run("told before the verdict, sent after the commit", func(t *testing.T) {
		s := newSaga(t, code)
		s.play()
		s.arrive("one")
		s.advance()
		s.take()
		it := s.j.send(store.Item{Kind: store.ItemCancel, Name: "operator", Sent: s.clock})
		s.j.items[0].State = store.Seen // as if the commit had been before it
		s.r.Deliver(it)
		s.commit()
		s.finish()
		s.want(store.Failed, errSaga.Error())
		if !strings.HasPrefix(verdict(s), "nundoing has begun") {
			t.Errorf("the answer is %q", verdict(s))
		}
	})
}

// A cancelled run keeps its reason while it is undone, over a crash and a stall.
func TestUndoKeepsTheReason(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "one", "two"); err != nil {
			return result("", err)
		}
		return text("fine")
	})
	s.play()
	s.end("one", "a")
	s.deliver(store.Item{Kind: store.ItemCancel, Name: "operator", Value: []byte("too dear")})
	s.fail("two", "late")
	s.wantMarks(store.Cancelling | store.Undoing)
	s.fail("one/undo", "no")
	if s.j.run.Status != store.Stalled || s.j.run.Marks != store.Cancelling|store.Undoing {
		t.Fatalf("the run is %s, %s", s.j.run.Status, s.j.run.Marks)
	}
	s.j.run.Status, s.j.run.Reason = store.Running, "" // resumed
	s.crash()
	s.finish()
	if s.j.run.Status != store.Cancelled || s.j.run.Reason != "cancelled: too dear" {
		t.Errorf("the run ends %s with %q", s.j.run.Status, s.j.run.Reason)
	}
}

// Terminate runs nothing and lists what is owed, newest first: what may have had an effect,
// and what is done.
func TestTerminateListsWhatIsOwed(t *testing.T) {
	renamed := ""
	code := func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, cmp.Or(renamed, "one"), "two", "three"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	}
	terminate := func(s *saga) []string {
		it := s.j.send(store.Item{Kind: store.ItemTerminate, Value: []byte("enough"), Sent: s.clock})
		s.r.Terminate(it)
		s.j.claim()
		s.r.Resumed()
		s.advance()
		for s.take() {
			s.commit()
		}
		if s.j.run.Status != store.Cancelled || s.j.run.Reason != "terminated: enough" || len(s.undone) > 0 ||
			s.j.run.Marks != 0 {
			s.t.Errorf("the run is %s, %q, %s; undone were %q", s.j.run.Status, s.j.run.Reason, s.j.run.Marks, s.undone)
		}
		end, err := stored.DecodeEnding(s.j.run.Output)
		if err != nil || len(end.Owed) > 0 && end.Reason != "terminated: enough" {
			s.t.Errorf("the output is %+v, %v", end, err)
		}
		return end.Owed
	}
	for _, c := range []struct {
		name string
		play func(s *saga)
		owed []string
	}{
		{"what is executed", func(s *saga) {}, []string{"one"}},
		{"live", func(s *saga) { s.end("one", "a"); s.end("two", "b") }, []string{"three", "two", "one"}},
		{"live, of a step that had no number in the snapshot", func(s *saga) {
			s.end("one", "a")
			s.leave()
			e := s.j.entries[string(path("one"))] // as of a transactional step
			e.Seq, e.At = 0, 0
			s.j.entries[e.Loc] = e
			s.play()
			s.end("two", "b")
		}, []string{"three", "two", "one"}},
		{"before a replay", func(s *saga) {
			s.end("one", "a")
			s.end("two", "b")
			s.leave()
			s.activate()
		}, []string{"three", "two", "one"}},
		{"before a replay that stalls", func(s *saga) {
			s.end("one", "a")
			s.end("two", "b")
			s.leave()
			renamed = "won"
			s.activate()
		}, []string{"two", "one"}},
		{"after a replay", func(s *saga) {
			s.end("one", "a")
			s.crash()
			s.play()
			s.end("two", "b")
		}, []string{"three", "two", "one"}},
		{"while undoing", func(s *saga) {
			for _, place := range []string{"one", "two", "three", "three/undo"} {
				s.end(place, "")
			}
		}, []string{"two", "one"}},
		{"while undoing, after a replay", func(s *saga) {
			for _, place := range []string{"one", "two", "three", "three/undo"} {
				s.end(place, "")
			}
			s.crash()
			s.play()
			s.end("two/undo", "")
		}, []string{"one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			renamed = ""
			s := newSaga(t, code)
			s.play()
			c.play(s)
			if got := terminate(s); !slices.Equal(got, c.owed) {
				t.Errorf("owed are %q, want %q", got, c.owed)
			}
		})
	}
}

// A large value is not kept once it can be fetched, and a compensation gets it all
// the same; a store that cannot give it breaks the activation, not the run.
func TestUndoOfLargeValue(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "one", "two"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	large := strings.Repeat("x", store.LargeValue)
	s.play()
	s.end("one", large)
	if n := s.r.undo.effects.Held(); n != 0 || s.r.undo.effects.Len() != 1 {
		t.Errorf("%d of %d bytes are kept", n, len(large))
	}
	s.leave()
	s.activate()
	s.advance()
	if n := s.r.undo.effects.Held(); n != 0 {
		t.Errorf("%d bytes are kept after a replay", n)
	}
	s.play()
	s.r.cfg.Fetch = func(loc string) ([]byte, error) { return nil, store.ErrUnavailable }
	s.end("two", "b")
	s.end("two/undo", "")
	if err := s.r.Broken(); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("the activation is broken: %v", err)
	}
	s.crash()
	s.finish()
	if len(s.undone) != 2 || s.undone[1] != "one/undo of "+large {
		t.Errorf("%d were undone, the last with another value", len(s.undone))
	}
	s.want(store.Failed, errSaga.Error())
}

// A failing run stalls, if that is wanted, and is not undone; what asks for
// undoing ends.
func TestStallOnFailure(t *testing.T) {
	for _, asks := range []bool{false, true} {
		fails := true
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			if err := s.steps(b, "one"); err != nil {
				return result("", err)
			}
			if asks {
				b.Rollback()
			}
			if fails {
				return result("", errSaga)
			}
			return text("fine")
		})
		s.cfg.StallFailed = true
		s.play()
		s.end("one", "a")
		if asks {
			s.finish()
			s.want(store.Failed, errSaga.Error())
			s.wantUndone("one/undo of a")
			continue
		}
		over := s.r.Over()
		if over == nil || over.Status != store.Stalled || over.Reason != "failure: "+errSaga.Error() || s.j.run.Marks != 0 {
			t.Fatalf("the run ends %+v, %s", over, s.j.run.Marks)
		}
		if f, err := stored.DecodeFailure(s.j.run.Output); err != nil || f.Message != errSaga.Error() {
			t.Errorf("the failure on record is %+v, %v", f, err)
		}
		fails = false
		s.j.run.Status = store.Running
		s.crash()
		s.play()
		s.want(store.Succeeded, "fine")
	}
}

// A cancel that is there when the code ends wins over its result.
func TestCancelThatComesWithTheEnd(t *testing.T) {
	h := newHarness(t, func(*Branch) ([]byte, *stored.Failure) { return text("fine") })
	h.j.run.Build = "b"
	h.j.send(store.Item{Kind: store.ItemCancel, Name: "operator", Value: []byte("now")})
	h.j.send(store.Item{Kind: store.ItemCancel, Name: "operator"})
	h.play()
	if over := h.r.Over(); over.Status != store.Cancelled || over.Reason != "cancelled: now" {
		t.Errorf("the run ends %+v", over)
	}
	if a, b := string(h.j.items[0].Verdict), string(h.j.items[1].Verdict); a != "y" || b[0] != 'n' {
		t.Errorf("the answers are %q and %q", a, b)
	}
}

// The local resources of the workflow's function are open while it is undone, and
// closed in the end and at every eviction.
func TestUndoKeepsResources(t *testing.T) {
	var open, opened int
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		open++
		opened++
		b.OnExit(func() { open-- })
		if err := s.steps(b, "one"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	s.end("one", "a")
	s.wantFlight("one/undo")
	if open != 1 {
		t.Errorf("%d resources are open while undoing", open)
	}
	s.crash()
	if open != 0 {
		t.Errorf("%d resources are open after a crash", open)
	}
	s.finish()
	if open != 0 || opened != 2 {
		t.Errorf("%d of %d resources are open in the end", open, opened)
	}
}

// What a former activation may have begun is executed and ends, whatever comes first: only
// its end tells whether there is something to undo.
func TestUndoOfWhatWasLostWithItsProcess(t *testing.T) {
	type row struct {
		name  string
		code  func(s *saga, b *Branch) error
		begin func(s *saga) // until "pay" is executed
		come  func(s *saga)
		ends  store.Status
	}
	first := func(s *saga, b *Branch) error { return s.steps(b, "pay") }
	for _, c := range []row{
		{"cancel of the first step", first, nil, (*saga).cancel, store.Cancelled},
		{"cancel of a later step", func(s *saga, b *Branch) error {
			if _, err := step(b, "before"); err != nil {
				return err
			}
			return first(s, b)
		}, func(s *saga) { s.end("before", "") }, (*saga).cancel, store.Cancelled},
		{"cancel by its parent", first, nil, func(s *saga) { s.deliver(store.Item{Kind: store.ItemCancel}) }, store.Cancelled},
		{"longest run time", first, nil, func(s *saga) {
			s.leave()
			s.cfg.CancelAt = s.clock
			s.pass(time.Second)
		}, store.Cancelled},
		{"loser of a race", func(s *saga, b *Branch) error {
			pay := b.Go(at("slow"), func(b *Branch) (any, error) { return nil, s.steps(b, "pay") })
			if _, err := b.Compose(at("race"), Race, []*Future{pay, spawn(b, "quick", "s")}); err != nil {
				return err
			}
			return errSaga
		}, nil, func(s *saga) { s.end("quick/s", "") }, store.Failed},
		{"a misuse", func(s *saga, b *Branch) error {
			pay := b.Go(at("slow"), func(b *Branch) (any, error) { return nil, s.steps(b, "pay") })
			if _, err := step(b, "other"); err != nil {
				return err
			}
			_, _ = pay.Outcome()
			b.Fail(&stored.Failure{Code: stored.CodeMisuse, Message: errSaga.Error()})
			return nil
		}, nil, func(s *saga) { s.end("other", "") }, store.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) { return result("", c.code(s, b)) })
			s.play()
			if c.begin != nil {
				c.begin(s)
			}
			pay := slices.IndexFunc(s.flight, func(b Body) bool { return b.Location.Base() == "pay" })
			key := s.flight[pay].Key()
			s.crash()
			s.play()
			c.come(s)
			pay = slices.IndexFunc(s.flight, func(b Body) bool { return b.Location.Base() == "pay" })
			if pay < 0 || s.flight[pay].Key() != key || len(s.cancelled) > 0 {
				t.Fatalf("in flight are %q, of which cancelled %v; want pay with its key", s.flying(), s.cancelled)
			}
			place := s.flight[pay].Location.String()
			s.complete(place, BodyResult{Failure: &stored.Failure{Code: stored.CodeError, Message: "away"}, Final: false})
			s.wantUndone() // one attempt in all: it has failed
			over := s.finish()
			if over.Status != c.ends {
				t.Errorf("the run ends %+v", over)
			}

			s = newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) { return result("", c.code(s, b)) })
			s.play()
			if c.begin != nil {
				c.begin(s)
			}
			s.crash()
			s.play()
			c.come(s)
			s.end(place, "paid")
			s.finish()
			s.wantUndone(place + "/undo of paid")
			s.replays()
		})
	}
}

// A step that was cancelled although it may have begun before is tried as often as its
// policy says, over a crash between two attempts.
func TestLostBodyIsTriedAgain(t *testing.T) {
	policy := Policy{Attempts: 3, First: time.Minute, Factor: 1, Max: time.Minute}
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Step(Step{Call: at("pay"), Policy: policy, Undo: &Undo{Policy: once,
			Func: func(context.Context, *Body, []byte) BodyResult {
				s.undone = append(s.undone, "pay")
				return BodyResult{}
			}}})
		return result("", err)
	})
	s.play()
	s.crash()
	s.play()
	s.fail("pay", "away") // and not cancelled yet
	s.crash()
	s.cancel()
	s.wantFlight()
	it := s.j.send(store.Item{Kind: store.ItemTerminate, Sent: s.clock})
	s.r.Terminate(it)
	if over := s.r.Over(); !strings.Contains(fmt.Sprint(stored.DecodeEnding(over.Output)), "[pay]") {
		t.Errorf("a terminate would list %q", over.Output)
	}
	s.j.items = slices.DeleteFunc(s.j.items, func(x store.Item) bool { return x.No == it.No })
	s.crash()
	s.pass(time.Minute)
	s.wantFlight("pay")
	s.end("pay", "paid")
	s.finish()
	s.want(store.Cancelled, "")
	s.wantUndone("pay")
}

// A run that is to be paused after a crash is replayed before, and what may have begun
// ends.
func TestPauseWaitsForWhatMayHaveBegun(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) { return result("", s.steps(b, "one", "two")) })
	s.play()
	s.end("one", "a")
	s.leave()
	s.activate()
	s.r.Pause(s.j.send(store.Item{Kind: store.ItemPause, Sent: s.clock}))
	s.play()
	s.wantFlight("two")
	if s.r.Paused() {
		t.Fatal("the run is paused")
	}
	s.end("two", "b")
	if !s.r.Paused() || s.j.run.Marks != store.Paused {
		t.Fatalf("the run has the marks %s", s.j.run.Marks)
	}
	if e, _ := s.j.at("two"); e.State != store.Done || !e.Owes {
		t.Errorf("the step is %+v", e)
	}
}

// A body that was not given out when the run was cancelled has not begun, if no former
// activation can have given it out.
func TestCancelBeforeABodyBegins(t *testing.T) {
	for _, when := range []string{"in the first activation", "after what this one has handed over"} {
		t.Run(when, func(t *testing.T) {
			s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) { return result("", s.steps(b, "one", "two")) })
			want := []string(nil)
			if when != "in the first activation" {
				s.play()
				s.crash()
				s.play()
				s.arrive("one")
				want = []string{"one/undo of of one"}
			}
			s.advance()
			s.cancel()
			s.finish()
			s.want(store.Cancelled, "")
			s.wantUndone(want...)
		})
	}
}

// wantOwed terminates the run, which must list what it owes.
func (s *saga) wantOwed(want ...string) {
	s.t.Helper()
	s.r.Terminate(s.j.send(store.Item{Kind: store.ItemTerminate, Sent: s.clock}))
	s.j.claim()
	s.r.Resumed()
	s.advance()
	for s.take() {
		s.commit()
	}
	end, err := stored.DecodeEnding(s.j.run.Output)
	if err != nil || !slices.Equal(end.Owed, want) {
		s.t.Errorf("owed are %q, %v; want %q", end.Owed, err, want)
	}
}
