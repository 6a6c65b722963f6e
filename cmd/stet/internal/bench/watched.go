package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
)

// watchFollowers follow a run, or ten for each run of a smaller measurement than one of a hundred.
const watchFollowers = 1000

// measureWatched measures what it costs an engine to be looked at: the same runs with nobody at
// the server, with a person who has a run and a list open, and with a thousand followers. The
// four are measured in turns, and of each the best round counts, so that other work on the
// machine concerns all alike. Then it measures what an event costs, and how late it is.
func measureWatched(ctx context.Context, cfg *Config, r *Report) error {
	w := sequence(cfg.Steps)
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return err
	}
	followers, rounds := watchFollowers, 5
	if cfg.Runs < followers/10 {
		followers, rounds = 10*cfg.Runs, 1
	}
	out := r.section("watched", "%d runs x %d steps, %d at a time, %d followers", cfg.Runs, cfg.Steps, cfg.Concurrency,
		followers)
	err = s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		run, err := w.Start(ctx, s.Engine, newPayload(0), stet.ID(prefix+"watched"))
		if err == nil {
			_, err = run.Wait(ctx)
		}
		if err != nil {
			return err
		}
		looks := []look{
			{name: "alone"}, {name: "mounted", mounted: true},
			{name: "open", mounted: true, follow: []string{"run=" + url.QueryEscape(run.ID()), "runs="}},
			{name: "followed", mounted: true, follow: slices.Repeat([]string{"run=" + url.QueryEscape(run.ID())}, followers)},
		}
		best := make([]float64, len(looks))
		var each float64 // bytes per follower
		for round := range rounds {
			for turn := range looks {
				i := (round + turn) % len(looks) // none is always measured after the same other one
				rate, size, err := looks[i].measure(ctx, cfg, s, w)
				if err != nil {
					return fmt.Errorf("%s: %w", looks[i].name, err)
				}
				best[i] = max(best[i], rate)
				if looks[i].name == "followed" && (each == 0 || size < each) {
					each = size
				}
			}
		}
		for i, l := range looks {
			out.figure(l.name, best[i], "runs/s")
		}
		out.figure("memory of a follower", each/1024, "KiB")
		out.atLeast("throughput with the handler mounted, over without", best[1]/best[0], 0.99, "")
		out.atLeast("throughput with a run and a list open", best[2]/best[0], 0.98, "")
		out.atLeast("throughput with 1,000 followers", best[3]/best[0], 0.90, "")
		out.atMost("memory of a follower", each/1024, 40, "KiB")
		return nil
	})
	if err != nil {
		return err
	}
	return measureEvents(ctx, cfg, followers, out)
}

// look is a way to be looked at.
type look struct {
	name    string
	mounted bool
	follow  []string // queries of events, each by a connection of its own
}

// measure executes the runs, and returns how many per second and the bytes of each follower.
func (l look) measure(
	ctx context.Context, cfg *Config, s *session, w *stet.Workflow[payload, payload],
) (rate, each float64, err error) {
	if l.mounted {
		address, stop, err := mount(s.Engine)
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, stop()) }()
		before := resident()
		for _, query := range l.follow {
			c, err := follow(ctx, address, query)
			if err != nil {
				return 0, 0, err
			}
			defer func() { _ = c.Close() }()
		}
		if len(l.follow) > 0 {
			if err := pause(ctx, 2*time.Second); err != nil { // each has its first round
				return 0, 0, err
			}
			each = float64(resident()-before) / float64(len(l.follow))
		}
	}
	rate, err = executeRuns(ctx, cfg, s, w)
	return rate, each, err
}

// mount serves the engine on a loopback address, to anybody.
func mount(e *stet.Engine) (address string, stop func() error, err error) {
	anybody := access.Identity{Name: "bench", Role: access.Operator}
	h, err := server.New(e, server.Options{
		Logger: slog.New(slog.DiscardHandler), Rate: stet.None,
		Access: []access.Authenticator{server.Func(func(*http.Request) (*access.Identity, error) { return &anybody, nil })},
	})
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	web := &http.Server{Handler: h}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	return listener.Addr().String(), func() error {
		err := web.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}

// follow opens a stream of events by hand, so that the memory of a client is that of a socket. The
// little that comes, of a run that has ended and of a list, stays in the buffers of the system.
func follow(ctx context.Context, address, query string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(c, "GET /api/v1/events?%s HTTP/1.1\r\nHost: %s\r\n\r\n", query, address)
	if err == nil {
		var line string
		if line, err = bufio.NewReaderSize(c, 16).ReadString('\n'); err == nil && line != "HTTP/1.1 200 OK\r\n" {
			err = fmt.Errorf("expected a stream of events, found %q", line)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// resident returns the bytes of heap and stacks that are in use.
func resident() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
