package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/oidc"
	"github.com/stet-run/stet/store/memory"
)

// issuer is an identity provider with a page on which a person logs in.
type issuer struct {
	t   *testing.T
	url string
	key *rsa.PrivateKey

	mu    sync.Mutex
	codes map[string]url.Values // what was asked, by the code that was given for it
}

var loginPage = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><title>Example ID</title>
<h1>Example ID</h1><form method="post"><button name="who" value="ada">I am Ada</button>
<button name="who" value="eve">I am Eve</button></form></html>`))

// newIssuer serves a provider under the name localhost: to the server, which is 127.0.0.1, it is
// another site.
func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	i := &issuer{t: t, codes: map[string]url.Values{}, key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{
			"issuer": i.url, "authorization_endpoint": i.url + "/authorize", "token_endpoint": i.url + "/token",
			"jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": encode(i.key.N.Bytes()),
			"e": encode(big.NewInt(int64(i.key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, _ *http.Request) {
		if err := loginPage.Execute(w, nil); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("POST /authorize", func(w http.ResponseWriter, r *http.Request) {
		asked, code := r.URL.Query(), rand.Text()
		asked.Set("who", r.FormValue("who"))
		i.mu.Lock()
		i.codes[code] = asked
		i.mu.Unlock()
		back := url.Values{"code": {code}, "state": {asked.Get("state")}}
		http.Redirect(w, r, asked.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("POST /token", i.token)
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	web.Start()
	t.Cleanup(web.Close)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	i.url = "http://localhost:" + port
	return i
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func (i *issuer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		i.t.Error(err)
	}
}

// token changes a code, once, for a signed ID token.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	asked := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if asked == nil || asked.Get("code_challenge") != encode(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		i.answer(w, map[string]string{"error": "invalid_grant"})
		return
	}
	groups := map[string][]string{"ada": {"ops"}, "eve": {"guests"}}[asked.Get("who")]
	claims := must[[]byte](i.t)(json.Marshal(map[string]any{
		"iss": i.url, "aud": "stet", "sub": asked.Get("who"), "email": asked.Get("who") + "@example.com",
		"email_verified": true, "groups": groups, "nonce": asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}))
	text := encode([]byte(`{"alg":"RS256","kid":"one","typ":"JWT"}`)) + "." + encode(claims)
	hash := sha256.Sum256([]byte(text))
	signature := must[[]byte](i.t)(rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, hash[:]))
	i.answer(w, map[string]string{"access_token": "x", "token_type": "Bearer", "id_token": text + "." + encode(signature)})
}

// TestLoginAtAProvider: the browser goes to the provider, a person logs in there, and the
// dashboard is theirs, also after it is loaded again; one whom no rule knows is told so.
func TestLoginAtAProvider(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	i := newIssuer(t)
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	site := web.URL + "/ops/stet/"
	provider := must[*oidc.Provider](t)(oidc.New(t.Context(), oidc.Config{
		Issuer: i.url, ClientID: "stet", ClientSecret: "secret", RedirectURL: site + "api/v1/login/callback",
		Title: "Example ID", Roles: []oidc.Rule{{Claim: "groups", Value: "ops", Role: access.Operator}},
	}))
	s := memory.New()
	t.Cleanup(func() { _ = s.Close() })
	quiet := slog.New(slog.DiscardHandler)
	e := must[*stet.Engine](t)(stet.New(t.Context(), stet.Config{Store: s, Logger: quiet}))
	h := must[http.Handler](t)(server.New(e, server.Options{Logger: quiet, Rate: stet.None,
		Access: []access.Authenticator{provider, server.Tokens(e)}}))
	mux.Handle("/ops/stet/", http.StripPrefix("/ops/stet", h))

	login := func(who string) *tab {
		tb := open(t, b, site, ".sign-in .button.primary")
		tb.also = i.url
		tb.untilTrue(`document.querySelector(".sign-in").textContent.includes("Sign in at Example ID")`)
		tb.looks("login-provider")
		tb.script(`document.querySelector(".sign-in a.button").click(); 0`)
		tb.until(`button[value="` + who + `"]`)
		if at := is[string](tb, `location.href`); !strings.HasPrefix(at, i.url+"/authorize?") {
			t.Errorf("the browser is at %s", at)
		}
		tb.script(`document.querySelector('button[value="` + who + `"]').click(); 0`)
		return tb
	}
	tb := login("ada")
	tb.untilTrue(`document.querySelector("header")?.textContent.includes("ada@example.com") ?? false`)
	if at := is[string](tb, `location.href`); !strings.HasPrefix(at, site) || strings.Contains(at, "code=") {
		t.Errorf("after the login the browser is at %s", at)
	}
	kept := `[document.cookie, ...[localStorage, sessionStorage].map((s) => JSON.stringify(s))].join()`
	if text := is[string](tb, kept); strings.Contains(text, "stet_session") {
		t.Errorf("a script of the page can read the session: %s", text)
	}
	tb.script(`location.reload(); 0`)
	tb.untilTrue(`document.querySelector("header")?.textContent.includes("ada@example.com") ?? false`)
	if v := is[[]string](tb, `window.seen.violations`); len(v) > 0 {
		t.Errorf("the content security policy was violated: %v", v)
	}
	found := must[[]stet.AuditEntry](t)(stet.AuditOf(e).List(t.Context(), stet.AuditFilter{Verb: "login"}))
	if len(found) != 1 || found[0].By != "ada@example.com" {
		t.Errorf("the audit: %+v", found)
	}
	tb.press("header", "Sign out")
	tb.until(".sign-in form")

	tb = login("eve")
	tb.until(".sign-in [role=alert]")
	tb.untilTrue(`document.querySelector(".sign-in [role=alert]").textContent.includes("given your account a role")`)
	tb.looks("login-refused")
	tb.until(".sign-in .button.primary") // from where it can be tried again
}
