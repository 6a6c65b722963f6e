package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// ref is the workflow of a script.
func ref(name string) *stet.Workflow[json.RawMessage, json.RawMessage] {
	return stet.Ref[json.RawMessage, json.RawMessage](name)
}

func open(t testing.TB) *script.Library {
	t.Helper()
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: isolates(t)})
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func plain(body string) string { return "async function workflow(input) {" + body + "}" }

func deploy(ctx context.Context, t testing.TB, e *stet.Engine, name, body string) int {
	t.Helper()
	source := plain(body) // the bundler sleeps in a goroutine of its own
	n, err := script.Deploy(ctx, e, name, stet.ScriptCode{Code: source}, stet.Act{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func want(t testing.TB, ctx context.Context, r *stet.Run[json.RawMessage], out string) {
	t.Helper()
	if got, err := r.Wait(ctx); err != nil || string(got) != out {
		t.Errorf("run %s: expected %s, got %s, %v", r.ID(), out, got, err)
	}
}

func begin(
	t testing.TB, ctx context.Context, e *stet.Engine, name string, opts ...stet.StartOption,
) *stet.Run[json.RawMessage] {
	t.Helper()
	r, err := ref(name).Start(ctx, e, json.RawMessage("null"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// goOn lets a run go on that waits for the message.
func goOn(t testing.TB, ctx context.Context, e *stet.Engine, r *stet.Run[json.RawMessage]) {
	t.Helper()
	if err := stet.Message[bool]("go").Send(ctx, e, r.ID(), true); err != nil {
		t.Fatal(err)
	}
}

// TestVersions (S15, S16): the same content is the same number; a run is bound to the version
// that is current when it begins, or to that of its header, by one entry and no commit.
func TestVersions(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		scripts := stet.ScriptsOf(e)
		one := deploy(ctx, t, e, "s", `await Signal.next("go"); return 1`)
		r1 := begin(t, ctx, e, "s")
		env.Settle()
		two := deploy(ctx, t, e, "s", `await Signal.next("go"); return 2`)
		again := deploy(ctx, t, e, "s", `await Signal.next("go"); return 1`)
		if current, err := scripts.Current(ctx, "s"); one != 1 || two != 2 || again != 1 || current != 1 || err != nil {
			t.Errorf("versions %d, %d, %d; current %d, %v", one, two, again, current, err)
		}
		if err := scripts.Use(ctx, "s", 2, stet.Act{Why: "back"}); err != nil {
			t.Fatal(err)
		}
		r2, rh := begin(t, ctx, e, "s"), begin(t, ctx, e, "s", stet.Headers{"script.s": "1"})
		env.Settle()
		for r, bound := range map[*stet.Run[json.RawMessage]]int{r1: 1, r2: 2, rh: 1} {
			if n, err := scripts.BoundTo(ctx, r.ID()); n != bound || err != nil {
				t.Errorf("run %s is bound to %d, expected %d, %v", r.ID(), n, bound, err)
			}
			goOn(t, ctx, e, r)
			want(t, ctx, r, fmt.Sprint(bound))
		}
		if err := scripts.Use(ctx, "s", 7, stet.Act{}); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("use of no version: %v", err)
		}
		if _, err := scripts.Deploy(ctx, "stet.x", stet.ScriptCode{Code: "1"}, stet.Act{}); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("a name of the engine's own: %v", err)
		}
		if _, err := script.Deploy(ctx, e, "s", stet.ScriptCode{Code: "("}, stet.Act{}); !errors.Is(err, script.ErrSource) {
			t.Errorf("a wrong source: %v", err)
		}
	})
}

// TestABoundRunKeepsItsVersion (S17): through eviction, another process, deploys, fork and
// rewind; a rewind to "/" and a continue-as-new take the current one.
func TestABoundRunKeepsItsVersion(t *testing.T) { bothForms(t, testABoundRunKeepsItsVersion) }

func testABoundRunKeepsItsVersion(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		body := func(n int) string {
			return fmt.Sprintf(`const a = await Task.run("echo", %d); await Signal.next("go"); return [a, %d]`, n, n)
		}
		deploy(ctx, t, e, "s", body(1))
		begin(t, ctx, e, "s", stet.ID("r"))
		env.Settle()
		deploy(ctx, t, e, "s", body(2))
		if _, err := e.Runs().Pause(ctx, "r", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		fork, err := e.Runs().Fork(ctx, "r", "echo/step", stet.Act{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Runs().Rewind(ctx, "r", "echo/step", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Runs().Resume(ctx, "r", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*stet.Run[json.RawMessage]{ref("s").Handle(e, "r"), ref("s").Handle(e, fork)} {
			goOn(t, ctx, e, r)
			want(t, ctx, r, "[1,1]")
		}
		if _, err := e.Runs().Rewind(ctx, "r", "/", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		want(t, ctx, ref("s").Handle(e, "r"), "[2,2]") // the message has returned

		deploy(ctx, t, e, "c", `if (input) return "old"; await Signal.next("go"); Run.continueAsNew(true)`)
		c := begin(t, ctx, e, "c")
		env.Settle()
		deploy(ctx, t, e, "c", `return "new"`)
		goOn(t, ctx, e, c)
		want(t, ctx, c, `"new"`)
	})
}

// TestNamesAreLearned (S18): a node learns names while it works; while there is no version
// the run stays as it is, and then goes on.
func TestNamesAreLearned(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		if _, err := ref("late").Start(ctx, e, nil); !errors.Is(err, stet.ErrUnknownWorkflow) {
			t.Errorf("a start of nothing: %v", err)
		}
		deploy(ctx, t, e, "late", `return 1`)
		want(t, ctx, begin(t, ctx, e, "late"), "1")
		if err := stet.ScriptsOf(e).Remove(ctx, "late", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		r := begin(t, ctx, e, "late", stet.ID("waits"))
		time.Sleep(time.Minute)
		info, err := e.Runs().Info(ctx, "waits")
		if err != nil || info.Status != store.Running && info.Status != store.Queued {
			t.Errorf("a run without a version: %+v, %v", info, err)
		}
		deploy(ctx, t, e, "late", `return 2`)
		want(t, ctx, r, "2")
	})
}

// TestARunWithoutCodeIsEnded: a run whose script has no version at all waits for one, and is cancelled or terminated,
// after a restart as well. One that is to begin with a version that is not there stalls with the version in its reason,
// and goes on once it is deployed.
func TestARunWithoutCodeIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), memory.New()
		execute := func(while func(e *stet.Engine)) {
			e, err := stet.New(ctx, stet.Config{Store: s.Join(), Library: open(t), MaxParkedBytes: stet.None})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			synctest.Wait()
			while(e)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		status := func(e *stet.Engine, id string) string {
			info, err := e.Runs().Info(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(info.Status, " ", info.Cause)
		}
		end := func(e *stet.Engine, id, want string, verb func(context.Context, string, stet.Act) (bool, error)) {
			t.Helper()
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if _, err := verb(limited, id, stet.Act{Why: "it is not needed"}); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			if got := status(e, id); got != want {
				t.Errorf("%s is %s, want %s", id, got, want)
			}
		}
		execute(func(e *stet.Engine) {
			deploy(ctx, t, e, "s", `return 1`)
			deploy(ctx, t, e, "t", `return 1`)
			if err := stet.ScriptsOf(e).Remove(ctx, "s", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"cancel", "terminate", "later"} {
				begin(t, ctx, e, "s", stet.ID(id))
			}
			for _, id := range []string{"none", "none, cancelled"} {
				begin(t, ctx, e, "t", stet.ID(id), stet.Headers{stet.ScriptHeader("t"): "2"})
			}
			time.Sleep(time.Minute)
			end(e, "cancel", "cancelled ", e.Runs().Cancel)
			end(e, "terminate", "cancelled ", e.Runs().Terminate)
			end(e, "none, cancelled", "cancelled ", e.Runs().Cancel)
			if got := status(e, "none"); got != "stalled code" {
				t.Errorf("a run of a version that is not there is %s", got)
			}
		})
		execute(func(e *stet.Engine) {
			time.Sleep(time.Minute)
			end(e, "later", "cancelled ", e.Runs().Terminate)
			deploy(ctx, t, e, "t", `return 2`)
			if _, err := e.Runs().Resume(ctx, "none", stet.Act{}); err != nil {
				t.Error(err)
			}
			want(t, ctx, ref("t").Handle(e, "none"), "2")
		})
	})
}

// TestCollect (S19): only versions go that are not current and that no run is bound to.
func TestCollect(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		scripts := stet.ScriptsOf(e)
		for i := range 4 {
			deploy(ctx, t, e, "s", fmt.Sprintf(`await Signal.next("go"); return %d`, i+1))
			if i == 1 {
				begin(t, ctx, e, "s", stet.ID("two"))
				env.Settle()
			}
		}
		if gone, err := scripts.Collect(ctx, "s", stet.Act{}); len(gone) != 0 || err != nil {
			t.Errorf("a version that was current a moment ago was deleted: %v, %v", gone, err)
		}
		time.Sleep(time.Hour)
		if gone, err := scripts.Collect(ctx, "s", stet.Act{}); fmt.Sprint(gone) != "[1 3]" || err != nil {
			t.Errorf("expected 1 and 3 to be deleted, found %v, %v", gone, err)
		}
		r := ref("s").Handle(e, "two")
		goOn(t, ctx, e, r)
		want(t, ctx, r, "2")
		if n := deploy(ctx, t, e, "s", "return 5"); n != 5 {
			t.Errorf("a number was given twice: %d", n)
		}
		time.Sleep(time.Hour)
		if gone, err := scripts.Collect(ctx, "s", stet.Act{}); fmt.Sprint(gone) != "[4]" || err != nil {
			t.Errorf("a run that has ended keeps 2: expected 4 to be deleted, found %v, %v", gone, err)
		}
		if _, err := e.Runs().Delete(ctx, "two", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if gone, err := scripts.Collect(ctx, "s", stet.Act{}); fmt.Sprint(gone) != "[2]" || err != nil {
			t.Errorf("without the run: expected 2 to be deleted, found %v, %v", gone, err)
		}
	})
}

// TestMove (S20): a run is moved to a version that its history fits, and refused for others.
func TestMove(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		scripts := stet.ScriptsOf(e)
		deploy(ctx, t, e, "s", `await Task.run("echo", 1); await Signal.next("go"); return "one"`)
		r := begin(t, ctx, e, "s", stet.ID("r"))
		env.Settle()
		deploy(ctx, t, e, "s", `await Task.run("add", [1, 2]); await Signal.next("go"); return "two"`)
		deploy(ctx, t, e, "s", `await Task.run("echo", 1); await Signal.next("go"); return "three"`)
		var broken *stet.ReplayError
		if err := scripts.Move(ctx, "r", 2, stet.Act{}); !errors.As(err, &broken) || broken.Location != "echo/step" ||
			!strings.Contains(broken.Remedy, "stet script move") || strings.Contains(broken.Remedy, "Removed") {
			t.Errorf("a move to what does not fit: %v", err)
		}
		if err := scripts.Move(ctx, "r", 9, stet.Act{}); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("a move to no version: %v", err)
		}
		if n, err := scripts.BoundTo(ctx, "r"); n != 1 || err != nil {
			t.Errorf("a refused move has bound it to %d, %v", n, err)
		}
		if err := scripts.Move(ctx, "r", 3, stet.Act{Why: "law"}); err != nil {
			t.Fatal(err)
		}
		audit, err := e.Runs().Audit(ctx, "r")
		if err != nil || len(audit) == 0 || audit[len(audit)-2].Why != "law" {
			t.Errorf("the audit: %+v, %v", audit, err)
		}
		goOn(t, ctx, e, r)
		want(t, ctx, r, `"three"`)
		if err := scripts.Move(ctx, "r", 1, stet.Act{}); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("a move of a run that has ended: %v", err)
		}
	})
}

// TestAMoveThatIsInterrupted: a run goes on after a move that no process has answered in time, and after one whose
// process was killed between its acts, once the move is made again.
func TestAMoveThatIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), memory.New()
		engine := func() *stet.Engine {
			e, err := stet.New(ctx, stet.Config{Store: s.Join(), Library: open(t), Build: "b"})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		execute := func(e *stet.Engine, while func()) {
			ctx, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			synctest.Wait()
			while()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		paused := func(e *stet.Engine) bool {
			info, err := e.Runs().Info(ctx, "r")
			if err != nil {
				t.Fatal(err)
			}
			return info.Marks&store.Paused != 0
		}
		e := engine()
		execute(e, func() {
			deploy(ctx, t, e, "s", `await Signal.next("go"); return "one"`)
			begin(t, ctx, e, "s", stet.ID("r"))
			deploy(ctx, t, e, "s", `await Signal.next("go"); return "two"`)
			time.Sleep(time.Minute)
		})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := stet.ScriptsOf(e).Move(short, "r", 2, stet.Act{}); !errors.Is(err, stet.ErrPending) {
			t.Errorf("a move that no process answers: %v", err)
		}
		e = engine()
		execute(e, func() {
			time.Sleep(time.Minute)
			if paused(e) {
				t.Error("after a move that was not answered in time, the run is paused")
			}
			// A move that was killed has paused it.
			act := stet.Act{Why: "moved to another version of its script: law"}
			if _, err := e.Runs().Pause(ctx, "r", act); err != nil || !paused(e) {
				t.Fatal(err)
			}
			if err := stet.ScriptsOf(e).Move(ctx, "r", 2, stet.Act{Why: "law"}); err != nil || paused(e) {
				t.Errorf("a move again: %v, paused: %t", err, paused(e))
			}
			// One that a person has paused stays so.
			if _, err := e.Runs().Pause(ctx, "r", stet.Act{Why: "look"}); err != nil {
				t.Fatal(err)
			}
			if err := stet.ScriptsOf(e).Move(ctx, "r", 1, stet.Act{}); err != nil || !paused(e) {
				t.Errorf("a move of a paused run: %v, paused: %t", err, paused(e))
			}
		})
	})
}

// TestCheck (S21): runs are replayed against their own versions, or a candidate.
func TestCheck(t *testing.T) {
	lib := open(t)
	stettest.Run(t, stet.Config{Library: lib}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		for i := range 3 {
			deploy(ctx, t, e, "s", fmt.Sprintf(`await Task.run("echo", 1); await Signal.next("go"); return %d`, i))
			begin(t, ctx, e, "s")
			env.Settle()
		}
		report, err := e.Check(ctx, stet.CheckQuery{})
		if err != nil || report.Replayed != 3 || len(report.Breaks) != 0 {
			t.Errorf("against their own: %+v, %v", report, err)
		}
		candidate, err := lib.Candidate("s", plain(`await Task.run("add", [1])`))
		if err != nil {
			t.Fatal(err)
		}
		report, err = e.Check(ctx, stet.CheckQuery{Definition: candidate})
		if err != nil || report.Replayed != 3 || len(report.Breaks) != 3 {
			t.Errorf("against a candidate: %+v, %v", report, err)
		}
	})
}

// TestDeploysUnderRuns (S17): versions are deployed at random moments under a thousand runs,
// which are replayed at each of their waits. None changes its version.
func TestDeploysUnderRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		current, bound := 0, map[*stet.Run[json.RawMessage]]int{}
		for i := range 1000 {
			if i == 0 || random.IntN(20) == 0 {
				n := 1 + random.IntN(12)
				current = deploy(ctx, t, e, "s", fmt.Sprintf(`const v = %d;
					await Task.delay(100 * Math.random());
					const w = await Task.run("echo", v);
					await Task.all([Task.delay(100 * Math.random()), Task.run("echo", v, { key: "k" })]);
					return [v, w, %d]`, n, n))
			}
			r := begin(t, ctx, e, "s", stet.ID(fmt.Sprint("run-", i)))
			if random.IntN(3) == 0 {
				time.Sleep(time.Duration(random.IntN(20)) * time.Second)
				env.Settle()
			}
			bound[r] = current
		}
		numbers := map[int]string{} // what the versions say
		for r := range bound {
			out, err := r.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			n, err := stet.ScriptsOf(e).BoundTo(ctx, r.ID())
			if err != nil {
				t.Fatal(err)
			}
			var said [3]int
			if err := json.Unmarshal(out, &said); err != nil || said[0] != said[1] || said[1] != said[2] {
				t.Fatalf("run %s, of version %d, has changed: %s, %v", r.ID(), n, out, err)
			}
			if before := numbers[n]; before != "" && before != string(out) {
				t.Fatalf("runs of version %d say %s and %s", n, before, out)
			}
			numbers[n] = string(out)
		}
		if len(numbers) < 5 {
			t.Errorf("only %d versions had runs", len(numbers))
		}
	})
}

// TestPlaces: the lines of the sources at which a run stands are those that have begun what is
// under way.
func TestPlaces(t *testing.T) {
	lib := open(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"order.ts": `import { pack } from "./lib/pack";
export default async function (lines: string[]) {
  await Task.run("echo", 1);
  await Task.run("echo", 2);
  const late = Task.delay(3600);
  for (let i = 0; i < 2; i++) {
    await Task.race([late,
      () => pack(lines)]);
  }
  return "packed";
}
`,
		"lib/pack.ts": `type Lines = string[];

export async function pack(lines: Lines) {
  return await Task.all(lines.map((line) => Task.run("echo", line, { key: line }).then(() =>
    Signal.next("checked"))));
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, files, err := bundle.Read(filepath.Join(dir, "order.ts"))
	if err != nil {
		t.Fatal(err)
	}
	stettest.Run(t, stet.Config{Library: lib, MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		source := stet.ScriptCode{Code: code}
		for _, f := range files {
			source.Files = append(source.Files, stet.ScriptFile(f))
		}
		if _, err := script.Deploy(ctx, e, "order", source, stet.Act{}); err != nil {
			t.Fatal(err)
		}
		r, err := ref("order").Start(ctx, e, json.RawMessage(`["a","b"]`), stet.ID("o"))
		if err != nil {
			t.Fatal(err)
		}
		stands := func(want ...string) {
			t.Helper()
			places, err := lib.Places(ctx, e, "o")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range places {
				got = append(got, fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Location))
			}
			if !slices.Equal(got, want) {
				t.Errorf("it stands at %q, expected %q", got, want)
			}
		}
		env.Settle()
		stands("order.ts:5 delay/sleep", "lib/pack.ts:5 checked/receive", "lib/pack.ts:5 checked#2/receive")
		if err := stet.Message[bool]("checked").Send(ctx, e, "o", true); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		stands("order.ts:5 delay/sleep", "lib/pack.ts:5 checked#2/receive")
		time.Sleep(time.Hour)
		want(t, ctx, r, `"packed"`)
		stands()
		if _, err := lib.Places(ctx, e, "nobody"); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("a run that is not there: %v", err)
		}
	})
}

// TestTasksOfWorkers (S2): what the program has no function for is offered to workers, on the
// queue that the script names; their failures are those of any step.
func TestTasksOfWorkers(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t), MaxParkedBytes: stet.None}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		if err := e.Queues().Create(ctx, "media", stet.QueueSettings{Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
		deploy(ctx, t, e, "s", `
			const local = await Task.run("echo", 1);
			const both = await Task.all(["a", "b"].map(k => Task.run("resize", { k }, { key: k, queue: "media" })));
			try { await Task.run("model", null, { attempts: 2 }) }
			catch (e) { return [local, both, [e.name, e.message, e.code, e.attempts]] }`)
		r := begin(t, ctx, e, "s", stet.ID("r"))
		lease := func(name, want, at string) stet.LeasedTask {
			t.Helper()
			got, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Names: []string{name}, Max: 10, Wait: time.Minute})
			if err != nil || len(got.Tasks) != 1 {
				t.Fatalf("leased %+v, %v", got, err)
			}
			if task := got.Tasks[0]; string(task.Input) != want || task.Location != at || task.Workflow != "s" {
				t.Errorf("leased %+v, expected %s at %s", task, want, at)
			}
			return got.Tasks[0]
		}
		for _, k := range []string{"a", "b"} { // one at a time
			task := lease("resize", `{"k":"`+k+`"}`, "resize/["+k+"]/step")
			if err := e.Tasks().Complete(ctx, task.Lease, json.RawMessage(`"`+k+k+`"`)); err != nil {
				t.Fatal(err)
			}
		}
		for attempt := range 2 {
			task := lease("model", "null", "model/step")
			failure := stet.TaskFailure{Message: "too hot", Code: "heat"}
			if retry, err := e.Tasks().Fail(ctx, task.Lease, failure); err != nil || retry != (attempt == 0) {
				t.Errorf("attempt %d: %t, %v", attempt, retry, err)
			}
		}
		want(t, ctx, r, `[1,["aa","bb"],["TaskError","too hot","heat",2]]`)
		report, err := e.Check(ctx, stet.CheckQuery{Filter: store.Filter{IDs: []string{"r"},
			Statuses: []store.Status{store.Succeeded}}})
		if err != nil || report.Replayed != 1 || report.Err() != nil {
			t.Errorf("its replay: %+v, %v", report, err)
		}
	})
}

// TestSourcesAreEncrypted in the store, as values are: the code and the files of each version.
func TestSourcesAreEncrypted(t *testing.T) {
	const secret = "what-nobody-is-to-read"
	for encrypt, there := range map[bool]bool{false: true, true: false} {
		path := filepath.Join(t.TempDir(), "s.db")
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stet.Config{Store: db, Library: open(t), Logger: slog.New(slog.DiscardHandler)}
		if encrypt {
			cfg.Payloads.Keys = []stet.PayloadKey{{ID: "k", Secret: []byte("32 bytes that nobody else knows!")}}
		}
		e, err := stet.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		code := stet.ScriptCode{
			Code: plain(`return "` + secret + `"`), Files: []stet.ScriptFile{{Name: "s.ts", Text: "// " + secret}},
		}
		if _, err := script.Deploy(ctx, e, "s", code, stet.Act{}); err != nil {
			t.Fatal(err)
		}
		want(t, ctx, begin(t, ctx, e, "s"), `"`+secret+`"`)
		if got, err := stet.ScriptsOf(e).Code(ctx, "s", 1); err != nil || got.Files[0].Text != code.Files[0].Text {
			t.Errorf("%+v, %v", got, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(name)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			found = found || bytes.Contains(data, []byte(secret))
		}
		if found != there {
			t.Errorf("encrypted %t: the source is in the file: %t", encrypt, found)
		}
	}
}
