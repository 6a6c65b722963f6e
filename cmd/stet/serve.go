package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/cmd/stet/internal/toolbox"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	address, cert, key string
	networks, hosts    []string
	links              []string
	agents             mcpFlags
	people             oidcFlags
	scripts            bool // the engine runs, and executes scripts
	isolate            bool // scripts execute in child processes
	promises           bool // their tokens are enough to assign them

	// beside returns what is served beside the API, by path; nil: nothing. listening is
	// called when the address was printed; nil: nothing is. listens says that it was.
	beside    func(api http.Handler) map[string]http.Handler
	listening func()
	listens   bool
}

func (ac adminCommands) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve the dashboard and the HTTP API of the store",
		Long: `Serves the dashboard and the HTTP API of the store until it is interrupted, and prints
the address to open: it holds a token that is good for one login. Other clients take a
token that stet token create has made.

It executes no workflows, but with --scripts those of the store's scripts, whose tasks are
executed by workers over HTTP. While no application works on the store it carries out what
needs no code, as the other commands do.

At another address than a loopback one it needs --tls-cert and --tls-key, or
--behind-proxy with the networks from which the proxy that has TLS calls, and a token in
the store or an identity provider: --oidc-issuer with --oidc-client and --oidc-role; the
client's secret is in STET_OIDC_SECRET.

Agents are served at /mcp, by the Model Context Protocol over HTTP, with the identities and
the rights of the API: they read, and change what --mcp-allow names. See stet mcp.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.scripts {
				if err := ac.executeScripts(f.isolate); err != nil {
					return err
				}
			}
			return ac.with(cmd.Context(), func(e *stet.Engine, s store.Store) error {
				return ac.serve(cmd.Context(), e, s, &f)
			})
		},
	}
	cmd.Flags().StringVar(&f.address, "addr", "127.0.0.1:8338", "listen at this `address`; port 0: a free one")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "`file` with the certificate, for TLS")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "`file` with its key")
	cmd.Flags().StringArrayVar(&f.links, "link", nil, "a link on the page of each run, as `NAME=ADDRESS`; {id}, "+
		"{workflow}, {trace}, {started} and {ended} stand for what they say of it; may be repeated")
	cmd.Flags().StringSliceVar(&f.networks, "behind-proxy", nil,
		"a proxy with TLS calls from these `networks`, like 10.0.0.0/8; others are refused")
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil, "`names` under which a proxy on this machine calls")
	cmd.Flags().BoolVar(&f.scripts, "scripts", false, "execute the runs of the store's scripts")
	f.isolateFlag(cmd)
	cmd.Flags().BoolVar(&f.promises, "open-promises", false,
		"whoever has the token of a promise may assign it, without an access token")
	f.agents.add(cmd, "mcp-", toolbox.Token)
	f.people.add(cmd)
	return cmd
}

func (f *serveFlags) isolateFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.isolate, "isolate-scripts", false,
		"execute the code of scripts in child processes, which end with code that nothing else stops")
}

// executeScripts gives the engine the scripts of the store.
func (ac adminCommands) executeScripts(isolated bool) error {
	lib, err := script.Open(script.Config{Isolated: isolated})
	ac.library = lib
	return err
}

// serve serves until ctx ends.
func (ac adminCommands) serve(ctx context.Context, e *stet.Engine, s store.Store, f *serveFlags) (err error) {
	networks, err := f.check()
	if err != nil {
		return err
	}
	box, err := f.agents.box(ac.err)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.address)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := listener.Close(); err == nil && !errors.Is(closeErr, net.ErrClosed) {
			err = closeErr
		}
	}()
	access, once, err := f.access(ctx, e, listener.Addr())
	if err != nil {
		return err
	}
	// It can replay scripts that it does not execute.
	places, err := script.Open(script.Config{Replay: true, Isolated: f.isolate})
	if err != nil {
		return err
	}
	links, err := f.linksOf()
	if err != nil {
		return err
	}
	decider := &decider{engine: e, store: s, log: ac.log, execute: f.scripts}
	handler, err := server.New(e, server.Options{
		Admitted: decider.admitted,
		Access:   access, Hosts: f.hosts, BehindTLS: len(f.networks) > 0, Logger: ac.log, OpenPromises: f.promises,
		Scripts: places, Links: links,
	})
	if err != nil {
		return err
	}
	handler = decider.serving(handler)
	if f.scripts {
		decider.begin()
	}
	others := map[string]http.Handler{}
	if f.beside != nil {
		others = f.beside(handler)
	}
	others["/mcp"] = box.Handler(handler)
	web := &http.Server{
		Handler:           onlyFrom(networks, server.Deadlines(byPath(others, handler))),
		ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(ac.log.Handler(), slog.LevelError),
	}
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	address := scheme + "://" + reachable(listener.Addr()) + "/"
	if once != "" {
		address += "#token=" + once
	}
	ac.say("the dashboard is at")
	fmt.Fprintln(ac.out, address)
	if f.listening != nil {
		f.listens = true
		f.listening()
	}
	ended := make(chan error, 1)
	go func() {
		if f.cert != "" {
			ended <- web.ServeTLS(listener, f.cert, f.key)
		} else {
			ended <- web.Serve(listener)
		}
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = web.Shutdown(closing)
		if errors.Is(err, context.DeadlineExceeded) {
			err = web.Close() // streams that their readers keep open
		}
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	if f.scripts {
		decider.end()
	}
	decider.wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// check returns the networks of the proxy, and what is wrong with the flags.
func (f *serveFlags) check() ([]netip.Prefix, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, usage(errors.New("expected --tls-cert and --tls-key, found one of them"))
	}
	var networks []netip.Prefix
	for _, text := range f.networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usage(fmt.Errorf("--behind-proxy: expected networks like 10.0.0.0/8, found %q", text))
		}
		networks = append(networks, network)
	}
	host, _, err := net.SplitHostPort(f.address)
	if err != nil {
		return nil, usage(fmt.Errorf("--addr: expected HOST:PORT, found %q", f.address))
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && f.cert == "" && len(networks) == 0 {
		return nil, usage(fmt.Errorf("--addr: %s can be reached from elsewhere, and a token would cross the network in "+
			"plain text: give --tls-cert and --tls-key, or --behind-proxy", f.address))
	}
	return networks, nil
}

// access returns who may call: tokens of the store and, at a loopback address, the one that
// is printed, for the user who has started the server.
func (f *serveFlags) access(
	ctx context.Context, e *stet.Engine, at net.Addr,
) (list []access.Authenticator, once string, err error) {
	list = []access.Authenticator{server.Tokens(e)}
	provider, err := f.people.provider(ctx)
	if err != nil {
		return nil, "", err
	}
	if provider != nil {
		list = append(list, provider)
	}
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsLoopback() && len(f.networks) == 0 {
		first := server.NewOneTime(localUser())
		return append(list, first), first.Token(), nil
	}
	tokens, err := stet.TokensOf(e).List(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(tokens) == 0 && provider == nil {
		return nil, "", usage(errors.New("nobody could log in: make a token with stet token create first, or name an " +
			"identity provider with --oidc-issuer"))
	}
	return list, "", nil
}

// byPath returns a handler that serves exact paths, and all else as rest does. It is no
// http.ServeMux, which would clean the paths of the API.
func byPath(handlers map[string]http.Handler, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := handlers[r.URL.Path]
		if h == nil {
			h = rest
		}
		h.ServeHTTP(w, r)
	})
}

// localUser returns the user who has started this process, who may do everything.
func localUser() access.Identity {
	who := access.Identity{Name: "local", Role: access.Administrator}
	if u, err := user.Current(); err == nil && store.CheckRunID(u.Username) == nil {
		who.Name = u.Username
	}
	return who
}

// linksOf returns the links of --link.
func (f *serveFlags) linksOf() (links []api.Link, err error) {
	for _, text := range f.links {
		name, address, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usage(fmt.Errorf("--link: expected NAME=ADDRESS, found %q", text))
		}
		links = append(links, api.Link{Name: name, URL: address})
	}
	return links, nil
}

// forProbes are the paths that an orchestrator asks for by itself, and not by the proxy. They need no
// credential and tell nothing but a status.
var forProbes = []string{"/api/v1/health/live", "/api/v1/health/ready"}

// onlyFrom refuses requests from elsewhere than the networks, but those of probes; without networks
// it refuses none.
func onlyFrom(networks []netip.Prefix, h http.Handler) http.Handler {
	if len(networks) == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(forProbes, r.URL.Path) {
			h.ServeHTTP(w, r)
			return
		}
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		for _, network := range networks {
			if err == nil && network.Contains(from.Addr().Unmap().WithZone("")) {
				h.ServeHTTP(w, r)
				return
			}
		}
		http.Error(w, "this server is for its proxy", http.StatusForbidden)
	})
}

// decider runs the engine while requests are under way that change something, so that what
// needs no code is carried out although no application works on the store.
type decider struct {
	engine *stet.Engine
	store  store.Store
	log    *slog.Logger

	execute bool // the engine works as an application does, and does not give way to one

	mu    sync.Mutex
	acts  int
	stop  context.CancelFunc // of the engine that runs; nil: none does
	ended chan struct{}      // is closed when it has ended
}

// holdKey is the key of the hold in a request's context.
type holdKey struct{}

// hold keeps the engine under way for one request, from the time at which it is admitted.
type hold struct {
	admitted sync.Once
	held     bool
}

// serving calls the handler, and lets admitted begin the engine for requests that may change
// something: until they have been served.
func (d *decider) serving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			held := &hold{}
			defer func() {
				if held.held {
					d.end()
				}
			}()
			r = r.WithContext(context.WithValue(r.Context(), holdKey{}, held))
		}
		h.ServeHTTP(w, r)
	})
}

// admitted begins the engine for a request whose credential is good. It is server.Options.Admitted.
func (d *decider) admitted(ctx context.Context) {
	if held, ok := ctx.Value(holdKey{}).(*hold); ok {
		held.admitted.Do(func() {
			d.begin()
			held.held = true
		})
	}
}

// around calls the handler for callers that are trusted, with the engine under way if the request
// may change something.
func (d *decider) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			d.begin()
			defer d.end()
		}
		h.ServeHTTP(w, r)
	})
}

func (d *decider) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.acts++; d.acts > 1 {
		return
	}
	if d.ended != nil {
		<-d.ended // an engine runs once at a time
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d.stop, d.ended = stop, ended
	go func() {
		defer close(ended)
		work := decide
		if d.execute {
			work = func(ctx context.Context, e *stet.Engine, _ store.Store) error { return e.Run(ctx) }
		}
		if err := work(ctx, d.engine, d.store); err != nil {
			d.log.Error("what needs no code could not be carried out", "error", err)
		}
	}()
}

func (d *decider) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.acts--; d.acts == 0 {
		d.stop()
	}
}

// wait waits until no engine runs, and the last request is over for which one does.
func (d *decider) wait() {
	d.mu.Lock()
	ended := d.ended
	d.mu.Unlock() // the end of a request takes it, and stops the engine
	if ended != nil {
		<-ended
	}
}

// reachable returns the address at which a browser on this machine finds a listener. One that listens on all addresses
// is found on the loopback.
func reachable(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil || !at.Addr().IsUnspecified() {
		return addr.String()
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
}
