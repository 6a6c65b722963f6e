package script

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
)

// childVar is the variable of the environment that makes a process a child.
const childVar = "STET_SCRIPT_CHILD"

// The limits of a child.
const (
	maxStack    = 64 << 20 // bytes
	maxPrograms = 200      // compiled scripts
)

// maxKept is how many bytes of a child's heap interpreters may have between two stretches. Tests shorten it.
var maxKept uint64 = 256 << 20

// childCalled says that main has called Child.
var childCalled atomic.Bool

// Child makes Config.Isolated possible: a program calls it first in its main. In a process that a library has started
// for scripts it executes them, and never returns. Elsewhere it returns at once.
//
// Such a process executes the program's own file. It initialises the packages of the program before it comes to main:
// a package that opens files or connections at its initialisation opens them there, too.
func Child() {
	childCalled.Store(true)
	if os.Getenv(childVar) == "" {
		return
	}
	// It ends with its input. A signal to all processes of a terminal or a service is for the program.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if runtime.GOOS == "linux" { // of all processes this is the one to end when the machine has no memory
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // best effort
	}
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(int64(maxKept) + 2*notAlone*maxGrowth)
	endStretch = os.Exit
	out := os.Stdout
	os.Stdout = os.Stderr // what else is printed must not come between replies
	if _, err := io.WriteString(out, childMark); err != nil {
		os.Exit(1)
	}
	newServer(newPipe[reply, request](out, os.Stdin, 0)).serve()
}

// server executes the scripts of a child.
type server struct {
	pipe         *pipe[reply, request]
	requests     chan *request // closed: never; the process ends with its input
	programs     map[uint64]*compiled
	interpreters map[uint64]*session
	used         uint64 // counts stretches
}

// session is an interpreter in a child.
type session struct {
	*interpreter
	used uint64 // last
}

func newServer(p *pipe[reply, request]) *server {
	return &server{
		pipe: p, requests: make(chan *request),
		programs: map[uint64]*compiled{}, interpreters: map[uint64]*session{},
	}
}

// serve executes requests. It never returns: the process ends with its input, also in the middle of a stretch.
func (s *server) serve() {
	go func() {
		for {
			r, err := s.pipe.receive()
			if err != nil {
				os.Exit(0)
			}
			s.requests <- r
		}
	}()
	for r := range s.requests {
		for _, run := range r.Ended {
			delete(s.interpreters, run)
		}
		if r.Entry == nil {
			continue
		}
		s.send(s.execute(r))
	}
}

func (s *server) send(r *reply) {
	if err := s.pipe.send(r); err != nil {
		os.Exit(0) // the program has ended
	}
}

// execute executes a stretch.
func (s *server) execute(r *request) *reply {
	maxCode = r.Limit
	s.used++
	if p := r.Program; p != nil {
		c, failed := s.compiled(p)
		switch {
		case failed != nil:
			return &reply{Left: &left{Failure: failed}}
		case c == nil:
			return &reply{Missing: missingProgram}
		}
		s.interpreters[r.Run] = &session{interpreter: newInterpreter(c, &asker{server: s})}
	}
	in := s.interpreters[r.Run]
	if in == nil {
		return &reply{Missing: missingInterpreter}
	}
	in.used = s.used
	at := s.enter(r.Run, in, *r.Entry)
	if failed := s.shrink(r.Run); failed != nil {
		at = &left{Failure: failed}
	}
	return &reply{Left: at}
}

// enter enters an interpreter. A panic in it is a fault of its script.
func (s *server) enter(run uint64, in *session, e entry) (at *left) {
	defer func() {
		if p := recover(); p != nil {
			delete(s.interpreters, run)
			at = &left{Failure: faultf("a panic of the interpreter: %v\n%s", p, debug.Stack())}
		}
	}()
	out := in.enter(e)
	size := len(out.Result)
	for i := range out.Calls {
		size += len(out.Calls[i].Input)
	}
	if size > maxCalls {
		return &left{Failure: faultf("expected inputs and a result of at most %d bytes between two waits, found %d",
			maxCalls, size)}
	}
	return &out
}

// compiled returns the program of a request; nil: the child does not know it.
func (s *server) compiled(p *program) (*compiled, *failure) {
	known := s.programs[p.ID]
	if known == nil && p.Source == "" {
		return nil, nil
	}
	if known == nil {
		code, err := parse(p.Name, p.Source)
		if err != nil {
			return nil, faultf("%v", err)
		}
		known = newCompiled(compiled{name: p.Name, source: p.Source}, code, p.Source)
		if len(s.programs) >= maxPrograms { // the program sends them again
			clear(s.programs)
		}
		s.programs[p.ID] = known
	}
	if !p.Trace {
		return known, nil
	}
	traced := *known
	traced.trace = &trace{source: known.source}
	return &traced, nil
}

// shrink keeps the heap below its limit: it drops interpreters that were not used for longest, half of them at a time,
// but not that of the stretch. The program has them made again when their runs go on. If that of the stretch alone is
// above the limit its run stalls.
func (s *server) shrink(run uint64) *failure {
	if objects() < maxKept {
		return nil
	}
	runtime.GC()
	for objects() >= maxKept {
		others := slices.SortedFunc(maps.Keys(s.interpreters), func(a, b uint64) int {
			return cmp.Compare(s.interpreters[a].used, s.interpreters[b].used)
		})
		others = slices.DeleteFunc(others, func(other uint64) bool { return other == run })
		if len(others) == 0 {
			delete(s.interpreters, run)
			return faultf("expected that what it keeps over a wait takes at most %d MiB, found that it takes more", maxKept>>20)
		}
		for _, other := range others[:(len(others)+1)/2] {
			delete(s.interpreters, other)
		}
		runtime.GC()
	}
	return nil
}

// asker is the host of an interpreter in a child: it asks the program.
type asker struct {
	server  *server
	numbers []float64 // not used yet
	count   int       // of the last ones
}

// maxRandom is how many random numbers an interpreter asks for at once, in the end.
const maxRandom = 256

func (a *asker) ask(q ask) *answer {
	a.server.send(&reply{Ask: &q})
	r := <-a.server.requests
	if r.Answer == nil {
		panic(fmt.Sprintf("expected an answer, found %+v", r))
	}
	return r.Answer
}

func (a *asker) random() float64 {
	if len(a.numbers) == 0 {
		a.count = min(max(1, 2*a.count), maxRandom)
		a.numbers = a.ask(ask{Kind: askRandom, Count: a.count}).Random
	}
	n := a.numbers[0]
	a.numbers = a.numbers[1:]
	return n
}

func (a *asker) header(name string) string { return a.ask(ask{Kind: askHeader, Text: name}).Text }

func (a *asker) token(name string, clean bool) (string, int, *problem) {
	to := a.ask(ask{Kind: askToken, Text: name, Clean: clean})
	return to.Text, to.Number, to.Problem
}

func (a *asker) continueAsNew(input string) *problem {
	return a.ask(ask{Kind: askContinue, Text: input}).Problem
}

func (a *asker) log(level slog.Level, text string) {
	a.server.send(&reply{Ask: &ask{Kind: askLog, Level: level, Text: text}})
}
