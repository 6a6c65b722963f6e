package bench

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// roleNode begins the roles of processes that execute runs until their input ends:
// "node work STEPS ROUNDS", and "node beat" of workload failover.
const (
	roleNode = "node "
	roleWork = roleNode + "work"
	roleBeat = roleNode + "beat"
)

// work is a workflow of steps that compute for so many rounds each.
func work(steps, rounds int) *stet.Workflow[payload, payload] {
	return stet.Define(prefix+"nodes", func(ctx stet.Context, p payload) (payload, error) {
		for i := range steps {
			in := p
			var err error
			if p, err = stet.Step(ctx, fmt.Sprintf("step-%d", i),
				func(context.Context) (payload, error) { compute(rounds); return in, nil }); err != nil {
				return p, err
			}
		}
		return p, nil
	})
}

// compute keeps one processor busy.
func compute(rounds int) {
	var sum [sha256.Size]byte
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
	runtime.KeepAlive(sum)
}

// roundsOf returns how many rounds take so long on this machine when it is idle: by the fastest of several tries.
func roundsOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	const try = 10_000
	fastest := time.Hour
	for range 20 {
		begun := time.Now()
		compute(try)
		fastest = min(fastest, time.Since(begun))
	}
	return int(try * d / max(fastest, 1))
}

// playNode executes runs until the input ends. It writes a line when it is a node.
func playNode(ctx context.Context, cfg *Config, role string, out io.Writer) error {
	var steps, rounds int
	settings := stet.Config{Logger: cfg.Log}
	if role == roleBeat {
		settings.Workflows = []stet.Definition{beating, dozing}
	} else if _, err := fmt.Sscanf(role, roleWork+" %d %d", &steps, &rounds); err == nil {
		settings.Workflows = []stet.Definition{receiver, work(steps, rounds)}
	} else {
		return fmt.Errorf("%w: unknown part %q", ErrConfig, role)
	}
	db, err := cfg.Open(ctx)
	if err != nil {
		return err
	}
	settings.Store = db
	e, err := stet.New(ctx, settings)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, cfg.In) // until the parent process is done, or gone
		stop()
	}()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	_, err = fmt.Fprintln(out, "node")
	return errors.Join(err, <-ended, db.Close())
}

// node is a process that plays roleNode.
type node struct {
	command   *exec.Cmd
	input     io.Closer
	complaint strings.Builder
}

// working is the role of a node that executes work.
func working(steps, rounds int) string { return fmt.Sprintf("%s %d %d", roleWork, steps, rounds) }

// startNode starts a node, which uses one processor if single is set.
func startNode(ctx context.Context, cfg *Config, role string, single bool) (*node, error) {
	n := &node{command: cfg.Child(ctx, role)}
	if single {
		if n.command.Env == nil {
			n.command.Env = os.Environ()
		}
		n.command.Env = append(n.command.Env, "GOMAXPROCS=1")
	}
	n.command.Stderr = &n.complaint
	out, err := n.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if n.input, err = n.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := n.command.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("a node: %w", err), n.stop())
	}
	return n, nil
}

// stop ends a node, which gives its shards back.
func (n *node) stop() error {
	err := errors.Join(n.input.Close(), n.command.Wait())
	if err != nil {
		err = fmt.Errorf("a node: %w: %s", err, n.complaint.String())
	}
	return err
}

// outside opens the store as a process that executes nothing and calls do when so many
// nodes share all shards.
func (cfg *Config) outside(ctx context.Context, nodes int, do func(*session) error) error {
	db, err := cfg.Open(ctx)
	if err != nil {
		return err
	}
	s := &session{db: newCounted(db)}
	if s.Engine, err = stet.New(ctx, stet.Config{Store: s.db, Logger: cfg.Log}); err == nil {
		if err = s.shared(ctx, nodes); err == nil {
			err = do(s)
		}
	}
	return errors.Join(err, db.Close())
}

// shared waits until so many nodes hold all shards of the default group, about as many
// each.
func (s *session) shared(ctx context.Context, nodes int) error {
	for {
		about, err := s.Describe(ctx)
		if err != nil {
			return err
		}
		s.since = about.Now
		held, sum := map[string]int{}, 0
		for _, l := range about.Leases {
			if l.Shard.Group == store.DefaultGroup && l.Until > about.Now {
				held[l.Node]++
				sum++
			}
		}
		least := about.Slots
		for _, n := range held {
			least = min(least, n)
		}
		if len(held) == nodes && sum == about.Slots && least >= about.Slots/nodes*4/5 {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// measureNodes measures how many runs 1, 2, … nodes execute, each a process of its own
// with Work of computing in each step. It goes up and down again, because a store gets
// slower as it fills, and faster when it is warm.
func measureNodes(ctx context.Context, cfg *Config, r *Report) error {
	if !cfg.many() {
		return nil // of "all" on a store that one process at a time works on
	}
	rounds := roundsOf(cfg.Work)
	out := r.section("nodes", "2 x %d runs x %d steps of %s, %d at a time", cfg.Runs, cfg.Steps, cfg.Work, cfg.Concurrency)
	took := make([]time.Duration, cfg.Nodes+1)
	full := 0
	for i := range 2 * cfg.Nodes {
		n := min(i, 2*cfg.Nodes-1-i) + 1
		err := cfg.withNodes(ctx, n, rounds, func(s *session) error {
			var once time.Duration
			var err error
			once, full, err = executeAll(ctx, cfg, s, n, rounds)
			took[n] += once
			return err
		})
		if err != nil {
			return err
		}
	}
	for n := 1; n <= cfg.Nodes; n++ {
		out.figure(fmt.Sprintf("%d nodes", n), 2*float64(full)/took[n].Seconds(), "runs/s")
	}
	// The marks are for two processors: a third node wins nothing, and must lose nothing.
	for n := 2; n <= cfg.Nodes; n++ {
		name, than, gate := fmt.Sprintf("%d nodes over one", n), 1, 1.0
		switch {
		case cfg.Work > 0 && n == 2:
			gate = 1.6
		case cfg.Work > 0:
			name, than = fmt.Sprintf("%d nodes over two", n), 2
		}
		out.atLeast(name, took[than].Seconds()/took[n].Seconds(), gate, "times")
	}
	return nil
}

// executeAll executes the runs. It returns how many of them ended while all nodes had enough to do, and their time.
func executeAll(ctx context.Context, cfg *Config, s *session, nodes, rounds int) (took time.Duration, full int,
	err error) {
	w := work(cfg.Steps, rounds)
	full = max(cfg.Runs-cfg.Concurrency, 1)
	var over atomic.Int64
	var begun time.Time
	one := func(ctx context.Context, i int) error {
		err := execute(ctx, s, w, newPayload(i))
		if over.Add(1) == int64(full) && !begun.IsZero() {
			took = time.Since(begun)
		}
		return err
	}
	if err := inParallel(ctx, min(cfg.Runs, max(4*nodes, cfg.Runs/10)), cfg.Concurrency,
		one); err != nil { // costs that arise once
		return 0, 0, err
	}
	over.Store(0)
	begun = time.Now()
	err = inParallel(ctx, cfg.Runs, cfg.Concurrency, one)
	return took, full, err
}

// withNodes calls do while so many nodes share the store.
func (cfg *Config) withNodes(ctx context.Context, count, rounds int, do func(*session) error) (err error) {
	for range count {
		n, err := startNode(ctx, cfg, working(cfg.Steps, rounds), cfg.Work > 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
	}
	return cfg.outside(ctx, count, do)
}

// measureForeign measures messages from a process other than the owner of the runs.
func measureForeign(ctx context.Context, cfg *Config, r *Report) (err error) {
	if !cfg.shared() {
		return nil // of "all" on a store in the memory of one process
	}
	n, err := startNode(ctx, cfg, working(1, 0), false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	return cfg.outside(ctx, 1, func(s *session) error {
		durations, err := sendEach(ctx, s, cfg.Runs)
		if err != nil {
			return err
		}
		out := r.section("foreign", "%d runs that wait in another process", cfg.Runs)
		out.durations("send to end", durations, 50, 99)
		out.atMost("send to end p50", milliseconds(percentile(durations, 50)), 5, "ms")
		out.atMost("send to end p99", milliseconds(percentile(durations, 99)), 25, "ms")
		return nil
	})
}

// shared reports whether several processes can use the store.
func (cfg *Config) shared() bool { return cfg.Child != nil && (cfg.File != "" || cfg.many()) }

// many reports whether several processes can execute runs of the store.
func (cfg *Config) many() bool { return cfg.Child != nil && (cfg.Postgres != "" || cfg.Redis != "") }
