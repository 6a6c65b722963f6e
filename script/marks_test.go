package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// The marks of scripts: what they cost in processor time, as a multiple of the same workflow in
// Go. Go and script take turns, so that what else the machine does falls on both.

// marked is a workflow in both languages.
type marked struct {
	goes, scripted *stet.Workflow[json.RawMessage, json.RawMessage]
	engine         *stet.Engine
}

var one = func(context.Context) (json.RawMessage, error) { return json.RawMessage("1"), nil }

// mark returns an engine with the body of a script, and the same in Go.
func mark(b *testing.B, body string, fn func(stet.Context) error) *marked {
	b.Helper()
	source, err := bundle.Source("mark.js", "export default async () => {"+body+"}")
	if err != nil {
		b.Fatal(err)
	}
	m := &marked{goes: stet.Define("go", func(ctx stet.Context, _ json.RawMessage) (json.RawMessage, error) {
		return nil, fn(ctx)
	})}
	if m.scripted, err = script.Compile("script", source, tasks); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.engine, err = stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{m.goes, m.scripted},
		MaxParkedBytes: 1 << 30, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.engine.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	})
	return m
}

// run executes a run from begin to end.
func (m *marked) run(b *testing.B, w *stet.Workflow[json.RawMessage, json.RawMessage]) *stet.Run[json.RawMessage] {
	b.Helper()
	r, err := w.Start(context.Background(), m.engine, json.RawMessage("null"))
	if err == nil {
		_, err = r.Wait(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// compare reports how much more of the processor the second takes.
func compare(b *testing.B, times int, goes, scripted func()) {
	b.Helper()
	var spent [2]time.Duration
	goes() // what is made once is not counted
	scripted()
	for b.Loop() {
		for i, f := range []func(){goes, scripted} {
			runtime.GC() // the garbage of the other is not this one's
			begun := script.Processor()
			for range times {
				f()
			}
			spent[i] += script.Processor() - begun
		}
	}
	n := float64(b.N * times)
	b.ReportMetric(float64(spent[0])/n/1e3, "go-cpu-µs")
	b.ReportMetric(float64(spent[1])/n/1e3, "script-cpu-µs")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMarkSteps: ten steps, one after the other. At most 3.
func BenchmarkMarkSteps(b *testing.B) {
	m := mark(b, `for (let i = 0; i < 10; i++) await Task.run("echo", 1, { key: i })`, func(ctx stet.Context) error {
		for i := range 10 {
			if _, err := stet.Step(ctx, "echo", one, stet.Key(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	compare(b, 200, func() { m.run(b, m.goes) }, func() { m.run(b, m.scripted) })
}

// BenchmarkMarkFanOut: 4,000 steps at once. At most 3.
func BenchmarkMarkFanOut(b *testing.B) {
	m := mark(b, `await Task.all(Array.from({ length: 4000 }, (_, i) => Task.run("echo", 1, { key: i })))`,
		func(ctx stet.Context) error {
			var all []*stet.Future[json.RawMessage]
			for i := range 4000 {
				all = append(all, stet.Go(ctx, "echo", func(ctx stet.Context) (json.RawMessage, error) {
					return stet.Step(ctx, "step", one)
				}, stet.Key(fmt.Sprint(i))))
			}
			_, err := stet.All(ctx, all...)
			return err
		})
	compare(b, 1, func() { m.run(b, m.goes) }, func() { m.run(b, m.scripted) })
}

// BenchmarkMarkReplay: a replay of 10,000 iterations with a step each. At most 4, and a second.
func BenchmarkMarkReplay(b *testing.B) {
	m := mark(b, `for (let i = 0; i < 10000; i++) await Task.run("echo", 1, { key: i })`, func(ctx stet.Context) error {
		for i := range 10_000 {
			if _, err := stet.Step(ctx, "echo", one, stet.Key(fmt.Sprint(i))); err != nil {
				return err
			}
		}
		return nil
	})
	replays := func(w *stet.Workflow[json.RawMessage, json.RawMessage]) func() {
		filter := store.Filter{IDs: []string{m.run(b, w).ID()}, Statuses: []store.Status{store.Succeeded}}
		return func() {
			report, err := m.engine.Check(context.Background(), stet.CheckQuery{Filter: filter})
			if err == nil {
				err = report.Err()
			}
			if err != nil || report.Replayed != 1 {
				b.Fatal(report, err)
			}
		}
	}
	compare(b, 1, replays(m.goes), replays(m.scripted))
}

// BenchmarkMarkParked: the memory of a run that waits, and has not been evicted. At most 80 KB; it is 82.
func BenchmarkMarkParked(b *testing.B) {
	m := mark(b, `await Task.run("echo", 1); await Signal.next("go")`, func(ctx stet.Context) error {
		if _, err := stet.Step(ctx, "echo", one); err != nil {
			return err
		}
		_, err := stet.Message[bool]("go").Receive(ctx)
		return err
	})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc + s.StackInuse
	}
	const n = 1000
	ctx := context.Background()
	waits := func(w *stet.Workflow[json.RawMessage, json.RawMessage]) float64 {
		inputs := make([]json.RawMessage, n)
		for i := range inputs {
			inputs[i] = json.RawMessage("null")
		}
		before := heap()
		runs, err := w.StartAll(ctx, m.engine, inputs, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range runs {
			for {
				info, err := r.Info(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if info.Status == store.Suspended {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		each := float64(heap()-before) / n
		for _, r := range runs {
			if err := stet.Message[bool]("go").Send(ctx, m.engine, r.ID(), true); err != nil {
				b.Fatal(err)
			}
		}
		for _, r := range runs {
			if _, err := r.Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
		return each
	}
	var goes, scripted float64
	for b.Loop() {
		goes += waits(m.goes)
		scripted += waits(m.scripted)
	}
	b.ReportMetric(goes/float64(b.N)/1e3, "go-KB")
	b.ReportMetric(scripted/float64(b.N)/1e3, "script-KB")
	b.ReportMetric(0, "ns/op")
}
