package stettest_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// onSQLite has the processes work on a file.
var onSQLite = stettest.On(func(t testing.TB) func() store.Store {
	path := filepath.Join(t.TempDir(), "stet.db")
	return func() store.Store {
		s, err := sqlite.Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
})

// journey returns a workflow that has operations of many kinds and sleeps for so long.
func journey(sleep time.Duration) *stet.Workflow[string, string] {
	return stet.Define("journey", func(ctx stet.Context, name string) (string, error) {
		ticket, err := stet.Step(ctx, "book", func(ctx context.Context) (string, error) {
			if stet.Attempt(ctx) < 3 {
				return "", errors.New("sold out")
			}
			return "ticket", nil
		})
		if err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "long", sleep); err != nil {
			return "", err
		}
		w, err := word.Receive(ctx, stet.Within(3*day))
		if err != nil {
			return "", err
		}
		parts, err := stet.Map(ctx, "legs", []string{"a", "b", "c"}, func(ctx stet.Context, leg string) (string, error) {
			return stet.Step(ctx, "ride", func(context.Context) (string, error) { return leg, nil })
		})
		return strings.Join(append(parts, name, ticket, w), " "), err
	})
}

// sendWord sends the word a day after the sleep.
func sendWord(sleep time.Duration) stettest.CrashOption {
	return stettest.Driving(func(ctx context.Context, e *stet.Engine, runID string) error {
		time.Sleep(sleep + day)
		return word.Send(ctx, e, runID, "go", stet.SendKey("go"))
	})
}

func TestCrashEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		sleep time.Duration
		opts  []stettest.CrashOption
	}{
		"memory": {year, nil},
		// Its processes look into the file as long as they live: in each crash of a year for a second.
		"sqlite": {time.Hour, []stettest.CrashOption{onSQLite}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := stettest.CrashEverywhere(t, journey(c.sleep), "Ada", append(c.opts, sendWord(c.sleep))...)
			if want := "a b c Ada ticket go"; err != nil || out != want {
				t.Errorf("the result is %q, %v; want %q", out, err, want)
			}
		})
	}
}

// The error of a run that fails is the same as well, and is returned.
func TestCrashEverywhereOfAFailure(t *testing.T) {
	declined := errors.New("declined")
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		return 0, stet.Do(ctx, "charge", func(context.Context) error { return declined }, stet.Retry{Attempts: 2})
	})
	cfg := stet.Config{Errors: []stet.ErrorCode{stet.Sentinel("declined", declined)}}
	_, err := stettest.CrashEverywhere(t, w, 0, stettest.WithConfig(cfg))
	if !errors.Is(err, declined) {
		t.Errorf("the run ends with %v", err)
	}
}

// Each commit has each fault: a death before it, after it, and without its answer.
func TestCrashEverywhereCutsEachCommit(t *testing.T) {
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		for range 3 {
			if err := stet.Do(ctx, "s", func(context.Context) error { executed++; return nil }); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	count := func(faults ...stettest.Fault) int {
		executed = 0
		if _, err := stettest.CrashEverywhere(t, w, 0, stettest.Faults(faults...)); err != nil {
			t.Fatal(err)
		}
		return executed - 2*3 // without the undisturbed runs
	}
	// One commit for each step, the last with the end of the run, and once more
	// beyond the last.
	for _, c := range []struct {
		fault stettest.Fault
		want  int
	}{
		{stettest.DieBefore, 4*3 + 3}, // each cut loses one success
		{stettest.DieAfter, 4 * 3},    // none is lost
		{stettest.DieUnheard, 4 * 3},  // none is lost
		{stettest.LoseAnswer, 4 * 3},  // the commit is repeated
		{stettest.FailOnce, 4 * 3},    // the commit is repeated
	} {
		if got := count(c.fault); got != c.want {
			t.Errorf("where %s each commit, the steps are executed %d times, want %d", c.fault, got, c.want)
		}
	}
	if got, want := count(stettest.DieBefore, stettest.DieAfter, stettest.DieUnheard), 3*4*3+3; got != want {
		t.Errorf("the steps are executed %d times, want %d", got, want)
	}
}

var executed int

func TestFaultsHaveNames(t *testing.T) {
	var names []string
	for _, f := range []stettest.Fault{
		stettest.DieBefore, stettest.DieAfter, stettest.DieUnheard, stettest.LoseAnswer, stettest.FailOnce,
	} {
		names = append(names, f.String())
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(names))); len(sorted) != 5 {
		t.Errorf("the names are %q", names)
	}
}
