package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// slowBody is a body that takes no notice of its context, and how it ends.
type slowBody struct {
	took time.Duration
	err  error
}

func (s slowBody) step(ctx stet.Context, name string) (int, error) {
	return stet.Step(ctx, name, func(context.Context) (int, error) {
		time.Sleep(s.took)
		return 7, s.err
	}, stet.Retry{Attempts: 1})
}

// cutCase is a run in which the body of "slow" has begun when its step is withdrawn.
type cutCase struct {
	name  string
	slow  slowBody
	code  func(ctx stet.Context, slow slowBody) error
	act   func(ctx context.Context, e *stet.Engine) error // after 3 s
	ended bool                                            // the run has ended before the body has
}

var errSlow = errors.New("slow has failed")

var cutCases = []cutCase{
	{name: "of a map that fails", slow: slowBody{took: 10 * time.Second}, ended: true,
		code: func(ctx stet.Context, slow slowBody) error {
			_, err := stet.Map(ctx, "all", []string{"fast", "slow"}, func(ctx stet.Context, name string) (int, error) {
				if name == "fast" {
					return slowBody{time.Second, errDeclined}.step(ctx, "fast")
				}
				return slow.step(ctx, "slow")
			})
			return err
		}},
	{name: "that loses a race and succeeds", slow: slowBody{took: 10 * time.Second}, code: raced},
	{name: "that loses a race and fails", slow: slowBody{took: 10 * time.Second, err: errSlow}, code: raced},
	{name: "of a scope that is left", slow: slowBody{took: 10 * time.Second},
		code: func(ctx stet.Context, slow slowBody) error {
			scope := stet.Go(ctx, "scope", func(ctx stet.Context) (int, error) {
				stet.Go(ctx, "branch", func(ctx stet.Context) (int, error) { return slow.step(ctx, "slow") })
				return slowBody{took: time.Second}.step(ctx, "fast")
			})
			if err := stet.Join(ctx, scope); err != nil {
				return err
			}
			return rests(ctx)
		}},
	{name: "of a run that is cancelled", slow: slowBody{took: 10 * time.Second}, code: alone, ended: true,
		act: func(ctx context.Context, e *stet.Engine) error {
			_, err := e.Runs().Cancel(ctx, "r", stet.Act{})
			return err
		}},
	{name: "of a run that is terminated", slow: slowBody{took: 10 * time.Second}, code: alone, ended: true,
		act: func(ctx context.Context, e *stet.Engine) error {
			_, err := e.Runs().Terminate(ctx, "r", stet.Act{})
			return err
		}},
}

func alone(ctx stet.Context, slow slowBody) error {
	_, err := slow.step(ctx, "slow")
	return err
}

func raced(ctx stet.Context, slow slowBody) error {
	if _, err := race(ctx, func(ctx stet.Context) (int, error) {
		return slowBody{took: time.Second}.step(ctx, "fast")
	}, func(ctx stet.Context) (int, error) { return slow.step(ctx, "slow") }); err != nil {
		return err
	}
	return rests(ctx)
}

func race(ctx stet.Context, one, other func(stet.Context) (int, error)) (int, error) {
	_, n, err := stet.Race(ctx, stet.Go(ctx, "one", one), stet.Go(ctx, "other", other))
	return n, err
}

// rests waits until the slow body has returned for long, and for a message then.
func rests(ctx stet.Context) error {
	if err := stet.Sleep(ctx, "sleep", time.Minute); err != nil {
		return err
	}
	_, err := word.Receive(ctx)
	return err
}

// TestBodiesThatWereCutAreRecorded: a body that had begun when its step was withdrawn has an entry, with its end once
// it has returned while the run lives. No replay takes notice of it.
func TestBodiesThatWereCutAreRecorded(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, c := range cutCases {
			for _, parked := range []int{stet.None, 0} {
				name := s.name + "/" + c.name
				if parked == stet.None {
					name += "/evicted"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { testCut(t, s.open(t)(), c, parked) })
				})
			}
		}
	}
}

func testCut(t *testing.T, s store.Store, c cutCase, parked int) {
	w := stet.Define("cuts", func(ctx stet.Context, _ int) (int, error) { return 0, c.code(ctx, c.slow) })
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, MaxParkedBytes: parked, Grace: time.Hour,
		Logger: slog.New(slog.DiscardHandler)})
	r := begin(t, e, w, 0, stet.ID("r"))
	begun := time.Now()
	time.Sleep(3 * time.Second)
	if c.act != nil {
		if err := c.act(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	slow := func(what string) stet.HistoryEntry {
		t.Helper()
		entries, err := e.Runs().History(t.Context(), "r", stet.HistoryQuery{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range entries {
			if name := x.Location; len(name) >= 4 && name[len(name)-4:] == "slow" && x.Kind == store.KindStep {
				if x.State != store.Withdrawn || x.Number != 0 || x.Attempts != 1 || x.Started.Sub(begun).Abs() > time.Second {
					t.Fatalf("%s the entry is %+v", what, x)
				}
				return x
			}
		}
		t.Fatalf("%s nothing is recorded of the body: %+v", what, entries)
		return stet.HistoryEntry{}
	}
	if x := slow("while the body executes"); !x.Ended.IsZero() || x.Err() != nil {
		t.Errorf("while the body executes it has ended at %s with %v", x.Ended, x.Err())
	}
	if !c.ended {
		time.Sleep(2 * time.Minute)
		if err := word.Send(t.Context(), e, "r", "on"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Wait(t.Context()); err != nil && !c.ended {
		t.Fatal(err)
	}
	x := slow("at the end")
	switch took := x.Ended.Sub(begun) - c.slow.took; {
	case c.ended, parked == stet.None: // the run has left memory before the body has returned
		if !x.Ended.IsZero() || x.Err() != nil {
			t.Errorf("nobody knows of the end of the body, and it has ended at %s with %v", x.Ended, x.Err())
		}
	case took.Abs() > time.Second:
		t.Errorf("the body has ended at %s; want 10 s after its begin at %s", x.Ended, begun)
	case c.slow.err == nil && x.Err() != nil,
		c.slow.err != nil && (x.Err() == nil || x.Err().Error() != c.slow.err.Error()):
		t.Errorf("the body has ended with %v; want %v", x.Err(), c.slow.err)
	}
	replays(t, e, "r")
	time.Sleep(time.Minute) // the body returns
}

// TestBodiesThatHaveNotBegunAreNotRecorded: a step that was withdrawn while its body waited for a place leaves no
// entry, and one between two attempts has those that have failed.
func TestBodiesThatHaveNotBegunAreNotRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("cuts", func(ctx stet.Context, _ int) (int, error) {
			return race(ctx,
				func(ctx stet.Context) (int, error) { return slowBody{took: time.Second}.step(ctx, "fast") },
				func(ctx stet.Context) (int, error) { return slowBody{took: time.Second}.step(ctx, "queued") })
		})
		tries := stet.Define("tries", func(ctx stet.Context, _ int) (int, error) {
			return race(ctx,
				func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "sleep", time.Minute) },
				func(ctx stet.Context) (int, error) {
					return stet.Step(ctx, "fails", func(context.Context) (int, error) { return 0, errSlow },
						stet.Retry{First: time.Hour, Max: time.Hour})
				})
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w, tries}, MaxSteps: 1, Logger: slog.New(slog.DiscardHandler)})
		for _, def := range []*stet.Workflow[int, int]{w, tries} {
			id := def.Name()
			if _, err := begin(t, e, def, 0, stet.ID(id)).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			entries, err := e.Runs().History(t.Context(), id, stet.HistoryQuery{Values: true})
			if err != nil {
				t.Fatal(err)
			}
			var withdrawn []stet.HistoryEntry
			for _, x := range entries {
				if x.State == store.Withdrawn {
					withdrawn = append(withdrawn, x)
				}
			}
			switch {
			case def == w && len(withdrawn) > 0:
				t.Errorf("%s: withdrawn are %+v", id, withdrawn)
			case def == tries && (len(withdrawn) != 1 || len(withdrawn[0].Failures) != 1 || withdrawn[0].Attempts != 1):
				t.Errorf("%s: withdrawn are %+v", id, withdrawn)
			}
			replays(t, e, id)
		}
	})
}
