package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/stettest"
)

var errRefused = errors.New("refused")

// tasks are what the scripts of the tests call.
var tasks = append([]script.Task{
	script.Func("slow", func(ctx context.Context, seconds int) (int, error) {
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
			return seconds, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}),
}, quickTasks...)

// quickTasks are those that take no time.
var quickTasks = []script.Task{
	script.Func("echo", func(_ context.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil }),
	script.Func("add", func(_ context.Context, in []int) (int, error) { return in[0] + in[1], nil }),
	script.Func("refuse", func(_ context.Context, in string) (string, error) {
		return "", fmt.Errorf("%s: %w", in, errRefused)
	}),
	script.Func("nothing", func(context.Context, json.RawMessage) (any, error) { return nil, nil }),
}

// child is what Workflow.run calls beside scripts.
var child = stet.Define("double", func(_ stet.Context, n int) (int, error) { return 2 * n, nil })

// cases are one for each sentence of what a script may rely on.
var cases = []struct {
	name, source string
	input        string // default null
	want         string // the result
	fails        string // or a part of the error
	options      []stettest.CrashOption
}{
	{name: "S1 the default export is called with the input", input: `{"a":[1]}`, want: `{"got":{"a":[1]}}`,
		source: `export default function (input) { return { got: input } }`},
	{name: "S1 a function workflow", input: `3`, want: `4`, source: `export async function workflow(n) { return n + 1 }`},
	{name: "S1 nothing is null", want: `null`, source: `export default () => {}`},
	{name: "S2 a step is a Go function", want: `7`, source: `export default () => Task.run("add", [3, 4])`},
	{name: "S2 it begins when it is called", want: `true`, source: `export default async function () {
		const a = Task.run("slow", 10);
		await Task.delay(3600);
		return (await Task.race({ a, b: Task.delay(5) })).key === "a" }`},
	{name: "S2 what has no Go function is a task of workers", want: `[42,"lost its way"]`,
		options: []stettest.CrashOption{stettest.Driving(worker)}, source: `export default async () => {
			const n = await Task.run("elsewhere", 42);
			try { return await Task.run("elsewhere", "fail", { attempts: 1, key: "f" }) }
			catch (e) { return [n, e.message] } }`},
	{name: "S2 a queue is kept to", want: `true`,
		options: []stettest.CrashOption{stettest.Queues(map[string]stet.QueueSettings{"line": {Concurrency: 1}})},
		source: `export default async () => {
			const begun = Date.now();
			await Task.all([1, 2, 3].map(n => Task.run("slow", 10, { key: n, queue: "line", priority: n })));
			return Date.now() - begun >= 30000 }`},
	{name: "S2 a timeout ends an attempt", want: `["Timeout",2]`, source: `export default async () => {
		try { await Task.run("slow", 1000, { timeout: 1, attempts: 2 }) } catch (e) { return [e.name, e.attempts] } }`},
	{name: "S2 what has no Go function undoes as a task of workers", fails: "a: refused",
		options: []stettest.CrashOption{stettest.Driving(worker), stettest.Checking(undone)},
		source: `export default async () => {
			await Task.run("echo", 1, { undo: "elsewhere" });
			await Task.run("elsewhere", 2, { undo: "elsewhere" });
			await Task.run("refuse", "a", { attempts: 1 }) }`},
	{name: "S3 all in the order given", want: `[2,1,"x"]`,
		source: `export default () => Task.all([Task.run("slow", 2), Task.run("slow", 1), "x"])`},
	{name: "S3 all rejects with the first failure", want: `"b: refused"`, source: `export default async () => {
		try { await Task.all([Task.run("slow", 100), Task.run("refuse", "b", { attempts: 1 })]) }
		catch (e) { return e.message } }`},
	{name: "S3 any gives the first success", want: `2`,
		source: `export default () => Task.any([Task.run("refuse", "a", { attempts: 1 }),
			Task.run("slow", 3), Task.run("slow", 2)])`},
	{name: "S3 any of failures has all of them", want: `["a: refused","b: refused"]`, source: `export default async () => {
		try { await Task.any([Task.run("refuse", "a", { attempts: 1 }), Task.run("refuse", "b", { attempts: 1 })]) }
		catch (e) { return e.errors.map(e => e.message) } }`},
	{name: "S3 race gives the first settled", want: `"lost"`, source: `export default async () => {
		try { return await Task.race([Task.delay(5), async () => { await Task.delay(1); throw new Error("lost") }]) }
		catch (e) { return e.message } }`},
	{name: "S3 of nothing", want: `[[],{},"any of nothing","race of nothing"]`, source: `export default async () => [
		await Task.all([]), await Task.all({}),
		await Task.any([]).catch(e => e.message), await Task.race([]).catch(e => e.message)]`},
	{name: "S4 objects have keys", want: `[{"a":1,"b":2},{"key":"b","value":1},{"key":"a","value":2},"c"]`,
		source: `export default async () => [
			await Task.all({ a: Task.run("slow", 1), b: () => Task.run("slow", 2) }),
			await Task.any({ a: Task.run("refuse", "x", { attempts: 1 }), b: Task.run("slow", 1) }),
			await Task.race({ a: () => Task.run("slow", 2), b: Task.delay(9) }),
			await Task.all({ c: Task.run("refuse", "x", { attempts: 1 }) }).catch(e => e.key)]`},
	{name: "S5 what a losing function has begun is cancelled", want: `["inner Cancelled","won"]`,
		source: `export default async () => {
			const seen = [];
			const nested = async () => { try { await Task.delay(50) } catch (e) { seen.push("inner " + e.name); throw e } };
			const won = await Task.race([() => Task.all([() => nested()]), async () => { await Task.delay(1); return "won" }]);
			await Task.delay(1);
			return [...seen, won] }`},
	{name: "S5 a promise of a function that was called goes on", want: `"went on"`, source: `export default async () => {
		let seen = "cancelled";
		const f = async () => { await Task.delay(3); seen = "went on" };
		await Task.race([f(), Task.delay(1)]);
		await Task.delay(9);
		return seen }`},
	{name: "S6 delay takes fractions and fixes its deadline", want: `[true,"RangeError"]`, source: `export default async () => {
		const begun = Date.now(), d = Task.delay(1.5);
		await Task.delay(1); await d;
		const took = Date.now() - begun;
		let e; try { void Task.delay(-1) } catch (x) { e = x.name }
		return [took >= 1500, e] }`},
	{name: "S7 messages sent before count", want: `["one","two","Timeout"]`,
		options: []stettest.CrashOption{stettest.Driving(func(ctx context.Context, e *stet.Engine, id string) error {
			for _, text := range []string{"one", "two"} {
				if err := stet.Message[string]("word").Send(ctx, e, id, text, stet.SendKey(text)); err != nil {
					return err
				}
			}
			return nil
		})},
		source: `export default async () => {
			await Task.delay(60);
			return [await Signal.next("word"), await Signal.next("word", { within: 5 }),
				await Signal.next("word", { within: 5 }).catch(e => e.name)] }`},
	{name: "S8 children", want: `[8,true]`, source: `export default async () => [
		await Workflow.run("double", 4), typeof await Workflow.start("double", 5) === "string"]`},
	{name: "S9 the run", want: `["string","","Cancelled"]`, source: `export default async () => {
		console.log("said once", { a: 1 });
		return [typeof Run.id, Run.header("none"), await Task.race([
			() => Task.delay(1).catch(e => e.name), async () => { throw new Error("x") }]).catch(() => "Cancelled")] }`},
	{name: "S9 values, streams, events, tokens", want: `["string","Timeout","string"]`, source: `export default async () => {
		await Value.set("progress", { at: 1 });
		await Stream.append("lines", "one");
		const id = await Event.publish("news", 1);
		const { token, promise } = Token.create("approval");
		return [typeof id, await Event.next("other", { within: 1 }).catch(e => e.name),
			await Task.race([promise, async () => { await Task.delay(1); return typeof token }])] }`},
	{name: "S9 a token is assigned from outside", want: `["yes","no"]`,
		options: []stettest.CrashOption{stettest.Driving(func(ctx context.Context, e *stet.Engine, id string) error {
			token, err := shown(ctx, e, id, "first")
			if err == nil && token != "" {
				err = e.Resolve(ctx, token, "yes")
			}
			if token, next := shown(ctx, e, id, "second"); next == nil && token != "" {
				next = e.Reject(ctx, token, errors.New("no"))
				err = errors.Join(err, next)
			}
			if errors.Is(err, stet.ErrAlreadyResolved) {
				return nil
			}
			return err
		})},
		source: `export default async () => {
			const a = Token.create("first"), b = Token.create("second");
			await Value.set("first", a.token);
			await Value.set("second", b.token);
			return [await a.promise, await b.promise.catch(e => e.message)] }`},
	{name: "S9 continue as new", input: `1`, want: `3`,
		source: `export default async n => n < 3 ? Run.continueAsNew(n + 1) : n`},
	{name: "S10 errors", want: `["TaskError","a: refused",2,"string"]`, source: `export default async () => {
		try { await Task.run("refuse", "a", { attempts: 2 }) }
		catch (e) { return [e.name, e.message, e.attempts, typeof e.code] } }`},
	{name: "S10 uncaught", fails: "a: refused", source: `export default () => Task.run("refuse", "a", { attempts: 1 })`},
	{name: "S10 an exception has source lines", fails: "case.ts:3", source: "export default async () => {\n" +
		"const f = (n: number) => {\nthrow new Error('of line three') };\nawait Task.delay(1);\nf(1) }"},
	{name: "S2 for await", want: `[1,"refused","b","a"]`, source: `
		async function* pages() { yield await Task.run("echo", "b"); yield "a" }
		export default async () => {
			const got = [];
			for await (const x of [Task.run("add", [0, 1])]) got.push(x);
			try { for await (const x of [Task.run("refuse", "no", { attempts: 1 })]) got.push(x)
			} catch (e) { got.push(e.message.slice(4, 11)) }
			for await (const x of pages()) got.push(x);
			return got }`},
	{name: "S12 what is pending is cancelled", want: `1`, source: `export default async () => { void Task.delay(1e6); return 1 }`},
	{name: "S13 random and dates", want: `["2026-01-02T03:04:05.000Z",0,3,"2026-01-02T03:04:05.000Z",true]`,
		source: `export default async () => [
			new Date(2026, 0, 2, 3, 4, 5).toISOString(), new Date().getTimezoneOffset(), new Date("2026-01-02T03:04").getHours(),
			new Date("2026-01-02T03:04:05").toJSON(), Math.random() < 1 && new Date() instanceof Date]`},
	{name: "S13 what is not there", want: `[]`, source: `export default async () =>
		["setTimeout", "fetch", "require", "eval", "Function", "Intl", "Uint8Array", "ArrayBuffer", "Proxy", "BigInt"]
			.filter(n => n in globalThis)`},
	{name: "S13 code from text", want: `"TypeError"`, source: `export default async () => {
		try { (async () => {}).constructor("return 1")() } catch (e) { return e.name } }`},
	{name: "S13 regular expressions", want: `[true,"SyntaxError"]`, source: `export default async () => {
		let e; try { new RegExp("(a)\\1") } catch (x) { e = x.name }
		return [/^a+$/.test("aaa"), e] }`},
	{name: "S13 expressions of texts", want: `["SyntaxError","SyntaxError","SyntaxError",["b"],["b","b"],1,["a","c"]]`,
		source: `export default async () => [
			...[() => "abc".match("(?=a)"), () => "abc".matchAll("(?=a)").next(), () => "abc".search("(b)\\1")]
				.map(f => { try { return f() } catch (e) { return e.name } }),
			[..."abc".match("b")], [..."abcb".matchAll("b")].map(m => m[0]), "abc".search("b"), "abc".split(/b/)]`},
	{name: "S13 what is no text becomes one", want: `[true,null,["a","b"],-1,["1",1]]`, source: `export default async () => {
		const m = /1/.exec(21);
		return [/2/.test(12), /a/.exec(), "a2b".split(/2/), "abc".search(1), [m[0], m.index]] }`},
	{name: "S13 properties of characters", want: `["Äb","ж","x1","Ωω","-","ab","p{L}"]`, source: `export default async () => [
		"1Äb".match(/\p{L}+/u)[0], "aж".match(/\p{Script=Cyrillic}/u)[0], "äx1".match(/[^\p{Letter}\d]|[\p{ASCII}]+/u)[0],
		"aΩω".match(/[\p{sc=Greek}\p{gc=Nd}]+/u)[0], "ab-".match(/\P{L}/u)[0], "abC".match(/[^\p{Uppercase_Letter}]+/u)[0],
		"p{L}".match(/\p{L}/)[0]]`},
	{name: "S13 lines", want: `["b","RangeError","RangeError","\r"]`, source: `export default async () => [
		"a\nb".match(/^b$/m)[0], ...["a\r\nb", "ä\u2028b"].map(s => { try { s.match(/^b$/m) } catch (e) { return e.name } }),
		"a\r".match(/\r/m)[0]]`},
	{name: "what is joined becomes text", want: `["1,2.5,true,,a","102","1,2,3","x-y"]`, source: `export default async () =>
		[[1, 2.5, true, null, "a"].join(), [1, 2].join(0), String([1, [2, 3]]), ["x", "y"].join("-")]`},
	{name: "limits of natives", want: `["RangeError","RangeError","RangeError","RangeError","RangeError"]`,
		source: `export default async () => [
			() => "x".repeat(2 ** 30), () => new Array(1e8), () => "x".padStart(2 ** 30),
			() => Array.from({ length: 1e9 }),
			() => { let v = 1; for (let i = 0; i < 200; i++) v = [v]; JSON.stringify(v) },
		].map(f => { try { f() } catch (e) { return e.name } })`},
	{name: "undo after a failure", fails: "a: refused", source: `export default async () => {
		await Task.run("echo", 1, { undo: "nothing" }); await Task.run("refuse", "a", { attempts: 1 }) }`},
	{name: "a loop with try and finally", want: `[0,1,2,"end"]`, source: `export default async () => {
		const out = [];
		try { for (let i = 0; ; i++) { if (i === 3) throw 1; out.push(await Task.run("echo", i)); } }
		catch { } finally { out.push(await Task.run("echo", "end", { key: "end" })) }
		return out }`},
}

func compile(t *testing.T, name, source string) *script.Workflow {
	t.Helper()
	text, err := bundle.Source("case.ts", source)
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, name, text, tasks)
}

// TestSentences: each sentence holds undisturbed, and whichever commit the process dies at.
func TestSentences(t *testing.T) { bothForms(t, testSentences) }

func testSentences(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := compile(t, "case", c.source)
			opts := append([]stettest.CrashOption{stettest.WithConfig(stet.Config{Workflows: []stet.Definition{child}})},
				c.options...)
			input := c.input
			if input == "" {
				input = "null"
			}
			out, err := stettest.CrashEverywhere(t, w, json.RawMessage(input), opts...)
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("expected an error with %q, got %s, %v", c.fails, out, err)
				}
			case err != nil || string(out) != c.want:
				t.Errorf("expected %s, got %s, %v", c.want, out, err)
			}
		})
	}
}

// shown waits for a value of a run; "": the run has ended.
func shown(ctx context.Context, e *stet.Engine, id, name string) (string, error) {
	for {
		text, ok, err := stet.Value[string](name).Get(ctx, e, id)
		if ok || err != nil {
			return text, err
		}
		if info, err := e.Runs().Info(ctx, id); err != nil || info.Status.Terminal() {
			return "", err
		}
		time.Sleep(time.Second)
	}
}

// TestZoneOfTheNode (S13): dates are UTC whatever the node's zone is.
func TestZoneOfTheNode(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("far", 9*3600+1800)
	defer func() { time.Local = local }()
	w := compile(t, "case", `export default () => {
		const d = new Date("2026-01-02T23:04:05");
		d.setHours(1);
		return [d.toJSON(), d.getDay(), d.getDate(), String(d), new Date(2026, 11, 31, 23).getMonth(),
			Date.parse("2026-01-02T00:00"), new Date(0).getHours(), new Date().getTimezoneOffset()] }`)
	out, err := stettest.CrashEverywhere(t, w, json.RawMessage("null"))
	want := `["2026-01-02T01:04:05.000Z",5,2,"Fri, 02 Jan 2026 01:04:05 GMT",11,1767312000000,0,0]`
	if err != nil || string(out) != want {
		t.Errorf("expected %s, got %s, %v", want, out, err)
	}
}

// TestUndo (S2): the task that undoes another has its result, newest first.
func TestUndo(t *testing.T) { bothForms(t, testUndo) }

func testUndo(t *testing.T) {
	var undone []string
	note := script.Func("note", func(_ context.Context, out string) (any, error) {
		undone = append(undone, out)
		return nil, nil
	})
	w, err := script.Compile("undo", `async function workflow() {
		for (const name of ["a", "b"]) await Task.run("echo", name, { key: name, undo: "note" });
		await Task.run("refuse", "c", { attempts: 1, undo: "note" }) }`, append([]script.Task{note}, tasks...))
	if err != nil {
		t.Fatal(err)
	}
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		run, err := w.Start(t.Context(), env.Engine, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); !errors.Is(err, errRefused) && err == nil {
			t.Errorf("expected a failure, got %v", err)
		}
	})
	if strings.Join(undone, " ") != "b a" {
		t.Errorf("undone are %v", undone)
	}
}

// undone checks that a run owes nothing, and has owed something.
func undone(ctx context.Context, e *stet.Engine, id string) error {
	entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{})
	owed := 0
	for _, entry := range entries {
		if entry.Owes {
			owed++
		}
		if entry.Owes && !entry.Undone {
			return fmt.Errorf("%s is not undone", entry.Location)
		}
	}
	if err == nil && owed != 2 {
		return fmt.Errorf("%d steps were undone, want 2", owed)
	}
	return err
}

// worker executes the tasks "elsewhere" until the run has ended: it gives back what it gets, and
// fails at a text.
func worker(ctx context.Context, e *stet.Engine, id string) error {
	for {
		got, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Names: []string{"elsewhere"}, Wait: 10 * time.Second})
		if err != nil {
			return err
		}
		for _, task := range got.Tasks {
			if task.Input[0] == '"' {
				_, err = e.Tasks().Fail(ctx, task.Lease, stet.TaskFailure{Message: "lost its way"})
			} else {
				err = e.Tasks().Complete(ctx, task.Lease, task.Input)
			}
			if err != nil && !errors.Is(err, stet.ErrLeaseGone) && !errors.Is(err, stet.ErrLeaseCancelled) {
				return err
			}
		}
		if info, err := e.Runs().Info(ctx, id); err != nil || info.Status.Terminal() {
			return err
		}
	}
}
