package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// calls records the step bodies that were executed, with their keys.
type calls struct {
	mu   sync.Mutex
	list []string
	keys map[string][]string
	fail map[string]bool // steps that fail
}

func newCalls() *calls { return &calls{keys: map[string][]string{}, fail: map[string]bool{}} }

// step is a step that is recorded and returns its name with how often it was called.
func (c *calls) step(ctx stet.Context, name string) (string, error) {
	return stet.Step(ctx, name, func(ctx context.Context) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, name)
		c.keys[name] = append(c.keys[name], stet.IdempotencyKey(ctx))
		if c.fail[name] {
			return "", errors.New(name + " is broken")
		}
		return fmt.Sprint(name, len(c.keys[name])), nil
	}, stet.Retry{Attempts: 1})
}

func (c *calls) set(name string, fail bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail[name] = fail
}

// want checks which bodies were executed, and forgets them.
func (c *calls) want(t *testing.T, want string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := strings.Join(c.list, " "); got != want {
		t.Errorf("executed were %q; want %q", got, want)
	}
	c.list = nil
}

// same reports whether the last two calls of a step had one key.
func (c *calls) same(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[name]
	return k[len(k)-1] == k[len(k)-2]
}

// done checks that a verb was carried out.
func done(t *testing.T, ok bool, err error) {
	t.Helper()
	if !ok || err != nil {
		t.Fatalf("the request was refused: %t, %v", ok, err)
	}
}

// refused checks that a verb was not carried out, for the reason.
func refused(t *testing.T, ok bool, err error, class error, reason string) {
	t.Helper()
	if ok || !errors.Is(err, class) || !strings.Contains(fmt.Sprint(err), reason) {
		t.Errorf("got %t, %v; want false, %v with %q", ok, err, class, reason)
	}
}

// three is a workflow of three steps.
func three(c *calls) *stet.Workflow[string, string] {
	return stet.Define("three", func(ctx stet.Context, _ string) (string, error) {
		var all []string
		for _, name := range []string{"a", "b", "c"} {
			v, err := c.step(ctx, name)
			if err != nil {
				return "", err
			}
			all = append(all, v)
		}
		return strings.Join(all, " "), nil
	})
}

func TestRetryGoesOnFromTheFailedStepWithItsKey(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := three(c)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	c.set("b", true)
	r := begin(t, e, w, "")
	if got := outcome(t, r); !strings.Contains(got, "b is broken") {
		t.Fatal(got)
	}
	c.want(t, "a b")
	ok, err := e.Runs().Retry(ctx, r.ID(), stet.Act{By: "ada", Why: "try"})
	done(t, ok, err)
	if got := outcome(t, r); !strings.Contains(got, "b is broken") {
		t.Fatal(got)
	}
	c.want(t, "b")
	c.set("b", false)
	ok, err = e.Runs().Retry(ctx, r.ID(), stet.Act{Why: "fixed"})
	done(t, ok, err)
	if got := outcome(t, r); got != "a1 b3 c1" {
		t.Fatal(got)
	}
	c.want(t, "b c")
	if !c.same("b") {
		t.Error("a retried step has another key")
	}
	info, err := e.Runs().Info(ctx, r.ID())
	if err != nil || info.Generation != 0 {
		t.Errorf("after retries the generation is %d, %v", info.Generation, err)
	}
	audit, err := e.Runs().Audit(ctx, r.ID())
	if err != nil || len(audit) != 2 || audit[0].Who != "ada" || audit[0].Verb != "retry" || audit[0].Why != "try" ||
		audit[1].Why != "fixed" ||
		!strings.Contains(audit[0].Detail, "from b: took back 1 completions from number 2 on") || audit[0].Time == 0 ||
		audit[1].Who == "" {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
	ok, err = e.Runs().Retry(ctx, r.ID(), stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "only one that has failed")
}

func TestRewindExecutesAnewWithNewKeys(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := three(c)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	if got := outcome(t, r); got != "a1 b1 c1" {
		t.Fatal(got)
	}
	c.want(t, "a b c")
	for i, row := range []struct{ before, executed, want string }{
		{"b", "b c", "a1 b2 c2"}, {"c", "c", "a1 b2 c3"}, {"/", "a b c", "a2 b3 c4"}, {"a", "a b c", "a3 b4 c5"},
	} {
		ok, err := e.Runs().Rewind(ctx, r.ID(), row.before, stet.Act{Why: "again"})
		done(t, ok, err)
		if got := outcome(t, r); got != row.want {
			t.Errorf("rewound to before %s: %s; want %s", row.before, got, row.want)
		}
		c.want(t, row.executed)
		if c.same("c") || strings.Contains(row.executed, "b") && c.same("b") {
			t.Errorf("rewound to before %s: a redone step has its former key", row.before)
		}
		if info, err := e.Runs().Info(ctx, r.ID()); err != nil || info.Generation != i+1 {
			t.Errorf("the generation is %d, %v", info.Generation, err)
		}
	}
	ok, err := e.Runs().Rewind(ctx, r.ID(), "bb", stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "unknown location bb: nothing is recorded there, nearest are b")
	ok, err = e.Runs().Rewind(ctx, r.ID(), "", stet.Act{})
	refused(t, ok, err, stet.ErrInvalid, "found none")
	ok, err = e.Runs().Rewind(ctx, r.ID(), "a//b", stet.Act{})
	refused(t, ok, err, stet.ErrInvalid, "location")
	ok, err = e.Runs().Rewind(ctx, "nobody", "a", stet.Act{})
	refused(t, ok, err, stet.ErrNotFound, "")
	c.want(t, "")
}

func TestRewindReturnsMessagesInTheirOrder(t *testing.T) {
	t.Parallel()
	name := stet.Message[string]("name")
	c := newCalls()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		var got []string
		for i := range 3 {
			if _, err := c.step(ctx, fmt.Sprint("s", i)); err != nil {
				return "", err
			}
			v, err := name.Receive(ctx)
			if err != nil {
				return "", err
			}
			got = append(got, v)
		}
		return strings.Join(got, ""), nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "", stet.FirstMessage(name, "1"), stet.FirstMessage(name, "2"), stet.FirstMessage(name, "3"))
	for _, before := range []string{"s1", "name#2", "/"} {
		if got := outcome(t, r); got != "123" {
			t.Fatalf("got %q", got)
		}
		ok, err := e.Runs().Rewind(ctx, r.ID(), before, stet.Act{})
		done(t, ok, err)
	}
	if got := outcome(t, r); got != "123" {
		t.Fatalf("got %q", got)
	}
	c.want(t, "s0 s1 s2 s1 s2 s2 s0 s1 s2")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	for _, parked := range []int{stet.None, 0} {
		synctest.Test(t, func(t *testing.T) {
			name := stet.Message[string]("name")
			c := newCalls()
			w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				v, err := name.Receive(ctx)
				if err != nil {
					return "", err
				}
				s, err := c.step(ctx, "after")
				return v + s, err
			})
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: parked, Poll: 5 * time.Millisecond})
			ctx := testContext(t)
			r := begin(t, e, w, "")
			waitStatus(t, e, r.ID(), store.Suspended)
			ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{By: "ada", Why: "look at it"})
			done(t, ok, err)
			info, err := e.Runs().Info(ctx, r.ID())
			if err != nil || info.Status != store.Suspended || info.Marks != store.Paused || len(info.WaitsFor) != 1 {
				t.Errorf("the paused run is %s %s, waits for %v, %v", info.Status, info.Marks, info.WaitsFor, err)
			}
			ok, err = e.Runs().Pause(ctx, r.ID(), stet.Act{})
			refused(t, ok, err, stet.ErrRefused, "already paused")
			if err := name.Send(ctx, e, r.ID(), "m"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) // many polls, in which it must not be taken up
			c.want(t, "")
			ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{Why: "seen"})
			done(t, ok, err)
			if got := outcome(t, r); got != "mafter1" {
				t.Errorf("got %q", got)
			}
			ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{})
			refused(t, ok, err, stet.ErrTerminal, "already succeeded")
			audit, err := e.Runs().Audit(ctx, r.ID())
			if err != nil || len(audit) != 2 || audit[0].Verb != "pause" || audit[0].Why != "look at it" ||
				audit[0].Who != "ada" || audit[1].Verb != "resume" || audit[1].Why != "seen" {
				t.Errorf("the audit is %+v, %v", audit, err)
			}
		})
	}
}

func TestPauseWaitsForBodiesAndBeginsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, pauseWaitsForBodiesAndBeginsNone)
}

func pauseWaitsForBodiesAndBeginsNone(t *testing.T) {
	began, end := make(chan bool), make(chan bool)
	c := newCalls()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		v, err := stet.Step(ctx, "long", func(context.Context) (string, error) {
			began <- true
			<-end
			return "done", nil
		})
		if err != nil {
			return "", err
		}
		s, err := c.step(ctx, "next")
		return v + s, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	<-began
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	ok, err := e.Runs().Pause(short, r.ID(), stet.Act{})
	cancel()
	refused(t, ok, err, stet.ErrPending, "")
	end <- true
	for {
		info, err := e.Runs().Info(ctx, r.ID())
		if err != nil {
			t.Fatal(err)
		}
		if info.Marks == store.Paused {
			break
		}
		time.Sleep(time.Millisecond) // of the bubble
	}
	c.want(t, "")
	entries, err := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{})
	if err != nil || len(entries) != 1 || entries[0].State != store.Done || entries[0].Number != 0 {
		t.Errorf("the step that ended meanwhile: %+v, %v", entries, err)
	}
	ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	if got := outcome(t, r); got != "donenext1" {
		t.Errorf("got %q", got)
	}
}

func TestCancelOfAPausedRunRunsNoCode(t *testing.T) {
	t.Parallel()
	cleaned := false
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		err := stet.Sleep(ctx, "long", time.Hour)
		if errors.Is(err, stet.ErrCancelled) {
			cleaned = true
		}
		return "", err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	waitStatus(t, e, r.ID(), store.Suspended)
	ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	ok, err = e.Runs().Cancel(ctx, r.ID(), stet.Act{Why: "enough"})
	done(t, ok, err)
	if got := outcome(t, r); !strings.Contains(got, "cancelled: enough") || cleaned {
		t.Errorf("got %q, its code saw it: %t", got, cleaned)
	}
}

func TestTimersOfAPausedRunKeepTheirDueTime(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		return "woken", stet.Sleep(ctx, "nap", 2*time.Second)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	waitStatus(t, e, r.ID(), store.Suspended)
	before, err := e.Runs().Info(ctx, r.ID())
	if err != nil {
		t.Fatal(err)
	}
	ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	info, err := e.Runs().Info(ctx, r.ID())
	if err != nil || !info.Wake.Equal(before.Wake) || info.Wake.IsZero() {
		t.Errorf("the wake time went from %s to %s, %v", before.Wake, info.Wake, err)
	}
	ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	if got := outcome(t, r); got != "woken" {
		t.Error(got)
	}
	if after, err := e.Runs().Info(ctx, r.ID()); err != nil || after.Ended.Before(before.Wake) ||
		after.Ended.After(before.Wake.Add(time.Second)) {
		t.Errorf("it was due at %s and ended at %s, %v", before.Wake, after.Ended, err)
	}
}

func TestPauseOfARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := three(c)
	db := memory.New()
	idle, err := stet.New(t.Context(), stet.Config{Store: db, Workflows: []stet.Definition{w}})
	if err != nil {
		t.Fatal(err)
	}
	later := begin(t, idle, w, "", stet.StartAfter(time.Hour))
	now := begin(t, idle, w, "now")
	e := serve(t, stet.Config{Store: db, Poll: 5 * time.Millisecond}) // decides without the code
	ctx := testContext(t)
	for _, id := range []string{later.ID(), now.ID()} {
		ok, err := e.Runs().Pause(ctx, id, stet.Act{})
		done(t, ok, err)
	}
	a, err := e.Runs().Info(ctx, later.ID())
	if err != nil || a.Status != store.Queued || a.Marks != store.Paused || a.Wake.IsZero() || !a.Started.IsZero() {
		t.Errorf("the delayed run is %+v, %v", a, err)
	}
	for _, id := range []string{later.ID(), now.ID()} {
		ok, err := e.Runs().Resume(ctx, id, stet.Act{})
		done(t, ok, err)
	}
	b, err := e.Runs().Info(ctx, later.ID())
	if err != nil || b.Status != store.Queued || b.Marks != 0 || !b.Wake.Equal(a.Wake) || !b.Started.IsZero() {
		t.Errorf("the delayed run goes on as %+v, %v", b, err)
	}
	worker := serve(t, stet.Config{Store: db.Join(), Workflows: []stet.Definition{w}, Poll: 5 * time.Millisecond})
	_ = worker // a standby: the first engine owns the store until the test ends
	if info, err := e.Runs().Info(ctx, now.ID()); err != nil || info.Status != store.Queued {
		t.Errorf("the other run is %s, %v", info.Status, err)
	}
}

func TestForkLeavesTheOriginAlone(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		a, err := c.step(ctx, "a")
		if err != nil {
			return "", err
		}
		n := stet.Random(ctx).Uint64()
		b, err := c.step(ctx, "b")
		return fmt.Sprint(a, " ", b, " ", n), err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	first := outcome(t, r)
	c.want(t, "a b")
	before, err := e.Runs().Info(ctx, r.ID())
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.Runs().Fork(ctx, r.ID(), "b", stet.Act{By: "ada", Why: "what if"}, stet.ID("other"))
	if err != nil || id != "other" {
		t.Fatal(id, err)
	}
	second := outcome(t, w.Handle(e, id))
	if want := strings.Replace(first, "b1", "b2", 1); second != want {
		t.Errorf("the fork gives %q; want %q", second, want)
	}
	c.want(t, "b")
	if c.same("b") {
		t.Error("the fork has the keys of its origin")
	}
	if after, err := e.Runs().Info(ctx, r.ID()); err != nil || after.Status != before.Status || after.Generation != 0 ||
		after.Ended != before.Ended {
		t.Errorf("the origin is %+v, %v", after, err)
	}
	audit, err := e.Runs().Audit(ctx, id)
	if err != nil || len(audit) != 1 || audit[0].Verb != "fork" || audit[0].Who != "ada" ||
		!strings.Contains(audit[0].Detail, "from run "+r.ID()) {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
	if _, err := e.Runs().Fork(ctx, r.ID(), "b", stet.Act{}, stet.ID("other")); !errors.Is(err, stet.ErrExists) {
		t.Errorf("a second fork with the ID: %v", err)
	}
	if _, err := e.Runs().Fork(ctx, "expired", "b", stet.Act{}); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("a fork of a run that is not there: %v", err)
	}
	if _, err := e.Runs().Fork(ctx, r.ID(), "x", stet.Act{}); !errors.Is(err, stet.ErrRefused) ||
		!strings.Contains(err.Error(), "unknown location x") {
		t.Errorf("a fork from an unknown location: %v", err)
	}
	if _, err := e.Runs().Fork(ctx, r.ID(), "b", stet.Act{}, stet.ID("x@1")); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("a fork with a bad ID: %v", err)
	}
	c.want(t, "")
}

func TestEdit(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := three(c)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	c.set("b", true)
	r := begin(t, e, w, "")
	outcome(t, r)
	c.want(t, "a b")
	ok, err := e.Runs().EditResult(ctx, r.ID(), "b", "by hand", stet.Act{Why: "b was done by phone"})
	done(t, ok, err)
	if got := outcome(t, r); got != "a1 by hand c1" {
		t.Error(got)
	}
	c.want(t, "c")
	ok, err = e.Runs().EditFailure(ctx, r.ID(), "c", errors.New("refuted"), stet.Act{})
	done(t, ok, err)
	if got := outcome(t, r); !strings.Contains(got, "step c failed: refuted") {
		t.Error(got)
	}
	audit, err := e.Runs().Audit(ctx, r.ID())
	if err != nil || len(audit) != 2 || audit[0].Why != "b was done by phone" ||
		!strings.Contains(audit[0].Detail, "b has now a value") || !strings.Contains(audit[1].Detail, "c has now a failure") {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
	for _, row := range []struct {
		step   string
		class  error
		reason string
	}{{"x", stet.ErrRefused, "unknown location x"}, {"", stet.ErrInvalid, "found none"},
		{"[", stet.ErrInvalid, "segment"}} {
		ok, err := e.Runs().EditResult(ctx, r.ID(), row.step, 1, stet.Act{})
		refused(t, ok, err, row.class, row.reason)
	}
	ok, err = e.Runs().EditFailure(ctx, r.ID(), "a", nil, stet.Act{})
	refused(t, ok, err, stet.ErrInvalid, "found nil")
	ok, err = e.Runs().EditResult(ctx, r.ID(), "a", func() {}, stet.Act{})
	refused(t, ok, err, stet.ErrInvalid, "")
	c.want(t, "")
}

func TestExecutingRunsAreNotTakenBack(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		return "",
			stet.Sleep(ctx, "long", time.Hour)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	waitStatus(t, e, r.ID(), store.Suspended)
	ok, err := e.Runs().Rewind(ctx, r.ID(), "/", stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "pause or cancel it first")
	ok, err = e.Runs().EditResult(ctx, r.ID(), "long", 1, stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "pause or cancel it first")
	if _, err := e.Runs().Fork(ctx, r.ID(), "/", stet.Act{}); !errors.Is(err, stet.ErrRefused) {
		t.Errorf("a fork of it: %v", err)
	}
	ok, err = e.Runs().Retry(ctx, r.ID(), stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "only one that has failed")
	ok, err = e.Runs().Pause(ctx, r.ID(), stet.Act{})
	done(t, ok, err)
	ok, err = e.Runs().EditResult(ctx, r.ID(), "long", 1, stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "long is a sleep")
	ok, err = e.Runs().Rewind(ctx, r.ID(), "long", stet.Act{})
	done(t, ok, err)
	if info, err := e.Runs().Info(ctx, r.ID()); err != nil || info.Marks != store.Paused || info.Generation != 1 {
		t.Errorf("the rewound paused run is %+v, %v", info, err)
	}
}

func TestSupersededRunsAreNeverTakenBack(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := three(c)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	c.set("b", true)
	outcome(t, begin(t, e, w, "", stet.ID("x")))
	c.set("b", false)
	outcome(t, begin(t, e, w, "", stet.ID("x"), stet.ReplaceFailed))
	page, err := e.Store().List(ctx, store.Filter{IDPrefix: "x@"})
	if err != nil || len(page.Runs) != 1 {
		t.Fatal(page, err)
	}
	old := page.Runs[0].ID
	ok, err := e.Runs().Retry(ctx, old, stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "it was replaced by a later one")
	ok, err = e.Runs().Rewind(ctx, old, "/", stet.Act{})
	refused(t, ok, err, stet.ErrRefused, "it was replaced by a later one")
	id, err := e.Runs().Fork(ctx, old, "b", stet.Act{})
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, w.Handle(e, id)); got != "a1 b3 c2" {
		t.Errorf("the fork of a superseded run gives %q", got)
	}
}

// TestTokensAndRewind: a promise that was made before the cut keeps its token, and the resolution that it had; one that
// is made again has a new token, and the old one is void.
func TestTokensAndRewind(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var tokens []string
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		if err := stet.Do(ctx, "draft", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		p, err := stet.NewPromise[string](ctx, "decision")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, p.Token())
			return nil
		}); err != nil {
			return "", err
		}
		return p.Await(ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	last := func(n int) string {
		mu.Lock()
		defer mu.Unlock()
		if len(tokens) != n {
			t.Fatalf("%d tokens were received, want %d", len(tokens), n)
		}
		return tokens[n-1]
	}
	r := begin(t, e, w, "")
	waitStatus(t, e, r.ID(), store.Suspended)
	first := last(1)
	if err := e.Resolve(ctx, first, "yes"); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, r); got != "yes" {
		t.Fatal(got)
	}
	ok, err := e.Runs().Rewind(ctx, r.ID(), "tell", stet.Act{})
	done(t, ok, err)
	if got := outcome(t, r); got != "yes" || last(2) != first {
		t.Errorf("after a rewind behind the promise: %q, the same token %t", got, last(2) == first)
	}
	ok, err = e.Runs().Rewind(ctx, r.ID(), "draft", stet.Act{})
	done(t, ok, err)
	waitStatus(t, e, r.ID(), store.Suspended)
	second := last(3)
	if second == first {
		t.Fatal("a promise that is made again has its former token")
	}
	if err := e.Resolve(ctx, first, "late"); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("the former token: %v", err)
	}
	if err := e.Resolve(ctx, second, "no"); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, r); got != "no" {
		t.Errorf("got %q", got)
	}
}

// TestChildrenAndRewind: a child begun in the reverted part is begun again; one from before is the same.
func TestChildrenAndRewind(t *testing.T) {
	t.Parallel()
	c := newCalls()
	kid := stet.Define("kid", func(ctx stet.Context, name string) (string, error) { return c.step(ctx, name) })
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		a, err := kid.Call(ctx, "a")
		if err != nil {
			return "", err
		}
		s, err := c.step(ctx, "s")
		if err != nil {
			return "", err
		}
		b, err := kid.Call(ctx, "b", stet.Named("second"))
		return a + s + b, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, kid}})
	ctx := testContext(t)
	r := begin(t, e, w, "")
	if got := outcome(t, r); got != "a1s1b1" {
		t.Fatal(got)
	}
	ok, err := e.Runs().Rewind(ctx, r.ID(), "s", stet.Act{})
	done(t, ok, err)
	if got := outcome(t, r); got != "a1s2b2" {
		t.Errorf("got %q", got)
	}
	c.want(t, "a s b s b")
	page, err := e.Store().List(ctx, store.Filter{Workflows: []string{"kid"}})
	if err != nil || len(page.Runs) != 3 {
		t.Errorf("%d children are kept, want 3: finished ones are records; %v", len(page.Runs), err)
	}
}

func TestPauseWithChildren(t *testing.T) {
	t.Parallel()
	kid := stet.Define("kid", func(ctx stet.Context, _ int) (int, error) { return 1, stet.Sleep(ctx, "long", time.Hour) })
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) { return kid.Call(ctx, 0) })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, kid}})
	ctx := testContext(t)
	r := begin(t, e, w, 0)
	waitStatus(t, e, r.ID(), store.Suspended)
	var child string
	for child == "" {
		page, err := e.Store().List(ctx, store.Filter{Workflows: []string{"kid"}, Statuses: []store.Status{store.Suspended}})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) == 1 {
			child = page.Runs[0].ID
		}
	}
	marks := func(want store.Marks) {
		t.Helper()
		for _, id := range []string{r.ID(), child} {
			if info, err := e.Runs().Info(ctx, id); err != nil || info.Marks != want {
				t.Errorf("run %s has the marks %q, want %q; %v", id, info.Marks, want, err)
			}
		}
	}
	ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{Children: true})
	done(t, ok, err)
	marks(store.Paused)
	ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{Children: true})
	done(t, ok, err)
	marks(0)
	ok, err = e.Runs().Cancel(ctx, r.ID(), stet.Act{Children: true})
	refused(t, ok, err, stet.ErrInvalid, "Children is for Pause, Resume and Delete")
}

// TestPauseAgainstTheEnd races a pause with the completion of a run: either it is
// paused and goes on when it is resumed, or it has ended and the pause says so.
func TestPauseAgainstTheEnd(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		for i := range 3 {
			if err := stet.Do(ctx, fmt.Sprint("s", i), func(context.Context) error { return nil }); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	paused := 0
	for i := range 60 {
		r := begin(t, e, w, i)
		ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{})
		switch {
		case ok:
			paused++
			if info, err := e.Runs().Info(ctx, r.ID()); err != nil || info.Marks != store.Paused || info.Status.Terminal() {
				t.Fatalf("a paused run is %s %s, %v", info.Status, info.Marks, err)
			}
			ok, err := e.Runs().Resume(ctx, r.ID(), stet.Act{})
			done(t, ok, err)
		case !errors.Is(err, stet.ErrTerminal) &&
			!(errors.Is(err, stet.ErrRefused) && strings.Contains(err.Error(), "succeeded")):
			t.Fatal(err)
		}
		if got := outcome(t, r); got != "done" {
			t.Fatal(got)
		}
	}
	t.Logf("%d of 60 were paused", paused)
}

// TestRetryTwice has many ask at once: one retry is carried out for each failure.
func TestRetryTwice(t *testing.T) {
	t.Parallel()
	c := newCalls()
	w := three(c)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	c.set("c", true)
	r := begin(t, e, w, "")
	outcome(t, r)
	c.set("c", false)
	var accepted, other int
	var mu sync.Mutex
	var asks sync.WaitGroup
	for range 8 {
		asks.Go(func() {
			ok, err := e.Runs().Retry(ctx, r.ID(), stet.Act{})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ok:
				accepted++
			case errors.Is(err, stet.ErrRefused):
				other++
			default:
				t.Error(err)
			}
		})
	}
	asks.Wait()
	if accepted != 1 || other != 7 {
		t.Errorf("%d retries were carried out and %d refused; want 1 and 7", accepted, other)
	}
	if got := outcome(t, r); got != "a1 b1 c2" {
		t.Error(got)
	}
	c.want(t, "a b c c")
	if audit, err := e.Runs().Audit(ctx, r.ID()); err != nil || len(audit) != 1 {
		t.Errorf("the audit is %+v, %v", audit, err)
	}
}

// TestRewindAgainstAClaim rewinds while messages wake the run: whatever comes first,
// nothing is lost and all of it is seen once, in order.
func TestRewindAgainstAClaim(t *testing.T) {
	t.Parallel()
	name := stet.Message[int]("n")
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		var got []int
		for range 4 {
			n, err := name.Receive(ctx)
			if err != nil {
				return "", err
			}
			got = append(got, n)
		}
		return fmt.Sprint(got), nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, Poll: 5 * time.Millisecond})
	ctx := testContext(t)
	for range 15 {
		r := begin(t, e, w, 0)
		sent := make(chan error, 1)
		go func() {
			for i := range 4 {
				if err := name.Send(ctx, e, r.ID(), i); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		if ok, err := e.Runs().Pause(ctx, r.ID(), stet.Act{}); ok {
			ok, err := e.Runs().Rewind(ctx, r.ID(), "/", stet.Act{})
			done(t, ok, err)
			ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{})
			done(t, ok, err)
		} else if !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if got := outcome(t, r); got != "[0 1 2 3]" {
			t.Fatalf("got %s", got)
		}
		ok, err := e.Runs().Rewind(ctx, r.ID(), "n#3", stet.Act{})
		done(t, ok, err)
		if got := outcome(t, r); got != "[0 1 2 3]" {
			t.Fatalf("after a rewind: %s", got)
		}
	}
}

// TestRewindMarksStreams: streamed items stay, and the mark shows where they come again.
func TestRewindMarksStreams(t *testing.T) {
	t.Parallel()
	log := stet.Stream[string]("log")
	w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
		for _, name := range []string{"a", "b"} {
			if err := stet.Do(ctx, name, func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			if err := log.Append(ctx, name); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r := begin(t, e, w, 0)
	outcome(t, r)
	ok, err := e.Runs().Rewind(ctx, r.ID(), "b", stet.Act{})
	done(t, ok, err)
	outcome(t, r)
	items, err := log.Items(ctx, e, r.ID(), 0, 10)
	var got []string
	for _, it := range items {
		if it.Rewound {
			it.Value = "mark"
		}
		got = append(got, it.Value)
	}
	if err != nil || strings.Join(got, " ") != "a b mark b" {
		t.Errorf("the stream is %q, %v; want a b mark b", got, err)
	}
}
