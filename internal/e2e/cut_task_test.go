package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// cutTaskCases are runs whose task is withdrawn while workers may have it.
var cutTaskCases = []struct {
	name string
	code func(ctx stet.Context) error
	act  func(ctx context.Context, e *stet.Engine) error // once the task stands as it is to; nil: the code acts after 5 s
}{
	{name: "of a map that fails", code: func(ctx stet.Context) error {
		_, err := stet.Map(ctx, "all", []string{"fast", "slow"}, func(ctx stet.Context, name string) (int, error) {
			if name == "slow" {
				return doubleTask.Run(ctx, 1)
			}
			if err := stet.Sleep(ctx, "sleep", 5*time.Second); err != nil {
				return 0, err
			}
			return 0, errDeclined
		})
		if errors.Is(err, errDeclined) {
			return nil // the run ends in the turn that withdraws the task
		}
		return err
	}},
	{name: "that loses a race", code: func(ctx stet.Context) error {
		if _, err := race(ctx, func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "sleep", 5*time.Second) },
			func(ctx stet.Context) (int, error) { return doubleTask.Run(ctx, 1) }); err != nil {
			return err
		}
		return stet.Sleep(ctx, "later", time.Minute)
	}},
	{name: "of a run that is cancelled", code: func(ctx stet.Context) error {
		_, err := doubleTask.Run(ctx, 1)
		return err
	}, act: func(ctx context.Context, e *stet.Engine) error {
		_, err := e.Runs().Cancel(ctx, "r", stet.Act{})
		return err
	}},
	{name: "of a run that is terminated", code: func(ctx stet.Context) error {
		_, err := doubleTask.Run(ctx, 1)
		return err
	}, act: func(ctx context.Context, e *stet.Engine) error {
		_, err := e.Runs().Terminate(ctx, "r", stet.Act{})
		return err
	}},
}

// taskStandings are what has happened to a task that is withdrawn 5 s after it was offered.
var taskStandings = []struct {
	name  string
	begun time.Duration // after the offer; 0: no worker has begun it
	tries int           // attempts that are recorded
	act   func(w *worker)
}{
	{"leased", 2 * time.Second, 1, func(w *worker) {
		time.Sleep(2 * time.Second)
		w.one()
	}},
	{"whose lease has expired", 0, 1, func(w *worker) {
		w.request(stet.LeaseRequest{Max: 1, Wait: time.Minute, For: time.Second})
		time.Sleep(2 * time.Second)
	}},
	{"that was released", 0, 1, func(w *worker) {
		task := w.one()
		_, err := w.e.Tasks().Release(w.Context(), task.Lease)
		w.must(err)
	}},
	{"leased, after an attempt that has failed", 1500 * time.Millisecond, 2, func(w *worker) {
		task := w.one()
		_, err := w.e.Tasks().Fail(w.Context(), task.Lease, stet.TaskFailure{Message: "busy", After: time.Second})
		w.must(err)
		w.one()
	}},
	{"that was only offered", 0, 0, func(*worker) {}},
}

// TestTasksThatWereCutAreRecorded: a task that a worker had begun when its step was withdrawn has an entry that says
// so. One that was only offered has none that does.
func TestTasksThatWereCutAreRecorded(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, c := range cutTaskCases {
			for _, standing := range taskStandings {
				for _, parked := range []int{stet.None, 0} {
					name := s.name + "/" + c.name + "/" + standing.name
					if parked == stet.None {
						name += "/evicted"
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							flow := stet.Define("cuts", func(ctx stet.Context, _ int) (int, error) { return 0, c.code(ctx) })
							e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{flow}, MaxParkedBytes: parked,
								Logger: slog.New(slog.DiscardHandler)})
							r := begin(t, e, flow, 0, stet.ID("r"))
							synctest.Wait()
							offered := time.Now()
							standing.act(&worker{t, e, "w1"})
							time.Sleep(time.Until(offered.Add(4 * time.Second)))
							if c.act != nil {
								if err := c.act(t.Context(), e); err != nil {
									t.Fatal(err)
								}
							}
							time.Sleep(2 * time.Minute)
							if _, err := r.Wait(t.Context()); err != nil && c.act == nil {
								t.Fatal(err)
							}
							x := taskEntry(t, e)
							switch {
							case standing.tries == 0:
								if x.Attempts != 0 {
									t.Errorf("a task that no worker has begun is recorded as begun: %+v", x)
								}
							case x.State != store.Withdrawn || x.Number != 0 || x.Attempts != standing.tries || !x.Ended.IsZero() ||
								x.Err() != nil:
								t.Errorf("the entry is %+v (%v); want it withdrawn in attempt %d", x, x.Err(), standing.tries)
							case standing.tries == 1 && x.Started.Sub(offered.Add(standing.begun)).Abs() > time.Second:
								t.Errorf("it began at %s, %s after the offer; want %s", x.Started, x.Started.Sub(offered), standing.begun)
							case len(x.Failures) != standing.tries-1:
								t.Errorf("it has failed %+v", x.Failures)
							}
							replays(t, e, "r")
						})
					})
				}
			}
		}
	}
}

// TestTaskOfARunWithoutCodeThatIsTerminatedIsRecorded: no process has the code of the run any more.
func TestTaskOfARunWithoutCodeThatIsTerminatedIsRecorded(t *testing.T) {
	t.Parallel()
	flow := doubles()
	other := stet.Define("other", func(stet.Context, int) (int, error) { return 0, nil })
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{flow}}, func(e *stet.Engine) {
			begin(t, e, flow, 1, stet.ID("r"))
			(&worker{t, e, "w1"}).one()
		})
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{other}}, func(e *stet.Engine) {
			if ended, err := e.Runs().Terminate(t.Context(), "r", stet.Act{}); err != nil || !ended {
				t.Fatal(ended, err)
			}
			if x := taskEntry(t, e); x.State != store.Withdrawn || x.Attempts != 1 || x.Started.IsZero() || !x.Ended.IsZero() {
				t.Errorf("the entry is %+v; want it withdrawn in attempt 1", x)
			}
		})
	})
}

// TestTaskWhoseQueueCannotBeReadDoesNotHoldUpItsRun: the run ends, and its history says nothing of workers.
func TestTaskWhoseQueueCannotBeReadDoesNotHoldUpItsRun(t *testing.T) {
	t.Parallel()
	flow := doubles()
	synctest.Test(t, func(t *testing.T) {
		s := &awayStore{Store: memory.New()}
		var log lockedLog
		e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{flow},
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		begin(t, e, flow, 1, stet.ID("r"))
		(&worker{t, e, "w1"}).one()
		s.away.Store(true)
		ended, err := e.Runs().Terminate(t.Context(), "r", stet.Act{})
		s.away.Store(false)
		if err != nil || !ended {
			t.Fatal(ended, err)
		}
		if x := taskEntry(t, e); x.Attempts != 0 {
			t.Errorf("the entry is %+v", x)
		}
		if n := log.count("whether workers had begun tasks"); n != 1 {
			t.Errorf("%d lines of the log say so, want 1", n)
		}
	})
}

// awayStore is a store whose histories cannot be read for a while.
type awayStore struct {
	store.Store
	away atomic.Bool
}

var errAway = errors.New("the store is away")

func (s *awayStore) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Store.History(ctx, q)
}

// taskEntry returns the entry of the task of run r, or an empty one.
func taskEntry(t *testing.T, e *stet.Engine) stet.HistoryEntry {
	t.Helper()
	entries, err := e.Runs().History(t.Context(), "r", stet.HistoryQuery{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range entries {
		if x.Kind == store.KindStep {
			return x
		}
	}
	return stet.HistoryEntry{}
}
