package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// watched is a store that notes what turns of runs are committed with.
type watched struct {
	store.Store
	mu    sync.Mutex
	turns []*store.Turn
}

func (w *watched) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	w.mu.Lock()
	w.turns = append(w.turns, b.Turns...)
	w.mu.Unlock()
	return w.Store.Commit(ctx, b)
}

// of returns the turns of a run.
func (w *watched) of(ctx context.Context, t *testing.T, id string) []*store.Turn {
	t.Helper()
	page, err := w.List(ctx, store.Filter{IDs: []string{id}})
	if err != nil || len(page.Runs) != 1 {
		t.Fatal(page, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.turns), func(turn *store.Turn) bool { return turn.Run != page.Runs[0].No })
}

// running calls fn with an engine that runs in a bubble of virtual time.
func running(t *testing.T, cfg stet.Config, fn func(ctx context.Context, t *testing.T, e *stet.Engine)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := stet.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	fn(ctx, t, e)
}

// TestLosersEndWithTheWinner (S5): the promises of operations that have lost are cancelled in the
// commit that records the winner.
func TestLosersEndWithTheWinner(t *testing.T) { bothForms(t, testLosersEndWithTheWinner) }

func testLosersEndWithTheWinner(t *testing.T) {
	w := compile(t, "case", `export default async () => {
		const seen = Signal.next("never").catch(e => e.name);
		const lost = Signal.next("lost");
		await Task.race([Task.run("slow", 5), lost, Task.delay(1e6), () => Task.delay(2e6)]);
		return [await lost.catch(e => e.name), await Task.race([seen, "still waiting"])] }`)
	synctest.Test(t, func(t *testing.T) {
		s := &watched{Store: memory.New()}
		cfg := stet.Config{Store: s, Workflows: []stet.Definition{w}}
		running(t, cfg, func(ctx context.Context, t *testing.T, e *stet.Engine) {
			r, err := w.Start(ctx, e, nil)
			if err != nil {
				t.Fatal(err)
			}
			want(t, ctx, r, `["Cancelled","still waiting"]`)
			for _, turn := range s.of(ctx, t, r.ID()) {
				step, sleeps := false, 0
				for _, entry := range slices.Concat(turn.Rewrites, turn.Entries) {
					step = step || entry.Kind == store.KindStep && entry.State == store.Done
					if entry.Kind == store.KindSleep && entry.State == store.Withdrawn {
						sleeps++
					}
				}
				if step {
					if sleeps != 2 {
						t.Errorf("expected both sleeps to be cancelled in the commit of the winner, found %d", sleeps)
					}
					return
				}
			}
			t.Error("found no commit of the winner")
		})
	})
}

// TestRunMembers (S9): headers, items of a stream, events; what is logged is logged once, though the run is
// replayed at each of its waits.
func TestRunMembers(t *testing.T) { bothForms(t, testRunMembers) }

func testRunMembers(t *testing.T) {
	w := compile(t, "case", `export default async () => {
		console.log("begun", { n: 1 }); console.warn("beware");
		await Stream.append("lines", { at: Run.header("place") });
		await Stream.append("lines", "two");
		const news = [await Event.next("news"), await Event.next("news", { within: 60 })];
		await Event.publish("answers", news);
		console.info("over");
		return [Run.header("place"), ...news] }`)
	var logged bytes.Buffer
	cfg := with(w)
	cfg.MaxParkedBytes = stet.None
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	news := stet.Topic[int]{Name: "news"}
	listener := stet.Define("listener", func(ctx stet.Context, _ int) ([]int, error) {
		return stet.Topic[[]int]{Name: "answers"}.Receive(ctx)
	})
	cfg.Workflows = append(cfg.Workflows, listener)
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		heard, err := listener.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.Start(ctx, e, nil, stet.Headers{"place": "here"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			env.Settle()
			if _, err := news.Publish(ctx, e, i+7); err != nil {
				t.Fatal(err)
			}
		}
		want(t, ctx, r, `["here",7,8]`)
		if got, err := heard.Wait(ctx); err != nil || !slices.Equal(got, []int{7, 8}) {
			t.Errorf("what was published: %v, %v", got, err)
		}
		items, err := stet.Stream[json.RawMessage]("lines").Items(ctx, e, r.ID(), 0, 10)
		if err != nil || len(items) != 2 || string(items[0].Value) != `{"at":"here"}` || string(items[1].Value) != `"two"` {
			t.Errorf("the stream has %v, %v", items, err)
		}
	})
	for _, text := range []string{`begun {\"n\":1}`, "level=WARN msg=beware", "msg=over"} {
		if n := strings.Count(logged.String(), text); n != 1 {
			t.Errorf("expected %s once in the log, found it %d times in %s", text, n, &logged)
		}
	}
}

// TestRetry (S10): a run that has failed with the error of an operation goes on by a retry.
func TestRetry(t *testing.T) { bothForms(t, testRetry) }

func testRetry(t *testing.T) {
	var works atomic.Bool
	shaky := script.Func("shaky", func(context.Context, json.RawMessage) (string, error) {
		if !works.Load() {
			return "", errRefused
		}
		return "done", nil
	})
	w, err := script.Compile("retried", `async function workflow() {
		const first = await Task.run("echo", 1);
		return [first, await Task.run("shaky", 1, { attempts: 2 })] }`, append([]script.Task{shaky}, tasks...))
	if err != nil {
		t.Fatal(err)
	}
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		r, err := w.Start(ctx, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		var step *stet.StepError
		if _, err := r.Wait(ctx); !errors.As(err, &step) || step.Attempts != 2 {
			t.Fatalf("expected the step's own error with 2 attempts, found %v", err)
		}
		works.Store(true)
		if _, err := e.Runs().Retry(ctx, r.ID(), stet.Act{}); err != nil {
			t.Fatal(err)
		}
		want(t, ctx, r, `[1,"done"]`)
	})
}

// TestRandomNumbers (S13): those of a run are the same in each replay, others in another run, and no
// two alike.
func TestRandomNumbers(t *testing.T) { bothForms(t, testRandomNumbers) }

func testRandomNumbers(t *testing.T) {
	w := compile(t, "case", `export default async () => {
		const said = [];
		for (let i = 0; i < 3; i++) said.push([Math.random(), await Task.run("echo", [Math.random()])]);
		const again = said.map(([n, recorded]) => n > 0 && n < 1 && recorded[0] !== n);
		return [again, said] }`)
	cfg := with(w)
	cfg.MaxParkedBytes = stet.None
	seen := map[float64]bool{}
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		for range 2 {
			r, err := w.Start(t.Context(), env.Engine, nil)
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Wait(t.Context())
			if err != nil || !strings.HasPrefix(string(out), `[[true,true,true],`) {
				t.Fatalf("%s, %v", out, err)
			}
			var numbers [2][]json.RawMessage
			if err := json.Unmarshal(out, &numbers); err != nil {
				t.Fatal(err)
			}
			for _, pair := range numbers[1] {
				var said struct {
					n        float64
					recorded [1]float64
				}
				if err := json.Unmarshal(pair, &[]any{&said.n, &said.recorded}); err != nil {
					t.Fatal(err)
				}
				for _, n := range []float64{said.n, said.recorded[0]} {
					if seen[n] {
						t.Errorf("%v comes twice", n)
					}
					seen[n] = true
				}
			}
			report, err := env.Engine.Check(t.Context(), stet.CheckQuery{Filter: store.Filter{IDs: []string{r.ID()}}})
			if err != nil || len(report.Breaks) > 0 {
				t.Errorf("a replay: %+v, %v", report, err)
			}
		}
	})
}

// TestChildrenAreScripts (S8): a child may be a script, too, whether its end is awaited or not.
func TestChildrenAreScripts(t *testing.T) { bothForms(t, testChildrenAreScripts) }

func testChildrenAreScripts(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		deploy(ctx, t, e, "child", `await Task.delay(5); if (input < 0) throw new Error("negative"); return input * 2`)
		deploy(ctx, t, e, "parent", `
			const twice = await Workflow.run("child", 4);
			const failed = await Workflow.run("child", -1).catch(e => [e.name, e.message.includes("negative")]);
			return [twice, failed, await Workflow.start("child", 5)]`)
		out, err := begin(t, ctx, e, "parent").Wait(ctx)
		var got []json.RawMessage
		var id string
		if err != nil || json.Unmarshal(out, &got) != nil || json.Unmarshal(got[2], &id) != nil {
			t.Fatalf("%s, %v", out, err)
		}
		if string(got[0]) != "8" || string(got[1]) != `["TaskError",true]` {
			t.Errorf("the children that were awaited: %s", out)
		}
		want(t, ctx, ref("child").Handle(e, id), "10")
	})
}

// TestChildrenOfScriptsHaveIDs: id, tags and headers of a child are those of Go.
func TestChildrenOfScriptsHaveIDs(t *testing.T) { bothForms(t, testChildrenOfScriptsHaveIDs) }

func testChildrenOfScriptsHaveIDs(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		deploy(ctx, t, e, "child", `return [Run.id, Run.header("place")]`)
		deploy(ctx, t, e, "parent", `
			const one = await Workflow.run("child", 4, { id: "kid-1", tags: { file: "a.csv" }, headers: { place: "here" } });
			const two = await Workflow.start("child", 5, { id: "kid-2" });
			const taken = await Workflow.run("child", 6, { id: "kid-1" }).catch(e => e.message.includes("kid-1"));
			return [one, two, taken]`)
		out, err := begin(t, ctx, e, "parent").Wait(ctx)
		if err != nil || string(out) != `[["kid-1","here"],"kid-2",true]` {
			t.Fatalf("%s, %v", out, err)
		}
		info, err := e.Runs().Info(ctx, "kid-1")
		if err != nil || info.Tags["file"] != "a.csv" {
			t.Errorf("expected the tag file, found %v (%v)", info, err)
		}
	})
}

// TestPriorities (S2): of the steps that wait for a queue that of the highest priority comes first.
func TestPriorities(t *testing.T) {
	var order []int
	note := script.Func("note", func(_ context.Context, n int) (any, error) {
		order = append(order, n)
		time.Sleep(time.Second)
		return nil, nil
	})
	w, err := script.Compile("ordered", `async function workflow() {
		const first = Task.run("note", 0, { key: "first", queue: "line" });
		await Task.delay(0.5);
		await Task.all([first, ...[1, 3, -2, 2].map(n => Task.run("note", n, { key: n, queue: "line", priority: n }))]) }`,
		[]script.Task{note})
	if err != nil {
		t.Fatal(err)
	}
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		if err := e.Queues().Create(ctx, "line", stet.QueueSettings{Concurrency: 1}, stet.Act{}); err != nil {
			t.Fatal(err)
		}
		r, err := w.Start(ctx, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, ctx, r, "null")
	})
	if !slices.Equal(order, []int{0, 3, 2, 1, -2}) {
		t.Errorf("expected the highest priority first, found %v", order)
	}
}

// TestVersionCostsNoCommit (S16): a run is bound to its version by one entry, in a commit that it has anyway.
// Only where a step comes first it is one before: the step is that of this version, whatever happens.
func TestVersionCostsNoCommit(t *testing.T) {
	for body, more := range map[string]int{
		`await Task.delay(5); await Task.run("echo", 1); return 1`: 0,
		`await Task.run("echo", 1); await Task.delay(5); return 1`: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &watched{Store: memory.New()}
			w, err := script.Compile("compiled", plain(body), tasks)
			if err != nil {
				t.Fatal(err)
			}
			cfg := stet.Config{Store: s, Library: open(t), Workflows: []stet.Definition{w}}
			running(t, cfg, func(ctx context.Context, t *testing.T, e *stet.Engine) {
				deploy(ctx, t, e, "s", body)
				var commits, entries [2]int
				for i, name := range []string{"compiled", "s"} {
					r := begin(t, ctx, e, name)
					want(t, ctx, r, "1")
					commits[i] = len(s.of(ctx, t, r.ID()))
					history, err := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{})
					if err != nil {
						t.Fatal(err)
					}
					entries[i] = len(history)
				}
				if commits[0]+more != commits[1] || entries[0]+1 != entries[1] {
					t.Errorf("%s: without a version %d commits and %d entries, with one %d and %d; expected %d commits more", body,
						commits[0], entries[0], commits[1], entries[1], more)
				}
			})
		})
	}
}

// TestAnotherNodeLearnsNames (S18): a node that has deployed nothing executes a script when it has looked
// again.
func TestAnotherNodeLearnsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		node := func(name string) stet.Config {
			return stet.Config{Store: s, Library: open(t), Node: name, Build: "test", Poll: time.Second}
		}
		running(t, node("b"), func(ctx context.Context, t *testing.T, _ *stet.Engine) {
			var a *stet.Engine
			running(t, node("a"), func(ctx context.Context, t *testing.T, e *stet.Engine) {
				time.Sleep(time.Minute) // both have looked, and found nothing
				a = e
				deploy(ctx, t, a, "late", `return await Task.run("echo", 1)`)
				time.Sleep(2 * time.Second)
			})
			want(t, ctx, begin(t, ctx, a, "late"), "1") // a has ended
		})
	})
}

// stalls returns how often runs have stalled.
func (w *watched) stalls() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, turn := range w.turns {
		if turn.Update != nil && turn.Update.Status == store.Stalled {
			n++
		}
	}
	return n
}

// TestResumeAfterAStall: what has stalled for a limit executes its stretch again on resume, and goes on when
// it is bound to a version that keeps to the limits.
func TestResumeAfterAStall(t *testing.T) { bothForms(t, testResumeAfterAStall) }

func testResumeAfterAStall(t *testing.T) {
	s := &watched{Store: memory.New()}
	inRealTime(t, s, open(t), func(ctx context.Context, e *stet.Engine) {
		until := func(what string, ok func() bool) {
			t.Helper()
			for tick := time.NewTicker(10 * time.Millisecond); !ok(); {
				select {
				case <-tick.C:
				case <-ctx.Done():
					t.Fatal("waiting for ", what)
				}
			}
		}
		stalled := func(r *stet.Run[json.RawMessage]) bool {
			info, err := r.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return info.Status == store.Stalled
		}
		deploy(ctx, t, e, "s", `const a = await Task.run("echo", 1); for (;;) {}`)
		deploy(ctx, t, e, "s", `const a = await Task.run("echo", 1); return a + await Task.run("echo", 2)`)
		r := begin(t, ctx, e, "s", stet.Headers{"script.s": "1"})
		until("a stall", func() bool { return s.stalls() == 1 && stalled(r) })
		if _, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); err != nil {
			t.Fatal(err)
		}
		until("another stall", func() bool { return s.stalls() == 2 && stalled(r) })
		if err := stet.ScriptsOf(e).Move(ctx, r.ID(), 2, stet.Act{}); err != nil { // lets it go on
			t.Fatal(err)
		}
		until("the end of the stall", func() bool { return !stalled(r) })
		want(t, ctx, r, "3")
	})
}
