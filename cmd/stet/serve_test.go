package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestServe: a store that no application works on is served to a browser and to a client, and
// what needs no code is carried out.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := filepath.Join(t.TempDir(), "s.db")
	command := func(args ...string) string {
		t.Helper()
		var out, complaints bytes.Buffer
		if code := execute(ctx, append([]string{"--db", db}, args...), nil, &out, &complaints); code != 0 {
			t.Fatalf("stet %s ends with %d: %s", strings.Join(args, " "), code, &complaints)
		}
		return strings.TrimSpace(out.String())
	}
	o := &opener{db: db, log: slog.New(slog.DiscardHandler)}
	s, err := o.open(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	app, err := stet.New(ctx, stet.Config{Store: s, Workflows: []stet.Definition{double}, Logger: o.log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.RunOnce(ctx); err != nil { // so that the store knows the workflow
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	token := command("token", "create", "ada", "--role", "operator")

	serving, stop := context.WithCancel(ctx)
	out, address := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(serving, []string{"--db", db, "serve", "--addr", "127.0.0.1:0"}, nil, address, io.Discard)
		_ = address.Close() // its reader sees the end
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, once, ok := strings.Cut(strings.TrimSpace(line), "#token=")
	if !ok {
		t.Fatalf("expected an address with a token, found %q", line)
	}
	for want, token := range map[int]string{http.StatusUnauthorized: "", http.StatusOK: token} {
		if got := status(t, ctx, http.MethodGet, url+"api/v1/runs", token, ""); got != want {
			t.Errorf("with the token %.8q the list of runs is %d, want %d", token, got, want)
		}
	}
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} { // it is good for one login
		if got := status(t, ctx, http.MethodPost, url+"api/v1/login", "", `{"token":"`+once+`"}`); got != want {
			t.Errorf("a login with the token of the address is %d, want %d", got, want)
		}
	}
	if got := status(t, ctx, http.MethodGet, url, "", ""); got != http.StatusOK {
		t.Errorf("the dashboard is %d", got)
	}

	c, err := client.New(url, client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, "key", api.Start{ID: "r", Workflow: "double", Input: json.RawMessage("2")}); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Act(ctx, client.Cancel, "r", api.Act{Reason: "a test"}, 20*time.Second); !done || err != nil {
		t.Errorf("a cancel of a run without code: %t, %v", done, err)
	}
	if run, err := c.Run(ctx, "r"); err != nil || run.Status != store.Cancelled {
		t.Errorf("then the run is %+v, %v", run, err)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("the server ends with %d", code)
	}
}

// status requests something, and returns the status of the answer.
func status(t *testing.T, ctx context.Context, method, url, token, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// TestProbesPassTheProxysBound: an orchestrator asks from an address of its own, and for health alone.
func TestProbesPassTheProxysBound(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	h := onlyFrom([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, served)
	for _, row := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/api/v1/health/ready", http.StatusNoContent}, {"HEAD", "/api/v1/health/live", http.StatusNoContent},
		{"POST", "/api/v1/health/ready", http.StatusForbidden}, {"GET", "/api/v1/health/ready/", http.StatusForbidden},
		{"GET", "/api/v1/health", http.StatusForbidden}, {"GET", "/api/v1/login", http.StatusForbidden},
		{"GET", "/api/v1/health/ready/../../info", http.StatusForbidden},
	} {
		r := httptest.NewRequest(row.method, row.path, nil)
		r.RemoteAddr = "11.1.2.3:99"
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, r); rec.Code != row.want {
			t.Errorf("%s %s: status %d, want %d", row.method, row.path, rec.Code, row.want)
		}
	}
}

// TestStrangersBeginNoEngine: the engine of stet serve is under way for those who may change
// something, and for nobody else.
func TestStrangersBeginNoEngine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	s := memory.New()
	e, err := stet.New(ctx, stet.Config{Store: s, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	d := &decider{engine: e, store: s, log: log}
	h, err := server.New(e, server.Options{Logger: log, Admitted: d.admitted, Access: []access.Authenticator{
		server.Func(func(r *http.Request) (*access.Identity, error) {
			role := access.Role(r.Header.Get("X-Role"))
			if role == "" {
				return nil, nil
			}
			return &access.Identity{Name: "ada", Role: role}, nil
		})}})
	if err != nil {
		t.Fatal(err)
	}
	h = d.serving(h)
	for _, row := range []struct {
		method, path string
		role         access.Role
		begins       bool
	}{
		{"POST", "nowhere", "", false}, {"PUT", "queues/q", "", false}, {"POST", "login", "", false},
		{"POST", "nowhere", access.Administrator, false}, {"PUT", "queues/q", access.Viewer, false},
		{"POST", "hooks/nothing", "", false}, {"GET", "queues", access.Administrator, false},
		{"PUT", "queues/q", access.Administrator, true},
	} {
		r := httptest.NewRequestWithContext(ctx, row.method, "/api/v1/"+row.path, strings.NewReader(`{"create":true}`))
		if row.method == "GET" {
			r = httptest.NewRequestWithContext(ctx, row.method, "/api/v1/"+row.path, nil)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Role", string(row.role))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if begun := d.ended != nil; begun != row.begins {
			t.Errorf("%s %s as %q (%d): the engine was begun: %t", row.method, row.path, row.role, rec.Code, begun)
		}
		if row.begins != (rec.Code < 300) && row.method != "GET" {
			t.Errorf("%s %s as %q: %d %s", row.method, row.path, row.role, rec.Code, rec.Body)
		}
	}
	d.wait()
}

// TestOnlyTheProxyIsServed: with --behind-proxy a request counts by the address of its socket,
// and by no header.
func TestOnlyTheProxyIsServed(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for from, want := range map[string]int{
		"10.1.2.3:99": http.StatusNoContent, "[::ffff:10.1.2.3]:99": http.StatusNoContent, "[fd00::1%eth0]:99": http.StatusNoContent,
		"11.1.2.3:99": http.StatusForbidden, "127.0.0.1:99": http.StatusForbidden, "[fe80::1]:99": http.StatusForbidden,
		"10.1.2.3": http.StatusForbidden, "@": http.StatusForbidden, "": http.StatusForbidden,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "10.1.2.3")
		r.Header.Set("Forwarded", "for=10.1.2.3")
		rec := httptest.NewRecorder()
		if onlyFrom(networks, served).ServeHTTP(rec, r); rec.Code != want {
			t.Errorf("from %q: status %d, want %d", from, rec.Code, want)
		}
		rec = httptest.NewRecorder()
		if onlyFrom(nil, served).ServeHTTP(rec, r); rec.Code != http.StatusNoContent {
			t.Errorf("from %q, without --behind-proxy: status %d", from, rec.Code)
		}
	}
}
