package e2e_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// FuzzReplay replays damaged files: the answer is a verdict or an error, never a
// panic.
func FuzzReplay(f *testing.F) {
	for _, run := range exportedRuns(f) {
		if len(run.data) < 20<<10 {
			f.Add(run.data)
		}
	}
	cfg := compatConfig(false)
	cfg.Store, cfg.Logger = memory.New(), discard
	e, err := stet.New(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := e.Replay(t.Context(), bytes.NewReader(data))
		if _, problem := judge(err); problem != "" && !errors.Is(err, stet.ErrUnknownWorkflow) {
			t.Errorf("%s: %v", problem, err)
		}
	})
}
