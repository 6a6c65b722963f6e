package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// faults are pieces of code with a fault, and a part of the reason with which their run stalls.
var faults = map[string]struct{ code, reason string }{
	"property of nothing":  {`input.order.id`, "TypeError"},
	"no function":          {`[].maap()`, "TypeError"},
	"name":                 {`setTimeout(() => {})`, "ReferenceError: setTimeout is not defined"},
	"before its const":     {`n; const n = 1`, "ReferenceError"},
	"range":                {`"x".repeat(-1)`, "RangeError"},
	"limit":                {`"x".repeat(2 ** 30)`, "RangeError"},
	"seconds":              {`await Task.delay(-1)`, "RangeError"},
	"text is no JSON":      {`JSON.parse("{")`, "SyntaxError"},
	"expression":           {`new RegExp("(?=a)")`, "SyntaxError"},
	"nested calls":         {`const f = () => 1 + f(); f()`, "nested calls"},
	"nested calls, caught": {`const f = () => 1 + f(); try { f() } catch (e) { return "caught" }`, "case.js:2"},
	"nothing to await":     {`await new Promise(() => {})`, "nothing can settle"},
	"thrown again":         {`try { null.x } catch (e) { await Task.run("echo", 2); throw e }`, "TypeError"},
	"of a promise":         {`await Promise.resolve().then(() => null.x)`, "TypeError"},
	"of a list":            {`await Task.all([() => null.x, Task.delay(1)])`, "TypeError"},
	"all have failed":      {`await Task.any([() => null.x, () => null.y])`, "all have failed"},
	"all of the language":  {`await Promise.any([(async () => null.x)()])`, "AggregateError"},
	"result without end":   {`const o = {}; o.o = o; return o`, "RangeError"},
	"beside its own error": {`if (!input) null.x; throw new TypeError("own")`, "Cannot read property 'x'"},
}

// TestFaultsStall: an error that the interpreter has thrown and that nobody catches stalls the run; nothing is undone.
// A corrected version goes on from there.
func TestFaultsStall(t *testing.T) { bothForms(t, testFaultsStall) }

func testFaultsStall(t *testing.T) {
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			var undone atomic.Int64
			lib, err := script.Open(script.Config{Isolated: isolates(t), Tasks: append([]script.Task{
				script.Func("undo", func(context.Context, json.RawMessage) (any, error) { undone.Add(1); return nil, nil }),
			}, tasks...)})
			if err != nil {
				t.Fatal(err)
			}
			charge := "await Task.run(\"echo\", 1, { undo: \"undo\" });\n"
			stettest.Run(t, stet.Config{Library: lib}, func(t *testing.T, env *stettest.Env) {
				ctx, e := t.Context(), env.Engine
				deploy(ctx, t, e, "case", charge+c.code)
				r := begin(t, ctx, e, "case", stet.ID("order-7"))
				if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrStalled) {
					t.Fatalf("expected a stalled run, found %v", err)
				}
				info, err := r.Info(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if info.Cause != stet.CauseCode || !strings.Contains(info.Reason, c.reason) ||
					!strings.Contains(info.Reason, "stet script move order-7 --to") ||
					!strings.Contains(info.Reason, "stet script use case") || undone.Load() > 0 {
					t.Errorf("expected a stall for the code, with advice, and nothing undone; found %v: %s; %d undone", info.Cause,
						info.Reason, undone.Load())
				}
				fixed := charge + `return "fixed"`
				if name == "thrown again" {
					fixed = charge + `await Task.run("echo", 2); return "fixed"`
				}
				n := deploy(ctx, t, e, "case", fixed)
				if err := stet.ScriptsOf(e).Move(ctx, r.ID(), n, stet.Act{}); err != nil {
					t.Fatal(err)
				}
				want(t, ctx, r, `"fixed"`)
				if undone.Load() > 0 {
					t.Errorf("%d were undone", undone.Load())
				}
			})
		})
	}
}

// TestOwnErrorsFail: an error that the script throws by itself fails the run, whatever its class, and what is done is
// undone.
func TestOwnErrorsFail(t *testing.T) { bothForms(t, testOwnErrorsFail) }

func testOwnErrorsFail(t *testing.T) {
	for _, code := range []string{
		`throw new Error("own")`, `throw new TypeError("own")`, `throw RangeError("own")`, `throw "own"`,
		`throw { message: "own", toString: () => "own" }`,
		`class Own extends TypeError {}; throw new Own("own")`,
		`const e = new SyntaxError("own"); await Task.run("echo", 2); throw e`,
		`await Task.all([async () => { throw new ReferenceError("own") }])`,
		`try { null.x } catch (e) { throw new Error("own", { cause: e }) }`,
		`{ const TypeError = Error; throw new TypeError("own") }`,
		`let e; try { throw new TypeError("own") } catch (x) { e = x }
			if (e instanceof TypeError && e.name === "TypeError" && Object.getPrototypeOf(e) === TypeError.prototype) throw e`,
		`await Task.run("refuse", "own", { attempts: 1 })`,
	} {
		t.Run(code, func(t *testing.T) {
			w := compile(t, "case", `export default async () => {
				await Task.run("echo", 1, { undo: "nothing" });
				`+code+`}`)
			stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
				r, err := w.Start(t.Context(), env.Engine, json.RawMessage("null"))
				if err != nil {
					t.Fatal(err)
				}
				_, err = r.Wait(t.Context())
				info, infoErr := r.Info(t.Context())
				if infoErr != nil || info.Status != store.Failed || err == nil || !strings.Contains(err.Error(), "own") ||
					strings.Contains(err.Error(), "its own") {
					t.Errorf("expected a failed run, found %v, %v, %v", info.Status, err, infoErr)
				}
			})
		})
	}
}
