package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// changed is code of the steps in which a mark like "x?" stands for a step x that
// was inserted under a version of the change "c".
func changed(steps ...string) func(*Branch) ([]byte, *stored.Failure) {
	return func(b *Branch) ([]byte, *stored.Failure) {
		for _, name := range steps {
			name, marked := strings.CutSuffix(name, "?")
			if marked && b.Version(at("c"), 1) == 0 {
				continue
			}
			if _, err := step(b, name); err != nil {
				return result("", err)
			}
		}
		return text("end")
	}
}

func ends(places ...string) func(*harness) {
	return func(h *harness) {
		for _, p := range places {
			h.end(p, "v"+p)
		}
	}
}

// A run that has passed the call with former code takes the former way, wherever
// the call stands; one that comes to it for the first time takes the new one.
func TestVersionOfOldRuns(t *testing.T) {
	for _, c := range []struct {
		name    string
		former  []string
		before  func(*harness)
		changed []string
		flight  string // what goes on after the change
		order   string // of all completions in the end
	}{
		{"before recorded operations", []string{"a", "b", "c"}, ends("a", "b"), []string{"x?", "a", "b", "c"}, "c", "a b c"},
		{"between recorded operations", []string{"a", "b", "c"}, ends("a", "b"), []string{"a", "x?", "b", "c"}, "c", "a b c"},
		{"after the last one, before one in flight", []string{"a", "b", "c"}, ends("a", "b"), []string{"a", "b", "x?", "c"}, "c", "a b c"},
		{"behind the one in flight", []string{"a", "b", "c"}, ends("a", "b"), []string{"a", "b", "c", "x?"}, "c", "a b c x"},
		{"in all places", []string{"a", "b", "c"}, ends("a", "b"), []string{"w?", "a", "x?", "b", "y?", "c", "z?"}, "c", "a b c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := edited(t, c.before, changed(c.former...), changed(c.changed...))
			h.wantFlight(c.flight)
			h.finish()
			h.want(store.Succeeded, "end")
			h.wantOrder(strings.Fields(c.order)...)
			h.replays()
		})
	}
}

// A run that only waits has passed what stands before its wait, although the wait
// has left no entry.
func TestVersionOfAWaitingRun(t *testing.T) {
	code := func(marked bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			if marked && b.Version(at("c"), 1) >= 1 {
				if _, err := step(b, "x"); err != nil {
					return result("", err)
				}
			}
			return result(receive(b, "mail", 0))
		}
	}
	h := edited(t, func(h *harness) {
		if len(h.j.entries) > 0 || h.j.run.Status != store.Suspended {
			t.Fatalf("the run is %s with %d entries, want suspended with none", h.j.run.Status, len(h.j.entries))
		}
	}, code(false), code(true))
	h.wantFlight()
	h.send("mail", "m")
	h.want(store.Succeeded, "m")
}

// A run of which nothing is committed is new.
func TestVersionOfANewRun(t *testing.T) {
	h := newHarness(t, changed("a"))
	h.play()
	h.wantFlight("a") // the body has begun, and no turn says so
	h.leave()
	h.code = changed("x?", "a")
	h.play()
	h.wantFlight("x")
	h.finish()
	h.want(store.Succeeded, "end")
	h.wantOrder("x", "a")
	h.replays()
}

// The newest version is recorded once, without a number, before anything that
// depends on it begins; code with a newer version keeps to it.
func TestVersionIsRecordedOnce(t *testing.T) {
	var got []int
	code := func(newest int) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			got = nil
			for i := range 3 {
				got = append(got, b.Version(at("c"), newest))
				if _, err := step(b, fmt.Sprint("s", i)); err != nil {
					return result("", err)
				}
			}
			f := b.Go(at("g"), func(b *Branch) (any, error) { got = append(got, b.Version(at("c"), newest)); return nil, nil })
			_, err := b.Await(at("g"), f)
			return result("end", err)
		}
	}
	h := newHarness(t, code(1))
	h.advance()
	if !h.take() || len(slices.Collect(h.r.Bodies())) > 0 {
		t.Fatal("a body begins before the version is durable")
	}
	h.commit()
	h.start()
	h.wantFlight("s0")
	e, ok := h.j.at("[version]/c")
	if version, err := stored.DecodeVersion(e.Value); !ok || e.Kind != store.KindVersion || e.State != store.Done ||
		e.Seq != 0 || version != 1 || err != nil {
		t.Fatalf("the entry is %+v (%v), version %d, %v", e, ok, version, err)
	}
	h.end("s0", "")
	h.leave()
	h.code = code(2)
	h.finish()
	h.want(store.Succeeded, "end")
	if want := []int{1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("the versions are %v, want %v", got, want)
	}
	h.wantOrder("s0", "s1", "s2")
	h.replays()
}

// Former code that is passed in one branch fixes the version for a call in another
// branch that is reached later; and the order of branches is what it was.
func TestVersionIsOneForAllBranches(t *testing.T) {
	code := func(marked bool) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			versions := []int{-1, -1}
			branch := func(i int, name string) *Future {
				return b.Go(at(name), func(b *Branch) (any, error) {
					if _, err := step(b, "first"); err != nil {
						return nil, err
					}
					if marked {
						versions[i] = b.Version(at("c"), 1)
					}
					return step(b, "second")
				})
			}
			_, err := b.Compose(at("join"), Join, []*Future{branch(0, "p"), branch(1, "q")})
			return result(fmt.Sprint(versions), err)
		}
	}
	h := edited(t, ends("p/first"), code(false), code(true))
	h.wantFlight("q/first", "p/second")
	h.finish()
	h.want(store.Succeeded, "[0 0]")
	h.replays()

	// A run that no branch has passed takes the new way in both.
	h = edited(t, func(*harness) {}, code(false), code(true))
	h.finish()
	h.want(store.Succeeded, "[1 1]")
	h.replays()
}

// What was done and not handed over when the process ended was not passed.
func TestVersionBehindAnUnnumberedOutcome(t *testing.T) {
	h := newHarness(t, changed("a", "b", "c"))
	h.play()
	h.end("a", "va")
	loc := string(path("b"))
	h.j.entries[loc] = store.Entry{Loc: loc, Kind: store.KindStep, State: store.Done, Attempt: 1,
		Value: []byte("vb"), Size: 2}
	h.leave()
	h.code = changed("a", "b", "x?", "c")
	h.play()
	h.wantFlight("x")
	h.finish()
	h.want(store.Succeeded, "end")
	h.wantOrder("a", "b", "x", "c")
	h.replays()
}

// Each iteration of a loop has a version of its own.
func TestVersionOfAnIteration(t *testing.T) {
	for text, want := range map[string]string{
		"a":              "[version]/c",
		"a/[k]/b":        "[version]/c",
		"poll/~3":        "poll/~3/[version]/c",
		"poll/~4/a/[k]":  "poll/~4/[version]/c",
		"p/~3/q/~1028/a": "p/~3/q/~1028/[version]/c",
	} {
		loc, err := location.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := journal.VersionLocation(loc, "c")
		if got.String() != want || location.Check(string(got)) != nil {
			t.Errorf("in %s the version is at %s, want %s", text, got, want)
		}
	}
	if got := journal.VersionLocation("", "c").String(); got != "[version]/c" {
		t.Errorf("in the root the version is at %s", got)
	}
}

// A new incarnation is new, although turns of former ones were committed.
func TestVersionOfANewIncarnation(t *testing.T) {
	h := newHarness(t, changed("x?", "a"))
	h.j.run.Incarnation, h.j.run.Build, h.j.run.Waits = 1, "b1", []byte("[]")
	h.play()
	h.wantFlight("x")
}

// A run of which a turn without entries was committed was there before.
func TestVersionOfARunWithoutEntries(t *testing.T) {
	h := newHarness(t, changed("x?", "a"))
	h.j.run.Build, h.j.run.Waits = "b1", []byte{}
	h.play()
	h.wantFlight("a")
}

// A run that was claimed by the act that made it has a build, and may never have begun.
func TestVersionOfARunWithABuild(t *testing.T) {
	h := newHarness(t, changed("x?", "a"))
	h.j.run.Build = "b1"
	h.play()
	h.wantFlight("x")
}

// Code that does not know the version of a run stalls it and names both.
func TestVersionGreaterThanTheNewest(t *testing.T) {
	two := func(b *Branch) ([]byte, *stored.Failure) {
		b.Version(at("c"), 2)
		return result(step(b, "a"))
	}
	h := edited(t, func(*harness) {}, two, changed("x?", "a"))
	h.wantStall("[version]/c", "version 2", "version 1 at most")
	h.leave()
	h.j.run.Status, h.code = store.Running, two
	h.play()
	h.wantFlight("a")
}

// A version that is not asked for any more is a divergence until Removed says so.
func TestVersionNotAskedFor(t *testing.T) {
	nothing := func(*harness) {}
	for name, before := range map[string]func(*harness){"before an operation": nothing,
		"before a recorded one": ends("x")} {
		t.Run(name, func(t *testing.T) {
			h := edited(t, before, changed("x?", "a"), changed("x", "a"))
			h.wantStall("[version]/c", "version [version]/c (done)", "")
		})
	}
	removed := func(b *Branch) ([]byte, *stored.Failure) {
		b.Removed(at("c"))
		return changed("x", "a")(b)
	}
	h := edited(t, ends("x"), changed("x?", "a"), removed)
	h.wantFlight("a")
	h.finish()
	h.want(store.Succeeded, "end")
	h.replays()
}

func TestVersionInACancelledBranch(t *testing.T) {
	var got int
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		_, _ = step(b, "a")
		got = b.Version(at("c"), 3)
		return result(step(b, "b"))
	})
	h.play()
	h.cancel()
	h.want(store.Cancelled, "")
	if got != 3 {
		t.Errorf("got version %d, want 3", got)
	}
	h.replays()
}

func TestVersionOfBadInput(t *testing.T) {
	for message, ask := range map[string]func(*Branch) int{
		"expected a version of 1 or more, found 0": func(b *Branch) int { return b.Version(at("c"), 0) },
		`change: name ""`:                          func(b *Branch) int { return b.Version(at(""), 1) },
	} {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) { ask(b); return text("end") })
		h.play()
		h.want(store.Failed, message)
	}
	h := newHarness(t, changed("a", "x?"))
	h.cfg.Limits.Entries = 1
	h.play()
	h.end("a", "")
	h.wantBug(stored.CauseBudget, "operation [version]/c exceeds the budget", 1)
}

// A record of a version that cannot be read stalls the run and names the place.
func TestVersionThatIsDamaged(t *testing.T) {
	for name, value := range map[string][]byte{"no record": []byte("x"), "version 0": stored.EncodeVersion(0)} {
		h := newHarness(t, changed("x?", "a"))
		loc := string(journal.VersionLocation("", "c"))
		h.j.entries[loc] = store.Entry{Loc: loc, Kind: store.KindVersion, State: store.Done, Value: value, Size: len(value)}
		h.play()
		if over := h.r.Over(); over == nil || over.Status != store.Stalled ||
			!strings.Contains(over.Reason, "damaged entry [version]/c") {
			t.Errorf("%s: the run is over with %+v", name, over)
		}
	}
}

// A rewind deletes what was born at or after its cut, and opens what was born
// before it and completed after it. So a version that was decided before the cut
// stands, former code that was passed before it stays passed, and what comes after
// is new.
func TestVersionAfterARewind(t *testing.T) {
	rewind := func(h *harness, cut int64) {
		for loc, e := range h.j.entries {
			switch {
			case e.Born >= cut:
				delete(h.j.entries, loc)
			case e.Seq >= cut:
				delete(h.j.entries, loc) // it has handed out nothing
			}
		}
		h.j.run.Generation++
	}
	for _, c := range []struct {
		name          string
		code, changed []string
		done          []string
		cut           int64
		flight        string
		order         string
	}{
		{"of a run with the version, to behind it", []string{"a", "x?", "b"}, []string{"a", "x?", "b"}, []string{"a", "x", "b"}, 3, "b", "a x b"},
		{"of a run with the version, to what it guards",
			[]string{"a", "x?", "b"}, []string{"a", "x?", "b"}, []string{"a", "x", "b"}, 2, "x", "a x b"},
		{"of a run with the version, to before it", []string{"a", "x?", "b"}, []string{"a", "x?", "b"}, []string{"a", "x", "b"}, 1, "a", "a x b"},
		{"of an old run, to behind it", []string{"a", "b"}, []string{"a", "x?", "b"}, []string{"a", "b"}, 2, "b", "a b"},
		{"of an old run, to before it", []string{"a", "b"}, []string{"a", "x?", "b"}, []string{"a", "b"}, 1, "a", "a x b"},
		{"of an old run, to its begin", []string{"a", "b"}, []string{"x?", "a", "b"}, []string{"a", "b"}, 0, "x", "x a b"},
		{"of a run with the version, to its begin", []string{"x?", "a", "b"}, []string{"x?", "a", "b"}, []string{"x", "a"}, 0, "x", "x a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, changed(append(c.code, "end")...))
			h.play()
			for _, place := range c.done {
				h.end(place, "")
			}
			h.leave()
			if h.j.run.Build == "" {
				t.Fatal("no turn was committed")
			}
			rewind(h, c.cut)
			h.code = changed(append(c.changed, "end")...)
			h.play()
			h.wantFlight(c.flight)
			h.finish()
			h.want(store.Succeeded, "end")
			h.wantOrder(append(strings.Fields(c.order), "end")...)
			h.replays()
		})
	}
}

// Before the first completion of a rewound run, what an earlier generation has left
// open says nothing about the code of this one.
func TestVersionOfAGeneration(t *testing.T) {
	for generation, flight := range map[int]string{0: "x", 1: "a"} {
		h := newHarness(t, changed("x?", "a"))
		h.j.run.Build, h.j.run.Generation = "b", 1
		loc := string(path(flight))
		h.j.entries[loc] = store.Entry{Loc: loc, Kind: store.KindStep, State: store.Open, Generation: generation}
		h.play()
		h.wantFlight(flight)
	}
}
