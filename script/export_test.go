package script

import (
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/stet-run/stet"
)

// Processor is the processor time of the process, for benchmarks.
var Processor = processor

// ShortLimits has code stopped after 50 ms, as long as a test executes many runaways.
func ShortLimits(t interface{ Cleanup(func()) }) {
	before := maxCode
	maxCode = 50 * time.Millisecond
	t.Cleanup(func() { maxCode = before })
}

// LimitsUnderRace has code stopped after ten seconds where the race detector makes it take ten times as long.
func LimitsUnderRace(t interface{ Cleanup(func()) }) {
	info, _ := debug.ReadBuildInfo()
	if info == nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return
	}
	before := maxCode
	maxCode = 10 * time.Second
	t.Cleanup(func() { maxCode = before })
}

// CompileIsolated is Compile with children.
func CompileIsolated(name, source string, tasks []Task, opts ...stet.DefineOption) (*Workflow, error) {
	lib, err := Open(Config{Tasks: tasks, Isolated: true, Options: opts})
	if err != nil {
		return nil, err
	}
	return lib.compile(name, source, 0)
}

// released ends the calls of Task.hang in this process that have begun since HangUntil.
var released chan struct{}

// hanging has an element for each call of Task.hang that has begun since HangUntil.
var hanging chan struct{}

// HangUntil makes Task.hang end when release is called. begun waits until it has been called that often.
func HangUntil() (begun func(calls int), release func()) {
	released, hanging = make(chan struct{}), make(chan struct{}, 100)
	begun = func(calls int) {
		for range calls {
			<-hanging
		}
	}
	return begun, func() { close(released) }
}

// AddIllTools adds tools of tests: native calls that nothing interrupts, and what a test asks of a child. TestMain
// calls it, in children too.
func AddIllTools() {
	ill := func(f func(*interpreter, args)) func(*interpreter, args) goja.Value {
		return func(r *interpreter, a args) goja.Value { f(r, a); return goja.Undefined() }
	}
	toolbox = append(toolbox,
		tool{"Task", "hang", ill(func(*interpreter, args) {
			over := released
			select {
			case hanging <- struct{}{}:
			default: // nobody counts them
			}
			for waiting := true; waiting; {
				select {
				case <-over:
					waiting = false
				default: // takes the processor
				}
			}
		})},
		tool{"Task", "hog", ill(func(*interpreter, args) {
			for hoard := [][]byte{}; ; {
				hoard = append(hoard, make([]byte, 1<<20))
			}
		})},
		tool{"Task", "overflow", ill(func(*interpreter, args) { _ = overflow(0) })},
		tool{"Task", "panics", ill(func(*interpreter, args) { panic("planted") })},
		tool{"Task", "exit", ill(func(*interpreter, args) { os.Exit(3) })},
		tool{"Task", "keep", func(r *interpreter, a args) goja.Value { // returns the heap in MiB
			maxKept = uint64(a.at(0).ToInteger()) << 20
			runtime.GC()
			return r.vm.ToValue(objects() >> 20)
		}},
		// connect holds a connection as long as the process lives.
		tool{"Task", "connect", ill(func(_ *interpreter, a args) {
			conn, err := net.Dial("tcp", a.text(0))
			if err != nil {
				panic(err)
			}
			connections = append(connections, conn)
		})},
		tool{"Task", "environment", func(r *interpreter, _ args) goja.Value {
			return r.vm.ToValue(strings.Join(os.Environ(), "\n"))
		}},
	)
}

var connections []net.Conn

func overflow(n int) int {
	if n < 0 {
		return 0
	}
	return overflow(n+1) + 1
}

// KillChildren ends all children, as an operator does, and returns how many there were. It waits for stretches that
// execute.
func KillChildren() int {
	processes.mu.Lock()
	all := slices.Clone(processes.all)
	processes.mu.Unlock()
	for _, c := range all {
		c.turn.Lock()
		c.kill()
		c.turn.Unlock()
	}
	return len(all)
}

// Children returns how many children there are.
func Children() int {
	processes.mu.Lock()
	defer processes.mu.Unlock()
	return len(processes.all)
}

// Places is how many stretches execute in this process at once.
var Places = cap(places)

// MaxProcesses returns how many children there may be.
func MaxProcesses() int { return maxProcesses }

// MoreProcesses lets there be more children.
func MoreProcesses(t interface{ Cleanup(func()) }, n int) {
	before := maxProcesses
	maxProcesses = n
	t.Cleanup(func() { maxProcesses = before })
}

// StartChildren starts children until there are so many. Each of them has executed a stretch.
func StartChildren(t interface {
	Helper()
	Fatal(args ...any)
}, n int) {
	t.Helper()
	var all []*process
	for len(all) < n {
		c, err := processes.take()
		if err != nil {
			t.Fatal(err)
		}
		unknown := &request{Run: c.number(), Entry: &entry{Finish: true}}
		if _, err := c.exchange(unknown, nil); err != nil { // a former test has killed it
			c.turn.Unlock()
			continue
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.turn.Unlock()
	}
}

// Limits sets the time of a stretch.
func Limits(t interface{ Cleanup(func()) }, code time.Duration) {
	before := maxCode
	maxCode = code
	t.Cleanup(func() { maxCode = before })
}

// OpenUncalled opens a library as in a program that does not call Child.
func OpenUncalled(cfg Config) (*Library, error) {
	childCalled.Store(false)
	defer childCalled.Store(true)
	return Open(cfg)
}
