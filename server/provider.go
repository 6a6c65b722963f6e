package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
)

// A person may log in elsewhere, at an identity provider: the server sends the browser
// there, with a state in a cookie, and changes what it returns with for a session.

const (
	stateCookie = "stet_login"
	stateTime   = 10 * time.Minute
	// dashboard is where the dashboard is, from the address to which a browser returns.
	dashboard = "../../../"
)

// provider returns the first authenticator at which a browser logs in, or nil.
func (s *server) provider() access.Browser {
	for _, a := range s.options.Access {
		if b, ok := a.(access.Browser); ok {
			return b
		}
	}
	return nil
}

// ways says how to log in.
func (s *server) ways() *api.Ways {
	ways := &api.Ways{Token: true}
	if b := s.provider(); b != nil {
		ways.Provider = b.Title()
	}
	return ways
}

// stateOf returns the cookie of a login under way; of "", one that takes it away. It is sent
// with a navigation from another site, which is how a browser returns.
func (s *server) stateOf(r *http.Request, state string) *http.Cookie {
	name, life := stateCookie, int(stateTime.Seconds())
	if s.secure(r) {
		name = "__Host-" + name
	}
	if state == "" {
		life = -1
	}
	return &http.Cookie{Name: name, Value: state, Path: "/", MaxAge: life, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: s.secure(r)}
}

// elsewhere sends a browser to the identity provider.
func (s *server) elsewhere(ctx context.Context, c *endpoint.Call) error {
	b := s.provider()
	if b == nil {
		return &endpoint.Error{Code: api.CodeNoEndpoint, Detail: "this server has no identity provider"}
	}
	address, state, err := b.Begin(ctx)
	if err != nil {
		return fmt.Errorf("log in at the identity provider: %w", err)
	}
	http.SetCookie(c.Writer, s.stateOf(c.Request, state))
	redirect(c, address)
	return nil
}

// The routes of the dashboard's page for a login that did not come about.
const (
	refusedRoute = "#/refused"
	awayRoute    = "#/provider-away"
)

// returned begins the session of a browser that comes from the identity provider. A person who is
// refused reads why on the page on which the login began; a program gets the problem itself.
func (s *server) returned(ctx context.Context, c *endpoint.Call, answer url.Values) error {
	err := s.finish(ctx, c, answer)
	if err == nil || !strings.Contains(c.Request.Header.Get("Accept"), "text/html") {
		return err
	}
	route := refusedRoute
	if refusal := (*endpoint.Error)(nil); !errors.As(err, &refusal) {
		s.log.Error("a login at the identity provider has failed", "request", c.RequestID, "error", err)
		route = awayRoute
	}
	redirect(c, dashboard+route)
	return nil
}

func (s *server) finish(ctx context.Context, c *endpoint.Call, answer url.Values) error {
	b := s.provider()
	if b == nil {
		return &endpoint.Error{Code: api.CodeNoEndpoint, Detail: "this server has no identity provider"}
	}
	gone := s.stateOf(c.Request, "")
	http.SetCookie(c.Writer, gone) // it is good for one return
	state, err := c.Request.Cookie(gone.Name)
	if err != nil || state.Value == "" {
		return &endpoint.Error{Code: api.CodeUnauthenticated, Detail: "this browser has not begun to log in here, or more " +
			"than 10 minutes ago: begin again"}
	}
	token, err := b.Finish(ctx, state.Value, answer)
	if errors.Is(err, access.ErrDenied) {
		return s.refuse(c.Request, state.Value, "the identity provider has not confirmed who this is, or nobody has given "+
			"this account a role", "a login was refused", err)
	}
	if err != nil {
		return fmt.Errorf("log in at the identity provider: %w", err)
	}
	if _, err := s.begin(c, token); err != nil {
		return err
	}
	redirect(c, dashboard)
	return nil
}

// redirect sends a browser on. The address may be relative: http.Redirect would resolve it
// without the prefix under which the server is mounted.
func redirect(c *endpoint.Call, address string) {
	c.Writer.Header().Set("Location", address)
	c.Writer.WriteHeader(http.StatusSeeOther)
}
