package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// trip is how far away the server is in workload unusual, there and back: another zone of a data centre.
const trip = time.Millisecond

// shown is the value that a run sets.
var shown = stet.Value[int]("bench")

// showing is a workflow that sets a value with each step, until it is terminated.
var showing = stet.Define(prefix+"unusual", func(ctx stet.Context, p payload) (payload, error) {
	for i := range beats * 100 {
		if err := shown.Set(ctx, i); err != nil {
			return p, err
		}
		if err := stet.Do(ctx, "step", func(context.Context) error { return nil }); err != nil {
			return p, err
		}
	}
	return p, nil
})

// measureUnusual measures plain runs, and the same beside one run that sets a value with each step, on a server that is
// a trip away.
func measureUnusual(ctx context.Context, cfg *Config, r *Report) (err error) {
	if cfg.OpenVia == nil {
		return nil // of "all" on a store without a server, or with several
	}
	way, err := newDistance(cfg.Server, trip)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, way.close()) }()
	far := *cfg
	far.Open = func(ctx context.Context) (store.Store, error) { return cfg.OpenVia(ctx, way.addr()) }
	w := sequence(cfg.Steps)
	s, err := far.serve(ctx, nil, w, showing)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		plain, err := executeRuns(ctx, cfg, s, w)
		if err != nil {
			return err
		}
		run, err := showing.Start(ctx, s.Engine, newPayload(0))
		if err != nil {
			return err
		}
		beside, err := executeRuns(ctx, cfg, s, w)
		if err != nil {
			return err
		}
		if _, err := s.Runs().Terminate(ctx, run.ID(), stet.Act{Why: "it was measured"}); err != nil {
			return err
		}
		out := r.section("unusual", "%d runs x %d steps, %d at a time, the server %s away", cfg.Runs, cfg.Steps,
			cfg.Concurrency, trip)
		out.figure("runs alone", plain, "runs/s")
		out.figure("runs beside one that sets values", beside, "runs/s")
		out.atLeast("beside one that sets values, of alone", beside/plain, 0.7, "times")
		return nil
	})
}

// distance stands between clients and a server, which is farther away by it.
type distance struct {
	listener net.Listener
	target   string
	half     time.Duration
	done     sync.WaitGroup

	mu    sync.Mutex
	over  bool
	conns []net.Conn
}

func newDistance(target string, trip time.Duration) (*distance, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a way to the server: %w", err)
	}
	d := &distance{listener: l, target: target, half: trip / 2}
	d.done.Go(d.accept)
	return d, nil
}

func (d *distance) addr() string { return d.listener.Addr().String() }

// close cuts what is still connected.
func (d *distance) close() error {
	err := d.listener.Close()
	d.mu.Lock()
	d.over = true
	for _, c := range d.conns {
		_ = c.Close() // perhaps a second time
	}
	d.mu.Unlock()
	d.done.Wait()
	return err
}

func (d *distance) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", d.target)
		if err != nil || !d.keep(client, server) {
			_ = client.Close() // it tries again
			continue
		}
		d.done.Go(func() { d.pass(server, client) })
		d.done.Go(func() { d.pass(client, server) })
	}
}

func (d *distance) keep(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		for _, c := range conns {
			_ = c.Close() // nothing was sent
		}
		return false
	}
	d.conns = append(d.conns, conns...)
	return true
}

// pass copies what it reads, half a trip later.
func (d *distance) pass(to io.WriteCloser, from io.Reader) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 1000)
	d.done.Go(func() {
		defer close(pieces)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{data[:n], time.Now().Add(d.half)}
			}
			if err != nil {
				return
			}
		}
	})
	failed := false
	for p := range pieces { // to their end, so that the reader ends
		time.Sleep(time.Until(p.at)) // the way itself
		if !failed {
			_, err := to.Write(p.data)
			failed = err != nil
		}
	}
	_ = to.Close() // perhaps a second time
}
