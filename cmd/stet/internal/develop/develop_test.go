package develop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// source is a program that says what it is, and ends when it is asked to.
const source = `package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

//go:embed text.txt
var text string

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("version VERSION", os.Args[1], os.Getenv("WHERE"), text)
	<-asked
	fmt.Println("bye VERSION")
}
`

// sink is what a program prints.
type sink struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // is closed when there is more
}

func newSink() *sink { return &sink{more: make(chan struct{})} }

func (s *sink) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	return s.text.Write(data)
}

// wait waits until a text was printed.
func (s *sink) wait(t *testing.T, text string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		s.mu.Lock()
		more, found := s.more, strings.Contains(s.text.String(), text)
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("expected %q within a minute, found %s", text, &s.text)
		}
	}
}

// module is a module with one program.
type module struct {
	t   *testing.T
	dir string
	*Program
	out *sink
	end func() error // ends Run
}

func (m *module) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *module) version(v string) { m.write("main.go", strings.ReplaceAll(source, "VERSION", v)) }

// until waits for a state.
func (m *module) until(what string, is func(State) bool) State {
	m.t.Helper()
	limit := time.After(time.Minute)
	for {
		state, changed := m.State()
		if is(state) {
			return state
		}
		select {
		case <-changed:
		case <-limit:
			m.t.Fatalf("expected %s within a minute, found %+v", what, state)
		}
	}
}

func in(phase Phase, starts int) func(State) bool {
	return func(s State) bool { return s.Phase == phase && s.Starts == starts }
}

func develop(t *testing.T, grace time.Duration, files map[string]string) *module {
	t.Helper()
	m := &module{t: t, dir: t.TempDir(), out: newSink()}
	m.write("go.mod", "module example.com/shop\n\ngo 1.26\n")
	for name, text := range files {
		m.write(name, text)
	}
	m.Program = New(Options{
		Dir: m.dir, Package: ".", Args: []string{"argued"}, Env: []string{"WHERE=here", "GOWORK=off"},
		Bin: filepath.Join(m.dir, ".stet", "bin"), Out: m.out, Err: m.out, Every: 20 * time.Millisecond, Grace: grace,
		Say: func(text string) { t.Log(text) },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	m.end = sync.OnceValue(func() error { stop(); return <-ended })
	t.Cleanup(func() {
		if err := m.end(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestProgramIsRenewed: a change of a source or of an embedded file builds and starts the
// program again; a build that fails leaves the former one.
func TestProgramIsRenewed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a program of Windows is not asked to end")
	}
	m := develop(t, time.Minute, map[string]string{
		"main.go": strings.ReplaceAll(source, "VERSION", "1"), "text.txt": "one",
	})
	first := m.until("the first start", in(Running, 1))
	m.out.wait(t, "version 1 argued here one")

	m.write("main.go", "package main\n\nfunc main() { undefined() }\n")
	failed := m.until("a failed build", func(s State) bool { return s.Phase == BuildFailed })
	if failed.PID != first.PID || !strings.Contains(failed.Problem, "main.go:3") {
		t.Errorf("after a failed build: %+v", failed)
	}
	m.version("2")
	second := m.until("the second start", in(Running, 2))
	m.out.wait(t, "version 2 argued here one")
	m.out.wait(t, "bye 1")
	if second.PID == first.PID {
		t.Errorf("the process is the former one: %+v", second)
	}
	m.write("text.txt", "two") // it is embedded
	m.until("the third start", in(Running, 3))
	m.out.wait(t, "version 2 argued here two")
	m.write("notes.txt", "x")
	m.write("main_test.go", "package main\n")
	m.write("other.go", "package main\n") // a new file
	m.until("the fourth start", in(Running, 4))
	if err := m.end(); err != nil {
		t.Error(err)
	}
	if state, _ := m.State(); state.Starts != 4 {
		t.Errorf("started %d times", state.Starts)
	}
	if lines := m.Lines("bye 2"); len(lines) < 2 || lines[0].From != "out" {
		t.Errorf("the lines: %+v", lines)
	}
	if lines := m.Lines("undefined: undefined"); len(lines) != 1 {
		t.Errorf("the failed build is shown %d times: %+v", len(lines), lines)
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, ".stet", "bin", "*")); err != nil || len(left) != 1 {
		t.Errorf("what was built is left: %v, %v", left, err)
	}
}

// TestProgramEndsByItself is shown, and it is started again after a change.
func TestProgramEndsByItself(t *testing.T) {
	m := develop(t, time.Minute, map[string]string{"main.go": "package main\n\nfunc main() { panic(\"no order\") }\n"})
	ended := m.until("the end", func(s State) bool { return s.Phase == Ended })
	if ended.PID != 0 || ended.Problem != "exit status 2" {
		t.Errorf("it stands as %+v", ended)
	}
	m.out.wait(t, "no order")
	if lines := m.Lines("no order"); len(lines) == 0 || lines[0].From != "err" {
		t.Errorf("the lines: %+v", lines)
	}
	m.write("main.go", "package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Hour) }\n")
	m.until("another start", func(s State) bool { return s.Starts == 2 })
}

// TestStubbornProgramIsKilled once its grace is over.
func TestStubbornProgramIsKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a program of Windows is not asked to end")
	}
	m := develop(t, 50*time.Millisecond, map[string]string{"main.go": `package main

import (
	"fmt"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	time.Sleep(time.Hour)
}
`})

	m.until("the start", in(Running, 1))
	m.out.wait(t, "ready")
	if err := m.end(); err != nil {
		t.Error(err)
	}
	if len(m.Lines("is killed")) != 1 {
		t.Errorf("the lines: %+v", m.Lines(""))
	}
}

// TestNoModule: where there is no module, there is nothing to build.
func TestNoModule(t *testing.T) {
	dir := t.TempDir()
	p := New(Options{Dir: dir, Package: ".", Bin: filepath.Join(dir, "bin"), Say: func(string) {}})
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "go mod init") {
		t.Errorf("expected what to do, found %v", err)
	}
}

// TestLinesAreBounded: the newest are kept, in order, and long ones are cut.
func TestLinesAreBounded(t *testing.T) {
	r, out := &ring{}, newSink()
	w := r.writer("out", out)
	for i := range maxLines + 10 {
		fmt.Fprintf(w, "line %d of run o-%d\n", i, i%2)
	}
	fmt.Fprint(w, "unended")
	if lines := r.with(""); len(lines) != maxLines || lines[0].Text != "line 10 of run o-0" ||
		lines[maxLines-1].Number != maxLines+10 {
		t.Errorf("%d lines, the first %+v", len(lines), lines[0])
	}
	if lines := r.with("o-1"); len(lines) != maxLines/2 {
		t.Errorf("%d lines of one run", len(lines))
	}
	w.flush()
	fmt.Fprint(w, strings.Repeat("x", maxLine+1))
	lines := r.with("")
	if lines[maxLines-2].Text != "unended" || len(lines[maxLines-1].Text) > maxLine+3 {
		t.Errorf("the last lines: %+v", lines[maxLines-2:])
	}
}
