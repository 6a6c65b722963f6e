package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// failing has a step that fails, and waits for its next attempt.
var failing = stet.Define("failing", func(ctx stet.Context, _ string) (string, error) {
	return stet.Step(ctx, "charge", func(context.Context) (string, error) {
		return "", errors.New("hush: the card was declined")
	}, stet.Retry{First: time.Hour})
})

// TestViewersReadNoReason: whatever somebody has given as a reason, or an error says, is for those who may see values.
func TestViewersReadNoReason(t *testing.T) {
	w := newWorld(t, true)
	const hush = "hush"
	w.started("order", "o-1", "apple")
	w.becomes("o-1", store.Suspended)
	w.started("order", "o-2", "apple")
	if _, err := failing.Start(t.Context(), w.engine, "x", stet.ID("f-1")); err != nil {
		t.Fatal(err)
	}
	w.becomes("f-1", store.Suspended)
	if _, err := stet.ScriptsOf(w.engine).Deploy(t.Context(), "jobs", stet.ScriptCode{Code: "1"},
		stet.Act{By: "ada", Why: hush}); err != nil {
		t.Fatal(err)
	}
	reason := api.Reason{Reason: hush}
	limits := api.Limits{Concurrency: 1}
	for _, act := range []struct {
		method, path string
		body         any
	}{
		{"POST", "runs/o-1/pause", reason}, {"POST", "runs/o-1/resume", reason}, {"POST", "runs/o-2/cancel", reason},
		{"PUT", "queues/jobs", api.SetQueue{Create: true, Limits: limits, Reason: hush}},
		{"PUT", "queues/jobs", api.SetQueue{Limits: limits, Reason: hush}}, {"POST", "queues/jobs/pause", reason},
		{"PUT", "schedules/jobs", api.SetSchedule{Workflow: "order", EveryMS: 3_600_000, Reason: hush}},
		{"POST", "schedules/jobs/pause", reason},
	} {
		if r := w.do("admin", act.method, act.path, act.body); r.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: status %d", act.method, act.path, r.StatusCode)
		}
	}
	seen := 0
	for _, e := range server.TableOf(w.handler) {
		if e.Method != http.MethodGet || e.Path == "events" || e.Right != access.Read {
			continue
		}
		for _, id := range []string{"o-1", "o-2", "f-1"} {
			path := strings.ReplaceAll(e.Path, "{id}", id)
			for who, may := range map[string]bool{"viewer": false, "operator": true} {
				text, err := io.ReadAll(w.do(who, "GET", fill(path), nil).Body)
				if err != nil {
					t.Fatal(err)
				}
				switch found := strings.Contains(string(text), hush); {
				case found && !may:
					t.Errorf("a viewer reads at %s: %s", path, text)
				case found:
					seen++
				}
			}
			if path == e.Path {
				break
			}
		}
	}
	if seen < 8 {
		t.Errorf("an operator reads reasons at %d paths: the test looks at too little", seen)
	}
}

// TestNewTokenCountsAtOnce, also where unknown tokens are refused all the time.
func TestNewTokenCountsAtOnce(t *testing.T) {
	w := newWorld(t, true)
	var err error
	w.handler, err = server.New(w.engine, server.Options{
		Access: []access.Authenticator{server.Tokens(w.engine)}, Logger: quiet(), Rate: stet.None,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w.refused("stet_unknown", "GET", "info", nil, "unauthenticated")
		token, err := stet.TokensOf(w.engine).Create(t.Context(), stet.TokenInfo{Name: "ada", Role: "viewer"}, stet.Act{})
		if err != nil {
			t.Fatal(err)
		}
		w.get(token, "info", nil)
	}
}

// TestSessionsOfPortsAreApart: a browser sends the cookies of one server of a host to the others.
func TestSessionsOfPortsAreApart(t *testing.T) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	servers := map[string]*httptest.Server{}
	for who, name := range map[string]string{"viewer": "vera", "operator": "olga"} {
		w := newWorld(t, false)
		servers[name] = httptest.NewServer(w.handler)
		t.Cleanup(servers[name].Close)
		token := strings.NewReader(`{"token":"` + who + `"}`)
		r, err := browser.Post(servers[name].URL+"/api/v1/login", "application/json", token)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		_ = r.Body.Close()
	}
	for name, s := range servers {
		r, err := browser.Get(s.URL + "/api/v1/info")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || !strings.Contains(string(text), `"name":"`+name+`"`) {
			t.Errorf("the session of %s: %d %s, %v", name, r.StatusCode, text, err)
		}
	}
}
