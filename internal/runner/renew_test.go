package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/runner/runs"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// renewing executes body in each incarnation and goes on until it returns false.
func renewing(body func(b *Branch, incarnation int) (string, bool, error)) func(*harness) func(*Branch) ([]byte,
	*stored.Failure) {
	return func(h *harness) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			v, more, err := body(b, h.j.run.Incarnation)
			if more {
				b.ContinueAsNew(Renewal{Workflow: "next", Input: []byte(v)})
			}
			return result(v, err)
		}
	}
}

func newRenewing(t *testing.T, body func(b *Branch, incarnation int) (string, bool, error)) *harness {
	h := newHarness(t, nil)
	h.code = renewing(body)(h)
	return h
}

// renew lets the next incarnation begin, as the engine does after the commit.
func (h *harness) renew(incarnation int) {
	h.t.Helper()
	if h.j.run.Incarnation != incarnation || h.r.Over() == nil || h.r.Over().Renewal == nil {
		h.t.Fatalf("the run is in incarnation %d, and %+v; want it to begin incarnation %d", h.j.run.Incarnation,
			h.r.Over(), incarnation)
	}
	h.leave()
	h.play()
}

// TestContinueAsNew begins with the new input and nothing recorded; the run's time
// does not go back, and what is derived is new.
func TestContinueAsNew(t *testing.T) {
	var times []store.Time
	keys := map[string]bool{}
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		times = append(times, b.Now())
		v, err := step(b, "work")
		times = append(times, b.Now())
		return fmt.Sprint(n, v), n < 2, err
	})
	h.play()
	for n := range 3 {
		keys[h.flight[0].Key()] = true
		h.clock += 1000
		turns := h.j.turns
		h.end("work", "v")
		if n == 2 {
			break
		}
		if h.j.turns != turns+1 {
			t.Fatalf("the end of an incarnation takes %d turns besides its last step's", h.j.turns-turns-1)
		}
		if h.j.run.Workflow != "next" || string(h.j.run.Input) != fmt.Sprint(n, "v") || len(h.j.entries) != 0 {
			t.Fatalf("the next incarnation begins as %+v with %d entries", h.j.run, len(h.j.entries))
		}
		h.renew(n + 1)
	}
	h.want(store.Succeeded, "2v")
	if len(keys) != 3 {
		t.Fatalf("three incarnations have %d keys for their outbound calls", len(keys))
	}
	for i := 1; i < len(times); i++ {
		if times[i] < times[i-1] {
			t.Fatalf("the run's time goes back: %v", times)
		}
	}
	h.replays()
}

// TestContinueAsNewKeepsTheInbox: a message that was not received, and a cancel that
// was not seen, are the next incarnation's.
func TestContinueAsNewKeepsTheInbox(t *testing.T) {
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		if n == 0 {
			_, err := step(b, "work")
			return "", true, err
		}
		v, err := receive(b, "mail", 0)
		if err == nil {
			_, err = step(b, "more")
		}
		return v, false, err
	})
	h.play()
	h.send("mail", "letter")
	h.end("work", "v")
	h.renew(1)
	h.wantFlight("more")
	if e, ok := h.j.at("mail"); !ok || e.State != store.Done {
		t.Fatalf("the message was not received: %+v", e)
	}
	h.cancel()
	h.want(store.Cancelled, "")
}

// TestACancelAtTheEndOfAnIncarnation is not lost, whether the turn is on its way or
// not.
func TestACancelAtTheEndOfAnIncarnation(t *testing.T) {
	for _, when := range []string{"before the turn", "while it is committed"} {
		t.Run(when, func(t *testing.T) {
			h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
				_, err := step(b, "work")
				return "", true, err
			})
			h.play()
			b := h.flight[0]
			h.r.Complete(b.ID, b.Attempt, &BodyResult{Value: []byte("v"), Started: h.clock, Ended: h.clock})
			h.advance()
			if when == "while it is committed" && !h.take() {
				t.Fatal("there is no turn")
			}
			it := h.j.send(store.Item{Kind: store.ItemCancel, Name: "operator", Sent: h.clock})
			h.r.Deliver(it)
			h.play()
			if when == "while it is committed" {
				if h.j.run.Incarnation != 1 {
					t.Fatal("the turn that was on its way does not stand")
				}
				h.leave()
				h.play()
			}
			h.want(store.Cancelled, "")
			if got := h.j.item(it.No); got.State != store.Consumed || string(got.Verdict) != "y" {
				t.Fatalf("the cancel is %+v", got)
			}
		})
	}
}

// TestACancelledRunDoesNotContinue, whatever its function returns.
func TestACancelledRunDoesNotContinue(t *testing.T) {
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		if _, err := step(b, "work"); err != ErrCancelled {
			t.Errorf("the step gives %v", err)
		}
		return "", true, nil
	})
	h.play()
	h.cancel()
	h.want(store.Cancelled, "")
}

// TestAFailureDoesNotContinue: what is returned beside it counts.
func TestAFailureDoesNotContinue(t *testing.T) {
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		return "", true, fmt.Errorf("no more")
	})
	h.play()
	h.want(store.Failed, "error: no more")
}

// TestBranchesEndBeforeTheRunContinues.
func TestBranchesEndBeforeTheRunContinues(t *testing.T) {
	var trace []string
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		b.Go(at("aside"), func(b *Branch) (any, error) {
			_, err := step(b, "slow")
			trace = append(trace, fmt.Sprint(n, " ", err))
			v, err := b.Step(Step{Call: shielded("clean"), Policy: once})
			trace = append(trace, fmt.Sprint(n, " ", string(v), " ", err))
			return nil, err
		})
		_, err := step(b, "work")
		return "", n < 1, err
	})
	h.play()
	for n := range 2 {
		h.end("work", "v")
		if h.j.run.Incarnation != n || h.r.Over() != nil {
			t.Fatal("the run continues although a branch cleans up")
		}
		h.end("aside/clean", "cleaned")
		if n == 0 {
			h.renew(1)
		}
	}
	if want := "[0 cancelled 0 cleaned <nil> 1 cancelled 1 cleaned <nil>]"; fmt.Sprint(trace) != want {
		t.Fatalf("got %v, want %s", trace, want)
	}
}

// TestAnOlderIncarnationsPromise is nobody's.
func TestAnOlderIncarnationsPromise(t *testing.T) {
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		p, err := b.NewPromise(at("p"), nil)
		if err != nil || n == 0 {
			return "", true, err
		}
		v, err := b.AwaitPromise(at("await"), p)
		return string(v), false, err
	})
	h.play()
	h.renew(1)
	h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Incarnation: 0, Value: []byte("old")})
	old := h.j.items[len(h.j.items)-1]
	if h.j.item(old.No).State != store.Dead || h.r.Over() != nil {
		t.Fatalf("the resolution for the older incarnation is in state %d, the run %+v", h.j.item(old.No).State, h.r.Over())
	}
	h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Incarnation: 1, Value: []byte("new")})
	h.want(store.Succeeded, "new")
}

// TestTheEndOfAnOlderIncarnationsChild is a dead letter, and so is that of a run which
// that has watched. An end that this incarnation knows already is consumed.
func TestTheEndOfAnOlderIncarnationsChild(t *testing.T) {
	var ids []string
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		o, err := b.StartChild(Child{Call: at("c"), Workflow: "w", Leave: true})
		if err != nil {
			return "", false, err
		}
		ids = append(ids, b.RunID(o))
		if n < 2 {
			return "", true, nil
		}
		if _, err := receive(b, "go on", 0); err != nil {
			return "", false, err
		}
		v, err := await(b, o)
		return v, false, err
	})
	h.play()
	h.renew(1)
	h.j.run.Generation = 1
	h.renew(2)
	end := func(name, id string, incarnation int) store.ItemNo {
		h.deliver(store.Item{
			Kind: store.ItemEnd, Name: name, Loc: string(path("c")), Incarnation: incarnation,
			Value: stored.End{RunID: id, Status: store.Succeeded, Output: []byte("of " + id)}.Encode(),
		})
		return h.j.items[len(h.j.items)-1].No
	}
	for name, c := range map[string]struct {
		no   store.ItemNo
		want store.ItemState
	}{
		"its child":                      {end(ids[2], ids[2], 0), store.Seen},
		"its child, again":               {end(ids[2], ids[2], 2), store.Consumed},
		"child of incarnation 0":         {end(ids[0], ids[0], 0), store.Dead},
		"child of incarnation 1":         {end(ids[1], ids[1], 0), store.Dead},
		"child of incarnation 1, asked":  {end(ids[1], ids[1], 1), store.Dead},
		"watch of incarnation 1":         {end("a key", "other", 1), store.Dead},
		"watch of incarnation 0":         {end("another key", "other", 0), store.Dead},
		"watch of this one, known":       {end("its key", "other", 2), store.Consumed},
		"its child of a past generation": {end(runs.ChildID(h.r.cfg.Run.Seed, 0, path("c"), 0), ids[2], 0), store.Consumed},
	} {
		if got := h.j.item(c.no).State; got != c.want {
			t.Errorf("the end of %s is in state %d, want %d", name, got, c.want)
		}
	}
	h.send("go on", "")
	h.want(store.Succeeded, "of "+ids[2])
}

// TestReplayingInALaterIncarnation is false until something of it is durable.
func TestReplayingInALaterIncarnation(t *testing.T) {
	var replaying []bool
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		replaying = append(replaying, b.Replaying())
		if n == 0 {
			return "", true, nil
		}
		return "", false, b.Sleep(at("nap"), time.Hour)
	})
	h.j.run.Build, h.j.run.Waits = "v1", []byte{}
	h.play()
	h.renew(1)
	h.crash()
	h.play()
	if want := "[true false true]"; fmt.Sprint(replaying) != want {
		t.Fatalf("got %v, want %s", replaying, want)
	}
}

// TestTheDeadlineOfARunCountsFromItsFirstStart.
func TestTheDeadlineOfARunCountsFromItsFirstStart(t *testing.T) {
	h := newRenewing(t, func(b *Branch, n int) (string, bool, error) {
		err := b.Sleep(at("nap"), 10*time.Second)
		return "", true, err
	})
	h.cfg.CancelAt, h.cfg.CancelReason = birth.Add(25*time.Second), "too long"
	h.play()
	h.pass(10 * time.Second)
	h.renew(1)
	h.pass(10 * time.Second)
	h.renew(2)
	h.pass(5 * time.Second)
	h.want(store.Cancelled, "")
	if h.r.Over().Reason != "cancelled: too long" {
		t.Fatalf("the reason is %q", h.r.Over().Reason)
	}
}
