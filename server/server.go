// Package server serves the HTTP API and the dashboard of an engine's store, as an
// http.Handler that an application mounts where it likes:
//
//	h, err := server.New(engine, server.Options{Access: []access.Authenticator{server.Tokens(engine)}})
//	…
//	mux.Handle("/ops/stet/", http.StripPrefix("/ops/stet", h))
//
// It needs no prefix to be told: its links are relative. Nothing is served without somebody
// who says who may: New fails without Options.Access.
//
// The endpoints stand in one table. Each has the right that it needs, and one function does
// for all of them what must never be forgotten: the host, the site from which a request
// comes, the credential, the right, the limits of requests and bodies, the headers of
// answers, and errors as problems with stable codes.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/live"
	"github.com/stet-run/stet/server/internal/resources"
	"github.com/stet-run/stet/server/ui"
)

// Options say how a store is served. Only Access is needed.
type Options struct {
	// Access says who may call, asked in order: the first one that knows a credential of the
	// request decides. There is no default, and no anonymous identity.
	Access []access.Authenticator
	// Hosts are the names, without ports, under which the server is reached at a loopback
	// address beside localhost and loopback addresses themselves: that of a proxy on the same
	// machine, for example. Requests that arrive there with another name are refused, so that
	// no page of a foreign site can reach the server by a name that it makes point here.
	Hosts []string
	// Redact edits each value before it is shown to those who may see values: the workflow,
	// the place (run, entry, inbox, message, value, stream, event, letter, schedule) and the
	// value as JSON. It returns what is shown, which must be JSON. It must be safe for
	// concurrent use. nil: values are shown as they are.
	Redact func(workflow, place string, value json.RawMessage) json.RawMessage
	// Logger gets one line per request, with method, route, status, time and identity, and
	// errors of the server; never paths, queries, headers or bodies. Default: slog.Default().
	Logger *slog.Logger
	// BehindTLS says that clients reach the server by TLS at a proxy before it: cookies are
	// for TLS alone then. Without it they are if the server itself has TLS.
	BehindTLS bool
	// MaxValue bounds what a request may bring, in bytes, beside 64 KiB. It should be that
	// of stet.Config. Default 2 MiB.
	MaxValue int
	// Rate bounds the requests per second of one identity. Default 100; stet.None: without
	// limit.
	Rate int
	// OpenPromises lets promises be assigned by whoever has their token, without a credential:
	// for other services, to which a step gives the token. An address has Rate as one identity
	// has. A request that brings a credential needs its right all the same.
	OpenPromises bool
	// Scripts says where runs of scripts stand in their sources: a *script.Library does. nil: the
	// sources are shown without.
	Scripts interface {
		Places(ctx context.Context, e *stet.Engine, runID string) ([]stet.ScriptPlace, error)
	}
	// Links are shown on the page of a run, and lead to its logs and its trace, say: see api.Link
	// for what stands for what. Each is an http or https address. One with {trace} is left out for
	// a run that has none.
	Links []api.Link
	// Requested is called when a request has been answered, with its method, the pattern of
	// its route ("" if it was refused before one was found), the status and the time that it
	// took. Following is called with 1 when a follower of the stream of events begins, and with
	// -1 when it ends. Both must be quick and safe for concurrent use; nil: they are not called.
	// Those of prom.HTTP are the metrics stet_http_requests_total, stet_http_seconds and
	// stet_followers.
	Requested func(method, route string, status int, took time.Duration)
	Following func(change int)
	// Admitted is called with the context of a request before it is served, if its credential is
	// good and has the right that it needs, or it is the call of a webhook whose signature is good:
	// begin there what no stranger may begin. It is not called for what needs no credential, nor for
	// a promise that is assigned by its token alone. It must be safe for concurrent use; the request
	// waits for it. nil: it is not called.
	Admitted func(context.Context)
}

// New returns a handler for an engine's store. The engine need not run, nor have code: what
// must be decided by an owner is decided by the process that works on the store. Everything
// that is wrong with the options is reported at once, wrapping stet.ErrInvalid.
func New(engine *stet.Engine, o Options) (http.Handler, error) {
	if err := o.check(engine); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxValue == 0 {
		o.MaxValue = 2 << 20
	}
	if o.Rate == 0 {
		o.Rate = 100
	}
	s := &server{engine: engine, options: o, log: o.Logger,
		requests: newRates(float64(o.Rate), float64(o.Rate)), refusals: newRefusals(),
		heavy: endpoint.NewShares(maxHeavy), crossSite: http.NewCrossOriginProtection(),
	}
	rows := (&resources.Server{
		Engine: engine, Login: s.login, Logout: s.logout, Again: s.again,
		Refused: s.unsigned, Admit: s.signed, Live: live.New(engine),
		Scripts: o.Scripts, Links: o.Links, Following: o.Following,
		Ways: s.ways, Elsewhere: s.elsewhere, Returned: s.returned,
	}).Table()
	s.mux, s.table = routes(s, rows), rows
	return s, nil
}

func (o *Options) check(engine *stet.Engine) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format+": %w", append(args, stet.ErrInvalid)...))
	}
	if engine == nil {
		bad("engine: expected one, found nil")
	}
	if len(o.Access) == 0 {
		bad("field Access: expected one of server.Tokens, server.Proxy, server.ClientCert, server.Func, or an " +
			"authenticator of your own; found none")
	}
	for i, a := range o.Access {
		if a == nil {
			bad("field Access: authenticator %d is nil", i)
		}
	}
	if o.Rate < 0 && o.Rate != stet.None {
		bad("field Rate: expected a number of requests or stet.None, found %d", o.Rate)
	}
	if o.MaxValue < 0 {
		bad("field MaxValue: expected a number of bytes, found %d", o.MaxValue)
	}
	for _, link := range o.Links {
		if u, err := url.Parse(link.URL); err != nil || link.Name == "" || u.Host == "" ||
			u.Scheme != "http" && u.Scheme != "https" {
			bad("field Links: expected a name and an address that begins with https:// or http://, found %q, %q", link.Name,
				link.URL)
		}
	}
	for _, host := range o.Hosts {
		if host == "" || strings.ContainsAny(host, "/ ") {
			bad("field Hosts: expected names of hosts, found %q", host)
		}
	}
	return errors.Join(problems...)
}

// Func returns an authenticator that is a function: see access.Authenticator for what it
// returns.
func Func(f func(*http.Request) (*access.Identity, error)) access.Authenticator { return function(f) }

type function func(*http.Request) (*access.Identity, error)

func (f function) Authenticate(r *http.Request) (*access.Identity, error) { return f(r) }

// server is the handler.
type server struct {
	engine    *stet.Engine
	options   Options
	log       *slog.Logger
	table     []endpoint.Endpoint
	mux       *http.ServeMux
	requests  *rates // by the name of the identity
	refusals  *refusals
	heavy     *endpoint.Shares
	crossSite *http.CrossOriginProtection
}

// routes returns what serves which path: the endpoints of the table, the assets of the
// dashboard, and problems for everything else.
func routes(s *server, table []endpoint.Endpoint) *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for i := range table {
		e := &table[i]
		methods[e.Path] = append(methods[e.Path], e.Method)
		mux.Handle(e.Pattern(), s.endpoint(e))
	}
	for path, allowed := range methods {
		mux.Handle(endpoint.Base+path, s.problem(allowed))
	}
	mux.Handle(endpoint.Base, s.problem(nil))
	mux.Handle("/", s.assets(ui.Files()))
	return mux
}

// problem serves what has no endpoint: with the methods that the path has, or none.
func (s *server) problem(methods []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		c.Writer = w
		if len(methods) == 0 {
			c.Problem(&endpoint.Error{Code: api.CodeNoEndpoint, Detail: "there is nothing at this path"})
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		c.Problem(&endpoint.Error{Code: api.CodeMethod, Detail: "expected " + strings.Join(methods, " or ") +
			", found " + r.Method})
	})
}

const (
	// maxHeavy bounds the lists and counts that are read at the same time; an identity has half of them.
	maxHeavy = 4
	// queryTime bounds a read.
	queryTime = 5 * time.Second
	// beside is what a request may bring beside one value.
	beside = 64 << 10
)
