package server_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/store"
)

// guided is a page with requests.
type guided struct {
	options func(*server.Options)
	// prepare makes what the requests need, and returns variables of their environment beside
	// STET_SERVER and STET_TOKEN.
	prepare func(w *world, web string) []string
	// after looks at what the requests of a block have printed.
	after func(w *world, block, printed string)
}

var guide = map[string]guided{
	"guide/serving.md": {
		prepare: func(w *world, _ string) []string {
			if _, err := checkout.Start(w.t.Context(), w.engine, nil, stet.ID("order-4711")); err != nil {
				w.t.Fatal(err)
			}
			if _, err := w.engine.Runs().Wait(w.t.Context(), "order-4711"); err != nil {
				w.t.Fatal(err)
			}
			return nil
		},
		after: func(w *world, block, printed string) {
			for part, want := range map[string]string{
				"status%3Dfailed": `"id":"order-4711"`, "wait=30s": `"status":"failed"`, "Idempotency-Key": `"id":"k-`,
				"/retry": `{"done":true}`, "/events?": "event: run", "/bulk\"": `"end":true`,
			} {
				if strings.Contains(block, part) && !strings.Contains(printed, want) {
					w.t.Errorf("%s\nprints no %s: %s", block, want, printed)
				}
			}
		},
	},
	"guide/hooks.md": {
		prepare: func(w *world, _ string) []string {
			w.hook("orders", api.SetHook{Scheme: "hmac", Start: "order", Target: "/order/id", Value: "/order/sku"})
			return []string{"ORDER_SECRET=" + hookSecret}
		},
		after: func(w *world, _, printed string) {
			if _, err := w.engine.Runs().Info(w.t.Context(), "o-4711"); err != nil || !strings.Contains(printed, "202") {
				w.t.Errorf("%s, %v", printed, err)
			}
		},
	},
	"guide/workers.md": {
		options: func(o *server.Options) { o.OpenPromises = true },
		prepare: func(w *world, web string) []string {
			if _, err := asks.Start(w.t.Context(), w.engine, 0, stet.ID("a-1")); err != nil {
				w.t.Fatal(err)
			}
			follow(w.t, web+"/api/v1/events?run=a-1", "operator", "", func(e event) bool {
				return runOf(w.t, e).Status == store.Suspended
			})
			var found api.Promises
			if w.get("operator", "runs/a-1/promises", &found); len(found.Promises) != 1 {
				w.t.Fatalf("%+v", found)
			}
			return []string{"TOKEN=" + found.Promises[0].Token}
		},
		after: func(w *world, _, printed string) {
			if got := w.output("a-1"); got != "128" {
				w.t.Errorf("the promise has %s: %s", got, printed)
			}
		},
	},
}

// TestGuide executes each request by curl that stands on a page of the documents. Those of the API's
// page are executed by TestAPIPage.
func TestGuide(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("STET_TEST_STRICT") == "1" {
				t.Fatal(err)
			}
			t.Skipf("expected %s in the PATH, found none", program)
		}
	}
	docs := filepath.Join("..", "docs")
	pages, err := filepath.Glob(filepath.Join(docs, "*", "*.md"))
	more, err2 := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil || err2 != nil || len(pages) < 20 {
		t.Fatal(pages, err, err2)
	}
	executed := map[string]bool{}
	for _, file := range append(append(pages, more...), filepath.Join("..", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := blocksOf(string(text))
		if len(blocks) == 0 {
			continue
		}
		name, err := filepath.Rel(docs, file)
		if err != nil {
			t.Fatal(err)
		}
		if name == apiPage {
			continue
		}
		page, ok := guide[filepath.ToSlash(name)]
		if !ok {
			t.Errorf("%s has requests by curl, and this test does not know what they need", name)
			continue
		}
		executed[filepath.ToSlash(name)] = true
		for _, block := range blocks {
			page.execute(t, block)
		}
	}
	if len(executed) != len(guide) {
		t.Errorf("expected requests on each page of the test, found them on %v", executed)
	}
}

// blocksOf returns the blocks of a page's code that call curl.
func blocksOf(page string) (blocks []string) {
	for i, block := range strings.Split(page, "```") {
		if _, block, _ = strings.Cut(block, "\n"); i%2 == 1 && strings.Contains(block, "curl ") {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

func (g guided) execute(t *testing.T, block string) {
	t.Helper()
	var change []func(*server.Options)
	if g.options != nil {
		change = append(change, g.options)
	}
	w := newWorld(t, true, change...)
	web := httptest.NewServer(w.handler)
	defer web.Close()
	home := t.TempDir()
	settings := "fail-with-body\nsilent\nmax-time = 20\n"
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(block, "\n")
	for i, line := range lines {
		if strings.Contains(line, "/events?") { // a stream has no end: curl leaves it after a while, with 28
			lines[i] += " --max-time 2 || [ $? = 28 ]"
		}
	}
	c := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", strings.Join(lines, "\n"))
	c.Env = append(os.Environ(), "CURL_HOME="+home, "STET_SERVER="+web.URL, "STET_TOKEN=operator")
	c.Env = append(c.Env, g.prepare(w, web.URL)...)
	printed, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s\n%v: %s", block, err, printed)
		return
	}
	g.after(w, block, string(printed))
}
