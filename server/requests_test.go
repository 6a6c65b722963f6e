package server_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// bound is what bounds one row of the table of endpoints, as the page of requests says it.
type bound struct{ atOnce, time, memory string }

// bounds are those of rows that are unlike others: of rows whose path they name.
var bounds = map[string]bound{
	"GET events": {"2,000, and 100 different lists of one identity", "until the client goes away, or its right",
		"1 MiB, and each different list 8 MiB"},
	"POST bulk":             {"4", "as long as it acts, on 10,000 runs at most", "4 MiB"},
	"GET runs/{id}/export":  {"4", "10 min", "the run: Config.MaxBytes, 256 MiB"},
	"GET runs/{id}/inbox":   {"", "5 s", "of each item 4 KiB; Config.MaxInbox bounds them"},
	"GET runs/{id}/value":   {"", "5 s", "three times the value"},
	"GET runs/{id}":         {"", "60 s, if it waits", "six times a value"},
	"GET runs/{id}/history": {"", "5 s", "32 MiB"},
	"GET openapi.json":      {"", "5 s", "1 MiB"},
	"POST tasks/lease":      {"", "60 s", "three times the inputs of the tasks"},
}

// cutting are the paths of pages that cut values: 8 MiB of them, and a KiB of each further one, as they are read, as
// JSON and compressed.
var cutting = []string{"runs", "runs/{id}/children", "runs/{id}/values", "runs/{id}/streams/{name}", "deadletters",
	"topics/{name}/events"}

// boundOf returns what bounds a row.
func boundOf(e *endpoint.Endpoint) bound {
	b, known := bounds[e.Method+" "+e.Path]
	switch {
	case known:
		return b
	case e.Heavy && slices.Contains(cutting, e.Path):
		return bound{"4, with all other lists and counts", "5 s", "32 MiB"}
	case e.Heavy:
		return bound{"4, with all other lists and counts", "5 s", "1 MiB"}
	case e.Long:
		return bound{"", "60 s, for a decision", "three times the body"}
	case slices.Contains(cutting, e.Path):
		return bound{"", "5 s", "32 MiB"}
	case e.Method == http.MethodGet:
		return bound{"", "5 s", "what the store has of it"}
	}
	return bound{"", "30 s", "three times the body"}
}

// roles returns who has a right.
func roles(right access.Right) string {
	if right == access.Public {
		return "anybody"
	}
	var names []string
	for _, role := range []access.Role{
		access.Viewer, access.Caller, access.Operator, access.Administrator, access.Worker,
	} {
		if role.May(right) {
			names = append(names, string(role))
		}
	}
	return strings.Join(names, ", ")
}

// requestsPage returns the page that says who may make which request, and what it costs at most.
func requestsPage(table []endpoint.Endpoint) string {
	var page strings.Builder
	page.WriteString(`# Requests and their bounds

Who may make which request, how many at once, how large, how long, and how much memory of the server's process one of
them takes at most. [What is defended](security.md) names the tests. This page is written from the table of endpoints:
` + "`go test ./server -run RequestsPage -update`" + `.

These bounds hold for each request:

| what | bound |
|---|---|
| requests of an identity | 100 a second (` + "`Options.Rate`, `--rate`" + `); then 429 |
| wrong credentials | the same one of an address 10 a minute, then 429; others of it are answered a second late |
| places in the column *at once* | one identity has a half of them; then 503 |
| a body | ` + "`MaxValue`" + ` (2 MiB) and 64 KiB; without progress for 10 s the connection ends |
| an answer that nobody reads | the connection ends after 10 s without progress. Its places were given back before |
| a value in a page | 64 KiB, and 1 KiB after 8 MiB of values; a larger one is cut, and not read |
| a value for a viewer | is not read |
| a filter | 1,000 values |

The memory follows from these bounds; that of pages of runs and of their followers is measured by
` + "`TestLargeValuesTakeNoMemory`" + `.

`)
	page.WriteString("| request | who | body | at once | time | memory at most |\n|---|---|---|---|---|---|\n")
	for i := range table {
		e, b := &table[i], boundOf(&table[i])
		body := "none"
		if slices.ContainsFunc(endpoint.Fields(e.In), func(f endpoint.Field) bool { return f.Place == "body" }) {
			body = "yes"
		}
		fmt.Fprintf(&page, "| `%s %s` | %s | %s | %s | %s | %s |\n",
			e.Method, e.Path, roles(e.Right), body, b.atOnce, b.time, b.memory)
	}
	return page.String()
}

// TestRequestsPage: the page has each row of the table, with its right and its bounds.
func TestRequestsPage(t *testing.T) {
	w := newWorld(t, false)
	table := server.TableOf(w.handler)
	for name := range bounds {
		if !slices.ContainsFunc(table, func(e endpoint.Endpoint) bool { return e.Method+" "+e.Path == name }) {
			t.Errorf("bounds has %s, which is no endpoint", name)
		}
	}
	file, want := filepath.Join("..", "docs", "operations", "requests.md"), requestsPage(table)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := os.ReadFile(file); err != nil || string(found) != want {
		t.Errorf("%s is not what the table says (%v); if that is meant: go test ./server -run RequestsPage -update",
			file, err)
	}
}
