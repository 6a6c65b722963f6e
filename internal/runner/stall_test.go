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

// edited lets code run until it waits, and replays it with other code.
func edited(t *testing.T, before func(h *harness), code, changed func(*Branch) ([]byte, *stored.Failure)) *harness {
	t.Helper()
	h := newHarness(t, code)
	h.play()
	before(h)
	h.leave()
	h.code = changed
	h.play()
	return h
}

// wantStall fails the test unless the run has stalled, names both sides, and has
// left its history alone.
func (h *harness) wantStall(location, recorded, asked string) {
	h.t.Helper()
	over := h.r.Over()
	if over == nil || over.Stall == nil {
		h.t.Fatalf("the run has not stalled; over %+v, in flight %v", over, h.flying())
	}
	s := over.Stall
	if s.Location != location || !strings.Contains(s.Recorded, recorded) || !strings.Contains(s.Asked, asked) ||
		s.Remedy == "" {
		h.t.Fatalf("the stall is %+v, want at %q, recorded %q, asked %q", s, location, recorded, asked)
	}
	if h.j.run.Status != store.Stalled || !strings.Contains(h.j.run.Reason, s.Remedy) {
		h.t.Errorf("the run is %s: %s", h.j.run.Status, h.j.run.Reason)
	}
	if len(h.flight) > 0 {
		h.t.Errorf("the stalled replay has begun %v", h.flying())
	}
}

func sequence(names ...string) func(*Branch) ([]byte, *stored.Failure) {
	return func(b *Branch) ([]byte, *stored.Failure) {
		for _, n := range names {
			if _, err := step(b, n); err != nil {
				return result("", err)
			}
		}
		return text("end")
	}
}

func TestStallNamesBothSides(t *testing.T) {
	nothing := func(*harness) {}
	one := func(h *harness) { h.end("fetch", "v") }
	flaky := func(b *Branch) ([]byte, *stored.Failure) {
		_, err := b.Step(Step{Call: at("fetch"), Policy: Policy{Attempts: 5, First: time.Hour, Factor: 1, Max: time.Hour}})
		return result("", err)
	}
	for _, c := range []struct {
		name                      string
		code, changed             func(*Branch) ([]byte, *stored.Failure)
		before                    func(*harness)
		location, recorded, asked string
	}{
		{"renamed", sequence("fetch", "store"), sequence("fetch-all", "store"), one,
			"fetch", "step fetch (done, completion 1)", "step fetch-all"},
		{"removed at the end", sequence("fetch", "store"), sequence(), one,
			"fetch", "step fetch (done, completion 1)", "the end of the workflow"},
		{"another kind", sequence("fetch", "store"),
			func(b *Branch) ([]byte, *stored.Failure) { return result("", b.Sleep(at("fetch"), time.Hour)) }, one,
			"fetch", "step fetch", "sleep fetch"},
		{"inserted before", sequence("fetch", "store"), sequence("check", "fetch", "store"), one,
			"fetch", "step fetch", "step check"},
		{"an open entry is not asked for", flaky, sequence("other"), func(h *harness) { h.fail("fetch", "no") },
			"fetch", "step fetch (open)", "step other"},
		{"the function returns without an open entry", flaky, sequence(), func(h *harness) { h.fail("fetch", "no") },
			"fetch", "step fetch (open)", "the end of the workflow"},
		{"asked for and not waited for", func(b *Branch) ([]byte, *stored.Failure) {
			p, err := b.NewPromise(at("p"), nil)
			if err == nil {
				_, err = b.AwaitPromise(at("p"), p)
			}
			if err == nil {
				_, err = step(b, "after")
			}
			return result("", err)
		}, func(b *Branch) ([]byte, *stored.Failure) {
			if _, err := b.NewPromise(at("p"), nil); err != nil {
				return result("", err)
			}
			return result(step(b, "after"))
		}, func(h *harness) {
			h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Value: []byte("v")})
		}, "p", "promise p (done, completion 1)", "nobody waits for its completion"},
		{"a failure before what is recorded", sequence("fetch", "store"),
			func(b *Branch) ([]byte, *stored.Failure) { return result(step(b, "")) }, one,
			"fetch", "step fetch", "the failure of the run: name"},
		{"a panic before what is recorded", sequence("fetch", "store"), func(*Branch) ([]byte, *stored.Failure) { panic("new") }, one,
			"fetch", "step fetch", "the end of the workflow"},
		{"nothing is recorded", sequence("fetch"), sequence("other"), nothing, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := edited(t, c.before, c.code, c.changed)
			if c.location == "" {
				h.wantFlight("other")
				return
			}
			h.wantStall(c.location, c.recorded, c.asked)
			// The former code goes on as if nothing had been.
			h.leave()
			h.j.run.Status = store.Running
			h.code = c.code
			h.play()
			if over := h.r.Over(); over != nil {
				t.Errorf("with the former code the run ends %+v", over)
			}
		})
	}
}

func TestStallNamesWhatIsNear(t *testing.T) {
	h := edited(t, func(h *harness) { h.end("fetch-order", "v") }, sequence("fetch-order", "store"),
		sequence("fetch-orders", "store"))
	if s := h.r.Over().Stall; len(s.Nearest) != 1 || s.Nearest[0] != "fetch-orders" {
		t.Errorf("the nearest names are %q", s.Nearest)
	}
}

// A cancel that comes while a replay stalls is left for who decides about stalled
// runs.
func TestCancelOfAStalledRunIsLeftUnexamined(t *testing.T) {
	h := newHarness(t, sequence("fetch", "store"))
	h.play()
	h.end("fetch", "v")
	h.leave()
	h.code = sequence("other")
	h.j.send(store.Item{Kind: store.ItemMessage, Name: "m", Sent: h.clock})
	h.j.send(store.Item{Kind: store.ItemCancel, Name: "operator"})
	h.play()
	h.wantStall("fetch", "step fetch", "step other")
	if a, b := h.j.items[0].State, h.j.items[1].State; a != store.Seen || b != store.New {
		t.Errorf("the message has state %d and the cancel %d, want %d and %d", a, b, store.Seen, store.New)
	}
}

// What nobody waits for any more is handed over when somebody waits for it again.
func TestRecordedCompletionIsWaitedForAgain(t *testing.T) {
	// A promise is assigned after a step; the changed code looks at the promise in
	// a Select that a recorded timer wins, before it awaits it.
	ask := func(b *Branch) *Promise { p, _ := b.NewPromise(at("p"), nil); return p }
	tick := func(b *Branch, p *Promise) {
		_, _ = b.Select(at("select"), []Case{{Promise: p}, {Timer: &Timer{Call: at("tick"), At: birth.Add(time.Hour)}}})
	}
	h := edited(t, func(h *harness) {
		h.pass(time.Hour)
		h.end("x/s", "")
		h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Value: []byte("v")})
		h.wantOrder("tick", "x/s", "p")
	}, func(b *Branch) ([]byte, *stored.Failure) {
		p := ask(b)
		x := spawn(b, "x", "s")
		tick(b, p)
		_, _ = b.Await(at("x"), x)
		_, _ = b.AwaitPromise(at("p"), p)
		return result(step(b, "end"))
	}, func(b *Branch) ([]byte, *stored.Failure) {
		p := ask(b)
		x := spawn(b, "x", "s")
		tick(b, p)
		v, _ := b.AwaitPromise(at("p"), p)
		_, _ = b.Await(at("x"), x)
		end, err := step(b, "end")
		return result(fmt.Sprint(string(v), end), err)
	})
	h.wantFlight("end")
}

// The remedy is the call to make, for the whole of what is gone, and the hint the
// names that are near on either side.
func TestStallSaysWhatToDo(t *testing.T) {
	mapped := func(names ...string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			for _, name := range names {
				_, _, err := b.Map(at(name), 2, 2, strconv.Itoa, func(b *Branch, _ int) (any, error) { return step(b, "pick") })
				if err != nil {
					return result("", err)
				}
			}
			return result(step(b, "end"))
		}
	}
	branches := func(step string, names ...string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			var all []*Future
			for _, name := range names {
				all = append(all, spawn(b, name, "first", step))
			}
			_, err := b.Compose(at("join"), Join, all)
			return result("", err)
		}
	}
	keyed := func(keys ...string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			for _, k := range keys {
				if _, err := b.Step(Step{Call: Call{Name: "pack", Key: k, Site: 1}, Policy: once}); err != nil {
					return result("", err)
				}
			}
			return result(step(b, "end"))
		}
	}
	for _, c := range []struct {
		name          string
		before        func(*harness)
		code, changed func(*Branch) ([]byte, *stored.Failure)
		remedy        string
		nearest       string
	}{
		{"renamed", ends("fetch-order"), sequence("fetch-order", "b"), sequence("fetch-orders", "b"),
			`if it is gone, put Removed(ctx, "fetch-order") where it stood; ` +
				`if what the code asks for is new, put it under a Version; else`, "fetch-orders"},
		{"removed", ends("fetch"), sequence("fetch", "b"), sequence(),
			`if it is gone, put Removed(ctx, "fetch") where it stood; else`, ""},
		{"two renamed", ends("a", "store-order"), sequence("a", "store-order", "end"), sequence("store-orders", "a", "end"),
			`put Removed(ctx, "a") where it stood; if`, "store-order"},
		{"a key", ends("pack/[k]", "pack/[l]"), keyed("k", "l"), keyed("l"),
			`put Removed(ctx, "pack", Key("k")) where it stood; if`, ""},
		{"a map", ends("pack/[0]/pick", "pack/[1]/pick"), mapped("pack"), mapped(),
			`put Removed(ctx, "pack") where it stood`, ""},
		{"a map that is renamed", ends("pack/[0]/pick", "pack/[1]/pick"), mapped("pack"), mapped("packs"),
			`put Removed(ctx, "pack") where it stood`, "packs/[0]/pick packs/[1]/pick"},
		{"a branch", ends("p/first", "q/first", "p/last"), branches("last", "p", "q"), branches("last", "q"),
			`put Removed(ctx, "p") where it stood`, "p/last"},
		{"in a branch", ends("p/first", "q/first", "p/last"), branches("last", "p", "q"), branches("latest", "p", "q"),
			`put Removed(ctx, "last") in p where it stood`, "p/latest q/latest"},
		{"a version", ends(), changed("x?", "a"), changed("x", "a"),
			`keep the call of Version, or put Removed(ctx, "c") in its place; if what`, ""},
		{"another kind", ends("fetch"), sequence("fetch", "b"),
			func(b *Branch) ([]byte, *stored.Failure) { return result("", b.Sleep(at("fetch"), 0)) },
			`give the new operation another name and put Removed(ctx, "fetch") where the former one stood`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			over := edited(t, c.before, c.code, c.changed).r.Over()
			if over == nil || over.Stall == nil {
				t.Fatalf("the run is over with %+v", over)
			}
			s := over.Stall
			if !strings.Contains(s.Remedy, c.remedy) || !strings.HasSuffix(s.Remedy, "then resume the run") {
				t.Errorf("the remedy is %q, want %q", s.Remedy, c.remedy)
			}
			if got := strings.Join(s.Nearest, " "); got != c.nearest {
				t.Errorf("the nearest names are %q, want %q", got, c.nearest)
			}
			if text := s.Error(); !strings.Contains(text, s.Recorded) || !strings.Contains(text, s.Asked) ||
				!strings.Contains(text, s.Remedy) {
				t.Errorf("the message is %q", text)
			}
		})
	}
}

// A remedy that is followed mends the run.
func TestStallRemedyIsTrue(t *testing.T) {
	h := edited(t, ends("a", "fetch"), sequence("a", "fetch", "b"), sequence("a", "check", "b"))
	h.wantStall("fetch", "step fetch", "step check")
	h.leave()
	h.j.run.Status = store.Running
	h.code = func(b *Branch) ([]byte, *stored.Failure) {
		if _, err := step(b, "a"); err != nil {
			return result("", err)
		}
		b.Removed(at("fetch"))
		return changed("check?", "b")(b)
	}
	h.play()
	h.wantFlight("b")
	h.finish()
	h.want(store.Succeeded, "end")
	h.wantOrder("a", "fetch", "b")
	h.replays()
}

// What stands in the scope of the recorded operation is named first.
func TestStallNamesTheScopeFirst(t *testing.T) {
	code := func(name string) func(*Branch) ([]byte, *stored.Failure) {
		return func(b *Branch) ([]byte, *stored.Failure) {
			for i := range 8 {
				spawn(b, fmt.Sprint("p", i), "s")
			}
			if _, err := step(b, name); err != nil {
				return result("", err)
			}
			return result(step(b, "end"))
		}
	}
	h := edited(t, ends("fetch"), code("fetch"), code("store"))
	if s := h.r.Over().Stall; s == nil || s.Asked != "step store, step p0/s, step p1/s, step p2/s, step p3/s, …" {
		t.Errorf("the stall is %+v", s)
	}
}
