package clients_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// longIntegers is a value whose integers a float64 does not hold, next to texts that look like them.
const longIntegers = `{"account":9007199254740993,"of":[-9223372036854775808,7,1.5,` +
	`"9007199254740993","a \"9007199254740993\" \\",{"n":123456789012345678901234567890}]}`

// TestWorkersKeepIntegers: a worker in each language returns the input of its task as it was.
func TestWorkersKeepIntegers(t *testing.T) {
	dir := t.TempDir()
	programs := map[string][]string{
		"Python": pythonIn(t, dir, "import sys\nfrom stet_worker import Worker\n"+
			"Worker(sys.argv[1], 'secret', {'same': lambda task: task.input}, wait=1).run()\n"),
		"TypeScript": scriptIn(t, dir, "import { Worker } from './worker.mjs';\n"+
			"await new Worker(process.argv[2], 'secret', { same: async (task) => task.input }, { waitMs: 1000 }).run();\n"),
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			results := make(chan string, 1)
			leased := false
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				text, err := io.ReadAll(r.Body) // otherwise the server does not notice that the worker has gone
				if err != nil {
					return // the worker was killed at the end of the test
				}
				switch r.URL.Path {
				case "/api/v1/tasks/lease":
					if leased {
						<-r.Context().Done() // there is no other task
						return
					}
					leased = true // the only request of this worker at this time
					fmt.Fprintf(w, `{"tasks":[{"lease":"l","name":"same","input":%s,"attempt":1,"key":"k","run":"r",`+
						`"workflow":"w","location":"a","queue":"q","expires_ms":30000}],"cancelled":[]}`, longIntegers)
				case "/api/v1/tasks/complete":
					var body struct{ Result json.RawMessage }
					if err := json.Unmarshal(text, &body); err != nil {
						t.Error(err)
					}
					select {
					case results <- string(body.Result):
					default: // a repeat
					}
					fmt.Fprint(w, `{"completed":true}`)
				default:
					t.Errorf("expected a lease and its end, found a request of %s", r.URL.Path)
				}
			}))
			defer web.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			run := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], web.URL)...)
			run.Dir, run.Stderr = dir, os.Stderr
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				cancel()
				_ = run.Wait() // it was killed
			}()
			select {
			case result := <-results:
				spaces := strings.NewReplacer(": ", ":", ", ", ",")
				if found := spaces.Replace(result); found != longIntegers {
					t.Errorf("expected %s, found %s", longIntegers, found)
				}
			case <-ctx.Done():
				t.Fatal("the task did not end")
			}
		})
	}
}
