package oidc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

type claims map[string]any

// issuer is an identity provider. Its person is always logged in.
type issuer struct {
	t   *testing.T
	web *httptest.Server

	mu     sync.Mutex
	key    *rsa.PrivateKey
	keyID  string
	codes  map[string]asked // given and not used yet
	person claims           // what its tokens say of the person
	asks   int              // requests
	// spoil changes the claims of a token that a code is changed for; nil: nothing.
	spoil func(claims)
}

// asked is a login that a code stands for.
type asked struct{ challenge, nonce, redirect string }

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, codes: map[string]asked{}, person: claims{
		"sub": "1", "email": "ada@example.com", "email_verified": true, "groups": []string{"staff", "ops"},
	}}
	i.rotate("one")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		i.answer(w, claims{
			"issuer": i.web.URL, "authorization_endpoint": i.web.URL + "/authorize", "token_endpoint": i.web.URL + "/token",
			"jwks_uri": i.web.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: i.key.Public(), KeyID: i.keyID, Algorithm: "RS256", Use: "sig"},
		}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("client_id") != "stet" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
			!strings.Contains(q.Get("scope"), "openid") {
			t.Errorf("a login asks for %v", q)
		}
		code := rand.Text()
		i.mu.Lock()
		i.codes[code] = asked{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri")}
		i.mu.Unlock()
		back := url.Values{"code": {code}, "state": {q.Get("state")}, "session_state": {"x"}}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", i.token)
	i.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asks++
		i.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.web.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}

// token changes a code, once, for an ID token.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	client, secret, ok := r.BasicAuth()
	if !ok {
		client, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	i.mu.Lock()
	login, known := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || client != "stet" || secret != "secret" || r.FormValue("redirect_uri") != login.redirect ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != login.challenge {
		w.WriteHeader(http.StatusBadRequest)
		i.answer(w, claims{"error": "invalid_grant"})
		return
	}
	c := i.claims()
	c["nonce"] = login.nonce
	if i.spoil != nil {
		i.spoil(c)
	}
	i.answer(w, claims{"access_token": "x", "token_type": "Bearer", "id_token": i.signed(c)})
}

// claims returns those of a good token.
func (i *issuer) claims() claims {
	c := claims{"iss": i.web.URL, "aud": "stet", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	maps.Copy(c, i.person)
	return c
}

func (i *issuer) rotate(id string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.keyID = key, id
}

func (i *issuer) signed(c claims) string {
	i.mu.Lock()
	key := jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: i.keyID}}
	i.mu.Unlock()
	return sign(i.t, key, c)
}

func sign(t *testing.T, key jose.SigningKey, c claims) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// world is a server with a provider, under a prefix.
type world struct {
	t        *testing.T
	issuer   *issuer
	provider *Provider
	url      string // with the prefix
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, issuer: newIssuer(t)}
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	w.url = web.URL + "/ops/stet/"
	c := Config{
		Issuer: w.issuer.web.URL, ClientID: "stet", ClientSecret: "secret", RedirectURL: w.url + "api/v1/login/callback",
		Roles: []Rule{
			{Claim: "groups", Value: "admins", Role: access.Administrator},
			{Claim: "groups", Value: "ops", Role: access.Operator, Workflows: []string{"order"}},
			{Claim: "team", Value: "look", Role: access.Viewer},
		},
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if w.provider, err = New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s := memory.New()
	t.Cleanup(func() { _ = s.Close() })
	quiet := slog.New(slog.DiscardHandler)
	e, err := stet.New(t.Context(), stet.Config{Store: s, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(e, server.Options{Logger: quiet, Rate: stet.None,
		Access: []access.Authenticator{w.provider, server.Tokens(e)}})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/ops/stet/", http.StripPrefix("/ops/stet", h))
	return w
}

// browser keeps cookies, and follows addresses unless stop says where to.
func (w *world) browser(stop func(*url.URL) bool) *http.Client {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if stop != nil && stop(r.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// get requests an address, and returns the answer and its body.
func (w *world) get(c *http.Client, address string) (*http.Response, string) {
	w.t.Helper()
	r, err := c.Get(address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, string(body)
}

// TestBrowserLogsIn by the code flow with PKCE: it comes back to the dashboard with a session,
// whose identity is what the rules make of the claims.
func TestBrowserLogsIn(t *testing.T) {
	w := newWorld(t)
	b := w.browser(nil)
	if _, body := w.get(b, w.url+"api/v1/login"); !strings.Contains(body, `"provider":"127.0.0.1:`) {
		t.Errorf("the ways to log in: %s", body)
	}
	r, body := w.get(b, w.url+"api/v1/login/provider")
	if r.StatusCode != http.StatusOK || r.Request.URL.String() != w.url || !strings.Contains(body, "<!doctype html>") &&
		!strings.Contains(body, "<!DOCTYPE html>") {
		t.Fatalf("after the login the browser is at %s: %d %.200s", r.Request.URL, r.StatusCode, body)
	}
	r, body = w.get(b, w.url+"api/v1/info")
	if r.StatusCode != http.StatusOK || !strings.Contains(body, `"name":"ada@example.com","role":"operator"`) ||
		!strings.Contains(body, `"workflows":["order"]`) {
		t.Errorf("who it is: %d %s", r.StatusCode, body)
	}
	address, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Jar.Cookies(address) {
		if !strings.HasPrefix(c.Name, "stet_session_") || strings.Contains(c.Value, "eyJ") {
			t.Errorf("the browser keeps %s", c)
		}
	}
	out, err := b.Post(w.url+"api/v1/logout", "application/json", strings.NewReader("{}"))
	if err != nil || out.StatusCode != http.StatusOK {
		t.Fatal(out, err)
	}
	if r, _ := w.get(b, w.url+"api/v1/info"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", r.StatusCode)
	}
}

// TestSessionEnds after its time, and is known to servers with the same secret alone.
func TestSessionEnds(t *testing.T) {
	w := newWorld(t)
	token := w.session()
	ask := func(p *Provider) (*access.Identity, error) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		return p.Authenticate(r)
	}
	same, err := New(t.Context(), w.provider.config)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := ask(same); err != nil || who.Name != "ada@example.com" || who.Until.IsZero() {
		t.Errorf("another server: %+v, %v", who, err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.ClientSecret = "other" }, func(c *Config) { c.ClientSecret = "" },
		func(c *Config) { c.ClientID = "other" },
	} {
		c := w.provider.config
		change(&c)
		other, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := ask(other); !errors.Is(err, access.ErrDenied) {
			t.Errorf("a server with another secret: %+v, %v", who, err)
		}
	}
	w.provider.now = func() time.Time { return time.Now().Add(maxSession) }
	if who, err := ask(w.provider); !errors.Is(err, access.ErrDenied) {
		t.Errorf("after 8 hours: %+v, %v", who, err)
	}
	token = token[:len(token)-2] + "AA"
	if who, err := ask(same); !errors.Is(err, access.ErrDenied) {
		t.Errorf("a changed one: %+v, %v", who, err)
	}
}

// session logs in without a browser, and returns the token.
func (w *world) session() string {
	w.t.Helper()
	state, answer := w.returned()
	token, err := w.provider.Finish(w.t.Context(), state, answer)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// returned begins a login, and returns the state and what the provider has added to the
// address.
func (w *world) returned() (state string, answer url.Values) {
	w.t.Helper()
	address, state, err := w.provider.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	r, _ := w.get(w.browser(func(*url.URL) bool { return true }), address)
	back, err := r.Location()
	if err != nil {
		w.t.Fatal(err)
	}
	return state, back.Query()
}

// TestLoginIsRefused: what does not belong together begins no session.
func TestLoginIsRefused(t *testing.T) {
	w := newWorld(t)
	attacker, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, state string, answer url.Values) {
		t.Helper()
		if token, err := w.provider.Finish(t.Context(), state, answer); !errors.Is(err, access.ErrDenied) || token != "" {
			t.Errorf("%s: %q, %v", what, token, err)
		}
	}
	with := func(name string, values ...string) url.Values {
		_, answer := w.returned()
		delete(answer, name)
		if len(values) > 0 {
			answer[name] = values
		}
		return answer
	}
	for what, change := range map[string]func(string, url.Values) (string, url.Values){
		"another browser's state": func(_ string, answer url.Values) (string, url.Values) {
			other, _ := w.returned()
			return other, answer
		},
		"no state":      func(s string, a url.Values) (string, url.Values) { delete(a, "state"); return s, a },
		"two states":    func(s string, a url.Values) (string, url.Values) { a.Add("state", "x"); return s, a },
		"no cookie":     func(_ string, a url.Values) (string, url.Values) { return "x", a },
		"a session":     func(_ string, a url.Values) (string, url.Values) { return strings.TrimPrefix(w.session(), prefix), a },
		"no code":       func(s string, a url.Values) (string, url.Values) { delete(a, "code"); return s, a },
		"a made-up one": func(s string, a url.Values) (string, url.Values) { a.Set("code", "x"); return s, a },
		"an error":      func(s string, a url.Values) (string, url.Values) { a.Set("error", "access_denied"); return s, a },
		"mixed up":      func(s string, a url.Values) (string, url.Values) { a.Set("iss", "https://evil.example"); return s, a },
		"another's code": func(s string, a url.Values) (string, url.Values) {
			a["code"] = with("x")["code"] // PKCE: its verifier is in the other cookie
			return s, a
		},
	} {
		state, answer := change(w.returned())
		refused(what, state, answer)
	}
	state, answer := w.returned()
	if _, err := w.provider.Finish(t.Context(), state, answer); err != nil {
		t.Fatal(err)
	}
	refused("the same code again", state, answer)
	state, answer = w.returned()
	w.provider.now = func() time.Time { return time.Now().Add(loginTime) }
	refused("after 10 minutes", state, answer)
	w.provider.now = time.Now

	for what, spoil := range map[string]func(claims){
		"another audience":     func(c claims) { c["aud"] = "other" },
		"another issuer":       func(c claims) { c["iss"] = "https://evil.example" },
		"expired":              func(c claims) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"another login":        func(c claims) { c["nonce"] = "x" },
		"no nonce":             func(c claims) { delete(c, "nonce") },
		"issued to another":    func(c claims) { c["aud"], c["azp"] = []string{"stet", "other"}, "other" },
		"nobody's group":       func(c claims) { c["groups"] = []string{"staff"} },
		"no groups":            func(c claims) { delete(c, "groups") },
		"groups that are none": func(c claims) { c["groups"] = map[string]any{"ops": true} },
		"a group in a text":    func(c claims) { c["groups"] = "ops,staff" },
		"no address":           func(c claims) { delete(c, "email") },
		"an unverified one":    func(c claims) { c["email_verified"] = false },
		"verified by a text":   func(c claims) { c["email_verified"] = "true" },
		"a name with a line":   func(c claims) { c["email"] = "a\nb@example.com" },
	} {
		w.issuer.spoil = spoil
		state, answer := w.returned()
		refused(what, state, answer)
	}
	w.issuer.spoil = nil

	// Tokens that the provider has not signed, as a program sends them.
	good := w.issuer.claims()
	payload, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	secret := jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("stet-public-key!", 4))}
	for what, token := range map[string]string{
		"unsigned":          encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + ".",
		"by another key":    sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: attacker, KeyID: "one"}}, good),
		"by a secret":       sign(t, secret, good),
		"by an unknown key": sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: attacker, KeyID: "two"}}, good),
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if who, err := w.provider.Authenticate(r); !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
	}
}

// TestProgramsSendTokens of the provider; tokens of others are for other authenticators.
func TestProgramsSendTokens(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Audiences, c.NameClaim = []string{"stet-api"}, "sub" })
	status := func(token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"api/v1/info", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	with := func(name string, value any) string {
		c := w.issuer.claims()
		c[name] = value
		return w.issuer.signed(c)
	}
	for what, row := range map[string]struct {
		token string
		want  int
	}{
		"good":               {with("x", 1), 200},
		"for the API":        {with("aud", "stet-api"), 200},
		"for others":         {with("aud", "shop"), 401},
		"by the second rule": {with("team", "look"), 200},
		"without a role":     {with("groups", "staff"), 401},
		"of another issuer":  {with("iss", "https://other.example"), 401},
		"no token":           {"a.b.c", 401},
	} {
		if got := status(row.token); got != row.want {
			t.Errorf("%s: expected %d, found %d", what, row.want, got)
		}
	}
	other := httptest.NewRequest("GET", "/", nil)
	foreign := with("iss", "https://other.example")
	for _, header := range []string{"", "Bearer stet_abc", "Bearer a.b.c", "Basic eDp5", "Bearer " + foreign} {
		other.Header.Set("Authorization", header)
		if who, err := w.provider.Authenticate(other); who != nil || err != nil {
			t.Errorf("%.20q is for others: %+v, %v", header, who, err)
		}
	}
	w.issuer.rotate("two") // new keys are fetched
	if got := status(with("x", 1)); got != 200 {
		t.Errorf("after new keys: %d", got)
	}
}

// TestCallbackIsOfThisBrowser: a browser that has not begun is not let in by the address of
// another's return, and too many refusals from one address are not looked at.
func TestCallbackIsOfThisBrowser(t *testing.T) {
	w := newWorld(t)
	victim := w.browser(nil)
	attacker := w.browser(func(u *url.URL) bool { return strings.HasSuffix(u.Path, "/login/callback") })
	r, _ := w.get(attacker, w.url+"api/v1/login/provider")
	back, err := r.Location()
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := w.get(victim, back.String()); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the victim is logged in: %d", r.StatusCode)
	}
	if r, _ := w.get(victim, w.url+"api/v1/info"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the victim has a session: %d", r.StatusCode)
	}
	// Each forged code is another credential: the first ten are refused at once, each further one a second later.
	begun := time.Now()
	for range 12 {
		r, _ := w.get(attacker, w.url+"api/v1/login/provider")
		forged, err := r.Location()
		if err != nil {
			t.Fatal(err)
		}
		forged.RawQuery = strings.Replace(forged.RawQuery, "code=", "code=x", 1)
		if r, _ := w.get(attacker, forged.String()); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("a forged code: %d", r.StatusCode)
		}
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("12 forged codes were looked at within %s", took)
	}
}

// TestRefusesToStart with what would let nobody in, or anybody; and without the provider.
func TestRefusesToStart(t *testing.T) {
	i := newIssuer(t)
	good := Config{Issuer: i.web.URL, ClientID: "stet", RedirectURL: "https://ops.example.com/api/v1/login/callback",
		Roles: []Rule{{Claim: "groups", Value: "ops", Role: access.Operator}}}
	for what, change := range map[string]func(*Config){
		"no issuer":        func(c *Config) { c.Issuer = "" },
		"plain text":       func(c *Config) { c.Issuer = "http://login.example.com" },
		"no client":        func(c *Config) { c.ClientID = "" },
		"no roles":         func(c *Config) { c.Roles = nil },
		"an unknown role":  func(c *Config) { c.Roles = []Rule{{Claim: "groups", Value: "ops", Role: "root"}} },
		"an empty value":   func(c *Config) { c.Roles = []Rule{{Claim: "groups", Role: access.Viewer}} },
		"another callback": func(c *Config) { c.RedirectURL = "https://ops.example.com/" },
		"a plain callback": func(c *Config) { c.RedirectURL = "http://ops.example.com/api/v1/login/callback" },
		"a long session":   func(c *Config) { c.Session = 9 * time.Hour },
	} {
		c := good
		change(&c)
		if _, err := New(t.Context(), c); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := New(t.Context(), good); err != nil {
		t.Error(err)
	}
	i.web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := New(ctx, good); err == nil {
		t.Error("without the provider it starts")
	}
}

// TestProviderIsAway: nobody new is let in; who has a session goes on.
func TestProviderIsAway(t *testing.T) {
	w := newWorld(t)
	token := w.session()
	state, answer := w.returned()
	w.issuer.web.Close()
	if got, err := w.provider.Finish(t.Context(), state, answer); err == nil || errors.Is(err, access.ErrDenied) {
		t.Errorf("a login: %q, %v", got, err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	if who, err := w.provider.Authenticate(r); err != nil || who.Role != access.Operator {
		t.Errorf("a session: %+v, %v", who, err)
	}
}

// TestNothingElseIsFetched: an ID token, and what a browser returns with, name no address that
// the server asks.
func TestNothingElseIsFetched(t *testing.T) {
	w := newWorld(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("an address of a token is fetched")
	}))
	defer elsewhere.Close()
	for _, header := range []string{
		fmt.Sprintf(`{"alg":"RS256","jku":%q,"kid":"x"}`, elsewhere.URL),
		fmt.Sprintf(`{"alg":"RS256","x5u":%q}`, elsewhere.URL),
	} {
		payload, err := json.Marshal(w.issuer.claims())
		if err != nil {
			t.Fatal(err)
		}
		encode := base64.RawURLEncoding.EncodeToString
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+encode([]byte(header))+"."+encode(payload)+"."+encode([]byte("signature")))
		if who, err := w.provider.Authenticate(r); !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s: %+v, %v", header, who, err)
		}
	}
}
