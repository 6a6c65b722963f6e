package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

func with(ws ...stet.Definition) stet.Config { return stet.Config{Workflows: ws} }

// TestLocations (S14): an operation stands at NAME/kind, numbered by call, or by its key.
func TestLocations(t *testing.T) {
	w := compile(t, "case", `export default async () => {
		await Task.run("echo", 1); await Task.run("echo", 2); await Task.run("echo", 3, { key: "k" });
		await Task.delay(1); await Workflow.run("double", 1); await Signal.next("word", { within: 1 }).catch(() => 0) }`)
	stettest.Run(t, with(w, child), func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, json.RawMessage("null"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		entries, err := env.Engine.Runs().History(t.Context(), run.ID(), stet.HistoryQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Location)
		}
		slices.Sort(got)
		want := []string{"delay/sleep", "double/child", "echo#2/step", "echo/[k]/step", "echo/step", "word/receive"}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("expected entries at %v, found %v", want, got)
		}
	})
}

// TestCancel (S11): a cancel rejects what is pending in the order of the calls; catch,
// finally and Run.cleanup execute, other operations are refused, and the run ends cancelled.
func TestCancel(t *testing.T) {
	var seen []string
	note := script.Func("note", func(_ context.Context, text string) (any, error) {
		seen = append(seen, text)
		return nil, nil
	})
	source, err := bundle.Source("cancel.js", `export default async () => {
		const order = [];
		const wait = n => Task.delay(1000).catch(e => { order.push(n + e.name) });
		try { await Task.all([wait(1), wait(2), Task.delay(1e6)]); }
		finally {
			try { await Task.run("note", "refused") } catch (e) { order.push(e.name) }
			await Run.cleanup(async () => { await Task.run("note", "cleaned"); await Task.run("note", order.join(" ")) });
		}
		return "not reached" }`)
	if err != nil {
		t.Fatal(err)
	}
	w := compiled(t, "cancel", source, []script.Task{note})
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, json.RawMessage("null"))
		if err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if _, err := env.Engine.Runs().Cancel(t.Context(), run.ID(), stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); !errors.Is(err, stet.ErrCancelled) {
			t.Errorf("expected a cancelled run, got %v", err)
		}
		if got := strings.Join(seen, ", "); got != "cleaned, 1Cancelled 2Cancelled Cancelled" {
			t.Errorf("what was seen: %s", got)
		}
	})
}

// TestRunawayStalls: code without an end stalls its run, with the place, and writes nothing
// of the stretch; the process goes on with other runs.
func TestRunawayStalls(t *testing.T) {
	runaway := compile(t, "runaway", "export default async () => {\nTask.run('echo', 1);\nfor (;;) {}\n}")
	fine := compile(t, "fine", `export default () => Task.run("add", [1, 2])`)
	cfg := with(runaway, fine)
	cfg.OnBug = stet.FailOnBug // for which a limit is none
	cfg.Store = memory.New()
	engine, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	run, err := runaway.Start(ctx, engine, json.RawMessage("null"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := fine.Start(ctx, engine, json.RawMessage("null"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := other.Wait(ctx); err != nil || string(out) != "3" {
		t.Errorf("expected 3 of the other run, got %s, %v", out, err)
	}
	if _, err := run.Wait(ctx); !errors.Is(err, stet.ErrStalled) {
		t.Errorf("expected a stalled run, got %v", err)
	}
	info, err := engine.Runs().Info(ctx, run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if info.Cause != stet.CauseCode || !strings.Contains(info.Reason, "case.ts:") {
		t.Errorf("expected the run to be stalled at case.ts:3, got %v: %s", info.Status, info.Reason)
	}
	entries, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
	if err != nil || len(entries) != 0 {
		t.Errorf("expected nothing of the stretch in the history, found %v, %v", entries, err)
	}
}

// TestJourneyOnSQLite: a script from end to end on SQLite, which dies at each commit.
func TestJourneyOnSQLite(t *testing.T) {
	w := compile(t, "case", `export default async function (order) {
		const charge = await Task.run("echo", order.id, { attempts: 8, undo: "nothing" });
		const parcels = await Task.all(order.lines.map(l => () => Task.run("echo", l, { key: l })));
		const r = await Task.race({ ok: Signal.next("approved"), late: Task.delay(72 * 3600) });
		let note; try { await Task.run("refuse", "note", { attempts: 1 }) } catch (e) { note = e.message }
		return { charge, parcels, ok: r.key, note } }`)
	onSQLite := stettest.On(func(t testing.TB) func() store.Store {
		path := filepath.Join(t.TempDir(), "stet.db")
		return func() store.Store {
			s, err := sqlite.Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
	out, err := stettest.CrashEverywhere(t, w, json.RawMessage(`{"id":"o1","lines":["a","b","c"]}`), onSQLite,
		stettest.Driving(func(ctx context.Context, e *stet.Engine, id string) error {
			return stet.Message[bool]("approved").Send(ctx, e, id, true, stet.SendKey("once"))
		}))
	want := `{"charge":"o1","parcels":["a","b","c"],"ok":"ok","note":"note: refused"}`
	if err != nil || string(out) != want {
		t.Errorf("expected %s, got %s, %v", want, out, err)
	}
}

// TestRandomProgramsAreReplayed: random programs of all, any, race, try and loops give, cut
// at each commit and replayed, what they give undisturbed.
func TestRandomProgramsAreReplayed(t *testing.T) {
	first, count := uint64(1), 12
	if os.Getenv("STET_SOAK") != "" {
		count = 100
	}
	for seed := first; seed < first+uint64(count); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			source := program(rand.New(rand.NewPCG(seed, 0)))
			w := compile(t, "case", source)
			if _, err := stettest.CrashEverywhere(t, w, json.RawMessage("null")); err != nil {
				t.Errorf("%v; the program: %s", err, source)
			}
			if t.Failed() {
				t.Log(source)
			}
		})
	}
}

func program(r *rand.Rand) string {
	n := 0
	var expr func(depth int) string
	list := func(depth int, named bool) string {
		var members []string
		for i := range 1 + r.IntN(3) {
			member := expr(depth - 1)
			if r.IntN(2) == 0 {
				member = "async () => await " + member
			}
			if named {
				member = fmt.Sprintf("m%d: %s", i, member)
			}
			members = append(members, member)
		}
		if named {
			return "{ " + strings.Join(members, ", ") + " }"
		}
		return "[" + strings.Join(members, ", ") + "]"
	}
	expr = func(depth int) string {
		n++
		kind := r.IntN(9)
		if depth == 0 {
			kind = r.IntN(3)
		}
		switch kind {
		case 0:
			return fmt.Sprintf(`Task.run("echo", %d)`, n)
		case 1:
			return fmt.Sprintf(`Task.run("refuse", "r%d", { attempts: 1 })`, n)
		case 2:
			return fmt.Sprintf(`Task.delay(%d).then(() => %d)`, 60*n, n)
		case 3, 4:
			return "Task.all(" + list(depth, r.IntN(2) == 0) + ")"
		case 5:
			return "Task.any(" + list(depth, r.IntN(2) == 0) + ")"
		case 6:
			return fmt.Sprintf("Task.race([Task.delay(%d), Task.delay(%d).then(() => %d)])",
				60*(1+r.IntN(9)), 30+60*r.IntN(9), n)
		case 7:
			return "(async () => { try { return await " + expr(depth-1) + " } catch (e) { return [e.name, await " +
				expr(depth-1) + "] } })()"
		}
		return fmt.Sprintf("(async () => { const out = []; for (let i = 0; i < %d; i++) out.push(await %s); return out })()",
			1+r.IntN(3), expr(depth-1))
	}
	return "export default async () => { try { return await " + expr(4) + " } catch (e) { return [e.name, e.message] } }"
}

// TestRefusedSources: what cannot be compiled is refused with its place, and tasks are checked.
func TestRefusedSources(t *testing.T) {
	for source, want := range map[string]string{
		"function workflow( {":                            "1:",
		"function workflow() { return /(?<=a)b/ }":        "case.js:1:",
		`function workflow() { return [{ a: /(a)\1/ }] }`: "backreferences",
		`function workflow() { return -0x1fn }`:           "1:31: 0x1fn: a script has no BigInt",
		`function workflow() { return /^(x+){1,2000}$/ }`: "repeats above 1,000",
		"function workflow() { return import('x') }":      "1:30",
		"function workflow() {\n return /a/v }":           "case.js:2:",
		"function workflow() {\n return /a/d }":           `found "d"`,
		`function workflow() { return /\p{Emoji}/u }`:     `case.js:1:30: expected`,
		`function workflow() { return /\p{Greek}/u }`:     `a script is \p{Script=Greek}`,
		`function workflow() { return /[\P{Lu}]/iu }`:     "with the flag i",
		"//" + strings.Repeat("x", script.MaxSource):      "at most",
	} {
		_, err := script.Compile("case", source, tasks)
		if !errors.Is(err, script.ErrSource) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: expected ErrSource with %q, got %v", source, want, err)
		}
	}
	for _, literal := range []string{"/[a--b]/v", "/a/d", "/\\p{Emoji}/u"} { // that the bundler knows
		text, err := bundle.Source("case.ts", "\nexport default () => "+literal)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = script.Compile("case", text, tasks); !errors.Is(err, script.ErrSource) ||
			!strings.Contains(err.Error(), "case.ts:2:2") {
			t.Errorf("%s: expected ErrSource with its place, found %v", literal, err)
		}
	}
	twice := []script.Task{tasks[0], tasks[0]}
	if _, err := script.Compile("case", "1", twice); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("two tasks of one name: %v", err)
	}
	for source, want := range map[string]string{
		"export default (": "case.ts:1:", `import x from "left-pad"; export default x`: "left-pad",
	} {
		_, err := bundle.Source("case.ts", source)
		if !errors.Is(err, bundle.ErrSource) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: expected ErrSource with %q, got %v", source, want, err)
		}
	}
}

// TestWarningsOfNames: what is not there is found before a run comes to it; what is declared
// anywhere, in any of the ways of the language, is not.
func TestWarningsOfNames(t *testing.T) {
	text, err := bundle.Source("case.ts", `type Line = { sku: string };
import_: for (const [a, { b, c: d = fallback }] of [] as any[]) { if (a + b + d) continue import_; }
class Shelf { full = false; put(x: Line) { return super.toString() + x.sku + this.full + arguments.length } }
function named({ e, ...rest }, f = e, ...more) { try { return named(rest, more) } catch (problem) { return problem } }
export default async function (order: Line) {
  setTimeout(() => {}, 10);
  const g = (h) => h + i;
  let i = 1, short = 2;
  typeof window === "undefined" && (({ short, order }) => new Shelf());
  await Taks.run("pack", { short, misspelt, key: "other" });
  for (j = 0; j < 3; j++) g(j);
  label: { break label }
  return [new Intl.DateTimeFormat(), Task, Signal, Math.max(1), JSON, undefined, globalThis, new.target, console, eval];
}
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := script.Warnings("case", text)
	want := []string{"case.ts:2:37: fallback", "case.ts:6:3: setTimeout", "case.ts:10:9: Taks", "case.ts:10:35: misspelt",
		"case.ts:11:8: j", "case.ts:13:15: Intl", "case.ts:13:115: eval"}
	for i := range want {
		want[i] += " is not defined"
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v; expected %q", got, err, want)
	}
	for _, c := range cases { // of which some look for what is not there, by a text
		text, err := bundle.Source("case.ts", c.source)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := script.Warnings("case", text); err != nil || len(found) > 0 {
			t.Errorf("%s: %q, %v", c.name, found, err)
		}
	}
	if _, err := script.Warnings("case", "("); !errors.Is(err, script.ErrSource) {
		t.Errorf("a wrong source: %v", err)
	}
}
