package runner

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// gone is a block of steps in which a mark like "x!" stands for a removed
// operation x.
func gone(steps ...string) func(*Branch) ([]byte, *stored.Failure) {
	return func(b *Branch) ([]byte, *stored.Failure) {
		for _, name := range steps {
			if name, removed := strings.CutSuffix(name, "!"); removed {
				b.Removed(at(name))
			} else if _, err := step(b, name); err != nil {
				return result("", err)
			}
		}
		return text("end")
	}
}

// loopOf is a loop with one step in each iteration, which keeps two of them.
func loopOf(b *Branch, iterations int64) error {
	return b.Loop(Loop{
		Call: at("x"), Every: 1, Keep: 2, State: []byte("s"),
		Body: func(n int64, state []byte) ([]byte, bool, error) {
			_, err := step(b, "fetch")
			return state, n < iterations-1, err
		},
	})
}

// A removed operation of any kind is accepted, whether it is done, open, or never
// was; what remains goes on as before, and nothing is written.
func TestRemovedOfEachKind(t *testing.T) {
	flaky := Step{Call: at("x"), Policy: Policy{Attempts: 5, First: time.Hour, Factor: 1, Max: time.Hour}}
	fetch := func(b *Branch, i int) (any, error) { return step(b, "fetch") }
	keys := func(i int) string { return fmt.Sprint("k", i) }
	hour := func(h *harness) { h.pass(time.Hour) }
	for name, c := range map[string]struct {
		former func(*Branch) error // what was removed
		before func(*harness)      // how far it got
	}{
		"step, done":   {func(b *Branch) error { _, err := step(b, "x"); return err }, ends("x")},
		"step, failed": {func(b *Branch) error { _, _ = step(b, "x"); return nil }, func(h *harness) { h.fail("x", "no") }},
		"step, open": {func(b *Branch) error { _, err := b.Step(flaky); return err },
			func(h *harness) { h.fail("x", "no") }},
		"step, in flight": {func(b *Branch) error { _, err := step(b, "x"); return err }, func(*harness) {}},
		"sleep, over":     {func(b *Branch) error { return b.Sleep(at("x"), time.Hour) }, hour},
		"sleep, open":     {func(b *Branch) error { return b.Sleep(at("x"), 2*time.Hour) }, hour},
		"receive, done": {func(b *Branch) error { _, err := receive(b, "x", 0); return err },
			func(h *harness) { h.send("x", "m") }},
		"receive, timed out": {func(b *Branch) error { _, _ = receive(b, "x", b.Now().Add(time.Hour)); return nil }, hour},
		"receive, open": {func(b *Branch) error {
			_, err := receive(b, "x",
				b.Now().Add(2*time.Hour))
			return err
		}, hour},
		"promise, not solved": {func(b *Branch) error { _, err := b.NewPromise(at("x"), nil); return err }, func(*harness) {}},
		"promise, solved": {func(b *Branch) error {
			p, err := b.NewPromise(at("x"), nil)
			if err == nil {
				_, err = b.AwaitPromise(at("x"), p)
			}
			return err
		}, func(h *harness) {
			h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("x")), Value: []byte("v")})
		}},
		"timer": {func(b *Branch) error {
			_, err := b.Select(at("select"), []Case{{Timer: &Timer{Call: at("x"), At: b.Now().Add(time.Hour)}}})
			return err
		}, hour},
		"branch": {func(b *Branch) error { _, err := b.Await(at("x"), spawn(b, "x", "one", "two")); return err },
			ends("x/one", "x/two")},
		"branch that goes on": {func(b *Branch) error { spawn(b, "x", "one", "two", "three"); return nil },
			ends("x/one", "x/two")},
		"branch with a sleep": {func(b *Branch) error {
			b.Go(at("x"), func(b *Branch) (any, error) { return nil, b.Sleep(at("nap"), 2*time.Hour) })
			return nil
		}, hour},
		"map": {func(b *Branch) error { _, _, err := b.Map(at("x"), 3, 2, keys, fetch); return err },
			ends("x/[k1]/fetch", "x/[k0]/fetch", "x/[k2]/fetch")},
		"map that goes on": {func(b *Branch) error { _, _, err := b.Map(at("x"), 3, 2, keys, fetch); return err },
			ends("x/[k1]/fetch")},
		"step with a key": {func(b *Branch) error {
			_, err := b.Step(Step{Call: Call{Name: "x", Key: "k"}, Policy: once})
			return err
		}, ends("x/[k]")},
		"version": {func(b *Branch) error { b.Version(at("x"), 1); return nil }, func(*harness) {}},
		"version of a removed": {func(b *Branch) error {
			b.Version(at("x"), 1)
			_,
				err := step(b, "x")
			return err
		}, ends("x")},
		"loop, done": {func(b *Branch) error { return loopOf(b, 3) },
			ends("x/~0/fetch", "x/~1/fetch", "x/~2/fetch")},
		"loop that goes on": {func(b *Branch) error { return loopOf(b, 9) },
			ends("x/~0/fetch", "x/~1/fetch", "x/~2/fetch", "x/~3/fetch", "x/~4/fetch")},
		"a watch": {func(b *Branch) error { _, err := b.Watch(at("x"), "other"); return err },
			func(*harness) {}},
		"nothing": {func(b *Branch) error { return nil }, func(*harness) {}},
	} {
		t.Run(name, func(t *testing.T) {
			code := func(removed bool) func(*Branch) ([]byte, *stored.Failure) {
				return func(b *Branch) ([]byte, *stored.Failure) {
					if _, err := step(b, "a"); err != nil {
						return result("", err)
					}
					if removed {
						b.Removed(at("x"))
					} else if err := c.former(b); err != nil {
						return result("", err)
					}
					return changed("b", "c")(b)
				}
			}
			before := func(h *harness) {
				h.end("a", "")
				c.before(h)
			}
			h := edited(t, func(h *harness) {
				before(h)
				for _, place := range h.flying() {
					if place == "b" {
						h.end("b", "vb") // it got so far
					}
				}
			}, code(false), code(true))
			reached := "b"
			if _, ok := h.j.at("b"); ok {
				reached = "c"
			}
			h.wantFlight(reached)
			had := len(h.j.entries)
			h.finish()
			h.want(store.Succeeded, "end")
			more := 2
			if reached == "c" {
				more = 1
			}
			if len(h.j.entries) != had+more {
				t.Errorf("%d entries were added, want %d", len(h.j.entries)-had, more)
			}
			h.replays()
		})
	}
}

// Without Removed all of these stall.
func TestRemovedIsNeeded(t *testing.T) {
	h := edited(t, ends("a", "x"), changed("a", "x", "b"), changed("a", "b"))
	h.wantStall("x", "step x (done, completion 2)", "step b")
	h = edited(t, ends("a", "x"), changed("a", "x", "b"), gone("a", "x!", "b"))
	h.wantFlight("b")
}

// What stands behind a removed operation is executed where it was, in the order
// of all branches: what they share has the same history.
func TestRemovedKeepsTheOrder(t *testing.T) {
	one := func(b *Branch) error { _, err := step(b, "x"); return err }
	many := func(b *Branch) error {
		_, _, err := b.Map(at("x"), 2, 2, strconv.Itoa, func(b *Branch, _ int) (any, error) { return step(b, "s") })
		return err
	}
	code := func(removed bool, former func(*Branch) error) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			shared := "early"
			p := b.Go(at("p"), func(b *Branch) (any, error) {
				_, err := step(b, "s")
				return shared, err
			})
			if removed {
				b.Removed(at("x"))
			} else if err := former(b); err != nil {
				return result("", err)
			}
			shared = "late"
			v, err := b.Await(at("p"), p)
			if err == nil {
				_, err = step(b, "end")
			}
			return result(fmt.Sprint(v), err)
		}
	}
	for want, order := range map[string][]string{"early": {"p/s", "x"}, "late": {"x", "p/s"}} {
		h := edited(t, ends(order...), code(false, one), code(true, one))
		h.wantFlight("end")
		h.finish()
		h.want(store.Succeeded, want)
		h.replays()
	}
	for want, order := range map[string][]string{"early": {"x/[0]/s", "p/s", "x/[1]/s"},
		"late": {"x/[1]/s", "x/[0]/s", "p/s"}} {
		h := edited(t, ends(order...), code(false, many), code(true, many))
		h.wantFlight("end")
		h.finish()
		h.want(store.Succeeded, want)
		h.replays()
	}
}

// The run's time and the numbers go on behind what was removed.
func TestRemovedKeepsTimeAndNumbers(t *testing.T) {
	code := func(removed bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			if removed {
				b.Removed(at("x"))
			} else {
				spawn(b, "x", "s", "t")
				if _, err := step(b, "a"); err != nil {
					return result("", err)
				}
			}
			_, err := step(b, "b")
			return result(b.Now().Time().String(), err)
		}
	}
	h := edited(t, func(h *harness) {
		h.end("x/s", "")
		h.pass(time.Hour)
		h.end("a", "")
		h.end("x/t", "")
	}, code(false), func(b *Branch) ([]byte, *stored.Failure) {
		b.Removed(at("a"))
		return code(true)(b)
	})
	h.wantFlight("b")
	if now := h.r.j.Now(); now != birth.Add(time.Hour) {
		t.Errorf("the run's time is %s, want that of the removed completion, %s", now, birth.Add(time.Hour))
	}
	h.end("b", "")
	h.wantOrder("x/s", "a", "x/t", "b")
	h.replays()
}

// One call stands for one occurrence, and calls with keys for their own.
func TestRemovedOccurrencesAndKeys(t *testing.T) {
	fetch := func(b *Branch, key string) (string, error) {
		v, err := b.Step(Step{Call: Call{Name: "fetch", Key: key, Site: 1}, Policy: once})
		return string(v), err
	}
	loop := func(removed string, keys ...string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			got := ""
			for i, key := range keys {
				if removed != "" && strings.Contains(removed, fmt.Sprint(i)) {
					b.Removed(Call{Name: "fetch", Key: key, Site: 2})
					continue
				}
				v, err := fetch(b, key)
				if err != nil {
					return result("", err)
				}
				got += v
			}
			_, err := step(b, "end")
			return result(got, err)
		}
	}
	for _, c := range []struct {
		keys, places []string
		removed      string
		want         string
	}{
		{[]string{"", "", ""}, []string{"fetch", "fetch#2", "fetch#3"}, "1", "vfetchvfetch#3"},
		{[]string{"", "", ""}, []string{"fetch", "fetch#2", "fetch#3"}, "0", "vfetch#2vfetch#3"},
		{[]string{"k", "l", "m"}, []string{"fetch/[k]", "fetch/[l]", "fetch/[m]"}, "02", "vfetch/[l]"},
		{[]string{"k", "", "k"}, []string{"fetch/[k]", "fetch", "fetch/[k]#2"}, "2", "vfetch/[k]vfetch"},
	} {
		h := edited(t, ends(c.places...), loop("", c.keys...), loop(c.removed, c.keys...))
		h.wantFlight("end")
		h.finish()
		h.want(store.Succeeded, c.want)
		h.replays()
	}

	// A run that begins with the new code counts in the same way.
	h := newHarness(t, loop("0", "", "", ""))
	h.finish()
	h.want(store.Succeeded, "of fetch#2of fetch#3")
	h.replays()
}

// What is accepted below a name, and asked for all the same, keeps its value; if
// that comes too late for the replay, the run stalls and nothing is executed again.
func TestRemovedTooMuch(t *testing.T) {
	keyed := func(b *Branch) (string, error) {
		v, err := b.Step(Step{Call: Call{Name: "x", Key: "k", Site: 1}, Policy: once})
		return string(v), err
	}
	code := func(removed bool, before ...string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			if removed {
				b.Removed(at("x"))
			}
			for _, name := range before {
				if _, err := step(b, name); err != nil {
					return result("", err)
				}
			}
			v, err := keyed(b)
			if err == nil {
				_, err = step(b, "end")
			}
			return result(v, err)
		}
	}
	h := edited(t, ends("a", "x/[k]"), code(false, "a"), code(true, "a"))
	h.wantFlight("end")
	h.finish()
	h.want(store.Succeeded, "vx/[k]")
	h.replays()

	h = edited(t, ends("a", "x/[k]"), code(false, "a"), code(true, "a", "new"))
	h.wantFlight("new")
	h.end("new", "")
	h.wantStall("x/[k]", "step x/[k] (done, completion 2)", "step x/[k], after Removed has accepted")
}

// A cancel that comes with a lower number than the end of a removed step that had
// to be seen to its end does not stall the run.
func TestRemovedOfAKeptStep(t *testing.T) {
	code := func(removed bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			if removed {
				b.Removed(at("x"))
			} else {
				_, _ = keep(b, "x")
			}
			_, err := b.Step(Step{Call: shielded("clean"), Policy: once})
			return result("", err)
		}
	}
	h := edited(t, func(h *harness) {
		h.cancel()
		h.end("x", "late")
	}, code(false), code(true))
	h.wantFlight("clean")
	h.end("clean", "")
	h.want(store.Cancelled, "")
	h.wantOrder("[cancel]", "x", "clean")
	h.replays()

	// In a cancelled branch it waits for nothing and uses no name.
	h = newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, _ = step(b, "a")
		b.Removed(at("x"))
		return result(step(b, "b"))
	})
	h.play()
	h.cancel()
	h.want(store.Cancelled, "")
	h.replays()
}

// A child that still runs ends with the run; one that goes on without its parent is
// left alone, and so is one that has ended.
func TestRemovedChild(t *testing.T) {
	for name, c := range map[string]struct {
		child     Child
		ended     bool
		cancelled bool
	}{
		"that runs":      {Child{Call: at("x"), Workflow: "w"}, false, true},
		"that is left":   {Child{Call: at("x"), Workflow: "w", Leave: true}, false, false},
		"detached":       {Child{Call: at("x"), Workflow: "w", Detached: true}, false, false},
		"that has ended": {Child{Call: at("x"), Workflow: "w"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			code := func(removed bool) func(*Branch) ([]byte, *stored.Failure) {
				return func(b *Branch) ([]byte, *stored.Failure) {
					if removed {
						b.Removed(at("x"))
						return changed("b", "c")(b)
					}
					o, err := b.StartChild(c.child)
					if err != nil {
						return result("", err)
					}
					if c.ended {
						_, _ = b.AwaitRun(at("await"), o)
					}
					return changed("b", "c")(b)
				}
			}
			var id string
			h := edited(t, func(h *harness) {
				for id = range h.j.out.started {
				}
				if id == "" {
					t.Fatal("no child was started")
				}
				if c.ended {
					h.j.out.ended[id] = true
					h.deliver(endOf(id, id))
				}
				h.end("b", "")
			}, code(false), code(true))
			h.wantFlight("c")
			if h.j.out.cancelled[id] {
				t.Error("the child is cancelled while the run goes on")
			}
			h.finish()
			h.want(store.Succeeded, "end")
			if got := h.j.out.cancelled[id]; got != c.cancelled {
				t.Errorf("cancelled at the end: %v, want %v", got, c.cancelled)
			}
			h.replays()
		})
	}
}
