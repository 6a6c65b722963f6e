package script

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// processes are the children of this process, for the isolated scripts of all its libraries.
var processes pool

// pool is a set of children. They are started when they are needed, one for each processor at most, and end with this
// process.
type pool struct {
	mu  sync.Mutex
	all []*process
}

// process is a child. Its fields belong to the goroutine that has turn, but for those below mu.
//
// Nothing here is a goroutine, or a channel: tests in bubbles of virtual time share the children.
type process struct {
	turn   sync.Mutex // held during a stretch
	cmd    *exec.Cmd
	pipe   *pipe[request, reply]
	stderr io.Reader
	heard  int // replies
	dead   bool

	mu    sync.Mutex
	runs  int      // interpreters, nearly: the child may have dropped some
	ended []uint64 // interpreters that the child may drop, and has not been told of
	last  uint64   // the number of an interpreter
}

// maxProcesses is how many children there are at most. Tests change it.
var maxProcesses = max(2, runtime.GOMAXPROCS(0))

// take returns a child for a new interpreter, with its turn. It prefers an idle child to a new one, and that to the
// child with the fewest interpreters.
func (p *pool) take() (*process, error) {
	for {
		c, err := p.choose()
		if err != nil || !c.dead {
			return c, err
		}
		c.turn.Unlock() // it has ended meanwhile
	}
}

func (p *pool) choose() (*process, error) {
	p.mu.Lock()
	all := slices.Clone(p.all)
	slices.SortStableFunc(all, func(a, b *process) int { return a.interpreters() - b.interpreters() })
	for _, c := range all {
		if c.turn.TryLock() {
			p.mu.Unlock()
			return c, nil
		}
	}
	if len(all) >= maxProcesses {
		p.mu.Unlock()
		all[0].turn.Lock()
		return all[0], nil
	}
	c := new(process)
	c.turn.Lock()
	p.all = append(p.all, c)
	p.mu.Unlock()
	if err := c.start(); err != nil {
		p.remove(c)
		c.dead = true
		c.turn.Unlock()
		return nil, err
	}
	return c, nil
}

func (p *pool) remove(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(other *process) bool { return other == c })
}

func (c *process) interpreters() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs
}

// number returns the number of a new interpreter.
func (c *process) number() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.last++
	return c.last
}

// forget drops an interpreter. The child is told when it is entered next.
func (c *process) forget(run uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs--
	c.ended = append(c.ended, run)
}

// passed are the variables that a child has of the environment. It needs no secret of the program.
var passed = []string{"TZ", "ZONEINFO", "GODEBUG", "GOCOVERDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"}

func childEnvironment() []string {
	env := []string{childVar + "=1", "GOMAXPROCS=2", "GOTRACEBACK=single"}
	for _, name := range passed {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// executable returns the path of the program's own file, which may have been replaced since.
func executable() (string, error) {
	const self = "/proc/self/exe" // the file that is executed, whatever its path has now
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// slack is how much longer than its limits a child may execute a stretch. It ends by itself, as a rule.
const slack = 5 * time.Second

// startTime is how long a child may take to come to Child.
const startTime = 30 * time.Second

// start starts the child, and waits until it executes Child.
func (c *process) start() error {
	path, err := executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(path)
	c.cmd.Args = []string{os.Args[0], "(a child process for scripts)"} // for who lists processes
	c.cmd.Env = childEnvironment()
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if c.stderr, err = c.cmd.StderrPipe(); err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(startTime, c.kill)
	defer late.Stop()
	from := bufio.NewReader(out)
	for {
		line, err := from.ReadString('\n')
		if line == childMark {
			break
		}
		if err != nil {
			return fmt.Errorf("expected a process that calls script.Child, found one that does not: %w", c.end())
		}
	}
	c.pipe = newPipe[request, reply](in, from, maxReply)
	return nil
}

func (c *process) kill() { _ = c.cmd.Process.Kill() } // it may have ended

// end ends the child, whose turn the caller has, and returns what it has ended with.
func (c *process) end() error {
	processes.remove(c)
	c.dead = true
	c.kill()
	said, _ := io.ReadAll(io.LimitReader(c.stderr, 64<<10)) // what there is
	err := c.cmd.Wait()
	return &childError{state: err, code: c.cmd.ProcessState.ExitCode(), said: strings.TrimSpace(string(said))}
}

// childError is what a child has ended with.
type childError struct {
	state error
	code  int
	said  string // by its standard error
}

func (e *childError) Error() string {
	text := "the process has ended"
	if e.state != nil {
		text += ": " + e.state.Error()
	}
	if first, _, _ := strings.Cut(e.said, "\n"); first != "" {
		text += ": " + first
	}
	return text
}

// stretched returns the failure of the stretch that a child has ended in, or nil if the stretch is no known reason for
// its end.
func (e *childError) stretched(killed bool) *failure {
	switch {
	case e.code == exitTime || killed:
		return faultf("its code has executed for %s without a wait, in a call that does not end: its process was ended",
			maxCode)
	case e.code == exitHeap:
		return faultf("its code has let the heap grow by %d MiB without a wait, in a call that does not end: its process "+
			"was ended", maxGrowth>>20)
	case strings.Contains(e.said, "stack exceeds"):
		return faultf("its code has filled the stack of the interpreter: its process was ended")
	case strings.Contains(e.said, "out of memory"):
		return faultf("its code has taken all memory: its process was ended")
	}
	return nil
}

// exchange sends a request and returns the last reply to it. ask answers what the child asks.
func (c *process) exchange(r *request, ask func(*ask) *answer) (*reply, error) {
	c.mu.Lock()
	r.Ended = c.ended
	c.ended = nil
	c.mu.Unlock()
	r.Limit = maxCode
	var mu sync.Mutex
	killed := false
	late := time.AfterFunc(maxStarved*maxCode+slack, func() {
		mu.Lock()
		defer mu.Unlock()
		killed = true
		c.kill()
	})
	defer late.Stop()
	answered := false
	defer func() {
		if !answered { // an answer has ended this goroutine
			_ = c.end()
		}
	}()
	reply, err := c.converse(r, ask)
	answered = true
	if err == nil {
		return reply, nil
	}
	ended := c.end()
	mu.Lock()
	defer mu.Unlock()
	if errors.Is(err, errTooLong) {
		return nil, faultf("expected replies of at most %d bytes, found a longer one: its process was ended", maxReply)
	}
	var how *childError
	if errors.As(ended, &how) {
		if f := how.stretched(killed); f != nil {
			return nil, f
		}
	}
	return nil, ended
}

func (c *process) converse(r *request, ask func(*ask) *answer) (*reply, error) {
	if err := c.pipe.send(r); err != nil {
		return nil, err
	}
	for {
		got, err := c.pipe.receive()
		if err != nil {
			return nil, err
		}
		if c.heard++; got.Ask == nil {
			return got, nil
		}
		if a := ask(got.Ask); a != nil {
			if err := c.pipe.send(&request{Answer: a}); err != nil {
				return nil, err
			}
		}
	}
}
