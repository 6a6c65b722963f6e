package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
)

// TestLimitedIdentitySeesItsWorkflowsOnly, whichever name leads to another's run.
func TestLimitedIdentitySeesItsWorkflowsOnly(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	w.started("broken", "b-1", "pear")
	if _, err := w.engine.Runs().Wait(t.Context(), "b-1"); err != nil {
		t.Fatal(err)
	}
	var list api.Runs
	w.get("limited", "runs", &list)
	if len(list.Runs) != 1 || list.Runs[0].ID != "o-1" {
		t.Errorf("the list: %+v", list)
	}
	w.get("limited", "runs?query=workflow%3Dbroken", &list)
	if len(list.Runs) != 0 {
		t.Errorf("the list of another workflow: %+v", list)
	}
	w.get("limited", "runs?query=id%3Db-1", &list)
	if len(list.Runs) != 0 {
		t.Errorf("the list by ID: %+v", list)
	}
	var counts api.Counts
	w.get("limited", "counts", &counts)
	if len(counts.Counts) != 1 || counts.Counts[0].Workflow != "order" {
		t.Errorf("the counts: %+v", counts)
	}
	for _, e := range server.TableOf(w.handler) {
		if !strings.HasPrefix(e.Path, "runs/{id}") {
			continue
		}
		path, body := strings.NewReplacer("{id}", "b-1", "{name}", "x").Replace(e.Path), any(nil)
		if e.Method != http.MethodGet {
			body = map[string]string{}
			if strings.HasSuffix(path, "/rewind") || strings.HasSuffix(path, "/fork") {
				body = map[string]string{"before": "/"}
			}
			if strings.HasSuffix(path, "/edit") {
				body = map[string]any{"step": "charge", "result": 1}
			}
		}
		switch {
		case strings.HasSuffix(path, "/value"):
			path += "?at=input"
		case strings.HasSuffix(path, "/preview"):
			path += "?verb=retry"
		}
		w.refused("limited", e.Method, path, body, "not_found")
	}
	w.refused("limited", "POST", "runs", map[string]string{"workflow": "broken"}, "forbidden")
	w.refused("limited", "POST", "runs", map[string]string{"workflow": "order", "id": "b-1"}, "forbidden")
	w.refused("limited", "GET", "topics/other", nil, "not_found")
	w.refused("limited", "POST", "topics/other/events", map[string]any{}, "forbidden")
	w.refused("limited", "GET", "queues/q", nil, "not_found")
	w.refused("limited", "GET", "tokens", nil, "forbidden")
	w.refused("limited", "POST", "nodes/n/drain", map[string]any{}, "forbidden")
	var published api.Published
	w.ask("limited", "POST", "topics/jobs/events", map[string]any{"value": 1}, http.StatusCreated, &published)
	// An entity is no run, for nobody.
	w.refused("admin", "GET", "runs/"+api.PathSegment("stet.topic/jobs"), nil, "not_found")
	w.get("admin", "runs?query=id%3Dstet.topic%2Fjobs", &list)
	if len(list.Runs) != 0 {
		t.Errorf("entities are listed: %+v", list)
	}
}

// TestAgentsActInTheirIdentitysName: the header that an agent acts changes the name in audits,
// and no right.
func TestAgentsActInTheirIdentitysName(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	var info api.Info
	w.ask("viewer", "GET", "info", nil, http.StatusOK, &info, api.ViaHeader, api.ViaMCP)
	if info.Identity.Name != "mcp:vera" || info.Identity.Role != "viewer" {
		t.Errorf("the identity is %+v", info.Identity)
	}
	w.refused("viewer", "POST", "runs/o-1/pause", map[string]any{}, "forbidden", api.ViaHeader, api.ViaMCP)
	w.refused("", "GET", "info", nil, "unauthenticated", api.ViaHeader, api.ViaMCP)
	w.refused("viewer", "GET", "info", nil, "invalid", api.ViaHeader, "ada")
	w.ask("operator", "POST", "runs/o-1/pause", map[string]any{}, http.StatusOK, nil, api.ViaHeader, api.ViaMCP)
	audit, err := w.engine.Runs().Audit(t.Context(), "o-1")
	if err != nil || len(audit) != 1 || audit[0].Who != "mcp:olga" {
		t.Errorf("the audit: %+v, %v", audit, err)
	}
}

// TestNoIdentityProvider: a server without one says so, and sends nobody anywhere.
func TestNoIdentityProvider(t *testing.T) {
	w := newWorld(t, false)
	var ways api.Ways
	w.get("", "login", &ways)
	if ways.Provider != "" || !ways.Token {
		t.Errorf("the ways to log in: %+v", ways)
	}
	w.refused("", "GET", "login/provider", nil, "no_endpoint")
	w.refused("", "GET", "login/callback?code=x&state=y&anything=z", nil, "no_endpoint")
}

// TestServerFetchesNothing: no source of the server has a client of its own; an identity
// provider, which is a module apart, is the one place that asks others.
func TestServerFetchesNothing(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "oidc" || path == "e2e" || path == "ui"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		seen++
		text, err := os.ReadFile(path)
		for _, word := range []string{"http.Client", "http.Get", "http.Post", "http.DefaultClient", "RoundTrip", "net.Dial"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %s", path, word)
			}
		}
		return err
	})
	if err != nil || seen < 10 {
		t.Errorf("%d sources, %v", seen, err)
	}
}

// TestForeignHostIsRefused where a request arrives at a loopback address, also by a stream.
func TestForeignHostIsRefused(t *testing.T) {
	w := newWorld(t, false, func(o *server.Options) { o.Hosts = []string{"ops.example.com"} })
	for host, ok := range map[string]bool{
		"localhost": true, "LOCALHOST:8338": true, "127.0.0.1:8338": true, "[::1]:8338": true, "ops.example.com": true,
		"evil.example.com": false, "localhost.evil.com": false, "": false, "127.0.0.1.evil.com:8338": false, "10.0.0.1": false,
	} {
		for _, path := range []string{"/api/v1/info", "/api/v1/events?nodes=true", "/"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if strings.Contains(path, "events") {
				cancel() // the stream ends after its first round
			}
			at := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8338})
			r := httptest.NewRequestWithContext(context.WithValue(ctx, http.LocalAddrContextKey, at), "GET", path, nil)
			r.Header.Set("Authorization", "Bearer viewer")
			r.Host = host
			rec := httptest.NewRecorder()
			w.handler.ServeHTTP(rec, r)
			if (rec.Code == http.StatusOK) != ok || !ok && rec.Code != http.StatusMisdirectedRequest {
				t.Errorf("host %q, %s: status %d", host, path, rec.Code)
			}
		}
	}
}

// TestCrossSiteRequestIsRefused: a page of another site changes nothing.
func TestCrossSiteRequestIsRefused(t *testing.T) {
	w := newWorld(t, false)
	for _, site := range []string{"cross-site", "same-site"} {
		w.refused("admin", "POST", "runs", map[string]string{"workflow": "order"}, "cross_site", "Sec-Fetch-Site", site)
		w.refused("", "POST", "login", map[string]string{"token": "x"}, "cross_site", "Sec-Fetch-Site", site)
	}
	w.refused("admin", "POST", "runs", "{}", "cross_site", "Origin", "https://evil.example.com")
	w.refused("admin", "POST", "runs", `{"workflow":"order"}`, "media_type", "Content-Type", "text/plain")
	w.refused("admin", "POST", "runs", `{"workflow":"order"}`, "media_type", "Content-Encoding", "gzip")
	w.refused("admin", "POST", "runs", `{"workflow":"order","color":1}`, "invalid")
	w.refused("admin", "POST", "runs", `{"workflow":"order"} {}`, "invalid")
	w.refused("admin", "POST", "runs", `{"input":"`+strings.Repeat("x", 3<<20)+`"}`, "too_large")
	r := w.get("viewer", "info", nil)
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cache-Control": "no-store", "Access-Control-Allow-Origin": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(r.Header.Get("Content-Security-Policy"), "require-trusted-types-for 'script'") {
		t.Error("no policy for scripts")
	}
}

// TestLogin changes a token for a cookie, once for the token that is printed.
func TestLogin(t *testing.T) {
	once := server.NewOneTime(access.Identity{Name: "root", Role: access.Administrator})
	w := newWorld(t, false, func(o *server.Options) { o.Access = append([]access.Authenticator{once}, o.Access...) })
	w.refused("", "GET", "info", nil, "unauthenticated", "Authorization", "Bearer "+once.Token())
	r := w.ask("", "POST", "login", api.Login{Token: once.Token()}, http.StatusOK, nil)
	cookie := r.Cookies()[0]
	if cookie.Name != "stet_session" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode ||
		strings.Contains(cookie.Value, once.Token()) {
		t.Errorf("the cookie: %+v", cookie)
	}
	var info api.Info
	w.ask("", "GET", "info", nil, http.StatusOK, &info, "Cookie", cookie.Name+"="+cookie.Value)
	if info.Identity.Name != "root" {
		t.Errorf("the session is of %+v", info.Identity)
	}
	w.refused("", "POST", "login", api.Login{Token: once.Token()}, "unauthenticated")
	w.refused("", "GET", "info", nil, "unauthenticated", "Cookie", cookie.Name+"="+cookie.Value+"x")
	parts := strings.Split(cookie.Value, ".")
	w.refused("", "GET", "info", nil, "unauthenticated", "Cookie", cookie.Name+"="+parts[0]+".99999999999."+parts[2])
	r = w.ask("", "POST", "login", api.Login{Token: "viewer"}, http.StatusOK, nil)
	w.ask("", "GET", "info", nil, http.StatusOK, &info, "Cookie", "stet_session="+r.Cookies()[0].Value)
	if info.Identity.Name != "vera" {
		t.Errorf("the session is of %+v", info.Identity)
	}
}

// TestProxyHeaderCounts from the networks of the proxy alone, and once.
func TestProxyHeaderCounts(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	proxy := server.Proxy("X-User", networks, func(name string) *access.Identity {
		if name != "ann" {
			return nil
		}
		return &access.Identity{Name: name, Role: access.Viewer}
	})
	for _, row := range []struct {
		from   string
		values []string
		who    string
		denied bool
	}{
		{"10.1.2.3:1", []string{"ann"}, "ann", false},
		{"[::ffff:10.1.2.3]:1", []string{"ann"}, "ann", false},
		{"11.1.2.3:1", []string{"ann"}, "", false},
		{"10.1.2.3:1", nil, "", false},
		{"10.1.2.3:1", []string{"ann", "ann"}, "", true},
		{"10.1.2.3:1", []string{"bob"}, "", true},
		{"10.1.2.3:1", []string{""}, "", true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = row.from
		for _, v := range row.values {
			r.Header.Add("X-User", v)
		}
		who, err := proxy.Authenticate(r)
		if errors.Is(err, access.ErrDenied) != row.denied || (who != nil) != (row.who != "") {
			t.Errorf("%+v: %+v, %v", row, who, err)
		}
	}
}

// TestSetUpThatLetsAnybodyInIsRefused.
func TestSetUpThatLetsAnybodyInIsRefused(t *testing.T) {
	w := newWorld(t, false)
	for _, o := range []server.Options{{}, {Access: []access.Authenticator{nil}}} {
		if _, err := server.New(w.engine, o); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := server.Options{Access: []access.Authenticator{server.Func(byName)}}
	for _, link := range []api.Link{
		{Name: "logs", URL: "javascript:alert(1)"}, {Name: "logs", URL: "/search?run={id}"}, {URL: "https://logs.example.com"},
	} {
		o.Links = []api.Link{link}
		if _, err := server.New(w.engine, o); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("%+v: %v", link, err)
		}
	}
	nobody := server.Func(func(*http.Request) (*access.Identity, error) { return &access.Identity{}, nil })
	w = newWorld(t, false, func(o *server.Options) { o.Access = []access.Authenticator{nobody} })
	w.refused("", "GET", "info", nil, "unauthenticated")
}

// TestFailedCredentialsAreLimited per address.
func TestFailedCredentialsAreLimited(t *testing.T) {
	w := newWorld(t, false)
	status := func() int {
		r := httptest.NewRequest("GET", "/api/v1/info", nil)
		r.Header.Set("Authorization", "Bearer wrong")
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		return rec.Code
	}
	refused := 0
	for begun := time.Now(); refused < 100 && time.Since(begun) < time.Minute; refused++ {
		if status() == http.StatusTooManyRequests {
			break
		}
	}
	if refused < 10 || refused > 30 {
		t.Errorf("%d credentials were looked at", refused)
	}
}

// TestInboxIsRedacted: what was sent to a run is shown to those who may see values alone.
func TestInboxIsRedacted(t *testing.T) {
	w := newWorld(t, true)
	w.started("order", "o-1", "apple")
	w.ask("operator", "POST", "runs/o-1/messages/unheard", map[string]any{"value": "a secret word"}, 200, nil)
	for who, may := range map[string]bool{"viewer": false, "caller": false, "operator": true, "admin": true} {
		r := w.do(who, "GET", "runs/o-1/inbox", nil)
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.Contains(string(text), "a secret word")
		if shown != may || !strings.Contains(string(text), "unheard") {
			t.Errorf("%s sees %s", who, text)
		}
		if !may && !strings.Contains(string(text), `"redacted":true`) {
			t.Errorf("%s is not told that a value is left out: %s", who, text)
		}
	}
}

// TestTokensAreListedNewestFirst: the order is that of their creation, and the same each time.
func TestTokensAreListedNewestFirst(t *testing.T) {
	w := newWorld(t, true)
	want := []string{}
	for i := range 12 {
		name := fmt.Sprint("ci ", i)
		if _, err := stet.TokensOf(w.engine).Create(t.Context(), stet.TokenInfo{Name: name, Role: "viewer"},
			stet.Act{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		want = slices.Insert(want, 0, name)
	}
	for range 3 {
		var got api.Tokens
		w.get("admin", "tokens", &got)
		names := []string{}
		for _, token := range got.Tokens {
			names = append(names, token.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("expected %q, found %q", want, names)
		}
	}
}

// TestDocumentHasAnEntityTag: a client that has the OpenAPI document reads it once.
func TestDocumentHasAnEntityTag(t *testing.T) {
	w := newWorld(t, true)
	first := w.do("viewer", "GET", "openapi.json", nil)
	tag := first.Header.Get("ETag")
	if first.StatusCode != http.StatusOK || tag == "" {
		t.Fatalf("%s, the tag %q", first.Status, tag)
	}
	for known, status := range map[string]int{
		tag: http.StatusNotModified, `"other", ` + tag: http.StatusNotModified, `"other"`: http.StatusOK,
	} {
		again := w.do("viewer", "GET", "openapi.json", nil, "If-None-Match", known)
		body, err := io.ReadAll(again.Body)
		if err != nil || again.StatusCode != status || again.Header.Get("ETag") != tag ||
			(len(body) == 0) != (status == http.StatusNotModified) {
			t.Errorf("If-None-Match %s: %s, %d bytes, %v, %v", known, again.Status, len(body), again.Header["Etag"], err)
		}
	}
}
