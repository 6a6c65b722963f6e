package server_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/openapi"
)

var update = flag.Bool("update", false, "write openapi.json and types.ts")

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
	for _, e := range server.TableOf(w.handler) {
		if !strings.Contains(e.Path, "{") || e.Right == access.Public {
			continue
		}
		for _, name := range []string{"health", "live", "ready", "login", "logout", "callback"} {
			path := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(e.Path, name)
			body := any(nil)
			if e.Method != http.MethodGet {
				body = "{}"
			}
			w.refused("", e.Method, path, body, "unauthenticated")
		}
	}
}

// TestCrossSiteRequestChangesNothing: whatever the row and its method.
func TestCrossSiteRequestChangesNothing(t *testing.T) {
	w := newWorld(t, false)
	for _, e := range server.TableOf(w.handler) {
		if e.Method == http.MethodGet {
			continue
		}
		for _, site := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example.com"},
			{"Origin", "null"},
		} {
			w.refused("admin", e.Method, fill(e.Path), "{}", "cross_site", site...)
		}
	}
}

// TestExpiredCredentialOpensNothing: a token whose time is over, and the session that was begun
// with it, at each row.
func TestExpiredCredentialOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		token, err := stet.TokensOf(w.engine).Create(t.Context(), stet.TokenInfo{
			Name: "ada", Role: "admin", Expires: time.Now().Add(time.Hour),
		}, stet.Act{By: "test"})
		if err != nil {
			t.Fatal(err)
		}
		w.handler, err = server.New(w.engine, server.Options{
			Access: []access.Authenticator{server.Tokens(w.engine)}, Logger: quiet(), Rate: stet.None,
		})
		if err != nil {
			t.Fatal(err)
		}
		cookie := w.ask("", "POST", "login", api.Login{Token: token}, http.StatusOK, nil).Cookies()[0]
		session := cookie.Name + "=" + cookie.Value
		w.get(token, "tokens", nil)
		w.ask("", "GET", "tokens", nil, http.StatusOK, nil, "Cookie", session)
		time.Sleep(time.Hour + time.Second)
		for _, e := range server.TableOf(w.handler) {
			if e.Right == access.Public {
				continue
			}
			body := any(nil)
			if e.Method != http.MethodGet {
				body = "{}"
			}
			w.refused(token, e.Method, fill(e.Path), body, "unauthenticated")
			w.refused("", e.Method, fill(e.Path), body, "unauthenticated", "Cookie", session)
		}
	})
}

// TestLimitHoldsAtEveryRow: an administrator with a limit gets at nothing outside of it by any
// row, and no list names it.
func TestLimitHoldsAtEveryRow(t *testing.T) {
	w := newWorld(t, true)
	w.started("broken", "outside-run", "pear")
	w.started("order", "o-1", "apple")
	if _, err := w.engine.Runs().Wait(t.Context(), "outside-run"); err != nil {
		t.Fatal(err)
	}
	w.deployed("outside-script", stet.ScriptCode{Code: "1"})
	w.hook("outside-hook", api.SetHook{Scheme: "hmac", Start: "broken", Target: "/id"})
	schedule := api.SetSchedule{Workflow: "broken", EveryMS: 3_600_000}
	queue := api.SetQueue{Create: true, Limits: api.Limits{Concurrency: 1}}
	w.ask("admin", "POST", "topics/outside-topic/events", map[string]any{"value": 1, "mode": "consumed"}, 201, nil)
	w.ask("admin", "PUT", "queues/outside-queue", queue, 200, nil)
	w.ask("admin", "PUT", "schedules/outside-schedule", schedule, 200, nil)
	w.ask("admin", "POST", "tokens", api.CreateToken{Name: "outside-token", Role: "viewer"}, 201, nil)
	bodies := map[string]any{
		"PUT queues/{name}": queue, "PUT schedules/{name}": schedule,
		"POST schedules/{name}/backfill": api.Backfill{From: time.Now().Add(-time.Hour), To: time.Now()},
		"POST scripts/{name}":            api.DeployScript{Code: "2"},
		"PUT hooks/{name}":               api.SetHook{Scheme: "hmac", Secrets: []string{hookSecret}, Start: "broken", Target: "/id"},
		"POST runs":                      api.Start{Workflow: "broken", ID: "outside-new"},
		"POST bulk/preview":              api.BulkRequest{Query: "workflow=broken", Verb: "retry"},
	}
	for _, who := range []string{"limited", "named"} {
		for _, e := range server.TableOf(w.handler) {
			if e.Right == access.Public || strings.HasPrefix(e.Path, "runs/{id}") || e.Right == access.Work ||
				e.Path == "events" { // tests of their own
				continue
			}
			kind, _, _ := strings.Cut(e.Path, "/")
			path := strings.NewReplacer("{name}", "outside-"+strings.TrimSuffix(kind, "s"), "{id}", "outside-token",
				"{number}", "1", "{event}", "e").Replace(e.Path)
			body := bodies[e.Method+" "+e.Path]
			if body == nil && e.Method != http.MethodGet {
				body = map[string]any{}
			}
			r := w.do(who, e.Method, path, body)
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			denied := r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusNotFound
			switch name := e.Method + " " + e.Path; {
			case strings.Contains(e.Path, "{") && !denied:
				t.Errorf("%s as %s: status %d %s", name, who, r.StatusCode, text)
			case !denied && strings.Contains(string(text), "outside"):
				t.Errorf("%s as %s names what is outside: %s", name, who, text)
			}
		}
	}
}

// TestDocumentIsOfTheTable: openapi.json and the dashboard's types say what the table says.
func TestDocumentIsOfTheTable(t *testing.T) {
	w := newWorld(t, false)
	document, err := openapi.Document(server.TableOf(w.handler))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]byte{
		filepath.Join("internal", "resources", "openapi.json"): document,
		filepath.Join("ui", "src", "types.ts"):                 openapi.TypeScript(server.TableOf(w.handler)),
	} {
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		found, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(found, want) {
			t.Errorf("%s is not what the table says (%v); if that is meant: go test ./server -run Document -update",
				file, err)
		}
	}
}

// TestWordsOfTheDocument: the document has the words that Go has, and refuses what it does not have.
func TestWordsOfTheDocument(t *testing.T) {
	for name, want := range map[string][]string{
		"Status":     {"queued", "running", "suspended", "succeeded", "failed", "cancelled", "stalled"},
		"EntryState": {"open", "done", "failed", "withdrawn"},
		"TaskState":  {string(stet.TaskOffered), string(stet.TaskLeased), string(stet.TaskExpired)},
		"LeaseState": {string(stet.LeaseIsHeld), string(stet.LeaseIsCancelled), string(stet.LeaseIsGone),
			string(stet.LeaseIsReleased)},
		"TopicMode":  {stet.Broadcast.String(), stet.Consumed.String()},
		"Overlap":    {"skip", "buffer-one", "allow", "cancel-previous"},
		"Right":      {"read", "values", "call", "operate", "admin", "work"},
		"HookScheme": {string(stet.HookStandard), string(stet.HookGitHub), string(stet.HookStripe), string(stet.HookHMAC)},
	} {
		schemas := document().(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
		if found := fmt.Sprint(schemas[name].(map[string]any)["enum"]); found != fmt.Sprint(want) {
			t.Errorf("%s: expected %v, found %s", name, want, found)
		}
	}
	for _, bad := range []struct{ event, data string }{
		{"reset", `{}`}, {"reset", `{"run_id":1}`}, {"another", `{}`}, {"page", `{"query":"","runs":null}`},
	} {
		if openapi.CheckEvent(document(), bad.event, []byte(bad.data)) == nil {
			t.Errorf("the document takes %s %s", bad.event, bad.data)
		}
	}
	for _, bad := range []string{`{}`, `{"end":true}`, `{"id":"a","end":true}`, `{"id":1}`, `[]`} {
		if openapi.CheckLine(document(), http.MethodPost, "/api/v1/bulk", []byte(bad)) == nil {
			t.Errorf("the document takes the line %s", bad)
		}
	}
}
