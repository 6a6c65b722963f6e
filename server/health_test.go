package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestHealth: anybody may ask, and learns no reason. A process whose Run has returned answers,
// and is not ready.
func TestHealth(t *testing.T) {
	w := newWorld(t, true)
	w.started("broken", "b", `"s"`)
	if _, err := w.engine.Runs().Wait(t.Context(), "b"); err != nil { // Run is under way
		t.Fatal(err)
	}
	check := func(path string, status int) {
		t.Helper()
		r := w.do("", http.MethodGet, path, nil)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != status || strings.Contains(string(body), "Run") {
			t.Errorf("%s is %d %q, %v; want %d without a reason", path, r.StatusCode, body, err, status)
		}
	}
	check("health/live", http.StatusOK)
	check("health/ready", http.StatusOK)
	w.stop()
	check("health/live", http.StatusOK)
	check("health/ready", http.StatusServiceUnavailable)
}
