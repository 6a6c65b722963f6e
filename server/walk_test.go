package server_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/openapi"
)

var update = flag.Bool("update", false, "write openapi.json")

// public are the endpoints that anybody may call: a list that is not derived from the table.
var public = []string{"GET health/live", "GET health/ready", "GET login", "GET login/provider",
	"GET login/callback", "POST login", "POST logout", "POST hooks/{name}"}

// fill replaces the parameters of a path.
func fill(path string) string {
	return strings.NewReplacer("{id}", "o-1", "{number}", "77", "{name}", "jobs", "{event}", "e").Replace(path)
}

// TestEveryRouteAsksForItsRight: each row of the table x each role x no, a bad, and a valid
// credential.
func TestEveryRouteAsksForItsRight(t *testing.T) {
	w := newWorld(t, true) // who waits for a decision gets one
	for _, e := range server.TableOf(w.handler) {
		name := e.Method + " " + e.Path
		open := e.Right == access.Public
		listed := false
		for _, p := range public {
			listed = listed || p == name
		}
		if open != listed {
			t.Errorf("%s has the right %s; the list of public endpoints says otherwise", name, e.Right)
		}
		if open {
			continue
		}
		body := any(nil)
		if e.Method != http.MethodGet {
			body = "{}"
		}
		path := fill(e.Path)
		if strings.HasSuffix(path, "/wait") || e.Long && e.Method != http.MethodGet {
			path += "?wait=20s"
		}
		w.refused("", e.Method, path, body, "unauthenticated")
		w.refused("stranger", e.Method, path, body, "unauthenticated")
		for who, identity := range identities {
			r := w.do(who, e.Method, path, body)
			forbidden := r.StatusCode == http.StatusForbidden
			if !identity.Limited() && forbidden == identity.Role.May(e.Right) {
				text, _ := io.ReadAll(r.Body)
				t.Errorf("%s as %s, which needs %s: status %d %s", name, identity.Role, e.Right, r.StatusCode, text)
			}
			if r.StatusCode == http.StatusUnauthorized || r.StatusCode >= 500 {
				t.Errorf("%s as %s: status %d", name, identity.Role, r.StatusCode)
			}
		}
	}
}

// TestNothingIsServedOutsideOfTheTable: another path or method is a problem, for everybody.
func TestNothingIsServedOutsideOfTheTable(t *testing.T) {
	w := newWorld(t, false)
	for _, path := range []string{
		"", "health", "health/", "runs/x/health", "runs/x/ready", "runs/x/login", "login/x", "../v1",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
			r := w.do("", method, path, nil)
			if r.StatusCode < 300 || r.StatusCode >= 500 {
				t.Errorf("%s %q: status %d", method, path, r.StatusCode)
			}
		}
	}
	// What is named like a public endpoint is no public endpoint.
	for _, path := range []string{"runs/health", "runs/live", "topics/health", "queues/ready", "schedules/login"} {
		w.refused("", "GET", path, nil, "unauthenticated")
	}
}

// TestDocumentIsOfTheTable: openapi.json says what the table says.
func TestDocumentIsOfTheTable(t *testing.T) {
	w := newWorld(t, false)
	want, err := openapi.Document(server.TableOf(w.handler))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("internal", "resources", "openapi.json")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(found, want) {
		t.Errorf("%s is not what the table says (%v); if that is meant: go test ./server -run Document -update", file, err)
	}
}
