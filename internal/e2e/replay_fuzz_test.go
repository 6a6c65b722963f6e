package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// FuzzReplay replays damaged files: the answer is a verdict or an error, never a
// panic.
func FuzzReplay(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(compatFolder, "*", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 20<<10 {
			f.Add(data)
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
		var mismatch *stet.ReplayError
		if err != nil && !errors.As(err, &mismatch) && !errors.Is(err, stet.ErrInvalid) &&
			!errors.Is(err, stet.ErrUnknownWorkflow) {
			t.Errorf("the replay gives %v", err)
		}
		if mismatch != nil && strings.Contains(mismatch.Reason, "it is left running") {
			t.Error("the replay does not end")
		}
	})
}
