package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/resources"
	"github.com/stet-run/stet/server/internal/view"
)

// securityPolicy lets a page of ours load what comes from the same origin, and nothing else;
// no markup can be made from text.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// callKey is the key of the call in a request's context.
type callKey struct{}

func callOf(r *http.Request) *endpoint.Call { return r.Context().Value(callKey{}).(*endpoint.Call) }

// ServeHTTP implements http.Handler, with deadlines for the client.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) { withDeadlines(w, r, s.serve) }

// serve does for every request, whatever its path, what comes before it is known who makes it.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	rec := &recorder{ResponseWriter: w}
	c := &endpoint.Call{Writer: rec, RequestID: rand.Text(), Log: s.log}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	c.Request = r
	c.MaxBody = int64(s.options.MaxValue) + beside
	header := rec.Header()
	header.Set("X-Request-Id", c.RequestID)
	header.Set("Content-Security-Policy", securityPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.log.Error("a request to the server has panicked", "request", c.RequestID, "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			if rec.status == 0 {
				c.Problem(&endpoint.Error{Code: api.CodeInternal})
			}
		}
		s.logRequest(c, rec, time.Since(begun))
	}()
	if err := s.admissible(r); err != nil {
		c.Problem(err)
		return
	}
	s.mux.ServeHTTP(rec, r)
}

// logRequest writes the line of a request.
func (s *server) logRequest(c *endpoint.Call, rec *recorder, took time.Duration) {
	if seen := s.options.Requested; seen != nil {
		route := c.Request.Pattern
		if _, path, found := strings.Cut(route, " "); found {
			route = path
		}
		seen(c.Request.Method, route, rec.status, took)
	}
	who := ""
	if c.Who != nil {
		who = c.Who.Name
	}
	s.log.Info("request", "method", c.Request.Method, "route", c.Request.Pattern, "status", rec.status,
		"ms", took.Milliseconds(), "identity", who, "request", c.RequestID)
}

// admissible returns why a request is refused whoever makes it.
func (s *server) admissible(r *http.Request) error {
	if err := s.checkHost(r); err != nil {
		return err
	}
	if err := s.crossSite.Check(r); err != nil {
		return &endpoint.Error{Code: api.CodeCrossSite, Detail: "the request comes from another site: " + err.Error()}
	}
	if r.Header.Get("Content-Encoding") != "" {
		return &endpoint.Error{Code: api.CodeMediaType, Detail: "expected a body without Content-Encoding"}
	}
	return nil
}

// checkHost refuses a request that arrives at a loopback address under the name of a host
// that is none of ours: a page has made the name point there.
func (s *server) checkHost(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil // it did not arrive by a socket
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	if strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback() ||
		slices.ContainsFunc(s.options.Hosts, func(known string) bool { return strings.EqualFold(known, host) }) {
		return nil
	}
	return &endpoint.Error{Code: api.CodeHost, Detail: "this address is served as localhost; a name that a proxy uses " +
		"must be one of Options.Hosts"}
}

// endpoint serves a row of the table: nothing of it runs before the identity is known and
// has the right.
func (s *server) endpoint(e *endpoint.Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		c.Request = r
		if err := s.authorize(c, e); err != nil {
			c.Problem(err)
			return
		}
		if !e.Long {
			ctx, cancel := context.WithTimeout(r.Context(), callTime(e))
			defer cancel()
			c.Request = r.WithContext(ctx)
		}
		if e.Heavy {
			c.Enter = s.enterHeavy
		}
		if err := e.Serve(c); err != nil {
			c.Problem(err)
		}
	})
}

// enterHeavy waits for a slot for requests that read much of the store. leave gives it back.
func (s *server) enterHeavy(c *endpoint.Call) (leave func(), err error) {
	if leave = s.heavy.Enter(c.Request.Context(), c.Who.Name); leave == nil {
		return nil, &endpoint.Error{Code: api.CodeBusy,
			Detail: "the server reads as many lists as it may, in all or for one identity", Wait: 2}
	}
	return leave, nil
}

// callTime bounds an endpoint that neither waits nor streams.
func callTime(e *endpoint.Endpoint) time.Duration {
	if e.Method == http.MethodGet {
		return queryTime
	}
	return 30 * time.Second
}

// authorize finds out who calls, and refuses an endpoint that the identity has no right to.
func (s *server) authorize(c *endpoint.Call, e *endpoint.Endpoint) error {
	if e.Path == resources.HookPath && e.Right == access.Public {
		return s.bySignature(c)
	}
	if e.Right == access.Public {
		return nil
	}
	if s.options.OpenPromises && opensByToken(c.Request, e) {
		return s.byToken(c)
	}
	who, err := s.identify(c.Request)
	if err != nil {
		return err
	}
	if err := s.admit(who.Name); err != nil {
		return err
	}
	if who, err = acting(c.Request, who); err != nil {
		return err
	}
	c.Who = who
	if !who.Role.May(e.Right) {
		return &endpoint.Error{Code: api.CodeForbidden, Detail: fmt.Sprintf("the role %s has not the right %s",
			who.Role, e.Right)}
	}
	c.View = view.New(s.engine, who, s.options.Redact)
	s.admitted(c)
	return nil
}

// admitted says that a request may be served.
func (s *server) admitted(c *endpoint.Call) {
	if s.options.Admitted != nil {
		s.options.Admitted(c.Request.Context())
	}
}

// opensByToken reports whether a request without a credential is for an endpoint to which the
// token of a promise may be the only one.
func opensByToken(r *http.Request, e *endpoint.Endpoint) bool {
	return (e.Path == "promises/resolve" || e.Path == "promises/reject") && r.Header.Get("Authorization") == "" &&
		len(r.Cookies()) == 0 && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0)
}

// bySignature lets the call of a webhook go on, whose signature the endpoint looks at. It is made
// in the name of the webhook, which has the rate of one identity.
func (s *server) bySignature(c *endpoint.Call) error {
	name, err := api.ParseUnescaped(c.Request.PathValue("name"))
	c.Who = &access.Identity{Name: "hook:" + name, Role: access.Caller}
	if err != nil || c.Who.Check() != nil {
		return &endpoint.Error{Code: "not_found", Detail: "there is no such webhook"}
	}
	c.View = view.New(s.engine, c.Who, s.options.Redact)
	return nil
}

// signed counts the call of a webhook whose signature is good.
func (s *server) signed(c *endpoint.Call) error {
	if err := s.admit(c.Who.Name); err != nil {
		return err
	}
	s.admitted(c)
	return nil
}

// unsigned counts the call of a webhook whose signature is wrong, and returns the refusal.
func (s *server) unsigned(c *endpoint.Call, why error) error {
	return s.refuse(c.Request, c.Who.Name, why.Error(), "a call of a webhook was refused",
		fmt.Errorf("%s: %w", c.Who.Name, why))
}

// byToken lets a call go on whose only credential is the token in its body.
func (s *server) byToken(c *endpoint.Call) error {
	from := "by token from " + addressOf(c.Request)
	if err := s.admit(from); err != nil {
		return err
	}
	c.Who = &access.Identity{Name: from, Role: access.Caller}
	c.View = view.New(s.engine, c.Who, s.options.Redact)
	return nil
}

// acting returns who acts: the identity, or mcp:NAME if a program of agents acts for it and
// says so. It has the same rights; audits and headers say what acted.
func acting(r *http.Request, who *access.Identity) (*access.Identity, error) {
	switch via := r.Header.Values(api.ViaHeader); {
	case len(via) == 0:
		return who, nil
	case len(via) > 1 || via[0] != api.ViaMCP:
		return nil, &endpoint.Error{Code: "invalid", Detail: fmt.Sprintf("header %s: expected %s, found %.100q",
			api.ViaHeader, api.ViaMCP, via)}
	}
	named := *who
	named.Name = api.ViaMCP + ":" + who.Name
	if err := named.Check(); err != nil {
		return nil, err
	}
	return &named, nil
}

// again looks at the credential of a call that goes on: it may be revoked, or over.
func (s *server) again(c *endpoint.Call) error {
	who, err := s.identify(c.Request)
	if err == nil {
		who, err = acting(c.Request, who)
	}
	if err != nil {
		return err
	}
	if who.Name != c.Who.Name || who.Role != c.Who.Role || !slices.Equal(who.Workflows, c.Who.Workflows) ||
		!slices.Equal(who.Named, c.Who.Named) {
		return &endpoint.Error{Code: api.CodeForbidden, Detail: "the identity has other rights than before"}
	}
	return nil
}

// identify asks the authenticators who makes a request.
func (s *server) identify(r *http.Request) (*access.Identity, error) {
	asked := r
	denied := func(err error) error {
		return s.refuse(asked, credentialOf(asked), "the credential is not valid", "a credential was refused", err)
	}
	r, err := s.session(r)
	if err != nil {
		return nil, denied(err)
	}
	for _, a := range s.options.Access {
		who, err := a.Authenticate(r)
		switch {
		case errors.Is(err, access.ErrDenied):
			return nil, denied(err)
		case err != nil:
			return nil, fmt.Errorf("authenticate: %w", err)
		case who == nil:
			continue
		}
		if err := who.Check(); err != nil {
			s.log.Error("an authenticator has returned no valid identity", "error", err)
			return nil, &endpoint.Error{Code: api.CodeUnauthenticated, Detail: "the credential is not valid"}
		}
		return who, nil
	}
	return nil, &endpoint.Error{Code: api.CodeUnauthenticated, Detail: "expected a credential, found none"}
}

// addressOf returns the address from which a request comes, without the port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// assets serves the files of the dashboard, which tell nothing of the store.
func (s *server) assets(files fs.FS) http.Handler {
	content := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.problem([]string{http.MethodGet, http.MethodHead}).ServeHTTP(w, r)
			return
		}
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if name == "" || name == "." {
			name = "index.html"
		}
		info, err := fs.Stat(files, name)
		if err != nil || info.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			s.problem(nil).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		content.ServeHTTP(w, r)
	})
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController find what is behind.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
