package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/store/memory"
)

// BenchmarkSteps compares a script of steps, one after the other and all at once, with the
// same workflow in Go. The figures are for one run.
func BenchmarkSteps(b *testing.B) {
	one := func(context.Context) (json.RawMessage, error) { return json.RawMessage("1"), nil }
	for _, n := range []int{10, 1000, 4000} {
		goInTurn := stet.Define("go", func(ctx stet.Context, _ json.RawMessage) (json.RawMessage, error) {
			for i := range n {
				if _, err := stet.Step(ctx, "echo", one, stet.Key(fmt.Sprint(i))); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		goAtOnce := stet.Define("go", func(ctx stet.Context, _ json.RawMessage) (json.RawMessage, error) {
			var all []*stet.Future[json.RawMessage]
			for i := range n {
				all = append(all, stet.Go(ctx, "echo", func(ctx stet.Context) (json.RawMessage, error) {
					return stet.Step(ctx, "step", one)
				}, stet.Key(fmt.Sprint(i))))
			}
			_, err := stet.All(ctx, all...)
			return nil, err
		})
		inTurn := benchScript(b, fmt.Sprintf(`for (let i = 0; i < %d; i++) await Task.run("echo", 1, { key: i })`, n))
		atOnce := benchScript(b, fmt.Sprintf(
			`await Task.all(Array.from({ length: %d }, (_, i) => Task.run("echo", 1, { key: i })))`, n))
		for _, c := range []struct {
			name string
			w    *script.Workflow
		}{{"in turn/go", goInTurn}, {"in turn/script", inTurn}, {"at once/go", goAtOnce}, {"at once/script", atOnce}} {
			b.Run(fmt.Sprintf("%d %s", n, c.name), func(b *testing.B) { benchRuns(b, c.w) })
		}
	}
}

func benchScript(b *testing.B, body string) *script.Workflow {
	b.Helper()
	source, err := bundle.Source("bench.js", "export default async () => {"+body+"}")
	if err != nil {
		b.Fatal(err)
	}
	w, err := script.Compile("script", source, tasks)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func benchRuns(b *testing.B, w *script.Workflow) {
	ctx, stop := context.WithCancel(context.Background())
	engine, err := stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{w}})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	for b.Loop() {
		run, err := w.Start(ctx, engine, json.RawMessage("null"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := run.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}

// BenchmarkIsolated compares a script of ten steps, one after the other, in this process and in a child: the time of a
// run as another waits for it.
func BenchmarkIsolated(b *testing.B) {
	source := plain(`for (let i = 0; i < 10; i++) await Task.run("echo", 1, { key: i })`)
	var forms []*script.Workflow
	for _, compile := range []func(string, string, []script.Task, ...stet.DefineOption) (*script.Workflow, error){
		script.Compile, script.CompileIsolated,
	} {
		w, err := compile(fmt.Sprint("form-", len(forms)), source, tasks)
		if err != nil {
			b.Fatal(err)
		}
		forms = append(forms, w)
	}
	ctx, stop := context.WithCancel(context.Background())
	e, err := stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{forms[0], forms[1]},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	run := func(w *script.Workflow) time.Duration {
		begun := time.Now()
		r, err := w.Start(ctx, e, json.RawMessage("null"))
		if err == nil {
			_, err = r.Wait(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	for _, w := range forms { // what is made once is not counted
		run(w)
	}
	var took [2]time.Duration
	for b.Loop() {
		for i, w := range forms {
			for range 20 {
				took[i] += run(w)
			}
		}
	}
	b.ReportMetric(float64(took[0].Microseconds())/float64(20*b.N), "µs-in-process")
	b.ReportMetric(float64(took[1].Microseconds())/float64(20*b.N), "µs-isolated")
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
	b.ReportMetric(0, "ns/op")
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}
