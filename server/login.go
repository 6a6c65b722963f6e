package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// A browser changes its token for a cookie, which no script can read. The cookie holds the
// token and the time until which it counts, with a MAC of that time whose key is the token:
// so each server of a store knows each cookie, a revoked token ends its sessions, and nobody
// can make a session longer.

const (
	sessionCookie = "stet_session"
	sessionTime   = 8 * time.Hour
)

// secure reports whether a request came by TLS, here or at a proxy.
func (s *server) secure(r *http.Request) bool { return r.TLS != nil || s.options.BehindTLS }

// cookieName returns the name of the cookie. It has the port, if the address has one: a browser sends the cookies of a
// host to all of its ports, and the session of one server is none of another.
func (s *server) cookieName(r *http.Request) string {
	name := sessionCookie
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			name += "_" + strconv.FormatUint(n, 10)
		}
	}
	if s.secure(r) {
		return "__Host-" + name
	}
	return name
}

// session returns a request with the token of its cookie as its Authorization, or the
// request as it is if it has none. A bad or an expired cookie is an access.ErrDenied.
func (s *server) session(r *http.Request) (*http.Request, error) {
	cookie, err := r.Cookie(s.cookieName(r))
	if err != nil || r.Header.Get("Authorization") != "" {
		return r, nil
	}
	token, until, err := openSession(cookie.Value)
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(until) {
		return nil, fmt.Errorf("session: over since %s: %w", until.UTC().Format(time.RFC3339), access.ErrDenied)
	}
	return withToken(r, token), nil
}

func withToken(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func sealSession(token string, until time.Time) string {
	seconds := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("session " + seconds))
	return base64.RawURLEncoding.EncodeToString([]byte(token)) + "." + seconds + "." +
		base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// openSession is the inverse of sealSession. The error wraps access.ErrDenied.
func openSession(cookie string) (token string, until time.Time, err error) {
	denied := fmt.Errorf("session: no cookie of ours: %w", access.ErrDenied)
	encoded, rest, _ := strings.Cut(cookie, ".")
	seconds, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(text) == 0 {
		return "", time.Time{}, denied
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", time.Time{}, denied
	}
	until = time.Unix(unix, 0)
	if !hmac.Equal([]byte(sealSession(string(text), until)), []byte(cookie)) {
		return "", time.Time{}, denied
	}
	return string(text), until, nil
}

// login changes a token for a cookie.
func (s *server) login(_ context.Context, c *endpoint.Call, token string) (*access.Identity, error) {
	if token == "" {
		return nil, &endpoint.Error{Code: api.CodeUnauthenticated, Detail: "expected a token, found none"}
	}
	for _, a := range s.options.Access {
		if once, ok := a.(*OneTime); ok {
			if session, ok := once.exchange(token); ok {
				token = session
			}
		}
	}
	return s.begin(c, token)
}

// begin begins a session for a token.
func (s *server) begin(c *endpoint.Call, token string) (*access.Identity, error) {
	who, err := s.identify(withToken(c.Request, token))
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(sessionTime)
	if !who.Until.IsZero() && who.Until.Before(until) {
		until = who.Until
	}
	http.SetCookie(c.Writer, &http.Cookie{
		Name: s.cookieName(c.Request), Value: sealSession(token, until), Path: "/", Expires: until,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure(c.Request),
	})
	s.note(c, "login", "session", stet.Act{By: who.Name})
	s.log.Info("a session has begun", "identity", who.Name, "until", until.UTC(), "request", c.RequestID)
	return who, nil
}

// note puts what somebody did into the store's own audit. What cannot be put there is in the
// log: it has happened.
func (s *server) note(c *endpoint.Call, verb, about string, act stet.Act) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), queryTime)
	defer cancel()
	if err := stet.AuditOf(s.engine).Note(ctx, verb, about, act); err != nil {
		s.log.Error("an act is missing in the store's audit", "verb", verb, "about", about, "by", act.By, "error", err)
	}
}

// logout takes the cookie away.
func (s *server) logout(c *endpoint.Call) {
	http.SetCookie(c.Writer, &http.Cookie{
		Name: s.cookieName(c.Request), Path: "/", MaxAge: -1,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure(c.Request),
	})
}

// OneTime is an authenticator of one person: a token that is good for one login, and the
// session that it begins. It is what stet serve prints. Make one with NewOneTime.
type OneTime struct {
	who     access.Identity
	token   string
	session string

	mu   sync.Mutex
	used bool
}

// oncePrefix begins the tokens of a OneTime.
const oncePrefix = "stet_once_"

// NewOneTime returns an authenticator for an identity.
func NewOneTime(who access.Identity) *OneTime {
	return &OneTime{who: who, token: oncePrefix + rand.Text(), session: oncePrefix + rand.Text() + rand.Text()}
}

// Token returns the token that the first login takes.
func (o *OneTime) Token() string { return o.token }

// exchange returns the token of the session, once.
func (o *OneTime) exchange(token string) (string, bool) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(o.token)) == 0 {
		return "", false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used {
		return "", false
	}
	o.used = true
	return o.session, true
}

// Authenticate implements access.Authenticator.
func (o *OneTime) Authenticate(r *http.Request) (*access.Identity, error) {
	token, ok := bearer(r)
	if !ok || !strings.HasPrefix(token, oncePrefix) {
		return nil, nil
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(o.session)) == 0 {
		return nil, errors.Join(errors.New("token: used already, or of another process"), access.ErrDenied)
	}
	who := o.who
	return &who, nil
}
