package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// The sentences of the rule about code that has changed.

// Reordering what is all recorded or all not, and appending, leave a run in flight
// alone; an insertion before a recorded one stalls.
func TestRule17(t *testing.T) {
	two := func(h *harness) { h.end("a", "va"); h.end("b", "vb") }
	for _, c := range []struct {
		name          string
		code, changed []string
		before        func(*harness)
		flight        string
		stall         bool
	}{
		{"reordered, all recorded", []string{"a", "b", "c"}, []string{"b", "a", "c"}, two, "c", false},
		{"reordered, none recorded", []string{"a", "b", "c", "d"}, []string{"a", "b", "d", "c"}, two, "d", false},
		{"appended", []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}, two, "c", false},
		{"appended behind what is recorded", []string{"a", "b", "c"}, []string{"a", "b", "d", "c"}, two, "d", false},
		{"inserted", []string{"a", "b", "c"}, []string{"a", "x", "b", "c"}, two, "", true},
		{"moved before a recorded one", []string{"a", "b", "c"}, []string{"c", "a", "b"}, two, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := edited(t, c.before, sequence(c.code...), sequence(c.changed...))
			if c.stall {
				if over := h.r.Over(); over == nil || over.Stall == nil {
					t.Fatalf("the run goes on with %v", h.flying())
				}
				return
			}
			h.wantFlight(c.flight)
			h.finish()
			h.want(store.Succeeded, "end")
			h.replays()
		})
	}
	t.Run("appended before recorded deferred ones", func(t *testing.T) {
		code := func(extra bool) func(*Branch) ([]byte, *stored.Failure) {
			return func(b *Branch) ([]byte, *stored.Failure) {
				defer func() {
					_, _ = step(b, "close")
					_, _ = step(b, "closed")
				}()
				_, err := step(b, "work")
				if extra && err == nil {
					_, err = step(b, "more")
				}
				return result("", err)
			}
		}
		h := edited(t, func(h *harness) { h.end("work", ""); h.end("close", "") }, code(false), code(true))
		h.wantStall("close", "step close (done, completion 2)", "step more")
	})
}

// What stands keeps its value and its number, even where the new code's own timers
// would have come in another order.
func TestRule18(t *testing.T) {
	code := func(a, z time.Duration) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			nap := func(name string, d time.Duration) *Future {
				return b.Go(at(name), func(b *Branch) (any, error) { return nil, b.Sleep(at("nap"), d) })
			}
			winner, err := b.Compose(at("race"), Race, []*Future{nap("a", a), nap("z", z)})
			if err != nil {
				return result("", err)
			}
			_, err = step(b, "end")
			return result(fmt.Sprint("winner ", winner), err)
		}
	}
	h := edited(t, func(h *harness) { h.pass(time.Hour) }, code(2*time.Hour, time.Hour), code(time.Second, time.Hour))
	h.wantFlight("end")
	h.end("end", "")
	h.want(store.Succeeded, "winner 1")
	h.wantOrder("z/nap", "end")

	// A wait that has begun keeps the deadline that it began with.
	for name, wait := range map[string]func(b *Branch, d time.Duration) error{
		"sleep":   func(b *Branch, d time.Duration) error { return b.Sleep(at("nap"), d) },
		"receive": func(b *Branch, d time.Duration) error { _, err := receive(b, "mail", b.Now().Add(d)); return err },
	} {
		code := func(d time.Duration) func(*Branch) ([]byte, *stored.Failure) {
			return func(b *Branch) ([]byte, *stored.Failure) { return text("%v", wait(b, d)) }
		}
		h := edited(t, func(*harness) {}, code(time.Hour), code(time.Minute))
		if at, _ := h.r.NextTimer(); at != birth.Add(time.Hour) {
			t.Errorf("the %s that has begun ends %s, want %s", name, at, birth.Add(time.Hour))
		}
	}
}

// Branches are positions: a swap among those whose names and operations are equal
// is not noticed. With names of their own it is, or makes no difference.
func TestRule19(t *testing.T) {
	code := func(names ...string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			var all []*Future
			for _, n := range names {
				all = append(all, b.Go(at(n), func(b *Branch) (any, error) { return step(b, "s") }))
			}
			if _, err := b.Compose(at("all"), Join, all); err != nil {
				return result("", err)
			}
			var got []string
			for _, f := range all {
				v, _ := f.Result()
				got = append(got, fmt.Sprint(v))
			}
			return result(step(b, strings.Join(got, "-")))
		}
	}
	unnamed := func(h *harness) { h.end("x#2/s", "second"); h.end("x/s", "first") }
	h := edited(t, unnamed, code("x", "x"), code("x", "x")) // swapped: nobody can tell
	h.wantFlight("first-second")
	named := func(h *harness) { h.end("y/s", "vy"); h.end("x/s", "vx") }
	h = edited(t, named, code("x", "y"), code("y", "x"))
	h.wantFlight("vy-vx") // each keeps its own value
	h = edited(t, named, code("x", "y"), code("x", "z"))
	h.wantStall("y/s", "step y/s (done, completion 1)", "step z/s")
}

// A second call site with a used name is reported when its second occurrence is
// asked for; a call added before the first one takes its value unnoticed.
func TestRule20(t *testing.T) {
	ask := func(b *Branch, site uintptr) (string, error) {
		v, err := b.Step(Step{Call: Call{Name: "fetch", Site: site}, Policy: once})
		return string(v), err
	}
	sites := callSites()
	code := func(sites ...uintptr) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			var got []string
			for _, s := range sites {
				v, err := ask(b, s)
				if err != nil {
					return result("", err)
				}
				got = append(got, v)
			}
			return result(step(b, strings.Join(got, "-")))
		}
	}
	one := func(h *harness) { h.end("fetch", "v") }
	h := edited(t, one, code(sites[0]), code(sites[1]))
	h.wantFlight("v") // it has taken the value of the former call
	h = edited(t, one, code(sites[0]), code(sites[1], sites[0]))
	h.want(store.Failed, `two places in the code use the name "fetch"`)
}
