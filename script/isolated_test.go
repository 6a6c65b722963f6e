package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// inRealTime calls fn with an engine that has a library, in real time.
func inRealTime(
	t *testing.T, db store.Store, lib *script.Library, fn func(ctx context.Context, e *stet.Engine),
) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e, err := stet.New(ctx, stet.Config{
		Store: db, Library: lib, Logger: slog.New(slog.DiscardHandler),
		LeaseTTL: time.Hour, // ill runs leave the engine little time
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		defer stop() // so that nothing waits for an engine that has ended
		ended <- e.Run(ctx)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	fn(ctx, e)
}

// stalls checks that a run stalls for its code, and that nothing of its ill stretch is written.
func stalls(ctx context.Context, t *testing.T, e *stet.Engine, r *stet.Run[json.RawMessage], reason string) {
	t.Helper()
	_, err := r.Wait(ctx)
	info, infoErr := r.Info(ctx)
	entries, histErr := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{})
	if infoErr != nil || histErr != nil {
		t.Fatal(infoErr, histErr)
	}
	if !errors.Is(err, stet.ErrStalled) || info.Cause != stet.CauseCode || !strings.Contains(info.Reason, reason) {
		t.Errorf("expected a stall for the code with %q, found %v, %v: %s", reason, err, info.Cause, info.Reason)
	}
	for _, entry := range entries {
		if strings.Contains(entry.Location, "lost") {
			t.Errorf("an operation of the ill stretch is in the history: %s", entry.Location)
		}
	}
}

// ills are scripts with a native call that nothing interrupts, with a part of the reason with which they stall.
var ills = []struct{ call, reason string }{
	{"Task.hang()", "without a wait, in a call that does not end"},
	{"Task.hog()", "let the heap grow by 128 MiB"},
	{"Task.overflow()", "filled the stack"},
	{"Task.hang()", "without a wait, in a call that does not end"},
}

// TestIllRunsEndTheirChildrenAlone: more ill runs than children leave the runs of other scripts alone, also the runs in
// the children that end. Each ill run stalls, and the program takes no memory for them.
func TestIllRunsEndTheirChildrenAlone(t *testing.T) {
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: true})
	if err != nil {
		t.Fatal(err)
	}
	inRealTime(t, memory.New(), lib, func(ctx context.Context, e *stet.Engine) {
		peak := peakOf(ctx)
		deploy(ctx, t, e, "parked", `const n = Math.random(); const a = await Task.run("echo", n); await Signal.next("go");
			return a === n && await Task.run("add", [1, 2])`)
		var parked []*stet.Run[json.RawMessage]
		for range 10 {
			r := begin(t, ctx, e, "parked")
			parked = append(parked, r)
			settled(ctx, t, r)
		}
		runtime.GC()
		before := peak()
		sick := map[*stet.Run[json.RawMessage]]string{}
		for i := range 2 * script.MaxProcesses() {
			ill := ills[i%len(ills)]
			name := fmt.Sprint("ill-", i)
			deploy(ctx, t, e, name, `await Task.run("echo", 1); Task.run("echo", 2, { key: "lost" }); `+ill.call)
			sick[begin(t, ctx, e, name)] = ill.reason
		}
		deploy(ctx, t, e, "fine", `return await Task.run("add", [await Task.run("echo", 3), 4])`)
		for range 20 {
			want(t, ctx, begin(t, ctx, e, "fine"), "7")
		}
		for r, reason := range sick {
			stalls(ctx, t, e, r, reason)
		}
		for _, r := range parked {
			goOn(t, ctx, e, r)
			want(t, ctx, r, "3")
		}
		if n := script.Children(); n > script.MaxProcesses() {
			t.Errorf("there are %d children, expected %d at most", n, script.MaxProcesses())
		}
		if grown := peak() - min(before, peak()); grown > 64<<20 {
			t.Errorf("the heap of the program has grown by %d MiB", grown>>20)
		}
	})
}

// peakOf watches the heap until ctx ends. It returns what gives its most bytes so far.
func peakOf(ctx context.Context) func() uint64 {
	peak := make(chan uint64)
	go func() {
		most := uint64(0)
		sample := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				close(peak)
				return
			case <-tick.C:
				metrics.Read(sample[:])
				most = max(most, sample[0].Value.Uint64())
			case peak <- most:
			}
		}
	}()
	return func() uint64 { return <-peak }
}

// settled waits until a run is suspended.
func settled(ctx context.Context, t *testing.T, r *stet.Run[json.RawMessage]) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := r.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch info.Status {
		case store.Suspended:
			return
		case store.Stalled, store.Failed:
			t.Fatalf("expected a run that waits, found %v: %s", info.Status, info.Reason)
		}
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-tick.C:
		}
	}
}

// TestIllRunsInTheProgramGiveTheirPlaces: in the program itself as many ill runs as places leave other runs alone, too.
// They stall when their native calls return.
func TestIllRunsInTheProgramGiveTheirPlaces(t *testing.T) {
	script.LimitsUnderRace(t)
	begun, release := script.HangUntil()
	inRealTime(t, memory.New(), open(t), func(ctx context.Context, e *stet.Engine) {
		deploy(ctx, t, e, "ill", `await Task.run("echo", 1); Task.run("echo", 2, { key: "lost" }); Task.hang()`)
		deploy(ctx, t, e, "fine", `return await Task.run("add", [1, 2])`)
		var sick []*stet.Run[json.RawMessage]
		for range script.Places {
			sick = append(sick, begin(t, ctx, e, "ill"))
		}
		begun(script.Places) // all at once, so a call that exceeds its second must give its place away
		for range 5 {
			want(t, ctx, begin(t, ctx, e, "fine"), "3")
		}
		release()
		for _, r := range sick {
			stalls(ctx, t, e, r, "its code has executed for")
		}
	})
}

// eventful is a script that gets from its run all that an interpreter can get. A replay must give the same again. It
// calls the task kill at three places.
const eventful = `
	const seen = [Math.random(), Math.random(), Run.header("place"), Run.id];
	console.log("begun");
	const { token, promise } = Token.create("approval");
	await Task.run("kill", 1);
	let failed;
	try { await Task.run("refuse", "a", { attempts: 1 }) } catch (e) { failed = e }
	seen.push(token === Token.create("approval").token, Date.now(), Math.random());
	console.log("between");
	await Task.run("kill", 2);
	seen.push(await Task.race({ a: () => Task.delay(5), b: () => Signal.next("never") }), Math.random(), failed.message);
	const cleaned = await Task.race([promise, Task.delay(1)]);
	await Task.run("kill", 3);
	console.log("over", seen.length);
	if (input) throw failed;
	return seen`

// TestAChildThatIsKilledCostsAReplay: a run whose child ends between its stretches goes on in another one, with the
// same values, the same errors, and nothing in its log twice.
func TestAChildThatIsKilledCostsAReplay(t *testing.T) {
	results := map[bool]string{}
	for _, isolated := range []bool{false, true} {
		killed := 0
		kill := script.Func("kill", func(context.Context, int) (any, error) {
			if isolated {
				killed += script.KillChildren()
			}
			return nil, nil
		})
		lib, err := script.Open(script.Config{Tasks: append([]script.Task{kill}, tasks...), Isolated: isolated})
		if err != nil {
			t.Fatal(err)
		}
		var logged strings.Builder
		cfg := stet.Config{Library: lib, Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
			ctx, e := t.Context(), env.Engine
			deploy(ctx, t, e, "s", eventful)
			r := begin(t, ctx, e, "s", stet.ID("r"), stet.Headers{"place": "here"})
			out, err := r.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			report, err := e.Check(ctx, stet.CheckQuery{Filter: store.Filter{IDs: []string{"r"}}})
			if err != nil || len(report.Breaks) > 0 {
				t.Errorf("a replay: %+v, %v", report, err)
			}
			results[isolated] = shape(out)
			failing, err := ref("s").Start(ctx, e, json.RawMessage("1"))
			if err != nil {
				t.Fatal(err)
			}
			var step *stet.StepError
			if _, err := failing.Wait(ctx); !errors.As(err, &step) {
				t.Errorf("expected the error of the step, found %v", err)
			}
		})
		for _, text := range []string{"begun", "between", "over"} {
			if n := strings.Count(logged.String(), "msg="+text) + strings.Count(logged.String(), `msg="`+text); n != 2 {
				t.Errorf("isolated: %v: expected %s twice in the log of two runs, found it %d times in %s", isolated, text, n,
					&logged)
			}
		}
		if isolated && killed < 3 {
			t.Errorf("expected that three children were killed at least, found %d", killed)
		}
	}
	if results[true] != results[false] {
		t.Errorf("expected %s as in the program, found %s", results[false], results[true])
	}
}

// shape returns the result of eventful without the values that differ from run to run.
func shape(out json.RawMessage) string {
	var seen []any
	if err := json.Unmarshal(out, &seen); err != nil {
		return err.Error()
	}
	for i, v := range seen {
		if _, number := v.(float64); number {
			seen[i] = "number"
		}
	}
	return fmt.Sprint(seen)
}

// TestChildrenDropInterpreters: a child keeps the heap of its interpreters within a limit. It drops interpreters, whose
// runs go on; a run that needs more by itself stalls.
func TestChildrenDropInterpreters(t *testing.T) {
	script.LimitsUnderRace(t)
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: true})
	if err != nil {
		t.Fatal(err)
	}
	script.KillChildren()
	defer script.KillChildren() // their limit is low
	inRealTime(t, memory.New(), lib, func(ctx context.Context, e *stet.Engine) {
		deploy(ctx, t, e, "limit", `return Task.keep(100)`)
		deploy(ctx, t, e, "large", `const texts = []; for (let i = 0; i < 3; i++) texts.push("x".repeat(15e6) + i);
			await Signal.next("go"); return texts.map(s => s.slice(-1)).join()`)
		deploy(ctx, t, e, "too large", `const texts = []; for (let i = 0; i < 8; i++) texts.push("x".repeat(15e6) + i);
			await Task.run("echo", 1, { key: "lost" }); return texts`)
		if _, err := begin(t, ctx, e, "limit").Wait(ctx); err != nil {
			t.Fatal(err)
		}
		var runs []*stet.Run[json.RawMessage]
		for range 4 {
			r := begin(t, ctx, e, "large")
			settled(ctx, t, r)
			runs = append(runs, r)
		}
		var heap int
		if out, err := begin(t, ctx, e, "limit").Wait(ctx); err != nil || json.Unmarshal(out, &heap) != nil || heap > 100 {
			t.Errorf("expected a heap of at most 100 MiB, found %s, %v", out, err)
		}
		stalls(ctx, t, e, begin(t, ctx, e, "too large"), "takes at most 100 MiB")
		for _, r := range runs {
			goOn(t, ctx, e, r)
			want(t, ctx, r, `"0,1,2"`)
		}
	})
}

// TestManyDeadChildren: runs go on though all children were killed, and there are more of them than a stretch has
// attempts.
func TestManyDeadChildren(t *testing.T) {
	script.MoreProcesses(t, 5)
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: true})
	if err != nil {
		t.Fatal(err)
	}
	inRealTime(t, memory.New(), lib, func(ctx context.Context, e *stet.Engine) {
		deploy(ctx, t, e, "s", `return await Task.run("echo", 1)`)
		script.StartChildren(t, 5)
		if n := script.KillChildren(); n < 5 {
			t.Fatalf("expected 5 children, found %d", n)
		}
		want(t, ctx, begin(t, ctx, e, "s"), "1")
	})
}

// TestUnknownEndsOfChildren: a child that ends in a stretch for no reason that is known has the stretch executed again.
// After some times its run stalls, as after a panic.
func TestUnknownEndsOfChildren(t *testing.T) {
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: true})
	if err != nil {
		t.Fatal(err)
	}
	inRealTime(t, memory.New(), lib, func(ctx context.Context, e *stet.Engine) {
		for call, reason := range map[string]string{
			"Task.exit()": "found in 3 attempts that it ends: the process has ended: exit status 3", "Task.panics()": "planted",
		} {
			name := strings.ToLower(call[5:9])
			deploy(ctx, t, e, name, `await Task.run("echo", 1); Task.run("echo", 2, { key: "lost" }); `+call)
			stalls(ctx, t, e, begin(t, ctx, e, name), reason)
		}
		deploy(ctx, t, e, "fine", `return 1`)
		want(t, ctx, begin(t, ctx, e, "fine"), "1")
	})
}

// TestChildrenHaveNoSecrets: of the environment a child has what it needs.
func TestChildrenHaveNoSecrets(t *testing.T) {
	t.Setenv("STET_TOKEN", "secret")
	t.Setenv("TZ", "Asia/Tokyo")
	script.KillChildren()
	lib, err := script.Open(script.Config{Tasks: tasks, Isolated: true})
	if err != nil {
		t.Fatal(err)
	}
	inRealTime(t, memory.New(), lib, func(ctx context.Context, e *stet.Engine) {
		deploy(ctx, t, e, "s", `return Task.environment()`)
		out, err := begin(t, ctx, e, "s").Wait(ctx)
		if err != nil || strings.Contains(string(out), "secret") || !strings.Contains(string(out), "TZ=Asia/Tokyo") {
			t.Errorf("expected the zone and no secret, found %s, %v", out, err)
		}
	})
}

// TestIsolatedNeedsChild: a library is not opened whose program would start itself in place of a child.
func TestIsolatedNeedsChild(t *testing.T) {
	_, err := script.OpenUncalled(script.Config{Isolated: true})
	if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(), "script.Child") {
		t.Errorf("expected an error that names script.Child, found %v", err)
	}
}

// helperVar has the process of a test execute connectAndWait and nothing else.
const helperVar = "STET_SCRIPT_TEST_CONNECT"

// connectAndWait has a child connect to an address, in a stretch that does not end. It returns never.
func connectAndWait(address string) {
	ctx := context.Background()
	script.Limits(discarded{}, time.Hour)
	w, err := script.CompileIsolated("s", plain(`Task.connect(input); Task.hang()`), nil)
	if err != nil {
		panic(err)
	}
	e, err := stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{w}})
	if err != nil {
		panic(err)
	}
	input, err := json.Marshal(address)
	if err != nil {
		panic(err)
	}
	if _, err := w.Start(ctx, e, input); err != nil {
		panic(err)
	}
	panic(e.Run(ctx))
}

type discarded struct{}

func (discarded) Cleanup(func()) {}

// TestAChildOutlivesNoProgram: a child ends with its program, in the middle of a stretch and though the program was
// killed.
func TestAChildOutlivesNoProgram(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(self)
	program.Env = append(os.Environ(), helperVar+"="+listener.Addr().String())
	program.Stdout, program.Stderr = io.Discard, io.Discard
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = program.Wait() // it was killed
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("expected that the connection of the child ends, found %d bytes, %v", n, err)
	}
}
