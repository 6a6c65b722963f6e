package clients_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWorkersFollowNoRedirect: their token is for the server at the address, and for no other.
func TestWorkersFollowNoRedirect(t *testing.T) {
	dir := t.TempDir()
	programs := map[string][]string{
		"Python": pythonIn(t, dir, "import sys\nfrom stet_worker import Worker\n"+
			"Worker(sys.argv[1], 'stet_secret', {'a': lambda task: 1}).run()\n"),
		"TypeScript": scriptIn(t, dir, "import { Worker } from './worker.mjs';\n"+
			"await new Worker(process.argv[2], 'stet_secret', { a: async () => 1 }).run();\n"),
	}
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	for name, program := range programs {
		for _, status := range []int{302, 307} {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			run := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], web.URL)...)
			run.Dir = dir
			text, err := run.CombinedOutput()
			if err == nil || ctx.Err() != nil || !strings.Contains(string(text), "Refused") {
				t.Errorf("%s, status %d: expected the refusal, found %v: %s", name, status, err, text)
			}
			cancel()
			web.Close()
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}
