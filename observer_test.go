package stet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// witness is an observer that writes down what it is told.
type witness struct {
	mu    sync.Mutex
	lines []string
}

func (w *witness) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

type nameKey struct{}

// take returns what was written down since it was called last, sorted.
func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	slices.Sort(lines)
	return lines
}

func (w *witness) observer() *stet.Observer {
	return &stet.Observer{
		Attached: func(*stet.Engine) { w.note("attached") },
		Start: func(_ context.Context, s stet.StartInfo) (stet.Headers, func(error)) {
			return stet.Headers{"trace": "t-" + s.RunID}, func(err error) { w.note("start %s %s: %v", s.Workflow, s.RunID, err) }
		},
		Send: func(_ context.Context, s stet.SendInfo) (stet.Headers, func(error)) {
			return stet.Headers{"from": "observer"}, func(err error) { w.note("send %s to %s: %v", s.Name, s.RunID, err) }
		},
		Attempt: func(ctx context.Context, s stet.StepInfo) (context.Context, func(error)) {
			ended := func(err error) { w.note("attempt %d of %s: %v", s.Attempt, s.Name, err) }
			return context.WithValue(ctx, nameKey{}, s.Name), ended
		},
		RunBegan:   func(r stet.RunEvent) { w.note("began %s", r.ID) },
		RunEnded:   func(r stet.RunEvent) { w.note("ended %s %s: %v", r.ID, r.Status, r.Err()) },
		RunStalled: func(r stet.RunEvent) { w.note("stalled %s %s", r.ID, r.Cause()) },
		Waited: func(r stet.RunEvent, x stet.WaitEnded) {
			took := x.Until.Sub(x.Since).Round(time.Millisecond) // a deadline is met when the inbox was read after it
			w.note("waited %s %s %v failed=%v %v", x.Kind, x.Location, took, x.Failed, x.Received())
		},
		Sent:  func(r stet.RunEvent, x stet.SentInfo) { w.note("sent %s to %s", x.Name, x.RunID) },
		Woken: func(r stet.RunEvent, late time.Duration) { w.note("woken %s", r.ID) },
	}
}

// observed runs an engine on a store, in a bubble, until stop is called.
func observed(t *testing.T, s store.Store, cfg stet.Config) (e *stet.Engine, stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Store, cfg.Grace = s, stet.None
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = serve(t, e)
	synctest.Wait()
	return e, stop
}

// serve executes runs until stop is called.
func serve(t *testing.T, e *stet.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the observer was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestReplayIsNotObserved: a second process replays what the first one has done, and reports
// what is new alone. No run stays in memory, so every wake is a replay.
func TestReplayIsNotObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := stet.Message[string]("said")
		code := stet.Define("order", func(ctx stet.Context, _ int) (string, error) {
			if err := stet.Do(ctx, "ask", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			if err := stet.Sleep(ctx, "rest", time.Minute); err != nil {
				return "", err
			}
			word, err := said.Receive(ctx)
			if err != nil {
				return "", err
			}
			if err := said.SendFrom(ctx, "other", word); err != nil {
				return "", err
			}
			if _, err := said.Receive(ctx, stet.Within(time.Hour), stet.Named("again")); !errors.Is(err, stet.ErrTimeout) {
				return "", fmt.Errorf("expected a timeout, found %w", err)
			}
			return word, stet.Do(ctx, "tell", func(context.Context) error { return nil })
		})
		s := memory.New()
		defer s.Close()
		var w witness
		cfg := stet.Config{Workflows: []stet.Definition{code}, Observer: w.observer(), MaxParkedBytes: stet.None}
		first, stop := observed(t, s.Join(), cfg)
		if _, err := code.Start(t.Context(), first, 1, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, w.take(), "attached", "start order r: <nil>", "began r", "attempt 1 of ask: <nil>")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		expect(t, w.take(), "woken r", "waited sleep rest 1m0s failed=false []")
		stop()

		second, stop := observed(t, s.Join(), cfg)
		defer stop()
		synctest.Wait()
		expect(t, w.take(), "attached")
		if err := said.Send(t.Context(), second, "r", "hello", stet.Headers{"by": "alice"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, w.take(), "send said to r: <nil>", "sent said to other",
			"waited receive said 1m0s failed=false [map[by:alice from:observer]]")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		expect(t, w.take(), "woken r", "waited receive again 1h0m0s failed=true []", "attempt 1 of tell: <nil>",
			"ended r succeeded: <nil>")
		if _, err := second.Runs().Info(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		expect(t, w.take())
	})
}

// TestAttemptsAreObservedOnce: each attempt that begins has one end, whatever becomes of it.
func TestAttemptsAreObservedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		once := stet.Retry{Attempts: 1}
		type code = func(stet.Context, int) (int, error)
		try := func(name string, body func(context.Context) error, opts ...stet.StepOption) code {
			return func(ctx stet.Context, _ int) (int, error) {
				return 0, stet.Do(ctx, name, body, append([]stet.StepOption{once}, opts...)...)
			}
		}
		codes := []*stet.Workflow[int, int]{
			stet.Define("fails", try("ask", func(context.Context) error { return stet.Permanent(errors.New("no")) })),
			stet.Define("panics", try("ask", func(context.Context) error { panic("boom") })),
			stet.Define("silent", try("ask", func(context.Context) error { <-never; return nil },
				stet.Retry{Attempts: 1, Timeout: time.Second})),
			stet.Define("told", try("ask", func(ctx context.Context) error {
				if name := ctx.Value(nameKey{}); name != "ask" || stet.Attempt(ctx) != 1 {
					return fmt.Errorf("the context has %v", name)
				}
				return nil
			}, stet.Key("k"))),
			stet.Define("undone", func(ctx stet.Context, _ int) (int, error) {
				good := func(context.Context) error { return nil }
				if err := stet.Do(ctx, "book", good, stet.UndoDo(good)); err != nil {
					return 0, err
				}
				return 0, errors.New("changed my mind")
			}),
		}
		want := map[string][]string{
			"fails":  {"attempt 1 of ask: no"},
			"panics": {"attempt 1 of ask: panic: boom"},
			"silent": {"attempt 1 of ask: attempt 1 took longer than 1s"},
			"told":   {"attempt 1 of ask: <nil>"},
			"undone": {"attempt 1 of book: <nil>", "attempt 1 of undo book: <nil>"},
		}
		for _, code := range codes {
			var w witness
			s := memory.New()
			o := &stet.Observer{Attempt: w.observer().Attempt}
			e, stop := observed(t, s, stet.Config{Workflows: []stet.Definition{code}, Observer: o})
			run, err := code.Start(t.Context(), e, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = run.Wait(t.Context()) // the attempts are looked at
			expect(t, w.take(), want[code.Name()]...)
			if code.Name() == "silent" {
				close(never)
			}
			stop()
			s.Close()
		}
	})
}

// TestStoppedAttemptIsCancelled: of a body that its process cancels the end is no failure.
func TestStoppedAttemptIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan error, 1)
		o := &stet.Observer{Attempt: func(ctx context.Context, _ stet.StepInfo) (context.Context, func(error)) {
			return ctx, func(err error) { ends <- err }
		}}
		code := stet.Define("waits", func(ctx stet.Context, _ int) (int, error) {
			return 0, stet.Do(ctx, "ask", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		})
		s := memory.New()
		defer s.Close()
		e, stop := observed(t, s, stet.Config{Workflows: []stet.Definition{code}, Observer: o})
		if _, err := code.Start(t.Context(), e, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("the attempt has ended with %v, want one that wraps context.Canceled", err)
		}
	})
}

// TestPanicsOfAnObserver change nothing for the run, and are logged at the first, second,
// fourth, … time.
func TestPanicsOfAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &stet.Observer{
			Attached:   func(*stet.Engine) { panic("Attached") },
			Start:      func(context.Context, stet.StartInfo) (stet.Headers, func(error)) { panic("Start") },
			Send:       func(context.Context, stet.SendInfo) (stet.Headers, func(error)) { panic("Send") },
			Attempt:    func(context.Context, stet.StepInfo) (context.Context, func(error)) { panic("Attempt") },
			RunBegan:   func(stet.RunEvent) { panic("RunBegan") },
			RunEnded:   func(stet.RunEvent) { panic("RunEnded") },
			Turn:       func(stet.RunEvent, stet.TurnInfo) { panic("Turn") },
			Waited:     func(stet.RunEvent, stet.WaitEnded) { panic("Waited") },
			Woken:      func(stet.RunEvent, time.Duration) { panic("Woken") },
			Committed:  func(stet.CommitInfo) { panic("Committed") },
			Claimed:    func(stet.ClaimInfo) { panic("Claimed") },
			Lease:      func(stet.LeaseInfo) { panic("Lease") },
			Value:      func(string, int) { panic("Value") },
			StoreError: func(string, error) { panic("StoreError") },
		}
		done := &stet.Observer{Attempt: func(ctx context.Context, _ stet.StepInfo) (context.Context, func(error)) {
			return context.Background(), func(error) { panic("done") } // one that is not derived is not taken
		}}
		for _, observer := range []*stet.Observer{o, done} {
			said := stet.Message[int]("said")
			code := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
				n, err := stet.Step(ctx, "ask", func(ctx context.Context) (int, error) { return stet.Attempt(ctx), nil })
				if err != nil {
					return 0, err
				}
				if err := stet.Sleep(ctx, "rest", time.Minute); err != nil {
					return 0, err
				}
				m, err := said.Receive(ctx)
				return n + m, err
			})
			var log bytes.Buffer
			s := memory.New()
			e, stop := observed(t, s, stet.Config{
				Workflows: []stet.Definition{code}, Observer: observer, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			run, err := code.Start(t.Context(), e, 0)
			if err == nil {
				err = said.Send(t.Context(), e, run.ID(), 41)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := run.Wait(t.Context()); n != 42 || err != nil {
				t.Errorf("the run has ended with %d, %v", n, err)
			}
			stop()
			s.Close()
			lines := strings.Count(log.String(), "the observer panicked")
			if lines == 0 || lines > 8 {
				t.Errorf("the log has %d lines: %s", lines, &log)
			}
		}
	})
}

// TestHeadersOfAnObserver stand under those that the caller gives, and are left out where
// there is no room for them. Children inherit them, and a policy of the run's own stays.
func TestHeadersOfAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("x", store.MaxHeaders-50)
		o := &stet.Observer{Start: func(context.Context, stet.StartInfo) (stet.Headers, func(error)) {
			return stet.Headers{"trace": "observer", "span": strings.Repeat("s", 60)}, nil
		}}
		inner := stet.Define("inner", func(ctx stet.Context, _ int) (string, error) { return stet.Header(ctx, "trace"), nil })
		outer := stet.Define("outer", func(ctx stet.Context, _ int) (string, error) {
			child, err := inner.Call(ctx, 0)
			return stet.Header(ctx, "trace") + " " + child, err
		})
		s := memory.New()
		defer s.Close()
		e, stop := observed(t, s, stet.Config{Workflows: []stet.Definition{inner, outer}, Observer: o})
		defer stop()
		for want, options := range map[string][]stet.StartOption{
			"observer observer": {stet.MaxRunTime(time.Hour)},
			"caller caller":     {stet.Headers{"trace": "caller"}},
			" ":                 {stet.Headers{"big": big}},
		} {
			run, err := outer.Start(t.Context(), e, 0, options...)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := run.Wait(t.Context()); got != want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			info, err := e.Runs().Info(t.Context(), run.ID())
			if err != nil || want == "observer observer" && info.Policy.MaxRunTime != time.Hour {
				t.Errorf("the policy is %+v, %v", info.Policy, err)
			}
		}
	})
}

// TestTroubleNamesItsTrace: log lines about a run have the ID of its trace.
func TestTroubleNamesItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "0af7651916cd43dd8448eb211c80319c"
		code := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
			stet.Log(ctx).Info("begins")
			return 0, stet.Do(ctx, "ask", func(context.Context) error { return errors.New("no") }, stet.Retry{Attempts: 2})
		})
		var log bytes.Buffer
		s := memory.New()
		defer s.Close()
		e, stop := observed(t, s, stet.Config{
			Workflows: []stet.Definition{code}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		run, err := code.Start(t.Context(), e, 0, stet.Headers{"traceparent": "00-" + id + "-b7ad6b7169203331-01"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err == nil {
			t.Error("the run has not failed")
		}
		stop()
		for _, want := range []string{
			"msg=begins run_id=" + run.ID() + " workflow=order trace_id=" + id,
			`level=WARN msg="step attempt failed" run_id=` + run.ID() + " workflow=order trace_id=" + id + " location=ask attempt=1",
			`level=ERROR msg="run failed" run_id=` + run.ID() + " workflow=order trace_id=" + id + " location=ask attempt=2",
		} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("expected the line %q once, in\n%s", want, &log)
			}
		}
	})
}

// TestObserversAreAllCalled: each in its order, and their ends in reverse.
func TestObserversAreAllCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b witness
		code := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
			return 0, stet.Do(ctx, "ask", func(context.Context) error { return nil })
		})
		s := memory.New()
		defer s.Close()
		e, stop := observed(t, s, stet.Config{
			Workflows: []stet.Definition{code}, Observer: stet.Observers(a.observer(), nil, b.observer()),
		})
		defer stop()
		run, err := code.Start(t.Context(), e, 0, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"attached", "start order r: <nil>", "began r", "attempt 1 of ask: <nil>", "ended r succeeded: <nil>"}
		expect(t, a.take(), slices.Clone(want)...)
		expect(t, b.take(), want...)
	})
}

// BenchmarkObserver compares engines without an observer, with one that wants nothing, and
// with one that wants everything. An operation is a run with ten steps.
func BenchmarkObserver(b *testing.B) {
	every := &stet.Observer{
		Attempt: func(ctx context.Context, _ stet.StepInfo) (context.Context, func(error)) {
			return ctx, func(error) {}
		},
		RunBegan: func(stet.RunEvent) {}, RunEnded: func(stet.RunEvent) {}, RunStalled: func(stet.RunEvent) {},
		Turn: func(stet.RunEvent, stet.TurnInfo) {}, Waited: func(stet.RunEvent, stet.WaitEnded) {},
		Sent: func(stet.RunEvent, stet.SentInfo) {}, Woken: func(stet.RunEvent, time.Duration) {},
		Committed: func(stet.CommitInfo) {}, Claimed: func(stet.ClaimInfo) {}, Lease: func(stet.LeaseInfo) {},
		Value: func(string, int) {}, StoreError: func(string, error) {},
	}
	for _, of := range []struct {
		name     string
		observer *stet.Observer
	}{{"none", nil}, {"empty", &stet.Observer{}}, {"every", every}} {
		b.Run(of.name, func(b *testing.B) {
			code := stet.Define("ten", func(ctx stet.Context, _ int) (int, error) {
				for range 10 {
					if err := stet.Do(ctx, "step", func(context.Context) error { return nil }); err != nil {
						return 0, err
					}
				}
				return 0, nil
			})
			engine, stop := backgroundWith(stet.Config{Workflows: []stet.Definition{code}, Observer: of.observer})
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := result(engine, code, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
