package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// fleet is the worker processes: a fixed number of places, each with a process
// that is replaced when it ends.
type fleet struct {
	cfg     *Config
	orders  orders // of all; Name is set for each process
	mayDie  bool   // processes that end by themselves are no surprise
	report  *Report
	dir     string        // for files that are kept
	build   func() string // of a process that is started now
	sites   []*site
	tending sync.WaitGroup
}

// site is one of the places; proc is replaced by the goroutine that tends it.
type site struct {
	number int

	mu      sync.Mutex
	proc    *process // nil: none at this moment
	started int      // processes so far
}

// process is a worker process.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer // its end is the order to stop
	talk  bytes.Buffer
	ended chan struct{} // closed when it has ended

	stopping atomic.Bool // it was asked to stop
	killed   atomic.Bool // it was killed, or is about to be
}

// stopLimit is how long a process may take to stop when it is asked to.
const stopLimit = time.Minute

// launch starts the processes and keeps them going until ctx ends, then stops
// them. The returned function waits for that.
func (f *fleet) launch(ctx context.Context) (wait func()) {
	for i := range f.cfg.Nodes {
		p := &site{number: i}
		f.sites = append(f.sites, p)
		f.tending.Go(func() { f.tend(ctx, p) })
	}
	return f.tending.Wait
}

// tend keeps one place occupied.
func (f *fleet) tend(ctx context.Context, at *site) {
	for ctx.Err() == nil {
		p, err := f.spawn(at)
		if err != nil {
			f.report.troubled("start a worker: %v", err)
			return
		}
		select {
		case <-p.ended:
			if !p.stopping.Load() && !p.killed.Load() && !f.mayDie && !p.cmd.ProcessState.Success() {
				f.complain(p, "has ended by itself: "+p.cmd.ProcessState.String())
			}
		case <-ctx.Done():
			f.stop(p)
		}
		at.set(nil)
		_ = pause(ctx, rand.N(50*time.Millisecond)) // its end is seen by the loop
	}
}

func (f *fleet) spawn(at *site) (*process, error) {
	at.started++
	o := f.orders
	o.Build = f.build()
	o.Name = fmt.Sprintf("%s%d.%d%s%s", o.Name, at.number, at.started, buildMark, o.Build)
	command, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{name: o.Name, cmd: f.cfg.Worker(string(command)), ended: make(chan struct{})}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.talk, &p.talk
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	at.set(p)
	go func() {
		_ = p.cmd.Wait() // ProcessState says how it ended
		close(p.ended)
	}()
	return p, nil
}

func (at *site) set(p *process) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.proc = p
}

func (at *site) get() *process {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.proc
}

// stop requests a process to stop and waits for that.
func (f *fleet) stop(p *process) {
	p.stopping.Store(true)
	_ = p.stdin.Close() // it may have ended
	if p.endsWithin(stopLimit) {
		if !p.cmd.ProcessState.Success() && !p.killed.Load() && !f.mayDie {
			f.complain(p, "was asked to stop: "+p.cmd.ProcessState.String())
		}
		return
	}
	if dump(p.cmd.Process) == nil {
		p.endsWithin(stopLimit)
	}
	f.kill(p)
	f.complain(p, fmt.Sprintf("has not stopped within %s", stopLimit))
}

// kill ends a process at once.
func (f *fleet) kill(p *process) {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *process) endsWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// complain reports the end of a process, and keeps its output.
func (f *fleet) complain(p *process, how string) {
	said := filepath.Join(f.dir, p.name+".txt")
	if err := os.WriteFile(said, p.talk.Bytes(), 0o644); err != nil {
		said = err.Error()
	}
	talk := p.talk.Bytes()
	// why it ended is said last
	f.report.violated(unexpectedErrors, "worker %s %s: …%s (%s)", p.name, how, talk[max(0, len(talk)-500):], said)
}

// The kinds of strikes at a process.
const (
	faultKill  = "kill"  // SIGKILL
	faultPause = "pause" // SIGSTOP beyond the lease, then SIGCONT
	faultStop  = "stop"  // a graceful stop
)

// Faults returns the names of the strikes that are possible on this system, the most frequent first.
func Faults() []string {
	if canPause {
		return []string{faultKill, faultPause, faultStop}
	}
	return []string{faultKill, faultStop}
}

// strike does something to a process. One that has just ended by another strike
// is left alone.
func (f *fleet) strike(ctx context.Context, p *process, what string) error {
	switch what {
	case faultKill:
		f.kill(p)
	case faultStop:
		f.stop(p)
	case faultPause:
		err := suspend(p.cmd.Process)
		if err == nil {
			_ = pause(ctx, f.cfg.Lease+rand.N(f.cfg.Lease)) // it goes on in any case
			err = resume(p.cmd.Process)
		}
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return err
	}
	return nil
}
