package runner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// counting is a loop that executes a step in each of its iterations and counts
// them in its state. body may be nil; it is called after the step.
func counting(b *Branch, every, keep, iterations int64, body func(n int64) error) (string, error) {
	var last string
	err := b.Loop(Loop{
		Call: at("poll"), Every: every, Keep: keep, State: []byte("0"),
		Body: func(n int64, state []byte) ([]byte, bool, error) {
			if want := fmt.Sprint(n); string(state) != want {
				return nil, false, fmt.Errorf("iteration %d begins with state %s", n, state)
			}
			if _, err := step(b, "fetch"); err != nil {
				return nil, false, err
			}
			if body != nil {
				if err := body(n); err != nil {
					return nil, false, err
				}
			}
			last = fmt.Sprint(n + 1)
			return []byte(last), n+1 < iterations, nil
		},
	})
	if err != nil {
		return "", err
	}
	return last, nil
}

// keptIterations returns the iterations of the loop poll that have their step, and
// those that have their state.
func (h *harness) keptIterations() (steps, states []int64) {
	for loc, e := range h.j.entries {
		for loop, n := range location.Loc(loc).Loops() {
			if loop != path("poll") {
				continue
			}
			if e.Kind == store.KindLoop {
				states = append(states, n)
			} else {
				steps = append(steps, n)
			}
		}
	}
	slices.Sort(steps)
	slices.Sort(states)
	return steps, states
}

func (h *harness) progress() stored.LoopProgress {
	h.t.Helper()
	e, ok := h.j.entries[string(path("poll"))]
	if !ok {
		return stored.LoopProgress{}
	}
	p, err := stored.DecodeLoop(e.Value)
	if err != nil || e.State != store.Open || e.Seq != 0 {
		h.t.Fatalf("the entry of the loop is %+v (%v)", e, err)
	}
	return p
}

// TestExactlyKeepIterationsAreKept looks after each turn that commits a state: the
// last keep completed iterations have their history and the ones before have
// none, for many pairs. Each activation lasts for a few iterations only.
func TestExactlyKeepIterationsAreKept(t *testing.T) {
	for every := int64(1); every <= 7; every++ {
		for _, keep := range []int64{0, 1, 2, 3, 5, 6, 7, 8, 14, 20} {
			t.Run(fmt.Sprintf("every-%d-keep-%d", every, keep), func(t *testing.T) {
				const iterations = 43
				h := newHarness(t, func(b *Branch) ([]byte,
					*stored.Failure) {
					return result(counting(b, every, keep, iterations, nil))
				})
				h.play()
				commits := int64(0)
				for n := int64(0); n < iterations; n++ {
					h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
					completed := n + 1
					if completed%every == 0 && completed < iterations {
						commits++
						oldest := max(completed-keep, 0)
						if p := h.progress(); p.Completed != completed || p.Oldest != oldest {
							t.Fatalf("after %d iterations the loop says %+v, want %d as the oldest", completed, p, oldest)
						}
						steps, states := h.keptIterations()
						var want []int64
						for i := oldest; i < completed; i++ {
							want = append(want, i)
						}
						if !slices.Equal(steps, want) {
							t.Fatalf("after %d iterations %v are kept, want %v", completed, steps, want)
						}
						if oldest > 0 && (len(states) == 0 || states[0] != oldest) {
							t.Fatalf("after %d iterations the states of %v are kept, want that of %d first", completed, states, oldest)
						}
					}
					if n%5 == 3 {
						h.crash()
						h.play()
					}
				}
				h.want(store.Succeeded, fmt.Sprint(iterations))
				if commits != (iterations-1)/every {
					t.Fatalf("%d commits of state were looked at", commits)
				}
				h.replays()
			})
		}
	}
}

// TestReplayBeginsAtTheOldestKeptIteration: the state, the time and the number are
// those with which it was entered.
func TestReplayBeginsAtTheOldestKeptIteration(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		return result(counting(b, 4, 6, 12, func(n int64) error {
			trace = append(trace, fmt.Sprint(n, " ", int64(b.Now()-birth)))
			return nil
		}))
	})
	h.play()
	for n := range 11 {
		h.clock += 10
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
	}
	if want := "0 10"; trace[0] != want {
		t.Fatalf("the first iteration is %q, want %q", trace[0], want)
	}
	live := trace[2:] // 8 are complete, 6 are kept
	trace = nil
	h.crash()
	h.advance()
	if !slices.Equal(trace, live) {
		t.Fatalf("the replay sees %q, want %q", trace, live)
	}
	h.play()
	h.end("poll/~11/fetch", "v")
	h.want(store.Succeeded, "12")
}

// TestACommitOfStateCostsNoTurn: it is in the turn of the iteration's last
// completion, and the next iteration's step waits for that turn alone.
func TestACommitOfStateCostsNoTurn(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(counting(b, 3, 3, 30, nil)) })
	h.play()
	for n := range 29 {
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
		h.wantFlight(fmt.Sprintf("poll/~%d/fetch", n+1))
		if h.j.turns != n+1 {
			t.Fatalf("%d turns after %d iterations", h.j.turns, n+1)
		}
	}
}

func TestALoopEndsWithTheErrorOfItsBody(t *testing.T) {
	stop := errors.New("no more")
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, err := counting(b, 2, 2, 100, func(n int64) error {
			if n == 6 {
				return stop
			}
			return nil
		})
		if err != stop {
			return text("the loop gives %v", err)
		}
		v, err := step(b, "after")
		return result(v, err)
	})
	h.finish()
	h.want(store.Succeeded, "of after")
	h.replays()
}

// TestACancelEndsALoop, also one whose body asks for nothing and ignores it.
func TestACancelEndsALoop(t *testing.T) {
	for _, c := range []string{"in a step", "at the next iteration"} {
		t.Run(c, func(t *testing.T) {
			var loopErr error
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				loopErr = b.Loop(Loop{Call: at("poll"), Every: 2, Keep: 2, State: []byte("s"),
					Body: func(n int64, state []byte) ([]byte, bool, error) {
						_, err := step(b, "fetch")
						if c == "in a step" {
							return state, true, err
						}
						return state, true, nil
					}})
				return text("done")
			})
			h.play()
			for n := range 5 {
				h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
			}
			h.cancel()
			h.want(store.Cancelled, "")
			if loopErr != ErrCancelled {
				t.Fatalf("the loop gives %v", loopErr)
			}
			h.replays()
		})
	}
}

// TestAnIterationEndsWithAllThatItBegan: branches are cancelled and resources
// closed before the next one begins.
func TestAnIterationEndsWithAllThatItBegan(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		return result(counting(b, 1, 1, 3, func(n int64) error {
			trace = append(trace, fmt.Sprint("body ", n))
			b.OnExit(func() { trace = append(trace, fmt.Sprint("closed ", n)) })
			b.Go(at("aside"), func(b *Branch) (any, error) {
				_, err := step(b, "slow")
				trace = append(trace, fmt.Sprint("aside ", n, " ", err))
				return nil, err
			})
			_, err := step(b, "last")
			return err
		}))
	})
	h.play()
	for n := range 3 {
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
		h.end(fmt.Sprintf("poll/~%d/last", n), "v")
	}
	want := []string{"body 0", "aside 0 cancelled", "closed 0", "body 1", "aside 1 cancelled", "closed 1", "body 2",
		"aside 2 cancelled", "closed 2"}
	if !slices.Equal(trace, want) {
		t.Fatalf("got %q, want %q", trace, want)
	}
	if h.r.Over() == nil || len(h.cancelled) != 3 {
		t.Fatalf("%d bodies were cancelled", len(h.cancelled))
	}
}

// TestAPanicLeavesTheIteration: code that recovers behind the loop is in its own
// scope again, and what the iteration began has ended.
func TestAPanicLeavesTheIteration(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var aside *Future
		func() {
			defer func() { _ = recover() }()
			_, _ = counting(b, 1, 1, 100, func(n int64) error { // it panics
				aside = b.Go(at("aside"), func(b *Branch) (any, error) {
					_, err := step(b, "slow")
					return nil, err
				})
				if n == 2 {
					panic("on purpose")
				}
				return nil
			})
		}()
		if !aside.Settled() {
			return text("the branch of the iteration still runs")
		}
		v, err := step(b, "after")
		return result(string(b.Location())+v, err)
	})
	h.finish()
	h.want(store.Succeeded, "of after")
	h.replays()
}

// TestTheBudgetCountsWhatIsKept, in a loop inside of a loop.
func TestTheBudgetCountsWhatIsKept(t *testing.T) {
	nested := func(b *Branch) ([]byte, *stored.Failure) {
		err := b.Loop(Loop{Call: at("outer"), Every: 2, Keep: 1, State: []byte("s"),
			Body: func(n int64, state []byte) ([]byte, bool, error) {
				_, err := counting(b, 3, 2, 20, func(int64) error {
					_, err := b.Derive(at("d"), "d")
					return err
				})
				return state, n < 9, err
			}})
		return result("done", err)
	}
	h := newHarness(t, nested)
	h.cfg.Limits = Limits{Entries: 60, Bytes: 4000}
	h.finish()
	h.want(store.Succeeded, "done")
	if got, want := h.r.Entries(), len(h.j.entries); got != want {
		t.Fatalf("the run counts %d entries and has %d", got, want)
	}
	bytes := 0
	for _, e := range h.j.entries {
		bytes += len(e.Value)
	}
	if h.bytes() != bytes {
		t.Fatalf("the run counts %d bytes and has %d", h.bytes(), bytes)
	}
	h.replays()
	if h.r.Entries() != len(h.j.entries) || h.bytes() != bytes {
		t.Fatalf("the replay counts %d entries with %d bytes, want %d with %d", h.r.Entries(), h.bytes(),
			len(h.j.entries), bytes)
	}

	h = newHarness(t, nested)
	h.cfg.Limits = Limits{Entries: 10}
	h.finish()
	h.wantBug(stored.CauseBudget, "exceeds the budget", len(h.j.entries))
}

// TestWhatOwesACompensationIsKept: from the first iteration that owes one nothing
// is pruned, unless the loop forgets it.
func TestWhatOwesACompensationIsKept(t *testing.T) {
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprint("forget-", forget), func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				err := b.Loop(Loop{Call: at("poll"), Every: 2, Keep: 2, ForgetUndo: forget, State: []byte("s"),
					Body: func(n int64, state []byte) ([]byte, bool, error) {
						ask := step
						if n == 5 {
							ask = keep
						}
						_, err := ask(b, "fetch")
						return state, n < 13, err
					}})
				return result("done", err)
			})
			h.play()
			for n := range 13 {
				h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
				if n%4 == 2 {
					h.crash()
					h.play()
				}
			}
			want := int64(4) // the iterations that are pruned together with the fifth
			if forget {
				want = 10
			}
			if steps, _ := h.keptIterations(); steps[0] != want || h.progress().Oldest != want {
				t.Fatalf("%v are kept, want %d first", steps, want)
			}
			h.end("poll/~13/fetch", "v")
			h.want(store.Succeeded, "done")
			h.replays()
		})
	}
}

// TestDerivedValuesDifferByIteration and are the same in a replay.
func TestDerivedValuesDifferByIteration(t *testing.T) {
	values := map[int64]string{}
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		return result(counting(b, 3, 3, 12, func(n int64) error {
			v, err := b.Derive(at("random"), "random")
			got := fmt.Sprintf("%x", v)
			if was, ok := values[n]; ok && was != got {
				return fmt.Errorf("iteration %d gets another value in a replay", n)
			}
			for other, was := range values {
				if other != n && was == got {
					return fmt.Errorf("iterations %d and %d get the same value", n, other)
				}
			}
			values[n] = got
			return err
		}))
	})
	keys := map[string]bool{}
	h.play()
	for n := range 12 {
		keys[h.flight[0].Key()] = true
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
		if h.r.Over() == nil {
			h.crash()
			h.play()
		}
	}
	h.want(store.Succeeded, "12")
	if len(keys) != 12 || len(values) != 12 {
		t.Fatalf("%d keys and %d values in 12 iterations", len(keys), len(values))
	}
}

// TestAPromiseOfAPrunedIterationHasEnded: what assigns it is consumed, whether it
// comes before the pruning or after it, live or in a replay.
func TestAPromiseOfAPrunedIterationHasEnded(t *testing.T) {
	var places []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		places = nil
		return result(counting(b, 2, 1, 20, func(n int64) error {
			p, err := b.NewPromise(at("p"), nil)
			if err == nil {
				places = append(places, p.Location())
			}
			return err
		}))
	})
	resolve := func(n int) store.Item {
		t.Helper()
		loc := string(path("poll").Iteration(int64(n)).Name("p", 1))
		h.deliver(store.Item{Kind: store.ItemResolution, Loc: loc, Value: []byte("v")})
		return h.j.items[len(h.j.items)-1]
	}
	state := func(it store.Item) store.ItemState { return h.j.item(it.No).State }
	h.play()
	for n := range 5 {
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
	}
	early := resolve(4)
	if got := state(early); got != store.Seen {
		t.Fatalf("the resolution of a kept promise is in state %d", got)
	}
	late := resolve(1)
	if got := state(late); got != store.Dead {
		t.Fatalf("the resolution of a pruned promise is in state %d", got)
	}
	h.end("poll/~5/fetch", "v")
	h.end("poll/~6/fetch", "v")
	h.end("poll/~7/fetch", "v")
	if got := state(early); got != store.Dead {
		t.Fatalf("the resolution of a promise that was pruned since is in state %d", got)
	}
	if len(h.r.promises.made) != 1 || len(h.r.promises.resolved) != 0 {
		t.Fatalf("%d promises and %d resolutions are kept in memory", len(h.r.promises.made), len(h.r.promises.resolved))
	}
	h.leave()
	it := h.j.send(store.Item{Kind: store.ItemResolution, Loc: string(path("poll").Iteration(2).Name("p", 1)),
		Sent: h.clock})
	h.play()
	if got := state(it); got != store.Dead {
		t.Fatalf("the resolution that was delivered before the replay is in state %d", got)
	}
}

// TestEveryAndKeepMayChange: a run goes on with what it has recorded under other
// ones.
func TestEveryAndKeepMayChange(t *testing.T) {
	pairs := [][2]int64{{3, 2}, {2, 2}, {5, 0}, {1, 7}, {4, 9}, {3, 3}, {7, 1}}
	for first := range pairs {
		for stop := range 14 {
			pair := pairs[first]
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				return result(counting(b, pair[0], pair[1], 60, nil))
			})
			h.play()
			for n := range 59 {
				h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
				if n%14 == stop {
					h.leave()
					pair = pairs[(first+n)%len(pairs)]
					h.play()
				}
			}
			h.end("poll/~59/fetch", "v")
			h.want(store.Succeeded, "60")
			if n := len(h.j.entries); n > 60 {
				t.Fatalf("%d entries are left", n)
			}
		}
	}
}

// TestALateBodyOfAPrunedIteration writes its outcome in a transaction of its own.
// The replay takes no notice, and the next pruning removes it.
func TestALateBodyOfAPrunedIteration(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(counting(b, 2, 1, 12, nil)) })
	h.play()
	for n := range 6 {
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
	}
	loc := string(path("poll").Iteration(3).Name("late", 1))
	h.j.entries[loc] = store.Entry{Loc: loc, Kind: store.KindStep, State: store.Done, Attempt: 1}
	h.crash()
	h.play()
	h.end("poll/~6/fetch", "v")
	if _, ok := h.j.entries[loc]; !ok {
		t.Fatal("the entry is gone before the next pruning")
	}
	h.end("poll/~7/fetch", "v")
	if _, ok := h.j.entries[loc]; ok {
		t.Fatal("the entry is there after the next pruning")
	}
	h.finish()
	h.want(store.Succeeded, "12")
}

// TestALoopWhoseOldestStateIsGone is damaged, and says so.
func TestALoopWhoseOldestStateIsGone(t *testing.T) {
	for _, how := range []string{"no state", "no progress"} {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { return result(counting(b, 2, 2, 12, nil)) })
		h.play()
		for n := range 6 {
			h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
		}
		h.leave()
		if how == "no state" {
			delete(h.j.entries, string(path("poll").Iteration(4)))
		} else {
			e := h.j.entries[string(path("poll"))]
			e.Value = []byte("junk")
			h.j.entries[e.Loc] = e
		}
		h.play()
		if over := h.r.Over(); over == nil || over.Status != store.Stalled ||
			!strings.Contains(over.Reason, "damaged entry poll") {
			t.Fatalf("%s: the run is %+v", how, over)
		}
	}
}

// TestALoopWhereAnotherOperationStood stalls, and the other way round.
func TestALoopWhereAnotherOperationStood(t *testing.T) {
	looping := false
	code := func(b *Branch) ([]byte, *stored.Failure) {
		if looping {
			return result(counting(b, 1, 1, 5, nil))
		}
		if _, err := step(b, "poll"); err != nil {
			return result("", err)
		}
		return result(step(b, "next"))
	}
	for _, first := range []bool{false, true} {
		looping = first
		h := newHarness(t, code)
		h.play()
		if looping {
			h.end("poll/~0/fetch", "v")
		} else {
			h.end("poll", "v")
		}
		h.leave()
		looping = !looping
		h.play()
		h.want(store.Stalled, "mismatch at poll: the history has")
	}
}

func TestAStateThatIsTooLargeFails(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		err := b.Loop(Loop{Call: at("poll"), Every: 1, Keep: 1, State: []byte("s"),
			Body: func(n int64, state []byte) ([]byte, bool, error) {
				return []byte(strings.Repeat("s", 99+int(n))), true, nil
			}})
		var f *stored.Failure
		if !errors.As(err, &f) {
			return text("the loop gives %v", err)
		}
		return nil, f
	})
	h.cfg.Limits = Limits{Value: 100}
	h.finish()
	h.want(store.Failed, "too_large: the state of loop poll has 101 bytes")
}

// TestALoopThatAsksForNothing gives others their turn at each commit of state.
func TestALoopThatAsksForNothing(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		err := b.Loop(Loop{Call: at("poll"), Every: 10, Keep: 10, State: []byte("0"),
			Body: func(n int64, state []byte) ([]byte, bool, error) {
				i, err := strconv.Atoi(string(state))
				return []byte(fmt.Sprint(i + 1)), i < 100_000, err
			}})
		return result("done", err)
	})
	h.cfg.Limits = Limits{TurnEntries: 10}
	h.advance()
	if h.r.Over() != nil || !h.take() {
		t.Fatal("the first turn is not cut")
	}
	h.commit()
	h.cancel()
	h.want(store.Cancelled, "")
	if n := h.j.seq(); n > 100 {
		t.Fatalf("the cancel came after %d iterations with a state", n)
	}
}

// TestWhatALoopLeavesInMemory is bounded, whatever its iterations ask for.
func TestWhatALoopLeavesInMemory(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		b.Go(at("aside"), func(b *Branch) (any, error) { return receive(b, "mail", 0) }) // waits longer than all others
		err := b.Loop(Loop{Call: at("poll"), Every: 10, Keep: 5, State: []byte("s"),
			Body: func(n int64, state []byte) ([]byte, bool, error) {
				done := b.Go(at("aside"), func(b *Branch) (any, error) { return step(b, "fetch") })
				_, err := b.Select(at("select"), []Case{
					{Future: done},
					{Timer: &Timer{Call: at("late"), At: b.Now().Add(time.Hour)}},
					{Receive: &Receive{Call: at("mail"), Names: []string{"mail"}, Max: 1, Deadline: b.Now().Add(time.Hour)}},
				})
				return state, n < 5000, err
			}})
		return result("done", err)
	})
	h.play()
	for n := range 5000 {
		h.end(fmt.Sprintf("poll/~%d/aside/fetch", n), "v")
		r := h.r
		if n < 500 {
			continue
		}
		for what, size := range map[string]int{
			"timers": r.j.Timers.Len(), "receivers": r.mail.Waiting("mail"), "branches": len(r.sched.Branches()), "bodies": r.steps.Open(),
			"entries": len(h.j.entries), "unlooked": r.mail.Unlooked(), "queue": r.steps.Queued(),
			"entering": r.loops.entering.Room(), "scopes": r.root.Size(),
		} {
			if size > 150 {
				t.Fatalf("after %d iterations there are %d %s", n, size, what)
			}
		}
	}
}

// TestWhatOtherRunsLeaveInMemory: a child that is left, or a watch that lost, is
// forgotten with its iteration; its end, early or late, is consumed.
func TestWhatOtherRunsLeaveInMemory(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		return result(counting(b, 2, 1, 200, func(n int64) error {
			if _, err := b.StartChild(Child{Call: at("left"), Workflow: "w", Leave: true}); err != nil {
				return err
			}
			_, err := b.Watch(at("watched"), "other")
			return err
		}))
	})
	h.play()
	var early, late []string
	for n := range 150 {
		h.end(fmt.Sprintf("poll/~%d/fetch", n), "v")
		if n < 20 {
			for id := range h.j.out.started {
				if !slices.Contains(early, id) && !slices.Contains(late, id) {
					if n%2 == 0 {
						early = append(early, id)
						h.deliver(endOf(id, id))
					} else {
						late = append(late, id)
					}
				}
			}
		}
		if n := h.r.runs.Len(); n > 10 {
			t.Fatalf("%d other runs are in memory", n)
		}
	}
	for _, id := range late {
		h.deliver(endOf(id, id))
	}
	if len(early) == 0 || len(late) == 0 {
		t.Fatalf("%d ends came early, %d late", len(early), len(late))
	}
	for _, it := range h.j.items {
		if it.State != store.Consumed {
			t.Errorf("the end of %s is in state %d", it.Name, it.State)
		}
	}
}
