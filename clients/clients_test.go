// Package clients_test runs the reference workers of tasks, in Python and TypeScript, against a server whose
// connections are lost, whose processes are killed, as some of them are.
package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store/sqlite"
)

// pythonMain doubles numbers. It adds five items to a stream of the run, in two requests, fails the first
// attempt at some, notes where it stands, and its clock jumps.
const pythonMain = `
import random, sys, time
real = time.time
time.time = lambda: real() + random.uniform(-1e6, 1e6)
from stet_worker import Worker, Failed

def say(line):  # in one write: bodies are threads
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

def job(task):
    say(f"body {task.input} {task.attempt}")
    task.heartbeat({"at": task.input})
    for i in range(5):
        task.append("said", [task.lease, i])
        if i == 2:
            task.flush()
    if task.input % 10 == 3 and task.attempt == 1:
        raise Failed("not yet", code="early", retry_after=0.01)
    if task.input % 10 == 7 and task.attempt == 1:
        raise ValueError("seven")
    if task.input == -2 and task.attempt == 1:
        return {"no": "JSON", "set": {1}}
    if task.input == -3:
        raise Failed("no", code=7, retryable=False)
    if task.input == -4:
        try:
            task.heartbeat({"set": {1}})
        except TypeError:
            say("no detail")
        task.heartbeat("x" * (3 << 20))
    if task.input in (-1, -4):
        say("waiting")
        task.cancelled.wait()
        say("was cancelled")
    time.sleep(0.02)
    return 2 * task.input

Worker(sys.argv[1], sys.argv[2], {"job": job}, room=3, lease=2, wait=2).run()
`

const scriptMain = `
import { Worker, Failed } from "./worker.mjs";
const now = Date.now;
Date.now = () => now() + (Math.random() - 0.5) * 1e9;
async function job(task) {
  console.log("body", task.input, task.attempt);
  task.heartbeat({ at: task.input });
  for (let i = 0; i < 5; i++) {
    task.append("said", [task.lease, i]);
    if (i == 2) await new Promise((done) => setTimeout(done, 110)); // until they are sent
  }
  if (task.input % 10 === 3 && task.attempt === 1) throw new Failed("not yet", { code: "early", retryAfterMs: 10 });
  if (task.input % 10 === 7 && task.attempt === 1) throw new Error("seven");
  const circle = {};
  circle.of = circle;
  if (task.input === -2 && task.attempt === 1) return circle;
  if (task.input === -3) throw Object.assign(new Error("no"), { code: 7, retryable: false });
  if (task.input === -4) {
    try { task.heartbeat(circle); } catch (e) { console.log("no detail"); }
    task.heartbeat("x".repeat(3 << 20));
  }
  if (task.input === -1 || task.input === -4) {
    console.log("waiting");
    await new Promise((done) => task.signal.addEventListener("abort", done));
    console.log("was cancelled");
  }
  await new Promise((done) => setTimeout(done, 20));
  return 2 * task.input;
}
await new Worker(process.argv[2], process.argv[3], { job }, { room: 3, leaseMs: 2000, waitMs: 2000 }).run();
`

var job = stet.Task[int, int]("job")

var flow = stet.Define("flow", func(ctx stet.Context, n int) (int, error) {
	return job.Run(ctx, n, stet.Retry{Attempts: 5, First: 10 * time.Millisecond})
})

// lossy loses every seventh request or so: before it was served, or its answer. It refuses a few with a status that
// asks for a repeat, as a proxy does without a node, or a server with too many requests.
type lossy struct {
	handler atomic.Pointer[http.Handler]
	lost    atomic.Int64
	refused atomic.Bool // a heartbeat
	renewed atomic.Bool // by a heartbeat, after one was refused
}

// answer notes what heartbeats are answered with.
type answer struct {
	http.ResponseWriter
	l *lossy
}

func (a answer) WriteHeader(status int) {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		a.l.refused.Store(true)
	case status == http.StatusOK && a.l.refused.Load():
		a.l.renewed.Store(true)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := l.handler.Load()
	if strings.HasSuffix(r.URL.Path, "/heartbeat") {
		w = answer{w, l}
	}
	switch n := rand.IntN(100); {
	case handler == nil: // no node is there
		http.Error(w, "no node", http.StatusBadGateway)
	case n < 8:
		l.lost.Add(1)
		panic(http.ErrAbortHandler)
	case n < 15:
		(*handler).ServeHTTP(httptest.NewRecorder(), r)
		l.lost.Add(1)
		panic(http.ErrAbortHandler)
	case n < 21:
		l.lost.Add(1)
		status := []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}[n%3]
		http.Error(w, "later", status)
	default:
		(*handler).ServeHTTP(w, r)
	}
}

// nodeVar is set in the process of a node: the path of its store.
const nodeVar = "STET_TEST_NODE"

func TestMain(m *testing.M) {
	if path := os.Getenv(nodeVar); path != "" {
		fmt.Fprintln(os.Stderr, serveNode(path)) // it is killed, and never returns
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveNode runs an engine with a server on the store, and prints its address.
func serveNode(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	engine, err := stet.New(ctx, stet.Config{
		Store: db, Workflows: []stet.Definition{flow}, Logger: quiet, Node: fmt.Sprint("node-", os.Getpid()),
		LeaseTTL: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	handler, err := server.New(engine, server.Options{Access: []access.Authenticator{server.Func(
		func(r *http.Request) (*access.Identity, error) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				return nil, nil
			}
			return &access.Identity{Name: "w", Role: access.Worker, Named: []string{"task:j*"}}, nil
		})}, Logger: quiet, Rate: stet.None})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() { ended <- http.Serve(listener, handler) }()
	return <-ended
}

// node starts a process with an engine and a server on the store. kill kills it.
func node(t *testing.T, path string, l *lossy) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), nodeVar+"="+path), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		l.handler.Store(nil)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		kill()
		t.Fatalf("the node has no address: %v", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: strings.TrimSpace(address)})
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of a node that is killed
	var served http.Handler = proxy
	l.handler.Store(&served)
	return kill
}

// reader returns an engine on the store that executes nothing.
func reader(t *testing.T, path string) *stet.Engine {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	e, err := stet.New(t.Context(), stet.Config{Store: db, Workflows: []stet.Definition{flow},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// output is what workers have printed.
type output struct {
	mu     sync.Mutex
	lines  []string
	bodies int
	added  chan struct{} // capacity 1
}

func (o *output) read(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		o.mu.Lock()
		o.lines = append(o.lines, lines.Text())
		if strings.HasPrefix(lines.Text(), "body ") {
			o.bodies++
		}
		o.mu.Unlock()
		select {
		case o.added <- struct{}{}:
		default:
		}
	}
}

// until waits for a line.
func (o *output) until(t *testing.T, ctx context.Context, what string, ok func(o *output) bool) {
	t.Helper()
	for {
		o.mu.Lock()
		there, tail := ok(o), o.lines[max(len(o.lines)-5, 0):]
		o.mu.Unlock()
		if there {
			return
		}
		select {
		case <-o.added:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v; the workers have printed %q", what, ctx.Err(), tail)
		}
	}
}

func (o *output) has(line string) func(*output) bool {
	return func(*output) bool {
		for _, l := range o.lines {
			if l == line {
				return true
			}
		}
		return false
	}
}

// interpreter returns the path of a program, or skips the test.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("STET_TEST_STRICT") == "1" {
			t.Fatalf("%s is not installed; tools/servers installs it", name)
		}
		t.Skipf("%s is not installed; tools/servers installs it", name)
	}
	return path
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pythonIn puts the client in Python and a main program into a folder, and returns the command that executes it there.
func pythonIn(t *testing.T, dir, main string) []string {
	return programIn(t, dir, "python3", "python/stet_worker.py", "main.py", main)
}

// scriptIn is pythonIn for TypeScript.
func scriptIn(t *testing.T, dir, main string) []string {
	return programIn(t, dir, "node", "typescript/worker.mjs", "main.mjs", main)
}

func programIn(t *testing.T, dir, program, client, name, main string) []string {
	t.Helper()
	path := interpreter(t, program)
	source, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, filepath.Base(client), string(source))
	write(t, dir, name, main)
	return []string{path, name}
}

// TestPythonWorker has all tasks executed over a server that loses requests and answers.
func TestPythonWorker(t *testing.T) { pythonWorker(t, false) }

// TestPythonWorkerIsKilled also kills workers and nodes.
func TestPythonWorkerIsKilled(t *testing.T) {
	soak.Faults(t)
	pythonWorker(t, true)
}

func pythonWorker(t *testing.T, kills bool) {
	t.Parallel()
	dir := t.TempDir()
	program := pythonIn(t, dir, pythonMain)
	workersSurvive(t, dir, program[0], program[1], kills)
}

// TestTypeScriptWorker has all tasks executed over a server that loses requests and answers.
func TestTypeScriptWorker(t *testing.T) { scriptWorker(t, false) }

// TestTypeScriptWorkerIsKilled also kills workers and nodes.
func TestTypeScriptWorkerIsKilled(t *testing.T) {
	soak.Faults(t)
	scriptWorker(t, true)
}

// TestTypeScriptWorkerIsCompiled: worker.mjs, which every Node reads, is worker.ts.
func TestTypeScriptWorkerIsCompiled(t *testing.T) {
	const command = "go run -modfile=../tools/go.mod testdata/strip/main.go typescript/worker.ts"
	words := strings.Fields(command)
	strip := exec.CommandContext(t.Context(), words[0], words[1:]...)
	strip.Env = append(os.Environ(), "GOWORK=off")
	want, err := strip.Output()
	if err != nil {
		t.Fatalf("strip the types: %v", err)
	}
	if got, err := os.ReadFile("typescript/worker.mjs"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("typescript/worker.mjs is not typescript/worker.ts: GOWORK=off %s >typescript/worker.mjs (%v)", command, err)
	}
}

func scriptWorker(t *testing.T, kills bool) {
	t.Parallel()
	dir := t.TempDir()
	program := scriptIn(t, dir, scriptMain)
	workersSurvive(t, dir, program[0], program[1], kills)
}

// workersSurvive runs many tasks by several workers over a server that loses requests and answers. With kills, the
// workers are killed once each, and the server's node twice.
func workersSurvive(t *testing.T, dir, program, main string, kills bool) {
	n := soak.Cases(t, 200)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "stet.db")
	l := &lossy{}
	web := httptest.NewServer(l)
	defer web.Close()
	engine := reader(t, path)
	killNode := node(t, path, l)
	defer func() { killNode() }()

	out := &output{added: make(chan struct{}, 1)}
	var readers sync.WaitGroup
	var killed sync.Map // the workers that were
	begin := func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, main, web.URL, "secret")
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			out.read(pipe)
			if _, ok := killed.Load(cmd); !ok && ctx.Err() == nil {
				t.Error("expected that a worker works until it is killed, found one that has ended by itself")
				cancel()
			}
		})
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		killed.Store(cmd, true)
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	}
	workers := []*exec.Cmd{begin(), begin()}
	defer func() {
		for _, w := range workers {
			kill(w)
		}
		readers.Wait()
	}()

	for i := range n {
		if _, err := flow.Start(ctx, engine, i, stet.ID(fmt.Sprint("r-", i))); err != nil {
			t.Fatal(err)
		}
	}
	if kills {
		out.until(t, ctx, "a third of the bodies", func(o *output) bool { return o.bodies >= n/3 })
		kill(workers[0])
		workers[0] = begin()
		out.until(t, ctx, "half of the bodies", func(o *output) bool { return o.bodies >= n/2 })
		killNode()
		killNode = node(t, path, l)
		out.until(t, ctx, "two thirds of the bodies", func(o *output) bool { return o.bodies >= 2*n/3 })
		killNode()
		kill(workers[1])
		workers[1] = begin() // while nobody answers
		killNode = node(t, path, l)
	}

	for i := range n {
		got, err := flow.Handle(engine, fmt.Sprint("r-", i)).Wait(ctx)
		if err != nil || got != 2*i {
			t.Errorf("run %d: %d, %v", i, got, err)
		}
		saidAll(t, ctx, engine, fmt.Sprint("r-", i))
	}
	planned := n
	for i := range n {
		if i%10 == 3 || i%10 == 7 {
			planned++
		}
	}
	out.mu.Lock()
	bodies := out.bodies
	out.mu.Unlock()
	// A machine with too much to do lets a lease end now and then. The killed workers had up to three each; and until a
	// killed node's leases are over nobody renews those of tasks, twice, of six.
	most := planned + 3
	if kills {
		most = planned + 2*3 + 2*6
	}
	if bodies < planned || bodies > most {
		t.Errorf("%d bodies were executed, of which %d were planned", bodies, planned)
	}
	t.Logf("%d results, %d bodies, %d planned; %d requests or answers were lost", n, bodies, planned, l.lost.Load())

	r, err := flow.Start(ctx, engine, -1)
	if err != nil {
		t.Fatal(err)
	}
	out.until(t, ctx, "the last task", out.has("waiting"))
	if _, err := r.Cancel(ctx, stet.Act{}); err != nil {
		t.Fatal(err)
	}
	out.until(t, ctx, "the cancel", out.has("was cancelled"))
	refuses(t, ctx, engine, out, l)
}

// refuses gives the workers tasks whose bodies have what is no JSON, or is too large: that is an error of the
// body, and leases are renewed all the same.
func refuses(t *testing.T, ctx context.Context, e *stet.Engine, out *output, l *lossy) {
	t.Helper()
	do := func(n int) (int, error) {
		r, err := flow.Start(ctx, e, n)
		if err != nil {
			return 0, err
		}
		return r.Wait(ctx)
	}
	if got, err := do(-2); err != nil || got != -4 {
		t.Errorf("a result that is no JSON: expected that of the second attempt, found %d, %v", got, err)
	}
	var failure *stet.Failure
	if _, err := do(-3); !errors.As(err, &failure) || failure.Code != "7" {
		t.Errorf("a code that is a number: expected 7, found %v", err)
	}
	r, err := flow.Start(ctx, e, -4)
	if err != nil {
		t.Fatal(err)
	}
	out.until(t, ctx, "the refused detail", out.has("no detail"))
	for !l.renewed.Load() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no lease was renewed after a detail that is too large; was one refused: %v", l.refused.Load())
		}
	}
	if _, err := r.Cancel(ctx, stet.Act{}); err != nil {
		t.Fatal(err)
	}
}

var said = stet.Stream[[]any]("said")

// saidAll looks that the items of each body are in order, each once, behind a mark but for the first
// body's; and that the last body has added all.
func saidAll(t *testing.T, ctx context.Context, e *stet.Engine, runID string) {
	t.Helper()
	items, err := said.Items(ctx, e, runID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	next, lease := 0, any("")
	for _, it := range items {
		if it.Again {
			next = 0
			continue
		}
		if it.Value[1] != float64(next) || next > 0 && it.Value[0] != lease {
			t.Fatalf("run %s: item %d is %v, behind %d of %v", runID, it.Position, it.Value, next, lease)
		}
		next, lease = next+1, it.Value[0]
	}
	if next != 5 {
		t.Errorf("run %s: the last body has added %d items", runID, next)
	}
}

// The clients stay what a person reads in a few minutes.
func TestClientsAreShort(t *testing.T) {
	for _, name := range []string{"python/stet_worker.py", "typescript/worker.ts"} {
		source, err := os.ReadFile(name)
		if n := strings.Count(string(source), "\n"); err != nil || n > 125 {
			t.Errorf("%s has %d lines, of at most 125: %v", name, n, err)
		}
	}
}
