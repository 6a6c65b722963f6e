package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestLongBodyIsShown: a body that has executed for 10 s has an open entry, which says since
// when and has the detail of its heartbeats. It counts no attempt, is gone with the
// outcome, and short bodies have none. One that is silent for 10 minutes is in the log.
func TestLongBodyIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newLines()
		beat, end := make(chan string), make(chan error)
		keys := map[string]bool{}
		w := stet.Define("hangs", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "call", func(ctx context.Context) (int, error) {
				keys[stet.IdempotencyKey(ctx)] = true
				for {
					select {
					case detail := <-beat:
						if err := stet.Heartbeat(ctx, detail); err != nil {
							return 0, err
						}
					case err := <-end:
						return 7, err
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}
			}, stet.Retry{First: time.Second, Jitter: stet.None})
		})
		ctx, cancel := context.WithCancel(t.Context())
		e, err := stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{w}, Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		r, err := w.Start(ctx, e, 0, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		look := func() []stet.HistoryEntry {
			t.Helper()
			synctest.Wait()
			entries, err := e.Runs().History(ctx, "r", stet.HistoryQuery{Values: true})
			if err != nil {
				t.Fatal(err)
			}
			return entries
		}
		time.Sleep(9 * time.Second)
		if entries := look(); len(entries) != 0 {
			t.Errorf("after 9 s the history is %+v", entries)
		}
		time.Sleep(8 * time.Second)
		shown := look()
		if len(shown) != 1 || shown[0].Attempts != 0 || shown[0].Number != 0 ||
			shown[0].Executing.Sub(begun).Abs() > time.Second || !shown[0].Started.Equal(shown[0].Executing) {
			t.Fatalf("after 17 s the history is %+v", shown)
		}
		time.Sleep(10 * time.Second) // the next renewal
		other, err := stet.New(ctx, stet.Config{Store: e.Store(), Logger: slog.New(log)})
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := other.Nodes().Info(ctx)
		if err != nil || len(nodes.Nodes) != 1 || len(nodes.Nodes[0].Bodies) != 1 {
			t.Fatalf("after 27 s the nodes are %+v, %v", nodes, err)
		}
		if b := nodes.Nodes[0].Bodies[0]; b.RunID != "r" || b.Workflow != "hangs" || b.Location != "call" || b.Attempt != 1 ||
			b.Since.Time().Sub(begun).Abs() > time.Second {
			t.Errorf("after 27 s the node executes %+v", b)
		}
		time.Sleep(10 * time.Second)
		if text := strings.Join(log.of("r"), "\n"); strings.Count(text, "INFO a step executes for long") != 1 {
			t.Errorf("after 37 s the log says:\n%s", text)
		}
		beat <- "half"
		if entries := look(); string(entries[0].Value().Bytes()) != `j"half"` && !strings.Contains(
			string(entries[0].Value().Bytes()), `"half"`) || entries[0].Executing != shown[0].Executing {
			t.Errorf("after a heartbeat the history is %+v", entries)
		}
		time.Sleep(45 * time.Minute)
		synctest.Wait()
		got := log.of("r")[1:]
		if len(got) != 3 { // after 10, 20 and 40 minutes
			t.Errorf("the log has %d lines, want 3: %q", len(got), got)
		}
		for _, line := range got {
			if !strings.HasPrefix(line, "WARN a step has not returned run_id=r workflow=hangs location=call attempt=1 ") {
				t.Errorf("the log has %q", line)
			}
		}
		end <- errors.New("once")
		synctest.Wait()
		if entries := look(); entries[0].Attempts != 1 || !entries[0].Executing.IsZero() {
			t.Errorf("between the attempts the history is %+v", entries)
		}
		time.Sleep(20 * time.Second)
		if entries := look(); entries[0].Attempts != 1 || entries[0].Executing.Sub(begun) < 45*time.Minute ||
			!entries[0].Wake.IsZero() || entries[0].Err() == nil {
			t.Errorf("in the second attempt the history is %+v", entries)
		}
		end <- nil
		if got, err := r.Wait(ctx); got != 7 || err != nil {
			t.Errorf("the run ends with %d, %v", got, err)
		}
		if entries := look(); entries[0].Attempts != 2 || entries[0].Number != 1 || len(keys) != 1 {
			t.Errorf("at the end the history is %+v, with %d keys", entries, len(keys))
		}
	})
}

// TestSilentBodiesAreLoggedAsConfigured: after WarnStep, twice, four times; or never.
func TestSilentBodiesAreLoggedAsConfigured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		warn time.Duration
		want int
	}{{time.Minute, 7}, {stet.None, 0}} { // 30 s, and 1, 2, 4, 8, 16, 32 min
		synctest.Test(t, func(t *testing.T) {
			log := newLines()
			end := make(chan struct{})
			w := stet.Define("hangs", func(ctx stet.Context, _ int) (int, error) {
				return 0, stet.Do(ctx, "call", func(context.Context) error { <-end; return nil })
			})
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}, WarnStep: c.warn, Logger: slog.New(log)})
			r, err := w.Start(t.Context(), e, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			close(end)
			if _, err := r.Wait(t.Context()); err != nil || len(log.of("r")) != c.want {
				t.Errorf("with %s: %d lines, want %d: %q, %v", c.warn, len(log.of("r")), c.want, log.of("r"), err)
			}
		})
	}
}

// TestLongBodyAfterARestart: the entry of a body that was lost with its process changes
// neither the number of the next attempt nor its key, and a cancel takes it back.
func TestLongBodyAfterARestart(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New()
			var mu sync.Mutex
			var attempts []int
			keys := map[string]bool{}
			end, lost := make(chan struct{}), make(chan struct{})
			defer close(lost)
			w := stet.Define("hangs", func(ctx stet.Context, _ int) (int, error) {
				n, err := stet.Step(ctx, "call", func(ctx context.Context) (int, error) {
					mu.Lock()
					attempts = append(attempts, stet.Attempt(ctx))
					keys[stet.IdempotencyKey(ctx)] = true
					first := len(attempts) == 1
					mu.Unlock()
					if first {
						<-lost // with its process
						return 0, errors.New("too late")
					}
					select {
					case <-end:
						return 7, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
				return n, err
			})
			serving := func() (*stet.Engine, func()) {
				ctx, cancel := context.WithCancel(t.Context())
				e, err := stet.New(ctx, stet.Config{Store: s, Workflows: []stet.Definition{w}, Grace: stet.None,
					Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = e.Run(ctx) // it names the body that has not returned
				}()
				synctest.Wait()
				return e, func() {
					cancel()
					<-ended
				}
			}
			e, stop := serving()
			r, err := w.Start(t.Context(), e, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			stop()
			e, stop = serving()
			defer stop()
			time.Sleep(20 * time.Second)
			entries, err := e.Runs().History(t.Context(), "r", stet.HistoryQuery{Values: true})
			if err != nil || len(entries) != 1 || entries[0].Attempts != 0 || time.Since(entries[0].Executing) > 21*time.Second {
				t.Fatalf("after the restart the history is %+v, %v", entries, err)
			}
			mu.Lock()
			if len(attempts) != 2 || attempts[0] != 1 || attempts[1] != 1 || len(keys) != 1 {
				t.Errorf("the attempts are %v, with %d keys", attempts, len(keys))
			}
			mu.Unlock()
			if cancelled {
				if _, err := e.Runs().Cancel(t.Context(), "r", stet.Act{}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Handle(e, "r").Wait(t.Context()); !errors.Is(err, stet.ErrCancelled) {
					t.Errorf("the run ends with %v", err)
				}
				replays(t, e, "r")
				return
			}
			close(end)
			if got, err := w.Handle(e, r.ID()).Wait(t.Context()); got != 7 || err != nil {
				t.Errorf("the run ends with %d, %v", got, err)
			}
			replays(t, e, "r")
		})
	}
}

// TestLongBodyIsShownWhoeverStartedTheRun: the first step of a run is in its history while its body executes,
// wherever the run was started, and after its process has died, also more than once.
func TestLongBodyIsShownWhoeverStartedTheRun(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, c := range []struct {
			name   string
			early  bool // started before the engine executes runs
			own    bool // … by that engine
			deaths int  // of the process, while the body executes
		}{
			{name: "by another process"},
			{name: "by another process, before it executes runs", early: true},
			{name: "by itself, before it executes runs", early: true, own: true},
			{name: "by itself", own: true},
			{name: "after a death", own: true, deaths: 1},
			{name: "after two deaths", own: true, deaths: 2},
			{name: "by another process, after a death", deaths: 1},
		} {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					open := s.open(t)
					w := stet.Define("hangs", func(ctx stet.Context, _ int) (int, error) {
						return stet.Step(ctx, "call", func(ctx context.Context) (int, error) {
							<-ctx.Done()
							return 0, ctx.Err()
						})
					})
					cfg := stet.Config{Workflows: []stet.Definition{w}, Logger: slog.New(slog.DiscardHandler)}
					outside := client(t, open(), w)
					p := newProcess(t, open(), cfg)
					by := outside
					if c.own {
						by = p.Engine
					}
					start := func() {
						if _, err := w.Start(t.Context(), by, 0, stet.ID("r")); err != nil {
							t.Fatal(err)
						}
					}
					if c.early {
						start()
					}
					p.start()
					synctest.Wait()
					if !c.early {
						start()
					}
					for range c.deaths {
						time.Sleep(2 * time.Second)
						p.handle.die()
						p.bury(t)
						p = newProcess(t, open(), cfg)
						p.start()
					}
					defer p.bury(t)
					time.Sleep(30 * time.Second) // a suspect is tried alone within this time
					synctest.Wait()
					entries, err := outside.Runs().History(t.Context(), "r", stet.HistoryQuery{Values: true})
					if err != nil || len(entries) != 1 || entries[0].Location != "call" || entries[0].Executing.IsZero() ||
						entries[0].Attempts != 0 {
						t.Errorf("the history is %+v, %v", entries, err)
					}
				})
			})
		}
	}
}
