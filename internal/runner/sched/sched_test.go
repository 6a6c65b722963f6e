package sched_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
)

// run is a run without a history: its operations are done by hand, in the order in
// which branches have begun to wait for them.
type run struct {
	*sched.Scheduler
	t     *testing.T
	root  *branch
	open  []*op // awaited and not done
	log   []string
	notes []string
	done  bool // the root has returned
	fail  *stored.Failure
	hold  bool // no completion is handed over
}

// branch is a branch of a run, with its code.
type branch struct {
	sched.Branch
	run *run
	fn  func(*branch) (any, error)
}

func (b *branch) Execute() (any, error) { return b.fn(b) }

// op is an operation that is done when it is handed over.
type op struct {
	sched.Source
	run   *run
	name  string
	stays bool // a cancel waits for its end
}

func (o *op) Awaited() { o.run.open = append(o.run.open, o) }

func (o *op) Abandoned() bool {
	if !o.stays {
		o.run.open = slices.DeleteFunc(o.run.open, func(x *op) bool { return x == o })
	}
	return o.stays
}

func (r *run) Stopped() bool { return r.fail != nil }

func (r *run) HandOver() bool {
	if len(r.open) == 0 || r.hold {
		return false
	}
	o := r.open[0]
	r.open = r.open[1:]
	r.say("done %s", o.name)
	r.Settle(&o.Source)
	return true
}

func (r *run) Panicked(_ *sched.Branch, f *stored.Failure) { r.say("panic %s", f.Message) }
func (r *run) Returned(b *sched.Branch)                    { r.done = true; b.Exit() }
func (r *run) Fail(f *stored.Failure)                      { r.fail = f }
func (r *run) Note(_ location.Loc, text string, _ error)   { r.notes = append(r.notes, text) }

func (r *run) Unawaited(f *sched.Future) {
	_, err := f.Outcome()
	r.notes = append(r.notes, err.Error())
}

func (r *run) say(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

// begin makes a run of code and lets it go as far as it can.
func begin(t *testing.T, hold bool, code func(*branch) (any, error)) *run {
	t.Helper()
	r := &run{t: t, hold: hold}
	r.Scheduler = sched.New(r)
	r.root = &branch{run: r, fn: code}
	r.Begin(&r.root.Branch, nil, "", false, r.root)
	r.Run()
	t.Cleanup(func() {
		if !r.Unwinding() {
			r.Unwind()
		}
	})
	return r
}

func at(name string) sched.Call { return sched.Call{Name: name} }

// begin begins a branch beside this one.
func (b *branch) begin(name string, fn func(*branch) (any, error)) *sched.Future {
	if err := b.Enter(at(name)); err != nil {
		return sched.Failed(err)
	}
	child := &branch{run: b.run, fn: fn}
	return b.run.Begin(&child.Branch, b.Scope(), b.Locate(at(name)), b.Shielded(), child)
}

// do waits for an operation.
func (b *branch) do(name string, stays bool) error {
	if err := b.Enter(at(name)); err != nil {
		return err
	}
	o := &op{run: b.run, name: b.Locate(at(name)).String(), stays: stays}
	o.Op = o
	w := b.NewWait(at(name))
	w.Add(&o.Source)
	_, err := b.Block(w)
	return err
}

// doing returns code that waits for operations one after the other.
func doing(names ...string) func(*branch) (any, error) {
	return func(b *branch) (any, error) {
		for _, name := range names {
			if err := b.do(name, false); err != nil {
				b.run.say("%s ends: %v", b.Title(), err)
				return nil, err
			}
		}
		return names[len(names)-1], nil
	}
}

func (r *run) want(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.log, want) {
		r.t.Fatalf("what has happened is\n\t%s\nwant\n\t%s", strings.Join(r.log, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestOrder: branches run one at a time, in the order in which they became ready.
func TestOrder(t *testing.T) {
	r := begin(t, false, func(b *branch) (any, error) {
		x := b.begin("x", doing("1", "2"))
		y := b.begin("y", doing("1", "2"))
		_, err := b.Compose(at("join"), sched.Join, []*sched.Future{x, y})
		return nil, err
	})
	r.want("done x/1", "done y/1", "done x/2", "done y/2")
	if !r.done || r.AnyReady() || len(r.Branches()) != 0 {
		t.Errorf("the run has returned %v and has %d branches", r.done, len(r.Branches()))
	}
}

// TestScopeEndsWithItsBranches: what still runs when the code of a scope has ended
// is cancelled, and its code is awaited; a shielded branch is only awaited.
func TestScopeEndsWithItsBranches(t *testing.T) {
	r := begin(t, false, func(b *branch) (any, error) {
		b.begin("left", doing("1", "2"))
		b.begin("failing", func(*branch) (any, error) { return nil, errors.New("nobody looks") })
		shielded := &branch{run: b.run, fn: doing("1", "2")}
		b.run.Begin(&shielded.Branch, b.Scope(), location.Loc("").Name("shielded", 1), true, shielded)
		return nil, b.do("own", false)
	})
	r.want("done own", "left ends: cancelled", "done shielded/1", "done shielded/2")
	if !slices.Equal(r.notes, []string{"nobody looks"}) {
		t.Errorf("the notes are %q", r.notes)
	}
}

// TestCancelStays: the cancel of a branch that waits for an operation which must be
// seen to its end is seen after that.
func TestCancelStays(t *testing.T) {
	var err, after error
	r := begin(t, true, func(b *branch) (any, error) {
		err, after = b.do("whole", true), b.do("next", false)
		return nil, after
	})
	r.Cancel(&r.root.Branch)
	if r.Run(); r.done {
		t.Fatal("the branch goes on without the end of its operation")
	}
	r.hold = false
	if r.Run(); err != nil || after != sched.ErrCancelled || !r.done {
		t.Errorf("the operation ends %v, the next one %v", err, after)
	}
}

// TestDeadlocked: a run in which no branch waits for an operation is deadlocked.
func TestDeadlocked(t *testing.T) {
	r := begin(t, true, func(b *branch) (any, error) {
		var x *sched.Future
		y := b.begin("y", func(y *branch) (any, error) { return y.Await(at("x"), x) })
		x = b.begin("x", func(x *branch) (any, error) {
			if err := x.do("1", false); err != nil {
				return nil, err
			}
			return x.Await(at("y"), y)
		})
		return b.Await(at("y"), y)
	})
	if r.Deadlocked() {
		t.Error("the run is deadlocked while an operation is awaited")
	}
	if ops := slices.Collect(r.Branches()[2].AwaitedOperations()); len(ops) != 1 || ops[0].(*op).name != "x/1" {
		t.Errorf("the branch waits for %v", ops)
	}
	r.hold = false
	if r.Run(); !r.Deadlocked() || r.done {
		t.Error("the run is not deadlocked")
	}
}

// TestCompose: each mode ends with the member that decides it, after the code of the
// others has ended.
func TestCompose(t *testing.T) {
	broken := func(b *branch) (any, error) {
		_ = b.do("1", false)
		return nil, errors.New("broken")
	}
	for _, c := range []struct {
		mode   sched.Mode
		winner int
		log    []string
	}{
		{sched.Join, -1, []string{"done a/1", "done b/1", "done a/2", "done a/3"}},
		{sched.All, 1, []string{"done a/1", "done b/1", "a ends: cancelled"}},
		{sched.Any, 0, []string{"done a/1", "done b/1", "done a/2", "done a/3"}},
		{sched.Race, 1, []string{"done a/1", "done b/1", "a ends: cancelled"}},
	} {
		t.Run(fmt.Sprint(c.mode), func(t *testing.T) {
			var winner int
			r := begin(t, false, func(b *branch) (any, error) {
				var err error
				members := []*sched.Future{b.begin("a", doing("1", "2", "3")), b.begin("b", broken)}
				winner, err = b.Compose(at("c"), c.mode, members)
				return nil, err
			})
			if r.want(c.log...); winner != c.winner {
				t.Errorf("member %d has decided, want %d", winner, c.winner)
			}
		})
	}
}

// TestMap: at most so many branches run at a time, each in the scope of its key.
func TestMap(t *testing.T) {
	r := begin(t, false, func(b *branch) (any, error) {
		key := func(i int) string { return fmt.Sprint(i / 2) }
		futures, _, err := b.Map(at("m"), 4, 2, key, func(_ int, loc location.Loc) *sched.Future {
			child := &branch{run: b.run, fn: doing("x")}
			return b.run.Begin(&child.Branch, b.Scope(), loc, false, child)
		})
		for _, f := range futures {
			if v, _ := f.Result(); v != "x" || !f.Settled() {
				t.Errorf("a member has returned %v", v)
			}
		}
		return nil, err
	})
	r.want("done m/[0]/x", "done m/[0]#2/x", "done m/[1]/x", "done m/[1]#2/x")
}

// TestNames: names are counted in their scope, by name and key; two places must not
// share one.
func TestNames(t *testing.T) {
	var locs []string
	here := func(name, key string, site uintptr) sched.Call { return sched.Call{Name: name, Key: key, Site: site} }
	sites := [2]uintptr{site(), site()}
	sites[1] = site()
	r := begin(t, false, func(b *branch) (any, error) {
		for _, call := range []sched.Call{
			here("a", "", sites[0]), here("a", "", sites[0]), here("a", "k", sites[0]), here("b", "k", 0), here("b", "k", 0),
		} {
			locs = append(locs, b.Locate(call).String())
		}
		b.Inside(b.Bounded(location.Loc("").Name("l", 1).Iteration(0)), nil, func() {
			locs = append(locs, b.Locate(at("a")).String())
		})
		b.Locate(here("a", "", sites[1]))
		return nil, nil
	})
	if want := []string{"a", "a#2", "a/[k]", "b/[k]", "b/[k]#2", "l/~0/a"}; !slices.Equal(locs, want) {
		t.Errorf("the locations are %q, want %q", locs, want)
	}
	if r.fail == nil || !strings.HasPrefix(r.fail.Message, `two places in the code use the name "a" in one scope: `) {
		t.Errorf("the run fails with %v", r.fail)
	}
}

// site returns the place of its call.
func site() uintptr {
	var pcs [1]uintptr
	runtime.Callers(2, pcs[:])
	return pcs[0]
}

// TestMisuse: an operation through the context of another branch, or on another
// goroutine, is refused and fails the run.
func TestMisuse(t *testing.T) {
	for name, misuse := range map[string]func(b *branch) error{
		"by the code of other": func(b *branch) error {
			f := b.begin("other", func(*branch) (any, error) { return nil, b.do("x", false) })
			_, err := b.Await(at("f"), f)
			return err
		},
		"by a step body or a foreign goroutine": func(b *branch) error {
			err := make(chan error)
			go func() { err <- b.do("x", false) }()
			return <-err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, false, func(b *branch) (any, error) { return nil, misuse(b) })
			if r.fail == nil || r.fail.Code != stored.CodeMisuse || !strings.Contains(r.fail.Message, name) {
				t.Errorf("the run fails with %v", r.fail)
			}
		})
	}
}

// TestUnwind: the deferred functions of parked branches run, the newest branch first;
// recover sees nothing, and an operation that they call ends them.
func TestUnwind(t *testing.T) {
	r := begin(t, true, func(b *branch) (any, error) {
		b.OnExit(func() { b.run.say("exit of the root") })
		defer b.run.say("the root is unwound")
		b.begin("child", func(c *branch) (any, error) {
			defer func() {
				c.run.say("the child is unwound, recover sees %v", recover())
				_ = c.do("more", false)
				c.run.say("an operation has returned")
			}()
			return nil, c.do("x", false)
		})
		return nil, b.do("y", false)
	})
	r.Unwind()
	r.want("the child is unwound, recover sees <nil>", "the root is unwound", "exit of the root")
}

// TestCodeThatGoesOnAsking: a cancelled branch whose code goes on calling operations
// is ended.
func TestCodeThatGoesOnAsking(t *testing.T) {
	calls := 0
	r := begin(t, false, func(b *branch) (any, error) {
		b.run.Cancel(&b.Branch)
		for {
			calls++
			_ = b.do("x", false)
		}
	})
	if !r.done || calls != 1001 || len(r.notes) != 1 {
		t.Errorf("the code has returned %v after %d calls, the notes are %q", r.done, calls, r.notes)
	}
}

// TestPanic: a panic of a branch is told to the owner before its scopes end; it is the
// branch's error.
func TestPanic(t *testing.T) {
	r := begin(t, false, func(b *branch) (any, error) {
		b.begin("left", doing("1"))
		f := b.begin("child", func(*branch) (any, error) { panic("inner") })
		_, err := b.Await(at("f"), f)
		b.run.say("%v", err)
		panic("outer")
	})
	r.want("panic panic: inner", "panic: inner", "panic panic: outer", "left ends: cancelled")
}

// TestDrop: a branch that was dropped gets the baton no more; one that is begun later
// does.
func TestDrop(t *testing.T) {
	r := begin(t, true, doing("1", "2"))
	r.Drop()
	later := &branch{run: r, fn: doing("a", "b")}
	r.Begin(&later.Branch, nil, location.Loc("").Name("later", 1), false, later)
	r.hold = false
	r.Run()
	r.want("done 1", "done later/a", "done later/b")
	if !r.root.Dropped() || later.Dropped() {
		t.Error("the wrong branch was dropped")
	}
}

// TestLate: a branch that waits with a deadline does not take what was sent after it.
func TestLate(t *testing.T) {
	var o *op
	begin(t, true, func(b *branch) (any, error) {
		o = &op{run: b.run, name: "x"}
		o.Op = o
		w := b.NewWait(at("x"))
		w.Deadline = 10
		w.Add(&o.Source)
		_, err := b.Block(w)
		return nil, err
	})
	if o.Late(10) || !o.Late(11) || !o.IsAwaited() || o.Waits() != 1 {
		t.Error("the deadline of the wait is not that of its source")
	}
}

// owned is something that ends with its scope.
type owned struct{ run *run }

func (owned) Settled() bool { return false }
func (o owned) CloseOwned() { o.run.say("closed") }

func TestOwnedEndsWithItsScope(t *testing.T) {
	r := begin(t, false, func(b *branch) (any, error) {
		b.Inside(location.Loc("").Name("l", 1), 7, func() {
			b.OnExit(func() { b.run.say("exit") })
			b.Scope().Own(owned{b.run})
			b.run.say("inside %v, derived %d", b.Scope().Value(), b.Scope().NextDerived())
		})
		b.run.say("outside %v", b.Scope().Value())
		return nil, nil
	})
	r.want("inside 7, derived 1", "closed", "exit", "outside <nil>")
}
