// Package oidc lets people and programs in by an identity provider that speaks OpenID Connect:
//
//	provider, err := oidc.New(ctx, oidc.Config{
//		Issuer: "https://login.example.com", ClientID: "stet", ClientSecret: secret,
//		RedirectURL: "https://ops.example.com/stet/api/v1/login/callback",
//		Roles: []oidc.Rule{{Claim: "groups", Value: "ops", Role: access.Operator}},
//	})
//	…
//	h, err := server.New(engine, server.Options{Access: []access.Authenticator{provider, server.Tokens(engine)}})
//
// A browser logs in by the code flow with PKCE. Its session is a sealed text of this server,
// so nothing that the provider has given ever comes to the browser. A program sends an ID
// token of the provider as a Bearer token.
//
// Who a person is and may do is decided by the claims of the token and by Config.Roles:
// nobody without a rule that fits may do anything. The provider is asked for nothing but its
// configuration, its keys, and tokens for codes; no address is fetched that a request names.
package oidc

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// Config says which provider is believed, and what it makes of people.
type Config struct {
	// Issuer is the provider's address, as its tokens name it: https, or http at a loopback
	// address.
	Issuer string
	// ClientID and ClientSecret are those of the application that is registered there. A
	// public client has no secret; then sessions end with the process, and other servers do
	// not know them.
	ClientID, ClientSecret string
	// RedirectURL is the address to which the provider returns browsers: that of the
	// dashboard, and api/v1/login/callback. "": browsers cannot log in; programs can.
	RedirectURL string
	// Title names the provider for people. Default: the host of the Issuer.
	Title string
	// Scopes are requested beside openid. Default: profile, email.
	Scopes []string
	// Audiences are for whom an ID token of a program may be, beside the ClientID.
	Audiences []string
	// NameClaim is the claim that names a person in audits. Default: email, which counts if
	// email_verified says so. A claim that people may choose, or that is given to another
	// person later, lets one act in another's name.
	NameClaim string
	// Roles say what people may do: the first rule that fits counts.
	Roles []Rule
	// Session is how long a browser stays logged in. A role that the provider takes away
	// counts until then. Default and maximum 8 h.
	Session time.Duration
	// HTTP makes the requests to the provider. Default: a client with a limit of 10 s.
	HTTP *http.Client
}

// Rule gives a role to those whose claim has a value: is it, or is a list that has it.
type Rule struct {
	Claim, Value string
	Role         access.Role
	// Workflows and Named limit it as in access.Identity.
	Workflows, Named []string
}

// Provider is an access.Authenticator and an access.Browser. Make one with New. Safe for
// concurrent use.
type Provider struct {
	config   Config
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	seal     cipher.AEAD
	now      func() time.Time
}

const (
	maxSession = 8 * time.Hour
	loginTime  = 10 * time.Minute
	// prefix begins the tokens of sessions.
	prefix = "oidc_"
	// maxToken bounds the token of a session, which stands in a cookie.
	maxToken = 2500
)

// New reads the provider's configuration. Everything that is wrong with the Config is
// reported at once, wrapping store.ErrInvalid; another error says that the provider does not
// answer as one.
func New(ctx context.Context, c Config) (*Provider, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: 10 * time.Second}
	}
	if c.Session == 0 {
		c.Session = maxSession
	}
	if c.NameClaim == "" {
		c.NameClaim = "email"
	}
	if c.Scopes == nil {
		c.Scopes = []string{"profile", "email"}
	}
	issuer, err := url.Parse(c.Issuer)
	if err != nil {
		return nil, err
	}
	if c.Title == "" {
		c.Title = issuer.Host
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, c.HTTP), c.Issuer)
	if err != nil {
		return nil, fmt.Errorf("identity provider %s: %w", c.Issuer, err)
	}
	p := &Provider{
		config: c, now: time.Now,
		oauth: oauth2.Config{
			ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: c.RedirectURL,
			Scopes: append([]string{oidc.ScopeOpenID}, c.Scopes...),
		},
		// The audience is looked at below, as there may be several.
		verifier: found.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), c.HTTP),
			&oidc.Config{SkipClientIDCheck: true, Now: func() time.Time { return time.Now() }}),
	}
	// Servers with the same secret know each other's sessions.
	secret := []byte(c.ClientSecret)
	if len(secret) == 0 {
		secret = []byte(rand.Text())
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "stet session\x00%s\x00%s", c.Issuer, c.ClientID)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	p.seal, err = cipher.NewGCM(block)
	return p, err
}

func (c *Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("oidc: "+format+": %w", append(args, store.ErrInvalid)...))
	}
	for name, address := range map[string]string{"Issuer": c.Issuer, "RedirectURL": c.RedirectURL} {
		if address == "" && name == "RedirectURL" {
			continue
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
			bad("field %s: expected https://HOST, or http at a loopback address, found %q", name, address)
		}
	}
	if c.RedirectURL != "" && !strings.HasSuffix(c.RedirectURL, "/api/v1/login/callback") {
		bad("field RedirectURL: expected the dashboard's address and api/v1/login/callback, found %q", c.RedirectURL)
	}
	if c.ClientID == "" {
		bad("field ClientID: expected that of the application at the provider, found none")
	}
	if len(c.Roles) == 0 {
		bad("field Roles: expected a rule at least, found none: nobody could log in")
	}
	for i, r := range c.Roles {
		if _, err := access.ParseRole(string(r.Role)); err != nil || r.Claim == "" || r.Value == "" {
			bad("field Roles: rule %d: expected a claim, a value and a role, found %+v", i, r)
		}
	}
	if c.Session < 0 || c.Session > maxSession {
		bad("field Session: expected up to %s, found %s", maxSession, c.Session)
	}
	return errors.Join(problems...)
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// Title implements access.Browser.
func (p *Provider) Title() string {
	if p.config.RedirectURL == "" {
		return ""
	}
	return p.config.Title
}

// login is what a browser's cookie keeps while its person is at the provider.
type login struct {
	State, Nonce, Verifier string
	Until                  time.Time
}

// session is what the token of a session says.
type session struct {
	Name             string
	Role             access.Role
	Workflows, Named []string `json:",omitempty"`
	Until            time.Time
}

// sealed returns a value as a text that this server alone can read and make; what keeps
// values of one kind apart from another's.
func (p *Provider) sealed(kind string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, p.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(p.seal.Seal(nonce, nonce, plain, []byte(kind))), nil
}

// opened is the inverse of sealed. The error wraps access.ErrDenied.
func (p *Provider) opened(kind, text string, into any) error {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err == nil && len(data) < p.seal.NonceSize() {
		err = errors.New("too short")
	}
	if err == nil {
		data, err = p.seal.Open(nil, data[:p.seal.NonceSize()], data[p.seal.NonceSize():], []byte(kind))
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return denied("%s: not made by this server, or by one with the same secret", kind)
	}
	return nil
}

func denied(format string, args ...any) error {
	return fmt.Errorf("oidc: "+format+": %w", append(args, access.ErrDenied)...)
}

// Begin implements access.Browser.
func (p *Provider) Begin(context.Context) (address, state string, err error) {
	if p.config.RedirectURL == "" {
		return "", "", fmt.Errorf("oidc: browsers cannot log in: Config.RedirectURL is not set: %w", store.ErrInvalid)
	}
	l := login{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), p.now().Add(loginTime)}
	if state, err = p.sealed("login", l); err != nil {
		return "", "", err
	}
	return p.oauth.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)), state, nil
}

// Finish implements access.Browser.
func (p *Provider) Finish(ctx context.Context, state string, answer url.Values) (token string, err error) {
	var l login
	if err := p.opened("login", state, &l); err != nil {
		return "", err
	}
	switch {
	case !p.now().Before(l.Until):
		return "", denied("the login has taken more than %s", loginTime)
	case len(answer["state"]) != 1 || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(l.State)) == 0:
		return "", denied("the browser returns from another login than it has begun")
	case answer.Has("iss") && answer.Get("iss") != p.config.Issuer:
		return "", denied("the browser returns from another provider, %.100q", answer.Get("iss"))
	case answer.Has("error"):
		return "", denied("the provider says %.100q", answer.Get("error"))
	case len(answer["code"]) != 1 || answer.Get("code") == "":
		return "", denied("expected one code, found %d", len(answer["code"]))
	}
	given, err := p.oauth.Exchange(oidc.ClientContext(ctx, p.config.HTTP), answer.Get("code"),
		oauth2.VerifierOption(l.Verifier))
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) && refused.Response.StatusCode < 500 {
		return "", denied("the provider refuses the code: %.100q", refused.ErrorCode)
	}
	if err != nil {
		return "", fmt.Errorf("oidc: a token for the code: %w", err)
	}
	raw, _ := given.Extra("id_token").(string)
	id, err := p.verified(ctx, raw, []string{p.config.ClientID})
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.Nonce)) == 0 {
		return "", denied("the ID token is of another login")
	}
	who, err := p.identity(id)
	if err != nil {
		return "", err
	}
	text, err := p.sealed("session", session{who.Name, who.Role, who.Workflows, who.Named, p.now().Add(p.config.Session)})
	if err == nil && len(prefix+text) > maxToken {
		err = fmt.Errorf("oidc: the limit of %s is too long for a cookie: name fewer workflows: %w", who.Name,
			store.ErrInvalid)
	}
	return prefix + text, err
}

// verified returns an ID token whose signature, issuer, times and audience are right.
func (p *Provider) verified(ctx context.Context, raw string, audiences []string) (*oidc.IDToken, error) {
	id, err := p.verifier.Verify(oidc.ClientContext(ctx, p.config.HTTP), raw)
	if err != nil {
		// A provider that is away looks the same as a bad signature: neither lets anybody in.
		return nil, denied("ID token: %v", err)
	}
	if !slices.ContainsFunc(id.Audience, func(a string) bool { return slices.Contains(audiences, a) }) {
		return nil, denied("ID token: it is for %.100q, and not for this server", id.Audience)
	}
	var party struct {
		Azp string `json:"azp"`
	}
	if err := id.Claims(&party); err != nil {
		return nil, denied("ID token: %v", err)
	}
	if party.Azp != "" && !slices.Contains(audiences, party.Azp) {
		return nil, denied("ID token: it was issued to %.100q", party.Azp)
	}
	return id, nil
}

// identity returns who an ID token stands for, and what the rules give.
func (p *Provider) identity(id *oidc.IDToken) (*access.Identity, error) {
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, denied("ID token: %v", err)
	}
	name, ok := claims[p.config.NameClaim].(string)
	if !ok || name == "" {
		return nil, denied("ID token: expected a text in the claim %s, found none", p.config.NameClaim)
	}
	if p.config.NameClaim == "email" && claims["email_verified"] != true {
		return nil, denied("ID token: the provider has not verified the address %.100q", name)
	}
	for _, r := range p.config.Roles {
		if !has(claims[r.Claim], r.Value) {
			continue
		}
		who := &access.Identity{Name: name, Role: r.Role, Workflows: r.Workflows, Named: r.Named, Until: id.Expiry}
		if err := who.Check(); err != nil {
			return nil, denied("%v", err)
		}
		return who, nil
	}
	return nil, denied("no rule gives %.100q a role", name)
}

// has reports whether a claim is a value, or a list that has it.
func has(claim any, value string) bool {
	switch c := claim.(type) {
	case string:
		return c == value
	case []any:
		return slices.ContainsFunc(c, func(one any) bool { return one == any(value) })
	}
	return false
}

// Authenticate implements access.Authenticator: it knows the tokens of its sessions, and ID
// tokens of the provider. Tokens of other kinds and of other issuers are for others.
func (p *Provider) Authenticate(r *http.Request) (*access.Identity, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return nil, nil
	}
	token = strings.TrimSpace(token)
	if text, ours := strings.CutPrefix(token, prefix); ours {
		var s session
		if err := p.opened("session", text, &s); err != nil {
			return nil, err
		}
		if !p.now().Before(s.Until) {
			return nil, denied("the session of %s is over", s.Name)
		}
		return &access.Identity{Name: s.Name, Role: s.Role, Workflows: s.Workflows, Named: s.Named, Until: s.Until}, nil
	}
	if !issuedBy(token, p.config.Issuer) {
		return nil, nil
	}
	id, err := p.verified(r.Context(), token, append([]string{p.config.ClientID}, p.config.Audiences...))
	if err != nil {
		return nil, err
	}
	return p.identity(id)
}

// issuedBy reports whether a token looks like a JWT of an issuer; nothing of it is believed.
func issuedBy(token, issuer string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Iss string `json:"iss"`
	}
	return err == nil && json.Unmarshal(data, &claims) == nil && claims.Iss == issuer
}
