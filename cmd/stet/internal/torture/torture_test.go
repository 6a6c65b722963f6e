package torture_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/cmd/stet/internal/torture"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain makes the test binary a worker when it is given orders.
func TestMain(m *testing.M) {
	if orders := os.Getenv("STET_TORTURE_ORDERS"); orders != "" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		err := torture.Work(context.Background(), opener(os.Getenv("STET_TORTURE_FILE")), orders, os.Stdin, log)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func opener(file string) func(context.Context) (store.Store, error) {
	return func(ctx context.Context) (store.Store, error) { return sqlite.OpenContext(ctx, file) }
}

// config tortures a new file for a few seconds.
func config(t *testing.T) torture.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "torture.db")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return torture.Config{
		DB: file, Open: opener(file), Dir: t.TempDir(),
		Worker: func(orders string) *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "STET_TORTURE_ORDERS="+orders, "STET_TORTURE_FILE="+file)
			return cmd
		},
		Nodes: 2, For: 4 * time.Second, Strikes: 5, Live: 15,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

func tortured(t *testing.T, cfg torture.Config) *torture.Report {
	t.Helper()
	report, err := torture.Run(t.Context(), cfg)
	if report != nil {
		var text strings.Builder
		if err := report.WriteText(&text); err != nil {
			t.Error(err)
		}
		t.Log(text.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestNothingIsBroken(t *testing.T) {
	report := tortured(t, config(t))
	if !report.OK {
		t.Errorf("seed %d: there are violations", report.Seed)
	}
	for _, name := range []string{"runs", "runs: succeeded", "entries", "executions of steps", "takeovers", "timers", "acknowledged: start", "acknowledged: send"} {
		if report.Counts[name] == 0 {
			t.Errorf("seed %d: nothing was done of %q", report.Seed, name)
		}
	}
	if got := report.Counts["runs: stalled"]; got != 3 {
		t.Errorf("expected 3 stalled runs, the poison, found %d", got)
	}
}
