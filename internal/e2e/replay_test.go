package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// readOnly is a store in which nothing can be changed.
type readOnly struct {
	store.Store
	tried atomic.Int64
}

var errReadOnly = errors.New("nothing may be written")

func (s *readOnly) refuse() error { s.tried.Add(1); return errReadOnly }

func (s *readOnly) Register(context.Context, store.Node) (store.Time, error) { return 0, s.refuse() }
func (s *readOnly) Acquire(context.Context, store.Node, []store.Shard, store.Delay) ([]store.Acquired, store.Time,
	error) {
	return nil, 0, s.refuse()
}
func (s *readOnly) Apply(context.Context, []store.Command) ([]store.Answer, store.Time, error) {
	return nil, 0, s.refuse()
}
func (s *readOnly) Commit(context.Context, store.Batch) (store.BatchResult, error) {
	return store.BatchResult{}, s.refuse()
}
func (s *readOnly) Claim(context.Context, store.ClaimRequest) (store.Claims, error) {
	return store.Claims{}, s.refuse()
}

// shopCode is the code of a workflow with a history of each kind of operation
// that is there when it waits for the word. A test changes parts of it.
type shopCode struct {
	first, second string // names of steps
	skip          bool   // the second step
	extra         bool   // a step before the first
	behind        bool   // a step after the word
	steps         *atomic.Int64
	out           string
	fail          bool
	decode        bool // the first step gives a number
}

func (c shopCode) define() *stet.Workflow[string, string] {
	step := func(ctx stet.Context, name, value string) (string, error) {
		return stet.Step(ctx, name, func(context.Context) (string, error) { c.steps.Add(1); return value, nil })
	}
	return stet.Define("shop", func(ctx stet.Context, in string) (string, error) {
		if c.extra {
			if _, err := step(ctx, "check", ""); err != nil {
				return "", err
			}
		}
		if c.decode {
			if _, err := stet.Step(ctx, c.first, func(context.Context) (int, error) { return 0, nil }); err != nil {
				return "", err
			}
		} else if _, err := step(ctx, c.first, in); err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "nap", time.Millisecond); err != nil {
			return "", err
		}
		if !c.skip {
			if _, err := step(ctx, c.second, strings.Repeat("large ", 2000)); err != nil {
				return "", err
			}
		}
		w, err := word.Receive(ctx, stet.Within(time.Hour))
		if err != nil {
			return "", err
		}
		if c.behind {
			if _, err := step(ctx, "behind", ""); err != nil {
				return "", err
			}
		}
		if c.fail {
			err = errors.New("no " + w)
		}
		return w + c.out, err
	})
}

// shop returns the code that the histories below are made with.
func shop() shopCode {
	return shopCode{first: "reserve", second: "charge", steps: new(atomic.Int64)}
}

// discard is a logger for what a test does not look at.
var discard = slog.New(slog.DiscardHandler)

// checker returns an engine that has other code and may not write.
func checker(t *testing.T, s store.Store, workflows ...stet.Definition) *stet.Engine {
	t.Helper()
	guarded := &readOnly{Store: s}
	e, err := stet.New(t.Context(), stet.Config{Store: guarded, Workflows: workflows, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := guarded.tried.Load(); n > 0 {
			t.Errorf("the engine has tried to write %d times", n)
		}
	})
	return e
}

// waiting runs the workflow until it waits for the word, and returns the file of
// the exported run.
func waiting(t *testing.T, e *stet.Engine, w *stet.Workflow[string, string], id string) []byte {
	t.Helper()
	if _, err := w.Start(testContext(t), e, "in", stet.ID(id)); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, id, store.Suspended)
	return export(t, e, id)
}

// changes are edits of the shop's code and what a replay says of them.
var changes = []struct {
	name                      string
	change                    func(*shopCode)
	location, recorded, asked string // a mismatch
	reason                    string // another failure
}{
	{name: "the same code", change: func(*shopCode) {}},
	{name: "appended", change: func(c *shopCode) { c.behind = true }},
	{name: "renamed", change: func(c *shopCode) { c.second = "charges" },
		location: "charge", recorded: "step charge (done, completion 3)", asked: "step charges"},
	{name: "removed", change: func(c *shopCode) { c.skip = true },
		location: "charge", recorded: "step charge (done, completion 3)"},
	{name: "inserted", change: func(c *shopCode) { c.extra = true },
		location: "reserve", recorded: "step reserve (done, completion 1)", asked: "step check"},
	{name: "a result of another type", change: func(c *shopCode) { c.decode = true },
		location: "reserve", recorded: `"in"`, asked: "result of reserve is no int"},
}

// wantBreak looks at what a replay says of a change.
func wantBreak(t *testing.T, err error, location, recorded, asked, reason string) {
	t.Helper()
	var found *stet.ReplayError
	switch {
	case location == "" && reason == "":
		if err != nil {
			t.Errorf("the replay says %v", err)
		}
	case !errors.As(err, &found):
		t.Errorf("the replay says %v, want a ReplayError", err)
	case found.Location != location || found.Recorded != recorded || !strings.Contains(found.Asked, asked) ||
		!strings.Contains(found.Reason, reason) || location != "" && found.Remedy == "":
		t.Errorf("the replay says %+v", found)
	case !strings.Contains(err.Error(), location) || !strings.Contains(err.Error(), recorded):
		t.Errorf("the message does not say it all: %v", err)
	}
}

// TestReplayOfAnExportedRun replays a file against changed code. Nothing is
// executed or written, and a break names the place and both sides.
func TestReplayOfAnExportedRun(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			code := shop()
			w := code.define()
			e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
			file := waiting(t, e, w, "r")
			if !bytes.Contains(file, []byte(strings.Repeat("large ", 2000))) {
				t.Error("a large value is not in the file")
			}
			for _, c := range changes {
				t.Run(c.name, func(t *testing.T) {
					code := shop()
					c.change(&code)
					e := checker(t, open(), code.define())
					wantBreak(t, e.Replay(testContext(t), bytes.NewReader(file)), c.location, c.recorded, c.asked, c.reason)
					if n := code.steps.Load(); n > 0 {
						t.Errorf("the replay has executed %d steps", n)
					}
				})
			}
		})
	}
}

// TestReplayOfAnEndedRun compares the end as well.
func TestReplayOfAnEndedRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		was, is     func(*shopCode)
		reason      string
		cancelledBy func(context.Context, *stet.Engine) error
	}{
		{name: "the same result", was: func(*shopCode) {}, is: func(*shopCode) {}},
		{name: "another result", was: func(*shopCode) {}, is: func(c *shopCode) { c.out = "!" },
			reason: `the run's result was "\"hello\"", with the code it is "\"hello!\""`},
		{name: "a failure", was: func(*shopCode) {}, is: func(c *shopCode) { c.fail = true },
			reason: "the run has succeeded, with the code it has failed: error: no hello"},
		{name: "the same failure", was: func(c *shopCode) { c.fail = true }, is: func(c *shopCode) { c.fail = true }},
		{name: "a result instead of a failure", was: func(c *shopCode) { c.fail = true }, is: func(*shopCode) {},
			reason: "the run has failed, with the code it has succeeded"},
		{name: "cancelled", was: func(*shopCode) {}, is: func(*shopCode) {}, cancelledBy: func(ctx context.Context, e *stet.Engine) error {
			_, err := e.Runs().Cancel(ctx, "r", stet.Act{})
			return err
		}},
		{name: "terminated", was: func(*shopCode) {}, is: func(*shopCode) {}, cancelledBy: func(ctx context.Context, e *stet.Engine) error {
			_, err := e.Runs().Terminate(ctx, "r", stet.Act{})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := testStores[0].open(t)
			was, is := shop(), shop()
			c.was(&was)
			c.is(&is)
			w := was.define()
			e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
			waiting(t, e, w, "r")
			ctx := testContext(t)
			end := c.cancelledBy
			if end == nil {
				end = func(ctx context.Context, e *stet.Engine) error { return word.Send(ctx, e, "r", "hello") }
			}
			if err := end(ctx, e); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Wait(ctx, "r"); err != nil {
				t.Fatal(err)
			}
			err := checker(t, open(), is.define()).Replay(ctx, bytes.NewReader(export(t, e, "r")))
			wantBreak(t, err, "", "", "", c.reason)
		})
	}
}

func TestExportAndReplayOfNothing(t *testing.T) {
	t.Parallel()
	code := shop()
	e := checker(t, testStores[0].open(t)(), code.define())
	ctx := testContext(t)
	if err := e.Runs().Export(ctx, "none", io.Discard); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("the export of no run gives %v", err)
	}
	if err := e.Replay(ctx, strings.NewReader("{}")); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("the replay of no file gives %v", err)
	}
}

func TestReplayWithoutTheCode(t *testing.T) {
	t.Parallel()
	open := testStores[0].open(t)
	w := shop().define()
	e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
	file := waiting(t, e, w, "r")
	if err := checker(t, open()).Replay(testContext(t), bytes.NewReader(file)); !errors.Is(err, stet.ErrUnknownWorkflow) {
		t.Errorf("the replay gives %v", err)
	}
}

// TestReplayOfARunThatWouldBeUndone: code that fails where the run waits would undo
// it, and so would code that has no compensation any more for what it owes.
func TestReplayOfARunThatWouldBeUndone(t *testing.T) {
	t.Parallel()
	code := func(fails bool, opts ...stet.StepOption) *stet.Workflow[string, string] {
		return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			if _, err := say(ctx, "reserve", "seat", opts...); err != nil {
				return "", err
			}
			if fails {
				return "", errors.New("not sold any more")
			}
			return word.Receive(ctx)
		})
	}
	open := testStores[0].open(t)
	w := code(false, takeBack("seat"))
	e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
	file := waiting(t, e, w, "r")
	for name, c := range map[string]struct {
		code   *stet.Workflow[string, string]
		reason string
	}{
		"the same":          {w, ""},
		"it fails":          {code(true, takeBack("seat")), "the run would fail at once: error: not sold any more"},
		"it fails, no undo": {code(true), "mismatch at reserve: the history has a completed step that is owed its undoing"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checker(t, open(), c.code).Replay(testContext(t), bytes.NewReader(file))
			if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("the replay says %v, want %q", err, c.reason)
			}
		})
	}
}

// TestReplayOfSealedValues: the file has them in the clear, a check in a process
// that lacks the key says so.
func TestReplayOfSealedValues(t *testing.T) {
	t.Parallel()
	open := testStores[0].open(t)
	w := shop().define()
	payloads := stet.Payloads{Compress: 100, Keys: []stet.PayloadKey{{ID: "key-1", Secret: bytes.Repeat([]byte{7}, 32)}}}
	p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}, Payloads: payloads})
	file := waiting(t, p.Engine, w, "r")
	if !bytes.Contains(file, []byte(strings.Repeat("large ", 2000))) {
		t.Errorf("the file has not the value: %s", file)
	}
	ctx := testContext(t)
	without := checker(t, open(), w)
	if err := without.Replay(ctx, bytes.NewReader(file)); err != nil {
		t.Errorf("the replay says %v", err)
	}
	if err := without.Runs().Export(ctx, "r", io.Discard); !errors.Is(err, stet.ErrUnknownKey) {
		t.Errorf("the export without the key gives %v", err)
	}
	report, err := without.Check(ctx, stet.CheckQuery{})
	if err != nil || len(report.Breaks) != 1 || !strings.Contains(report.Breaks[0].Reason, "key-1") ||
		report.Breaks[0].RunID != "r" {
		t.Errorf("the check without the key gives %+v, %v", report, err)
	}
	with, err := stet.New(ctx, stet.Config{Store: open(), Workflows: []stet.Definition{w}, Payloads: payloads,
		Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := with.Check(ctx, stet.CheckQuery{}); err != nil || report.Replayed != 1 || report.Err() != nil {
		t.Errorf("the check with the key gives %+v, %v", report, err)
	}
}

// TestReplayThatReachesNothing breaks when its patience is over.
func TestReplayThatReachesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := testStores[0].open(t)
		w := shop().define()
		e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
		if _, err := w.Start(t.Context(), e, "in", stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		file := export(t, e, "r")
		release := make(chan struct{})
		defer close(release)
		//stetvet:ignore channel the code holds the run where the test wants it
		stuck := stet.Define("shop", func(stet.Context, string) (string, error) { <-release; return "", nil })
		begun := time.Now()
		err := checker(t, open(), stuck).Replay(t.Context(), bytes.NewReader(file))
		wantBreak(t, err, "", "", "", "the code has reached no operation and no end for 10s")
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("it has taken %v", took)
		}
	})
}

// TestReplayThatDoesNotEnd is given up when the context ends.
func TestReplayThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	open := testStores[0].open(t)
	w := shop().define()
	e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
	file := waiting(t, e, w, "r")
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(testContext(t))
	//stetvet:ignore channel the code holds the run where the test wants it
	stuck := stet.Define("shop", func(stet.Context, string) (string, error) { cancel(); <-release; return "", nil })
	if err := checker(t, open(), stuck).Replay(ctx, bytes.NewReader(file)); !errors.Is(err, context.Canceled) {
		t.Errorf("the replay gives %v", err)
	}
}

// TestCheck replays the live runs of a store that another process works on.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			code := shop()
			w := code.define()
			other := stet.Define("other", func(ctx stet.Context, _ string) (string, error) { return word.Receive(ctx) })
			e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w, other}}).Engine
			ctx := testContext(t)
			for i := range 4 {
				waiting(t, e, w, fmt.Sprint("r", i))
			}
			waiting(t, e, other, "elsewhere")
			if err := word.Send(ctx, e, "r0", "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Wait(ctx, "r0"); err != nil {
				t.Fatal(err)
			}
			before := export(t, e, "r1")
			for _, c := range changes {
				t.Run(c.name, func(t *testing.T) {
					code := shop()
					c.change(&code)
					report, err := checker(t, open(), code.define()).Check(ctx, stet.CheckQuery{})
					if err != nil {
						t.Fatal(err)
					}
					if report.Found != 4 || report.Replayed != 3 || report.Elsewhere["other"] != 1 || report.Gone != 0 {
						t.Errorf("the report is %+v", report)
					}
					want := 3
					if c.location == "" {
						want = 0
					}
					if len(report.Breaks) != want || (report.Err() == nil) != (want == 0) {
						t.Fatalf("the breaks are %v", report.Breaks)
					}
					for i, b := range report.Breaks {
						if b.RunID != fmt.Sprint("r", 3-i) || b.Workflow != "shop" {
							t.Errorf("break %d is of run %s", i, b.RunID)
						}
						wantBreak(t, b, c.location, c.recorded, c.asked, c.reason)
					}
					if n := code.steps.Load(); n > 0 {
						t.Errorf("the check has executed %d steps", n)
					}
				})
			}
			if after := export(t, e, "r1"); !bytes.Equal(before, after) {
				t.Errorf("the checks have changed a run from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestCheckSelects takes a filter and a sample of each workflow.
func TestCheckSelects(t *testing.T) {
	t.Parallel()
	open := testStores[0].open(t)
	w := shop().define()
	other := stet.Define("other", func(ctx stet.Context, _ string) (string, error) { return word.Receive(ctx) })
	e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w, other}}).Engine
	for i := range 5 {
		waiting(t, e, w, fmt.Sprint("r", i))
		waiting(t, e, other, fmt.Sprint("o", i))
	}
	ctx := testContext(t)
	broken := shop()
	broken.second = "charges"
	check := checker(t, open(), broken.define(), other)
	ids := func(r *stet.CheckReport) (ids []string) {
		for _, b := range r.Breaks {
			ids = append(ids, b.RunID)
		}
		return ids
	}
	for _, c := range []struct {
		name            string
		query           stet.CheckQuery
		found, replayed int
	}{
		{"all", stet.CheckQuery{Sample: stet.None}, 10, 10},
		{"a filter", stet.CheckQuery{Filter: store.Filter{IDs: []string{"r2", "o2"}}}, 2, 2},
		{"a status", stet.CheckQuery{Filter: store.Filter{Statuses: []store.Status{store.Succeeded}}}, 0, 0},
		{"a sample", stet.CheckQuery{Sample: 2}, 10, 4},
		{"a sample larger than all", stet.CheckQuery{Sample: 20}, 10, 10},
	} {
		report, err := check.Check(ctx, c.query)
		if err != nil || report.Found != c.found || report.Replayed != c.replayed {
			t.Errorf("%s: %+v, %v", c.name, report, err)
		}
	}
	chosen := map[string]bool{}
	for seed := range uint64(100) {
		first, err := check.Check(ctx, stet.CheckQuery{Sample: 1, Seed: seed + 1})
		if err != nil {
			t.Fatal(err)
		}
		second, err := check.Check(ctx, stet.CheckQuery{Sample: 1, Seed: seed + 1})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := ids(first), ids(second); len(a) != 1 || len(b) != 1 || a[0] != b[0] {
			t.Fatalf("seed %d has chosen %v and %v", seed+1, a, b)
		}
		chosen[ids(first)[0]] = true
	}
	if len(chosen) != 5 {
		t.Errorf("100 samples of one have chosen only %v", chosen)
	}
	if _, err := check.Check(ctx, stet.CheckQuery{Sample: -2}); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("a negative sample gives %v", err)
	}
}

// TestCheckOfAnInputThatDoesNotFit finds runs that have recorded nothing.
func TestCheckOfAnInputThatDoesNotFit(t *testing.T) {
	t.Parallel()
	open := testStores[0].open(t)
	w := shop().define()
	e := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{w}}).Engine
	ctx := testContext(t)
	if _, err := w.Start(ctx, e, "in", stet.ID("r"), stet.StartAfter(time.Hour)); err != nil {
		t.Fatal(err)
	}
	number := stet.Define("shop", func(stet.Context, int) (string, error) { return "", nil })
	report, err := checker(t, open(), number).Check(ctx, stet.CheckQuery{})
	if err != nil || len(report.Breaks) != 1 ||
		!strings.Contains(report.Breaks[0].Reason, `decode: recorded is "in": input of workflow shop is no int`) {
		t.Errorf("the report is %+v, %v", report, err)
	}
}
