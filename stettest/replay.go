package stettest

import (
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// Replay replays an exported run (Runs.Export, or stet export) against the code of a
// workflow. The test fails if they do not fit, with the location, the operation that is
// recorded there, and the one that the code requests. No step is executed. A run that had
// ended must end in the same way, with the same result.
//
// If reading the history needs a Config (codecs, errors that the code matches, larger
// limits), use ReplayWith.
func Replay(t testing.TB, file string, w stet.Definition) {
	t.Helper()
	ReplayWith(t, file, stet.Config{Workflows: []stet.Definition{w}})
}

// ReplayWith is Replay with a config, which has the workflows. Its Store must be nil.
func ReplayWith(t testing.TB, file string, cfg stet.Config) {
	t.Helper()
	if cfg.Store != nil {
		t.Fatal("stettest.ReplayWith: expected a Config without a Store, found one")
	}
	s := memory.New()
	defer s.Close()
	cfg.Store, cfg.Workflows = s, slices.Clone(cfg.Workflows)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := e.Replay(t.Context(), f); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}
