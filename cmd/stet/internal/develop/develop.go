// Package develop builds a program of the user, executes it, and does both again when its
// sources change. A build that fails leaves the program that runs as it is.
package develop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Options say what is developed.
type Options struct {
	// Dir is where the go command is executed: in the module. Package is what it builds.
	Dir, Package string
	Args         []string  // of the program
	Env          []string  // of the program, beside that of this process
	Bin          string    // folder for what is built
	Out, Err     io.Writer // what the program prints
	// Say is called with what happens, for people. Not concurrently.
	Say func(string)
	// Every is how often the sources are looked at. Default 500 ms.
	Every time.Duration
	// Grace is how long the program has to end after a request to. Default 10 s.
	Grace time.Duration
}

// Phase is what happens to the program.
type Phase string

// The phases. After a failed build the former program goes on, if there is one.
const (
	Building    Phase = "building"
	Running     Phase = "running"
	BuildFailed Phase = "build failed"
	Ended       Phase = "ended" // by itself
)

// State is how the program stands.
type State struct {
	Phase Phase     `json:"phase"`
	Since time.Time `json:"since"`
	PID   int       `json:"pid,omitempty"` // 0: no program is executed
	// Problem is what the failed build has printed, or how the program has ended.
	Problem string `json:"problem,omitempty"`
	Starts  int    `json:"starts"` // how often the program was started
}

// Program is what is developed. Make one with New; Run executes it.
type Program struct {
	o    Options
	ring ring

	mu      sync.Mutex
	state   State
	changed chan struct{} // is closed when state changes

	running *process // of Run alone; nil: none
	files   []string // embedded ones
}

// process is a program under way.
type process struct {
	cmd   *exec.Cmd
	ended chan exit // gets how it has ended; has room for that
}

// New returns a program that is neither built nor executed yet.
func New(o Options) *Program {
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	return &Program{o: o, changed: make(chan struct{})}
}

// State returns how the program stands, and a channel that is closed when that changes.
func (p *Program) State() (State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.changed
}

// Lines returns the last lines that the program has printed, and those that build and
// restart it, which have the text; "": all that are kept.
func (p *Program) Lines(text string) []Line { return p.ring.with(text) }

func (p *Program) set(phase Phase, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Phase, p.state.Problem, p.state.Since = phase, problem, time.Now()
	p.state.PID = 0
	if p.running != nil {
		p.state.PID = p.running.cmd.Process.Pid
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Program) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.ring.add("stet", text)
	p.o.Say(text)
}

// Run builds the program and executes it, again after each change of its sources, until ctx
// ends. Then it has the program end, and returns when that has. An error says that nothing
// can be built here.
func (p *Program) Run(ctx context.Context) error {
	root, err := moduleRoot(ctx, p.o.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.o.Bin, 0o755); err != nil {
		return err
	}
	defer func() { p.stop() }()
	built := ""
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		var ended chan exit
		if p.running != nil {
			ended = p.running.ended
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-ended:
			p.running = nil
			p.set(Ended, outcome(e.err))
			p.say("the program has ended: %s; it is started again when its sources change", outcome(e.err))
			continue
		case <-look.C:
		}
		begun := time.Now()
		stamp := stampOf(root, p.files)
		pause := max(p.o.Every, 20*time.Since(begun)) // a large module is looked at less often
		if stamp != built {
			p.files = embedded(ctx, p.o.Dir, p.o.Package, root, p.files)
			built = stampOf(root, p.files)
			p.renew(ctx)
		}
		look.Reset(pause)
	}
}

// buildHasFailed begins the line with what a failed build has printed.
const buildHasFailed = "the build has failed"

// renew builds the program, and starts it in place of the former one.
func (p *Program) renew(ctx context.Context) {
	p.set(Building, "")
	name := filepath.Join(p.o.Bin, fmt.Sprintf("program-%d", time.Now().UnixNano()))
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	begun := time.Now()
	build := exec.CommandContext(ctx, "go", "build", "-o", name, p.o.Package)
	build.Dir = p.o.Dir
	printed, err := build.CombinedOutput()
	if ctx.Err() != nil {
		_ = os.Remove(name) // perhaps it is not there
		return
	}
	if err != nil {
		problem := strings.TrimSpace(string(printed))
		if problem == "" {
			problem = err.Error()
		}
		p.set(BuildFailed, problem)
		p.say("%s:\n%s", buildHasFailed, problem)
		return
	}
	p.say("built in %s", time.Since(begun).Round(10*time.Millisecond))
	p.stop()
	if err := p.start(name); err != nil {
		p.set(Ended, err.Error())
		p.say("the program cannot be started: %v", err)
		return
	}
	p.mu.Lock()
	p.state.Starts++
	p.mu.Unlock()
	p.set(Running, "")
	p.say("process %d is started", p.running.cmd.Process.Pid)
}

func (p *Program) start(name string) error {
	p.clean(name)
	cmd := exec.Command(name, p.o.Args...)
	cmd.Dir, cmd.Env = p.o.Dir, append(os.Environ(), p.o.Env...)
	out, errOut := p.ring.writer("out", p.o.Out), p.ring.writer("err", p.o.Err)
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.WaitDelay = time.Second // for those that it has started, and that hold its output
	if err := cmd.Start(); err != nil {
		return err
	}
	running := &process{cmd, make(chan exit, 1)}
	go func() {
		err := cmd.Wait()
		out.flush()
		errOut.flush()
		running.ended <- exit{err}
	}()
	p.running = running
	return nil
}

// clean removes what was built before.
func (p *Program) clean(except string) {
	old, _ := filepath.Glob(filepath.Join(p.o.Bin, "program-*")) // the pattern is valid
	for _, name := range old {
		if name != except {
			_ = os.Remove(name) // on Windows one may be in use; the next time takes it
		}
	}
}

// stop has the program end, and waits for it.
func (p *Program) stop() {
	if p.running == nil {
		return
	}
	running := p.running
	p.running = nil
	if err := terminate(running.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = running.cmd.Process.Kill() // it has ended otherwise
	}
	late := time.NewTimer(p.o.Grace)
	defer late.Stop()
	select {
	case <-running.ended:
	case <-late.C:
		p.say("process %d has not ended within %s, and is killed", running.cmd.Process.Pid, p.o.Grace)
		_ = running.cmd.Process.Kill() // it has ended otherwise
		<-running.ended
	}
}

// exit is the end of a program.
type exit struct{ err error } // of Cmd.Wait

// outcome says how a program has ended.
func outcome(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// moduleRoot returns the folder of the module of a folder.
func moduleRoot(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMOD")
	cmd.Dir = dir
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w: %s", err, strings.TrimSpace(problem.String()))
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", fmt.Errorf("expected a Go module at %s or above, found no go.mod: go mod init makes one", dir)
	}
	return filepath.Dir(file), nil
}
