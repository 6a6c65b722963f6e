package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// lines collects what an engine logs, each record as its level, message and attributes.
type lines struct {
	mu   *sync.Mutex
	all  *[]string
	with []slog.Attr
}

func newLines() lines { return lines{mu: new(sync.Mutex), all: new([]string)} }

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithGroup(string) slog.Handler            { return l }

func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.with = slices.Concat(l.with, attrs)
	return l
}

func (l lines) Handle(_ context.Context, r slog.Record) error {
	text := fmt.Sprintf("%s %s", r.Level, r.Message)
	add := func(a slog.Attr) bool {
		if a.Key != "next" {
			text += fmt.Sprintf(" %s=%s", a.Key, a.Value)
		}
		return true
	}
	for _, a := range l.with {
		add(a)
	}
	r.Attrs(add)
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.all = append(*l.all, text)
	return nil
}

// of returns the lines about a run.
func (l lines) of(id string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range *l.all {
		if strings.Contains(line+" ", " run_id="+id+" ") {
			found = append(found, line)
		}
	}
	return found
}

// TestEachTroubleIsLoggedOnce: each failed attempt that is made again, and each run that
// fails, stalls or is paused, is one line with what is known of it, whatever the cause. The
// hooks hear of the same.
func TestEachTroubleIsLoggedOnce(t *testing.T) {
	t.Parallel()
	broken := func(context.Context) error { return errors.New("no answer") }
	twice := stet.Retry{Attempts: 2, First: time.Millisecond}
	causes := map[string]struct {
		code    func(stet.Context) error
		options []stet.DefineOption
		hook    string
		want    []string
	}{
		"fails": {
			code: func(ctx stet.Context) error { return stet.Do(ctx, "ask", broken, twice) },
			hook: "ended failed",
			want: []string{
				"WARN step attempt failed run_id=fails workflow=fails location=ask attempt=1 cause=error error=no answer",
				"ERROR run failed run_id=fails workflow=fails location=ask attempt=2 cause=step " +
					"error=step ask failed after 2 attempts: no answer",
			},
		},
		"stands": {
			code:    func(ctx stet.Context) error { return stet.Do(ctx, "ask", broken, stet.Retry{Attempts: 1}) },
			options: []stet.DefineOption{stet.StallOnFailure},
			hook:    "stalled failure",
			want: []string{"ERROR run stalled run_id=stands workflow=stands location=ask attempt=1 " +
				"error=step ask failed: no answer cause=failure reason=failure: step ask failed: no answer"},
		},
		"panics": {
			code: func(stet.Context) error { panic("on purpose") },
			hook: "stalled panic",
			want: []string{"ERROR run stalled run_id=panics workflow=panics error=panic: on purpose cause=panic reason="},
		},
		"deadlock": {
			code: func(ctx stet.Context) error {
				var second *stet.Future[int]
				first := stet.Go(ctx, "first", func(ctx stet.Context) (int, error) { return second.Await(ctx) })
				second = stet.Go(ctx, "second", func(ctx stet.Context) (int, error) { return first.Await(ctx) })
				return stet.Join(ctx, first, second)
			},
			hook: "stalled deadlock",
			want: []string{"ERROR run stalled run_id=deadlock workflow=deadlock error="},
		},
		"misuse": {
			code: func(ctx stet.Context) error {
				done := make(chan struct{})
				//stetvet:ignore leak the misuse is what is tested
				//stetvet:ignore goroutine the misuse is what is tested
				//stetvet:ignore error only the start of it matters here
				go func() { defer close(done); _ = stet.Do(ctx, "write", broken) }()
				//stetvet:ignore channel the code holds the run where the test wants it
				<-done
				return nil
			},
			hook: "stalled misuse",
			want: []string{"ERROR run stalled run_id=misuse workflow=misuse error="},
		},
		"undoes": {
			code: func(ctx stet.Context) error {
				good := func(context.Context) error { return nil }
				if err := stet.Do(ctx, "book", good, stet.UndoDo(broken, stet.Retry{Attempts: 1})); err != nil {
					return err
				}
				return errors.New("changed my mind")
			},
			hook: "stalled undo",
			want: []string{"ERROR run stalled run_id=undoes workflow=undoes location=book/undo " +
				"error=undo: book/undo failed: no answer; fix the cause"},
		},
		"pauses": {
			code: func(ctx stet.Context) error {
				return stet.Do(ctx, "ask", broken, stet.Retry{Attempts: stet.None, First: time.Millisecond})
			},
			options: []stet.DefineOption{stet.PauseAfter(1)},
			want: []string{
				"WARN step attempt failed run_id=pauses workflow=pauses location=ask attempt=1 cause=error error=no answer",
				"WARN run paused run_id=pauses workflow=pauses reason=step ask has failed 1 times, at last with: no answer",
			},
		},
		"succeeds": {code: func(stet.Context) error { return nil }, hook: "ended succeeded"},
	}
	log := newLines()
	heard := make(chan string, 10)
	s := memory.New()
	cfg := stet.Config{
		Store: s, Logger: slog.New(log),
		OnEnd:   func(r *stet.RunInfo) { heard <- fmt.Sprint(r.ID, " ended ", r.Status); panic("of a hook") },
		OnStall: func(r *stet.RunInfo) { heard <- fmt.Sprint(r.ID, " stalled ", r.Cause) },
	}
	workflows := map[string]*stet.Workflow[int, int]{}
	for name, c := range causes {
		w := stet.Define(name, func(ctx stet.Context, _ int) (int, error) { return 0, c.code(ctx) }, c.options...)
		workflows[name], cfg.Workflows = w, append(cfg.Workflows, w)
	}
	e := serve(t, cfg)
	ctx := testContext(t)
	for name, c := range causes {
		if _, err := workflows[name].Start(ctx, e, 0, stet.ID(name)); err != nil {
			t.Fatal(err)
		}
		if c.hook == "" {
			untilMarked(t, e, name, store.Paused)
		} else if got := <-heard; got != name+" "+c.hook {
			t.Errorf("%s: the hooks hear %q", name, got)
		}
		got := slices.DeleteFunc(log.of(name), func(line string) bool { return strings.Contains(line, "OnEnd panicked") })
		if len(got) != len(c.want) {
			t.Errorf("%s: the log has %d lines, want %d:\n%s", name, len(got), len(c.want), strings.Join(got, "\n"))
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: the log has\n%s\nwant\n%s", name, got[i], c.want[i])
			}
		}
	}
	if got := log.of("succeeds"); len(got) != 1 || !strings.HasPrefix(got[0], "ERROR OnEnd panicked") {
		t.Errorf("of a hook's panic the log has %q", got)
	}
}

// TestMismatchIsLoggedOnce: a run that meets other code is one line per stall, with the
// location; what is replayed is not reported again.
func TestMismatchIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := memory.New()
	code := func(step string) *stet.Workflow[int, int] {
		return stet.Define("changes", func(ctx stet.Context, _ int) (int, error) {
			tries := 0
			_, err := stet.Step(ctx, step, func(context.Context) (int, error) {
				//stetvet:ignore captured the test counts what this process executes
				if tries++; tries == 1 {
					return 0, errors.New("once")
				}
				return 1, nil
			}, stet.Retry{First: time.Millisecond})
			if err != nil {
				return 0, err
			}
			_, err = word.Receive(ctx)
			return 0, err
		})
	}
	serving := func(w stet.Definition, log lines) (*stet.Engine, func()) {
		e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{w}, Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		return e, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	before, after, again := newLines(), newLines(), newLines()
	ctx := testContext(t)
	e, stop := serving(code("ask"), before)
	if _, err := code("ask").Start(ctx, e, 0, stet.ID("r")); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, "r", store.Suspended)
	stop()
	if got := before.of("r"); len(got) != 1 || !strings.HasPrefix(got[0], "WARN step attempt failed") {
		t.Errorf("the log has %q", got)
	}
	e, stop = serving(code("beg"), after)
	if err := word.Send(ctx, e, "r", "go"); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, "r", store.Stalled)
	stop()
	want := "ERROR run stalled run_id=r workflow=changes location=ask error=mismatch at ask: "
	if got := after.of("r"); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("after a change of the code the log has %q", got)
	}
	e, stop = serving(code("ask"), again)
	defer stop()
	if _, err := e.Runs().Resume(ctx, "r", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, "r", store.Succeeded)
	if got := again.of("r"); len(got) != 0 {
		t.Errorf("after the replay of a failed attempt the log has %q", got)
	}
}

// untilMarked blocks until the run has the mark.
func untilMarked(t *testing.T, e *stet.Engine, id string, mark store.Marks) {
	t.Helper()
	untilRun(t, e, id, func(info *stet.RunInfo) bool { return info.Marks&mark != 0 })
}
