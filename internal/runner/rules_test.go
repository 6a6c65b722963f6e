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

// One test for each sentence of the rule of order, by its number. The sixteenth
// is about Loop, whose kept iterations the runner does not know.

// arrive ends the bodies at the places without letting the code go on, so that
// several completions are there at once.
func (h *harness) arrive(places ...string) {
	h.t.Helper()
	for _, place := range places {
		i := slices.IndexFunc(h.flight, func(b Body) bool { return b.Location.String() == place })
		if i < 0 {
			h.t.Fatalf("no body of %s is in flight; there are %v", place, h.flying())
		}
		h.r.Complete(h.flight[i].ID, h.flight[i].Attempt, &BodyResult{Value: []byte("of " + place), Started: h.clock,
			Ended: h.clock})
		h.flight = slices.Delete(h.flight, i, i+1)
	}
}

// Branches run one at a time, first in, first out; Go queues and goes on; a wake
// once given is not taken back by a cancel in the same hand-over.
func TestRule01(t *testing.T) {
	var trace []string
	say := func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) }
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		var wait []*Future
		for i := range 3 {
			wait = append(wait, b.Go(at(fmt.Sprint("x", i)), func(b *Branch) (any, error) {
				say("x%d begins", i)
				b.Go(at("inner"), func(b *Branch) (any, error) { say("x%d/inner", i); return nil, nil })
				say("x%d goes on", i)
				return nil, nil
			}))
		}
		say("root goes on")
		_, err := b.Compose(at("all"), Join, wait)
		return result("", err)
	})
	h.play()
	want := []string{
		"root goes on", "x0 begins", "x0 goes on", "x1 begins", "x1 goes on", "x2 begins", "x2 goes on",
		"x0/inner", "x1/inner", "x2/inner",
	}
	if !slices.Equal(trace, want) {
		t.Fatalf("the branches ran as %q, want %q", trace, want)
	}

	// The end of the step wakes who awaits the branch; the race, decided by the same
	// hand-over, cancels the awaiting branch, which keeps its value all the same.
	h = newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		first := spawn(b, "first", "s")
		second := b.Go(at("second"), func(b *Branch) (any, error) {
			v, err := b.Await(at("first"), first)
			say("await gives %v %v", v, err)
			say("next %v", b.Sleep(at("nap"), time.Hour))
			return nil, nil
		})
		winner, err := b.Compose(at("race"), Race, []*Future{first, second})
		return result(fmt.Sprint("winner ", winner), err)
	})
	h.play()
	h.end("first/s", "v")
	h.want(store.Succeeded, "winner 0")
	if want := []string{"await gives v <nil>", "next cancelled"}; !slices.Equal(trace, want) {
		t.Errorf("the awaiting branch saw %q, want %q", trace, want)
	}
	h.replays()
}

// A completion is handed over only when no branch is ready, gets the next number,
// and the time of its hand-over; Now is the greatest so far.
func TestRule02(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		one := b.Go(at("a"), func(b *Branch) (any, error) {
			_, err := step(b, "s")
			trace = append(trace, fmt.Sprint("a at ", int64(b.Now()-birth)))
			return nil, err
		})
		two := b.Go(at("b"), func(b *Branch) (any, error) {
			_, err := step(b, "s")
			trace = append(trace, fmt.Sprint("b at ", int64(b.Now()-birth)))
			b.Go(at("child"), func(b *Branch) (any, error) {
				trace = append(trace, "what b has begun")
				return nil, nil
			})
			return nil, err
		})
		_, err := b.Compose(at("all"), Join, []*Future{one, two})
		return result("", err)
	})
	h.play()
	h.arrive("b/s", "a/s")
	h.clock += 50
	h.play()
	h.want(store.Succeeded, "")
	if want := []string{"b at 50", "what b has begun", "a at 50"}; !slices.Equal(trace, want) {
		t.Errorf("the order is %q, want %q", trace, want)
	}
	for place, seq := range map[string]int64{"b/s": 1, "a/s": 2} {
		if e, _ := h.j.at(place); e.Seq != seq || e.At != birth+50 || e.Ended != birth || e.Born != 0 {
			t.Errorf("the entry of %s is %+v, want completion %d at %s", place, e, seq, birth+50)
		}
	}
	h.replays()
}

// An ending branch wakes first who awaits its future, in the order of waiting,
// then its composite decides, then its scope ends; its future settles after its
// own scope has ended.
func TestRule03(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		x := b.Go(at("x"), func(b *Branch) (any, error) {
			b.Go(at("left"), func(b *Branch) (any, error) {
				_, err := step(b, "long")
				trace = append(trace, fmt.Sprint("what x has left: ", err))
				return nil, nil
			})
			return step(b, "s")
		})
		wait := func(name string) *Future {
			return b.Go(at(name), func(b *Branch) (any, error) {
				_, err := b.Await(at("x"), x)
				trace = append(trace, name)
				return nil, err
			})
		}
		futures := []*Future{wait("one"), wait("two")}
		race := b.Go(at("race"), func(b *Branch) (any, error) {
			_, err := b.Compose(at("race"), Race, []*Future{x})
			trace = append(trace, "race")
			return nil, err
		})
		futures = append(futures, race, wait("three"))
		_, err := b.Compose(at("all"), Join, futures)
		return result("", err)
	})
	h.play()
	h.end("x/s", "")
	want := []string{"what x has left: cancelled", "one", "two", "three", "race"}
	if !slices.Equal(trace, want) {
		t.Errorf("the order is %q, want %q", trace, want)
	}
	h.replays()
	if !slices.Equal(trace, want) {
		t.Errorf("in the replay the order is %q, want %q", trace, want)
	}
}

// Select takes at the call the first in argument order, while blocked the one that
// settled first; its timer is withdrawn if it loses; Receive with a deadline is one
// entry.
func TestRule04(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		x, y := spawn(b, "x", "s"), spawn(b, "y", "s")
		both := []Case{{Future: x}, {Future: y}, {Timer: &Timer{Call: at("timer"), At: b.Now().Add(time.Hour)}}}
		blocked, err := b.Select(at("select"), both)
		if err != nil {
			return result("", err)
		}
		if _, err := b.Await(at("x"), x); err != nil {
			return result("", err)
		}
		ready, err := b.Select(at("select"), both)
		if err != nil {
			return result("", err)
		}
		_, err = receive(b, "mail", birth.Add(time.Minute))
		return text("%d %d %v", blocked.Index, ready.Index, err)
	})
	h.play()
	h.arrive("y/s", "x/s")
	h.play()
	if e, ok := h.j.at("timer"); !ok || e.State != store.Withdrawn || e.Seq != 0 {
		t.Fatalf("the timer that has lost is %+v", e)
	}
	entries := len(h.j.entries)
	h.pass(time.Hour)
	h.want(store.Succeeded, "1 0 timeout")
	if len(h.j.entries) != entries {
		t.Errorf("the receive has %d entries more than when it began to wait", len(h.j.entries)-entries)
	}
	h.wantOrder("y/s", "x/s", "mail")
	h.replays()
}

// A message is bound at the hand-over: the oldest message, the longest-waiting
// Receive. Due timers fire by deadline, then by order of request.
func TestRule05(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var all []*Future
		for i, mail := range []string{"a", "b", "a"} {
			all = append(all, b.Go(at(fmt.Sprint("r", i)), func(b *Branch) (any, error) { return receive(b, mail, 0) }))
		}
		for i, d := range []time.Duration{2 * time.Hour, time.Hour, time.Hour} {
			all = append(all, b.Go(at(fmt.Sprint("t", i)), func(b *Branch) (any, error) { return nil, b.Sleep(at("nap"), d) }))
		}
		if _, err := b.Compose(at("all"), Join, all); err != nil {
			return result("", err)
		}
		first, _ := all[0].Result()
		third, _ := all[2].Result()
		return text("%v %v", first, third)
	})
	h.play()
	for i, mail := range []string{"b", "a", "a"} {
		h.r.Deliver(h.j.send(store.Item{Kind: store.ItemMessage, Name: mail, Sent: h.clock, Value: []byte(fmt.Sprint(i))}))
	}
	h.pass(3 * time.Hour)
	h.want(store.Succeeded, "1 2")
	h.wantOrder("r1/b", "r0/a", "r2/a", "t1/nap", "t2/nap", "t0/nap")
	h.replays()
}

// The barrier is a position at the moment of the request; what is cancelled before
// it has begun has never begun.
func TestRule06(t *testing.T) {
	code := func(b *Branch) ([]byte, *stored.Failure) {
		free := spawn(b, "free", "s", "next")
		loser := spawn(b, "loser", "s", "next")
		winner := spawn(b, "winner", "s")
		race := b.Go(at("race"), func(b *Branch) (any, error) {
			_, err := b.Compose(at("race"), Race, []*Future{loser, winner})
			return nil, err
		})
		_, err := b.Compose(at("all"), Join, []*Future{free, race})
		return result("", err)
	}
	h := newHarness(t, code)
	h.play()
	h.arrive("free/s")
	h.advance()
	h.take() // under way, with the completion that free/next depends on
	h.arrive("loser/s")
	h.advance()
	h.start()
	h.wantFlight("winner/s") // neither next may begin
	h.commit()
	h.start()
	h.wantFlight("winner/s", "free/next") // only what depends on what is durable
	h.arrive("winner/s")
	h.play()
	h.wantFlight("free/next") // loser/next was cancelled before it began
	h.finish()
	if h.begun["loser/next"] != 0 {
		t.Error("what was cancelled before it has begun has begun")
	}
	h.replays()
}

// Composites return when the code of all their branches has ended; an error that
// nobody awaited is logged at the scope's end and does not fail the scope.
func TestRule07(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		slow := b.Go(at("slow"), func(b *Branch) (any, error) {
			_, err := step(b, "s")
			_, _ = b.Step(Step{Call: shielded("clean"), Policy: once})
			trace = append(trace, fmt.Sprint("slow ends ", err))
			return nil, err
		})
		fast := spawn(b, "fast", "s")
		b.Go(at("lost"), func(*Branch) (any, error) { return nil, fmt.Errorf("nobody asks") })
		winner, err := b.Compose(at("race"), Race, []*Future{slow, fast})
		trace = append(trace, fmt.Sprint("race ends ", winner))
		return result("fine", err)
	})
	h.play()
	h.end("fast/s", "")
	h.wantFlight("slow/s", "slow/clean") // cancelled, and cleaning up
	h.end("slow/clean", "")
	h.want(store.Succeeded, "fine")
	if want := []string{"slow ends cancelled", "race ends 1"}; !slices.Equal(trace, want) {
		t.Errorf("the order is %q, want %q", trace, want)
	}
	if len(h.notes) != 1 || h.notes[0].Location.String() != "lost" || h.notes[0].Err.Error() != "nobody asks" {
		t.Errorf("the log is told %+v", h.notes)
	}
	h.notes = nil
	h.replays()
	if len(h.notes) > 0 {
		t.Errorf("the replay tells the log %+v again", h.notes)
	}
}

// A run in which all are blocked and no operation is open fails with the places.
func TestRule08(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var self *Future
		self = b.Go(at("x"), func(b *Branch) (any, error) {
			if _, err := step(b, "s"); err != nil {
				return nil, err
			}
			return b.Await(at("self"), self)
		})
		_, err := b.Await(at("x"), self)
		return result("", err)
	})
	h.play()
	h.end("x/s", "")
	h.want(store.Failed,
		"deadlock: every branch waits for another one and no operation is open: the workflow's function, x")
	h.replays()
}

// A cancel goes in pre-order; who waits for his own branches' code is woken by
// their ends; what a cancelled branch asks for is refused at once, and awaiting a
// settled future still gives its value.
func TestRule09(t *testing.T) {
	var trace []string
	say := func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) }
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		settled := b.Go(at("settled"), func(*Branch) (any, error) { return "value", nil })
		x := b.Go(at("x"), func(b *Branch) (any, error) {
			_, _, err := b.Map(at("outer"), 2, 2, func(i int) string { return fmt.Sprint(i) },
				func(b *Branch, i int) (any, error) {
					y := b.Go(at("y"), func(b *Branch) (any, error) {
						_, err := step(b, "s")
						say("y of %d: %v", i, err)
						return nil, nil
					})
					_, err := b.Await(at("y"), y)
					say("%d: %v", i, err)
					return nil, err
				})
			say("map: %v", err)
			v, err2 := b.Await(at("settled"), settled)
			say("settled: %v %v", v, err2)
			_, err2 = b.Compose(at("c"), Join, []*Future{settled})
			say("composite: %v", err2)
			_, err2 = b.Go(at("z"), func(*Branch) (any, error) { return nil, nil }).Result()
			say("go: %v", err2)
			_, err2 = b.Select(at("select"), []Case{{Future: settled}})
			say("select: %v", err2)
			_, err2 = b.NewPromise(at("p"), nil)
			say("promise: %v", err2)
			_, err2 = receive(b, "mail", 0)
			say("receive: %v", err2)
			return nil, err
		})
		_, err := b.Compose(at("race"), Race, []*Future{x, spawn(b, "stop", "s")})
		return result("", err)
	})
	h.play()
	h.end("stop/s", "")
	h.want(store.Succeeded, "")
	want := []string{
		"0: cancelled", "y of 0: cancelled", "1: cancelled", "y of 1: cancelled", "map: cancelled",
		"settled: value <nil>", "composite: cancelled", "go: cancelled", "select: cancelled", "promise: cancelled", "receive: cancelled",
	}
	if !slices.Equal(trace, want) {
		t.Errorf("the cancel is seen as\n%q, want\n%q", trace, want)
	}
	h.replays()
	if !slices.Equal(trace, want) {
		t.Errorf("the replay sees\n%q, want\n%q", trace, want)
	}
}

// A step that carries a compensation keeps its cancelled branch waiting, begun or
// not; its end has a number; the code sees ErrCancelled, the record the outcome. If
// a crash comes before the record, the body runs again with the same key.
func TestRule10(t *testing.T) {
	var saw error
	code := func(b *Branch) ([]byte, *stored.Failure) {
		kept := b.Go(at("kept"), func(b *Branch) (any, error) {
			v, err := b.Step(Step{Call: at("reserve"), Policy: twice, Undo: compensation})
			saw = err
			return string(v), err
		})
		winner, err := b.Compose(at("race"), Race, []*Future{kept, spawn(b, "stop", "s")})
		return result(fmt.Sprint("winner ", winner), err)
	}
	for _, c := range []struct {
		name  string
		after func(h *harness)
		state store.EntryState
		text  string
	}{
		{"late success", func(h *harness) { h.end("kept/reserve", "done") }, store.Done, "done"},
		{"failure is not tried again", func(h *harness) { h.fail("kept/reserve", "no") }, store.FailedEntry, "no"},
		{"crash before the record", func(h *harness) {
			key := h.flight[0].Key()
			h.crash()
			h.play()
			h.wantFlight("kept/reserve")
			if h.flight[0].Key() != key {
				t.Error("the body runs again with another key")
			}
			h.end("kept/reserve", "again")
		}, store.Done, "again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, code)
			h.play()
			h.end("stop/s", "")
			if h.r.Over() != nil || len(h.cancelled) != 1 {
				t.Fatalf("the race is over %v, the cancelled bodies are %v", h.r.Over(), h.cancelled)
			}
			c.after(h)
			h.want(store.Succeeded, "winner 1")
			e, _ := h.j.at("kept/reserve")
			if e.State != c.state || e.Seq != 2 || !strings.Contains(string(e.Value), c.text) {
				t.Errorf("the record is %+v", e)
			}
			if saw != ErrCancelled {
				t.Errorf("the code sees %v", saw)
			}
			h.replays()
			if saw != ErrCancelled {
				t.Errorf("in the replay the code sees %v", saw)
			}
		})
	}
	t.Run("never begun", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			first := spawn(b, "first", "s")
			kept := b.Go(at("kept"), func(b *Branch) (any, error) {
				if _, err := b.Await(at("first"), first); err != nil {
					return nil, err
				}
				v, err := keep(b, "reserve")
				saw = err
				return v, err
			})
			_, err := b.Compose(at("race"), Race, []*Future{kept, spawn(b, "stop", "s")})
			return result("", err)
		})
		h.play()
		h.arrive("first/s", "stop/s") // the body waits for the barrier when the cancel comes
		h.play()
		h.want(store.Succeeded, "")
		h.wantOrder("first/s", "stop/s", "kept/reserve")
		if e, _ := h.j.at("kept/reserve"); e.State != store.FailedEntry || e.Attempt != 0 || h.begun["kept/reserve"] != 0 ||
			saw != ErrCancelled {
			t.Errorf("the record is %+v; begun %d times; the code sees %v", e, h.begun["kept/reserve"], saw)
		}
		h.replays()
	})
	t.Run("between two attempts", func(t *testing.T) {
		h := newHarness(t, code)
		h.play()
		h.fail("kept/reserve", "first")
		h.clock = h.clock.Add(time.Second) // the second attempt is due when the cancel comes
		h.cancel()
		h.wantOrder("[cancel]", "kept/reserve")
		if over := h.r.Over(); over == nil || over.Status != store.Cancelled || h.r.steps.InFlight() != 0 {
			t.Errorf("the run ends %+v with %d bodies in flight", over, h.r.steps.InFlight())
		}
		if e, _ := h.j.at("kept/reserve"); e.Attempt != 1 {
			t.Errorf("the record has %d attempts, want the one that was made", e.Attempt)
		}
		h.replays()
	})
}

// The cancel of the run is a completion with a number; in replay it counts as
// waited for when its number is the lowest that remains.
func TestRule11(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		for _, name := range []string{"one", "two"} {
			_, err := step(b, name)
			trace = append(trace, fmt.Sprint(name, " ", err))
		}
		_, err := b.Step(Step{Call: shielded("clean"), Policy: once})
		trace = append(trace, fmt.Sprint("clean ", err))
		return result("", err)
	})
	h.play()
	h.end("one", "")
	h.cancel()
	h.crash()
	h.play()
	h.end("clean", "")
	h.wantOrder("one", "[cancel]", "clean")
	want := []string{"one <nil>", "two cancelled", "clean <nil>"}
	h.replays()
	if !slices.Equal(trace, want) {
		t.Errorf("the replay sees %q, want %q", trace, want)
	}
}

// In replay the recorded completion with the lowest number among those that some
// branch waits for is handed over, whenever no branch is ready.
func TestRule12(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		trace = nil
		var all []*Future
		for _, name := range []string{"a", "b", "c"} {
			all = append(all, b.Go(at(name), func(b *Branch) (any, error) {
				for range 2 {
					if _, err := step(b, "s"); err != nil {
						return nil, err
					}
					trace = append(trace, name)
				}
				return nil, nil
			}))
		}
		_, err := b.Compose(at("all"), Join, all)
		return result("", err)
	})
	h.play()
	for _, place := range []string{"c/s", "a/s", "c/s#2", "b/s", "b/s#2", "a/s#2"} {
		h.end(place, "")
	}
	want := []string{"c", "a", "c", "b", "b", "a"}
	if !slices.Equal(trace, want) {
		t.Fatalf("the order is %q, want %q", trace, want)
	}
	h.replays()
	if !slices.Equal(trace, want) {
		t.Errorf("the replay's order is %q, want %q", trace, want)
	}
}

// undone puts entries into the journal that are done and have no number, as a
// step leaves them that commits in a transaction of its own.
func (h *harness) undone(places ...string) {
	for _, p := range places {
		loc := string(path(strings.Split(p, "/")...))
		h.j.entries[loc] = store.Entry{Loc: loc, Kind: store.KindStep, State: store.Done, Attempt: 1,
			Value: []byte("tx of " + p), Size: len("tx of " + p)}
	}
}

// After the numbered ones, the done entries without a number that are waited for
// follow in location order; then each entry without a number must have been asked
// for; only then the run is live, when all are blocked.
func TestRule13(t *testing.T) {
	var trace []string
	var live []bool
	code := func(b *Branch) ([]byte, *stored.Failure) {
		trace, live = nil, nil
		var all []*Future
		for _, name := range []string{"c", "b", "a"} {
			all = append(all, b.Go(at(name), func(b *Branch) (any, error) {
				v, err := step(b, "s")
				trace, live = append(trace, v), append(live, b.run.j.Live())
				return nil, err
			}))
		}
		if _, err := b.Compose(at("all"), Join, all); err != nil {
			return result("", err)
		}
		return result(step(b, "end"))
	}
	h := newHarness(t, code)
	h.play()
	h.end("b/s", "first")
	h.leave()
	h.undone("c/s", "a/s")
	h.play()
	if want := []string{"first", "tx of a/s", "tx of c/s"}; !slices.Equal(trace, want) {
		t.Fatalf("the order is %q, want %q", trace, want)
	}
	if slices.Contains(live, true) {
		t.Error("the run was live before all were handed over")
	}
	h.wantFlight("end")
	h.wantOrder("b/s", "a/s", "c/s")
	h.finish()
	h.replays()

	h = newHarness(t, code)
	h.play()
	h.end("b/s", "first")
	h.leave()
	h.undone("d/s")
	h.play()
	h.wantStall("d/s", "step d/s (done)", "step c/s, step a/s")

	// The same test when the function returns.
	h = newHarness(t, func(*Branch) ([]byte, *stored.Failure) { return text("end") })
	h.undone("d/s")
	h.play()
	h.wantStall("d/s", "step d/s (done)", "the end of the workflow")
}

// The outcome of an entry without a number that failed and is large stands as it
// is.
func TestRule13LargeFailure(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "s")) })
	value := stored.EncodeFailure(&stored.Failure{Code: stored.CodeStep, Message: strings.Repeat("x", store.LargeValue)})
	loc := string(path("s"))
	h.j.entries[loc] = store.Entry{Loc: loc, Kind: store.KindStep, State: store.FailedEntry, Attempt: 1, Value: value,
		Size: len(value)}
	h.play()
	h.want(store.Failed, "xxx")
	h.wantOrder("s")
	h.replays()
}

// A done entry without a number whose operation a replayed hand-over has cancelled
// is settled by it and dropped.
func TestRule14(t *testing.T) {
	var saw error
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		loser := b.Go(at("loser"), func(b *Branch) (any, error) {
			var v string
			v, saw = step(b, "s")
			return v, saw
		})
		if _, err := b.Compose(at("race"), Race, []*Future{loser, spawn(b, "stop", "s")}); err != nil {
			return result("", err)
		}
		return result(step(b, "end"))
	})
	h.play()
	h.end("stop/s", "")
	h.leave()
	h.undone("loser/s") // it was done when the cancel came, and nobody knew
	h.play()
	if saw != ErrCancelled {
		t.Fatalf("the cancelled branch sees %v", saw)
	}
	h.end("end", "v")
	h.want(store.Succeeded, "v")
	h.wantOrder("stop/s", "end")
	if e, _ := h.j.at("loser/s"); e.State != store.Done || e.Seq != 0 {
		t.Errorf("the dropped entry is %+v", e)
	}
	h.replays()
}

// Nothing takes effect before the run is live. A stalled replay has begun nothing.
func TestRule15(t *testing.T) {
	code := func(last string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			other := b.Go(at("other"), func(b *Branch) (any, error) {
				p, err := b.NewPromise(at("p"), nil)
				if err != nil {
					return nil, err
				}
				_, err = b.AwaitPromise(at("p"), p)
				return nil, err
			})
			work := spawn(b, "work", "s", last, "end")
			_, err := b.Compose(at("all"), Join, []*Future{other, work})
			return result("", err)
		}
	}
	h := newHarness(t, code("t"))
	h.play()
	h.end("work/s", "")
	h.end("work/t", "")
	delete(h.j.entries, string(path("other", "p"))) // as if the promise were new
	recorded, turns := len(h.j.entries), h.j.turns
	h.leave()
	h.code = code("u")
	h.j.send(store.Item{Kind: store.ItemMessage, Name: "m", Sent: h.clock})
	h.play()
	h.wantStall("work/t", "step work/t (done, completion 2)", "step work/u")
	if len(h.j.entries) != recorded || h.j.turns != turns+1 {
		t.Errorf("the stalled replay has written %d entries in %d turns", len(h.j.entries)-recorded, h.j.turns-turns)
	}
}
