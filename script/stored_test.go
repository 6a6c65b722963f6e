package script_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/stettest"
)

var update = flag.Bool("update", false, "write the runs that TestStoredRuns replays: they are to stay as they are")

// TestStoredRuns (S21): runs that a former release has executed fit their scripts with this one, its interpreter and
// its regular expressions. One has ended, one has failed, one waits. A run that does not fit any more shows what an
// update breaks for users: do not write it again.
func TestStoredRuns(t *testing.T) { bothForms(t, testStoredRuns) }

func testStoredRuns(t *testing.T) {
	sources, err := filepath.Glob("testdata/runs/*.js")
	if err != nil || len(sources) != 3 {
		t.Fatal(sources, err)
	}
	for _, path := range sources {
		name := strings.TrimSuffix(filepath.Base(path), ".js")
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w := compiled(t, name, string(source), tasks)
			file := strings.TrimSuffix(path, ".js") + ".json"
			if *update {
				export(t, w, file)
			}
			stettest.Replay(t, file, w)
		})
	}
}

// export executes a run until it waits for what does not come, or has ended, and writes it to a file.
func export(t *testing.T, w *script.Workflow, file string) {
	stettest.Run(t, with(w, child), func(t *testing.T, env *stettest.Env) {
		input := json.RawMessage(`{"id":"o-7","lines":[{"sku":"b","n":2},{"sku":"a","n":11},{"sku":"ä","n":3}]}`)
		r, err := w.Start(t.Context(), env.Engine, input)
		if err != nil {
			t.Fatal(err)
		}
		if err := stet.Message[string]("approved").Send(t.Context(), env.Engine, r.ID(), "by a person"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var out bytes.Buffer
		if err := env.Engine.Runs().Export(t.Context(), r.ID(), &out); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	})
}
