package script_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/stettest"
)

// TestForgottenAwaits (S12): what a script has begun and does not await happens before the run succeeds, also in an
// async function that nothing awaits. What only waits ends with the run.
func TestForgottenAwaits(t *testing.T) { bothForms(t, testForgottenAwaits) }

func testForgottenAwaits(t *testing.T) {
	for _, row := range []struct{ name, body, noted, result, fails string }{
		{"a task", `Task.run("note", "a")`, "a", "1", ""},
		{"an async function", `const f = async () => { await Task.run("note", "a"); Task.run("note", "b") }; f()`,
			"a b", "1", ""},
		{"a child", `Workflow.run("noting", "c")`, "c", "1", ""},
		{"an independent run", `Workflow.start("noting", "d")`, "d", "1", ""},
		{"a value", `Value.set("v", 1)`, "", "1", ""},
		{"a wait", `Signal.next("never"); Event.next("never"); Task.delay(1e6); Token.create("never")`, "", "1", ""},
		{"a task beside a wait", `Signal.next("never"); Task.run("note", "e")`, "e", "1", ""},
		{"losers of a race", `await Task.race([() => Task.delay(1e6), () => Task.run("note", "f")])`, "f", "1", ""},
		{"a loser of Promise.race", `await Promise.race([Task.delay(1e6), Task.run("note", "g")])`, "g", "1", ""},
		{"a task that fails", `Task.run("refuse", "no", { attempts: 2 })`, "", "", "no"},
		{"a function that fails", `(async () => { await Task.delay(1); throw new Error("lost") })(); await Task.delay(2)`,
			"", "", "lost"},
		{"a failure that is caught", `Task.run("refuse", "no", { attempts: 2 }).catch(() => Task.run("note", "h"))`,
			"h", "1", ""},
		{"a failure that is caught later",
			`const p = Task.run("refuse", "no", { attempts: 2 }); await Task.delay(60); await p.catch(() => 0)`, "", "1", ""},
		{"a fault of a function", `(async () => { await Task.run("note", "i"); undefined.x })()`, "i", "", "TypeError"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var noted []string
			own := append([]script.Task{script.Func("note", func(_ context.Context, text string) (any, error) {
				noted = append(noted, text)
				return nil, nil
			})}, tasks...)
			source, err := bundle.Source("case.js", "export default async () => { "+row.body+"; return 1 }")
			if err != nil {
				t.Fatal(err)
			}
			w := compiled(t, "case", source, own)
			noting := stet.Define("noting", func(ctx stet.Context, text string) (any, error) {
				return nil, stet.Do(ctx, "note", func(context.Context) error { noted = append(noted, text); return nil })
			})
			cfg := with(w, noting)
			cfg.OnBug = stet.FailOnBug
			stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
				run, err := w.Start(t.Context(), env.Engine, json.RawMessage("null"))
				if err != nil {
					t.Fatal(err)
				}
				out, err := run.Wait(t.Context())
				if string(out) != row.result || (err == nil) != (row.fails == "") ||
					err != nil && !strings.Contains(err.Error(), row.fails) {
					t.Errorf("found %s, %v; expected %s, %s", out, err, row.result, row.fails)
				}
				time.Sleep(time.Minute) // an independent run has ended
			})
			if got := strings.Join(noted, " "); got != row.noted {
				t.Errorf("done is %q, expected %q", got, row.noted)
			}
		})
	}
}

// TestWarningsOfAwaits: a deploy names each promise that is dropped, and none that is used or meant.
func TestWarningsOfAwaits(t *testing.T) {
	text, err := bundle.Source("case.ts", `
async function later(n: number) { await Task.delay(n) }
const soon = async () => 1, plain = () => 2;
export default async function () {
  Task.run("a");
  await Task.run("b");
  void Task.run("c");
  const p = Workflow.start("d");
  if (p) Event.publish("e", 1);
  later(1); soon(); plain();
  Task.all([later(2), Task.run("f")]);
  Task.run("g").catch(() => 0);
  for (const x of [1]) Stream.append("h", x);
  return later(3);
}
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := script.Warnings("case", text)
	want := []string{"5:3: Task.run", "9:10: Event.publish", "10:3: later", "10:13: soon", "11:3: Task.all",
		"13:24: Stream.append"}
	for i := range want {
		want[i] = "case.ts:" + want[i] + " is not awaited"
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v; expected %q", got, err, want)
	}
}
