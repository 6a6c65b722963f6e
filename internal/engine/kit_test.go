package engine_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// newEngine returns an engine with the rules of tallies. All tests run it in a bubble of
// testing/synctest, so that its times cost nothing.
func newEngine(t *testing.T, s store.Store, node string, options ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	cfg := engine.Config{
		Store: s, Node: node, Build: "b", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Entities: map[string]engine.MakeRules{tallies: func(*store.Run) entity.Rules { return &tally{} }},
		MaxSteps: 10, MaxRuns: 10, MaxParkedBytes: 40_000, ParkFor: time.Second, Sweep: time.Minute,
		Groups:   []string{store.DefaultGroup},
		LeaseTTL: 30 * time.Second, Renew: 10 * time.Second, Poll: time.Second, Grace: time.Second,
		PoisonLimit: 3, AloneFor: time.Second,
	}
	for _, option := range options {
		option(&cfg)
	}
	d, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return engine.New(cfg, d)
}

// serve runs the engine until the returned function is called.
func serve(t *testing.T, e *engine.Engine) (stop func()) {
	t.Helper()
	end := begin(t, e)
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// begin runs the engine until the returned function is called, which returns its error.
func begin(t *testing.T, e *engine.Engine) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// code is the code of a workflow of these tests.
type code func(*runner.Branch) ([]byte, error)

// with registers a workflow.
func with(name string, fn code) func(*engine.Config) {
	return func(cfg *engine.Config) {
		if cfg.Workflows == nil {
			cfg.Workflows = map[string]engine.Workflow{}
		}
		cfg.Workflows[name] = engine.Workflow{
			Code: func(*store.Run) func(*runner.Branch) ([]byte, *stored.Failure) {
				return func(b *runner.Branch) ([]byte, *stored.Failure) {
					out, err := fn(b)
					if err != nil {
						return nil, &stored.Failure{Code: stored.CodeStep, Message: err.Error()}
					}
					return out, nil
				}
			},
		}
	}
}

// logging sends the log of an engine to l.
func logging(l *logs) func(*engine.Config) {
	return func(cfg *engine.Config) { cfg.Log = slog.New(slog.NewTextHandler(l, nil)) }
}

// hears returns the code that receives n messages "word", one after the other, and
// returns their values.
func hears(n int) code {
	return func(b *runner.Branch) ([]byte, error) {
		var said []string
		for range n {
			word := runner.Receive{Call: runner.Call{Name: "word"}, Names: []string{"word"}, Max: 1}
			messages, err := b.Receive(word)
			if err != nil {
				return nil, err
			}
			said = append(said, string(messages[0].Value))
		}
		return []byte(strings.Join(said, " ")), nil
	}
}

// does returns the code that executes a step and returns its value.
func does(body func(context.Context) string) code {
	return func(b *runner.Branch) ([]byte, error) { return do(b, "work", body) }
}

// do executes a step, with one attempt.
func do(b *runner.Branch, name string, body func(context.Context) string) ([]byte, error) {
	return b.Step(runner.Step{
		Call: runner.Call{Name: name}, Policy: runner.Policy{Attempts: 1},
		Func: func(ctx context.Context, _ *runner.Body) runner.BodyResult {
			return runner.BodyResult{Value: []byte(body(ctx))}
		},
	})
}

// newStart returns the start of a run, for the engine's store.
func newStart(e *engine.Engine, workflow, id string) *store.Start {
	s := &store.Start{ID: id, Workflow: workflow, Shard: store.Shard{Group: store.DefaultGroup, Slot: e.Slot(id)}}
	copy(s.Seed[:], id)
	return s
}

// start starts runs of a workflow.
func start(t *testing.T, e *engine.Engine, workflow string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		tell(t, e, store.Command{Start: newStart(e, workflow, id)})
	}
}

// send sends a run the word.
func send(t *testing.T, e *engine.Engine, runID, word string) {
	t.Helper()
	it := item("word", word, word)
	tell(t, e, store.Command{RunID: runID, Item: &it})
}

// request sends a verb to a run. It returns the answer once that is decided.
func request(
	t *testing.T, e *engine.Engine, runID string, kind store.ItemKind, id string,
) (accepted bool, reason string) {
	t.Helper()
	it := store.Item{Kind: kind, Name: "operator", ID: id, Origin: id}
	answer := tell(t, e, store.Command{RunID: runID, Item: &it})
	verdict, err := e.Verdict(limit(t), answer.Run.No, answer.Item, id)
	if err != nil {
		t.Fatal(err)
	}
	return verbs.DecodeVerdict(verdict)
}

func tell(t *testing.T, e *engine.Engine, c store.Command) store.Answer {
	t.Helper()
	answers, err := e.Apply(t.Context(), []store.Command{c})
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].Outcome != store.Applied {
		t.Fatalf("a command's outcome is %d", answers[0].Outcome)
	}
	return answers[0]
}

// limit returns a context that ends long after what the test waits for, in virtual time.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// expectEnd waits for the end of a run, and compares its status and output.
func expectEnd(t *testing.T, e *engine.Engine, id string, status store.Status, output string) {
	t.Helper()
	run, ok, err := e.Waiters().Wait(limit(t), id, 0)
	if err != nil || !ok {
		t.Fatalf("waiting for %s: %t, %v", id, ok, err)
	}
	if run.Status != status || output != "" && string(run.Output) != output {
		t.Errorf("run %s is %s with %q (%s); want %s with %q", id, run.Status, run.Output, run.Reason, status, output)
	}
}

// expectStatus compares the status of a run as it stands.
func expectStatus(t *testing.T, e *engine.Engine, id string, status store.Status) {
	t.Helper()
	run, ok, err := e.Get(t.Context(), id)
	if err != nil || !ok || run.Status != status {
		t.Errorf("run %s is %s (%t, %v); want %s", id, run.Status, ok, err, status)
	}
}

// gated is a store of which a test can watch, hold and change single calls. A gate that is
// nil lets the call through. Gates are set before the engine runs.
type gated struct {
	store.Store
	apply   func(context.Context, []store.Command) ([]store.Answer, store.Time, error)
	commit  func(context.Context, store.Batch) (store.BatchResult, error)
	claim   func(context.Context, store.ClaimRequest) (store.Claims, error)
	load    func(context.Context, []store.RunNo) ([]store.Snapshot, []store.RunNo, error)
	changed func(context.Context) (store.Change, error)
	list    func(context.Context, store.Filter) (store.Page, error)
	loads   atomic.Int64 // calls of Load
}

func (g *gated) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if g.apply != nil {
		return g.apply(ctx, commands)
	}
	return g.Store.Apply(ctx, commands)
}

func (g *gated) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if g.commit != nil {
		return g.commit(ctx, b)
	}
	return g.Store.Commit(ctx, b)
}

func (g *gated) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if g.list != nil {
		return g.list(ctx, f)
	}
	return g.Store.List(ctx, f)
}

func (g *gated) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if g.claim != nil {
		return g.claim(ctx, req)
	}
	return g.Store.Claim(ctx, req)
}

func (g *gated) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	g.loads.Add(1)
	if g.load != nil {
		return g.load(ctx, runs)
	}
	return g.Store.Load(ctx, runs)
}

func (g *gated) Changed(ctx context.Context) (store.Change, error) {
	if g.changed != nil {
		return g.changed(ctx)
	}
	return g.Store.Changed(ctx)
}

// expectLoads compares how often runs were loaded since the last call.
func (g *gated) expectLoads(t *testing.T, want int64) {
	t.Helper()
	if got := g.loads.Swap(0); got != want {
		t.Errorf("the store was asked %d times to load runs; want %d", got, want)
	}
}

// turnsTo returns how many turns of the batch give their run the status.
func turnsTo(b *store.Batch, status store.Status) int {
	n := 0
	for _, t := range b.Turns {
		if t.Update != nil && t.Update.Status == status {
			n++
		}
	}
	return n
}

// logs is a log in memory.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the lines of the log that contain a text.
func (l *logs) lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(l.text.String(), "\n")
	return slices.DeleteFunc(all, func(line string) bool { return !strings.Contains(line, text) })
}

// trace is what happened, in its order.
type trace struct {
	mu  sync.Mutex
	all []string
}

func (tr *trace) add(what string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.all = append(tr.all, what)
}

// has reports whether something has happened since the last call of expect.
func (tr *trace) has(what string) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Contains(tr.all, what)
}

// expect compares what has happened since the last call.
func (tr *trace) expect(t *testing.T, want ...string) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !slices.Equal(tr.all, want) {
		t.Errorf("happened: %q; want %q", tr.all, want)
	}
	tr.all = nil
}

// expectAll compares what has happened since the last call, in any order.
func (tr *trace) expectAll(t *testing.T, want ...string) {
	t.Helper()
	tr.mu.Lock()
	slices.Sort(tr.all)
	tr.mu.Unlock()
	tr.expect(t, want...)
}
