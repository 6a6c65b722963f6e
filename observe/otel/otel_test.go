package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe/otel"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// traced returns an observer, and the spans that it makes.
func traced(t testing.TB, opts ...otel.Option) (*stet.Observer, *sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithIDGenerator(otel.IDs{}))
	observer, err := otel.New(append([]otel.Option{otel.Tracer(provider), otel.IDs{}}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return observer, provider, exporter
}

// serving runs an engine on a store until stop is called.
func serving(t testing.TB, s store.Store, cfg stet.Config) (e *stet.Engine, stop func()) {
	t.Helper()
	cfg.Store, cfg.Logger, cfg.Grace = s, slog.New(slog.DiscardHandler), stet.None
	e, err := stet.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	}
}

// spans returns what was emitted, by name; a name that came twice is a failure.
func spans(t *testing.T, stubs tracetest.SpanStubs) map[string]tracetest.SpanStub {
	t.Helper()
	byName := map[string]tracetest.SpanStub{}
	for _, s := range stubs {
		if _, twice := byName[s.Name]; twice {
			t.Errorf("the span %q was emitted twice", s.Name)
		}
		byName[s.Name] = s
	}
	return byName
}

func attributes(s tracetest.SpanStub) string {
	var list []string
	for _, a := range s.Attributes {
		list = append(list, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

var said = stet.Message[string]("said")

var ask = stet.Define("order", func(ctx stet.Context, _ int) (string, error) {
	nothing := func(context.Context) error { return nil }
	if err := stet.Do(ctx, "reserve", nothing); err != nil {
		return "", err
	}
	word, err := said.Receive(ctx)
	if err != nil {
		return "", err
	}
	return word, stet.Do(ctx, "ship", func(ctx context.Context) error {
		if stet.Attempt(ctx) == 1 {
			return errors.New("no van")
		}
		return nil
	}, stet.Key("k"))
})

// TestATraceGoesOnInAnotherProcess: a caller starts a run; one process executes its first step
// and dies; another one replays it after an hour, receives a message from another trace, and
// ends it. All is one trace, nothing is emitted twice, and no span is open meanwhile.
func TestATraceGoesOnInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		begun := time.Now()
		before, provider, first := traced(t)
		handle := s.Join()
		e, stop := serving(t, handle, stet.Config{Node: "one", Workflows: []stet.Definition{ask}, Observer: before})
		synctest.Wait()
		ctx, caller := provider.Tracer("test").Start(t.Context(), "request")
		if _, err := ask.Start(ctx, e, 1, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		caller.End()
		synctest.Wait()
		handle.Close() // a crash: nothing is given back
		stop()

		after, provider2, second := traced(t)
		time.Sleep(time.Hour)
		e, stop = serving(t, s.Join(), stet.Config{Node: "two", Workflows: []stet.Definition{ask}, Observer: after})
		time.Sleep(time.Hour)
		ctx, sender := provider2.Tracer("test").Start(t.Context(), "approval")
		if err := said.Send(ctx, e, "r", "go"); err != nil {
			t.Fatal(err)
		}
		sender.End()
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()

		one, stubs := spans(t, first.GetSpans()), second.GetSpans()
		if len(one) != 3 {
			t.Errorf("the first process has emitted %d spans, want request, start and attempt", len(one))
		}
		var failed tracetest.SpanStub
		stubs = slices.DeleteFunc(stubs, func(s tracetest.SpanStub) bool {
			retried := s.Name == "attempt ship" && s.Status.Description != ""
			if retried {
				failed = s
			}
			return retried
		})
		two := spans(t, stubs)
		if len(two) != 5 {
			t.Errorf("the second process has emitted %d more spans, want approval, send, wait, attempt and run", len(two))
		}
		start, run, trace := one["start order"], two["run order"], one["request"].SpanContext.TraceID()
		for _, c := range []struct{ child, parent tracetest.SpanStub }{
			{start, one["request"]}, {run, start}, {one["attempt reserve"], run}, {two["attempt ship"], run}, {failed, run},
			{two["wait said"], run}, {two["send said"], two["approval"]},
		} {
			if c.child.Name == "" || c.child.Parent.SpanID() != c.parent.SpanContext.SpanID() {
				t.Errorf("%q is no child of %q", c.child.Name, c.parent.Name)
			}
			if c.child.Name != "send said" && c.child.SpanContext.TraceID() != trace {
				t.Errorf("%q is of another trace", c.child.Name)
			}
		}
		if took := run.EndTime.Sub(run.StartTime); took < 2*time.Hour || run.StartTime.Before(begun) {
			t.Errorf("the run has taken %s, want two hours and more", took)
		}
		message := two["send said"].SpanContext.SpanID()
		if l := two["wait said"].Links; len(l) != 1 || l[0].SpanContext.SpanID() != message {
			t.Errorf("the wait has the links %v, want one to the message", l)
		}
		for name, want := range map[string]string{
			"run order":    "stet.node=two stet.run.id=r stet.status=succeeded stet.workflow=order",
			"wait said":    "stet.location=said stet.node=two stet.run.id=r stet.wait=receive stet.workflow=order",
			"attempt ship": "stet.attempt=2 stet.location=ship[k] stet.node=two stet.run.id=r stet.workflow=order",
		} {
			got := strings.ReplaceAll(attributes(two[name]), "ship/[k]", "ship[k]")
			if got != want {
				t.Errorf("%s has the attributes %s, want %s", name, got, want)
			}
		}
	})
}

// TestARewindIsALink: the run after a rewind has a span of its own, with a link to the one
// before.
func TestARewindIsALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		observer, _, exporter := traced(t)
		code := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
			return 0, stet.Do(ctx, "reserve", func(context.Context) error { return nil })
		})
		e, stop := serving(t, s, stet.Config{Workflows: []stet.Definition{code}, Observer: observer})
		defer stop()
		synctest.Wait()
		run, err := code.Start(t.Context(), e, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Runs().Rewind(t.Context(), run.ID(), "reserve", stet.Act{By: "t", Why: "test"}); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var runs, attempts tracetest.SpanStubs
		for _, s := range exporter.GetSpans() {
			switch s.Name {
			case "run order":
				runs = append(runs, s)
			case "attempt reserve":
				attempts = append(attempts, s)
			}
		}
		if len(runs) != 2 || len(attempts) != 2 {
			t.Fatalf("%d runs and %d attempts were emitted, want 2 and 2", len(runs), len(attempts))
		}
		if len(runs[1].Links) != 1 || runs[1].Links[0].SpanContext.SpanID() != runs[0].SpanContext.SpanID() {
			t.Errorf("the run after the rewind has the links %v", runs[1].Links)
		}
		for i := range runs {
			if attempts[i].Parent.SpanID() != runs[i].SpanContext.SpanID() {
				t.Errorf("attempt %d is no child of run %d", i, i)
			}
		}
	})
}

// TestWithoutDerivedIDs attempts stand beside the run, below the start; and where nobody
// observes the start, each is a trace of its own.
func TestWithoutDerivedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		observer, err := otel.New(otel.Tracer(provider))
		if err != nil {
			t.Fatal(err)
		}
		s := memory.New()
		defer s.Close()
		code := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
			return 0, stet.Do(ctx, "reserve", func(context.Context) error { return nil })
		})
		e, stop := serving(t, s, stet.Config{Workflows: []stet.Definition{code}, Observer: observer})
		defer stop()
		blind, err := stet.New(t.Context(), stet.Config{Store: s.Join()})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, starter := range []*stet.Engine{e, blind} {
			exporter.Reset()
			run, err := code.Start(t.Context(), starter, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			found := spans(t, exporter.GetSpans())
			attempt, ended := found["attempt reserve"], found["run order"]
			want := found["start order"].SpanContext.SpanID() // not valid if nobody has observed it
			if attempt.Parent.SpanID() != want || ended.Parent.SpanID() != want || !attempt.SpanContext.IsValid() {
				t.Errorf("the parents are %s and %s, want %s", attempt.Parent.SpanID(), ended.Parent.SpanID(), want)
			}
		}
	})
}

// TestRunsWithoutATrace have one that follows from the run, in every process.
func TestRunsWithoutATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		observer, _, exporter := traced(t)
		e, stop := serving(t, s, stet.Config{Workflows: []stet.Definition{ask}, Observer: observer})
		defer stop()
		blind, err := stet.New(t.Context(), stet.Config{Store: s.Join()})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		run, err := ask.Start(t.Context(), blind, 0)
		if err == nil {
			err = said.Send(t.Context(), blind, run.ID(), "go")
		}
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = e
		synctest.Wait()
		traces := map[trace.TraceID]bool{}
		for _, s := range exporter.GetSpans() {
			traces[s.SpanContext.TraceID()] = true
		}
		if n := len(exporter.GetSpans()); len(traces) != 1 || n != 5 {
			t.Errorf("%d spans of %d traces were emitted, want 5 of one", n, len(traces))
		}
	})
}

// TestUnsampledRunsEmitNothing, and a start that the sampler drops says so to the other side.
func TestUnsampledRunsEmitNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithIDGenerator(otel.IDs{}),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
		observer, err := otel.New(otel.Tracer(provider), otel.IDs{})
		if err != nil {
			t.Fatal(err)
		}
		s := memory.New()
		defer s.Close()
		e, stop := serving(t, s, stet.Config{Workflows: []stet.Definition{ask}, Observer: observer})
		defer stop()
		synctest.Wait()
		run, err := ask.Start(t.Context(), e, 0)
		if err == nil {
			err = said.Send(t.Context(), e, run.ID(), "go")
		}
		if err == nil {
			_, err = run.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Runs().Info(t.Context(), run.ID())
		if err != nil || !strings.HasSuffix(info.Headers["traceparent"], "-00") {
			t.Errorf("the run has the headers %v, %v, want a trace that is not sampled", info.Headers, err)
		}
		if n := len(exporter.GetSpans()); n != 0 {
			t.Errorf("%d spans were emitted, want none", n)
		}
	})
}

// TestMetrics: all instruments are there, with the attributes that prom has as labels.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		observer, err := otel.New(otel.Meter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))), otel.StoreGauges())
		if err != nil {
			t.Fatal(err)
		}
		code := stet.Define("limited", func(ctx stet.Context, bad bool) (int, error) {
			if bad {
				panic("on purpose")
			}
			if err := stet.Do(ctx, "reserve", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			if err := stet.Sleep(ctx, "rest", time.Minute); err != nil {
				return 0, err
			}
			_, err := said.Receive(ctx)
			return 0, err
		}, stet.OnQueue{Name: "line"})
		s := memory.New()
		defer s.Close()
		e, stop := serving(t, s, stet.Config{
			Workflows: []stet.Definition{code, ask}, Observer: observer, MaxParkedBytes: stet.None,
		})
		defer stop()
		synctest.Wait()
		if err := e.Queues().Create(t.Context(), "line", stet.QueueSettings{Concurrency: 5}); err != nil {
			t.Fatal(err)
		}
		other, err := stet.New(t.Context(), stet.Config{Store: s.Join()}) // its starts are found by claims
		if err != nil {
			t.Fatal(err)
		}
		for i, bad := range []bool{true, false, false} {
			if _, err := code.Start(t.Context(), other, bad, stet.ID(fmt.Sprint("id-", i))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ask.Start(t.Context(), other, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if err := said.Send(t.Context(), e, "id-1", "go"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		observer.StoreError("commit", store.ErrUnavailable)
		observer.Lease(stet.LeaseInfo{Event: stet.LeaseFenced, Shards: make([]store.Shard, 1)})
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				found[m.Name] = keysOf(m.Data)
			}
		}
		want := map[string]string{
			"stet.runs.started": "stet.workflow", "stet.runs.ended": "stet.status stet.workflow",
			"stet.runs.stalled": "stet.cause stet.workflow", "stet.run.duration": "stet.status stet.workflow",
			"stet.attempt.duration": "stet.outcome stet.step stet.workflow", "stet.wake.lag": "stet.group",
			"stet.claim.lag": "stet.group", "stet.commit.duration": "", "stet.commit.turns": "", "stet.commit.size": "",
			"stet.bodies": "stet.state", "stet.runs.in_memory": "stet.state", "stet.shards": "stet.group",
			"stet.lease.events": "stet.event", "stet.fenced": "", "stet.store.errors": "stet.act",
			"stet.value.size": "stet.kind", "stet.runs": "stet.status stet.workflow", "stet.ready.oldest": "",
			"stet.dead_letters": "", "stet.queue.waiting": "stet.queue", "stet.queue.held": "stet.queue",
			"stet.schedule.late": "",
		}
		for name, keys := range want {
			if got, ok := found[name]; !ok || got != keys {
				t.Errorf("%s: found %v with the attributes %q, want %q", name, ok, got, keys)
			}
		}
		for name := range found {
			if _, ok := want[name]; !ok {
				t.Errorf("%s is not in the table", name)
			}
		}
	})
}

// keysOf returns the keys of the attributes of a metric, which all its points have.
func keysOf(data metricdata.Aggregation) string {
	var sets []attribute.Set
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	}
	var all []string
	for _, s := range sets {
		var keys []string
		for _, kv := range s.ToSlice() {
			keys = append(keys, string(kv.Key))
		}
		all = append(all, strings.Join(keys, " "))
	}
	return strings.Join(slices.Compact(all), " | ")
}

// BenchmarkThroughput compares engines without and with traces and metrics, in turns, and
// reports the ratio of their throughput: runs of ten steps that are started by 64 callers, of
// which one in a hundred is sampled.
func BenchmarkThroughput(b *testing.B) {
	with := func(o *stet.Observer) func() time.Duration {
		code := stet.Define("ten", func(ctx stet.Context, _ int) (int, error) {
			for range 10 {
				if err := stet.Do(ctx, "step", func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		s := memory.New()
		b.Cleanup(func() { s.Close() })
		e, stop := serving(b, s, stet.Config{Workflows: []stet.Definition{code}, Observer: o})
		b.Cleanup(stop)
		return func() time.Duration {
			const callers, each = 64, 10
			begun := time.Now()
			ended := make(chan error, callers)
			for range callers {
				go func() {
					for range each {
						run, err := code.Start(context.Background(), e, 0)
						if err == nil {
							_, err = run.Wait(context.Background())
						}
						if err != nil {
							ended <- err
							return
						}
					}
					ended <- nil
				}()
			}
			for range callers {
				if err := <-ended; err != nil {
					b.Error(err)
				}
			}
			return time.Since(begun)
		}
	}
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(otel.IDs{}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(.01))))
	b.Cleanup(func() { _ = provider.Shutdown(context.Background()) }) // it holds nothing that is wanted
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	observer, err := otel.New(otel.Tracer(provider), otel.Meter(meter), otel.IDs{})
	if err != nil {
		b.Fatal(err)
	}
	without, observed := with(nil), with(observer)
	without()
	observed()
	best, bestObserved := without(), observed()
	for b.Loop() { // of each the best counts: other work on the machine slows single rounds down
		best, bestObserved = min(best, without()), min(bestObserved, observed())
		exporter.Reset()
	}
	b.ReportMetric(best.Seconds()/bestObserved.Seconds(), "ratio")
}

// TestCut: after a wait of more than an hour a run goes on in a new trace that is linked with
// the former one, the same in each process that replays it; a shorter wait cuts nothing.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		nothing := func(context.Context) error { return nil }
		code := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
			for _, name := range []string{"a", "b", "c", "d"} {
				if err := stet.Do(ctx, "step "+name, nothing); err != nil {
					return 0, err
				}
				if name == "d" {
					break
				}
				if _, err := said.Receive(ctx, stet.Named("word "+name)); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		var all tracetest.SpanStubs
		observer, provider, exporter := traced(t, otel.Cut(time.Hour))
		cfg := stet.Config{Workflows: []stet.Definition{code}, Observer: observer}
		e, stop := serving(t, s.Join(), cfg)
		synctest.Wait()
		ctx, caller := provider.Tracer("test").Start(t.Context(), "request")
		if _, err := code.Start(ctx, e, 1, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		caller.End()
		for _, wait := range []time.Duration{50 * time.Minute, 2 * time.Hour, time.Minute} {
			time.Sleep(wait)
			if err := said.Send(t.Context(), e, "r", "go"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if wait == 2*time.Hour { // the last step is executed by a process that has replayed the rest
				stop()
				all = append(all, exporter.GetSpans()...)
				observer, _, exporter = traced(t, otel.Cut(time.Hour))
				cfg.Observer = observer
				e, stop = serving(t, s.Join(), cfg)
				synctest.Wait()
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		found := spans(t, slices.DeleteFunc(append(all, exporter.GetSpans()...), func(s tracetest.SpanStub) bool {
			return s.Name == "send said"
		}))
		first, later := found["request"].SpanContext.TraceID(), found["attempt step c"].SpanContext.TraceID()
		if first == later {
			t.Error("after two hours the run goes on in the former trace")
		}
		for name, want := range map[string]trace.TraceID{
			"attempt step a": first, "wait word a": first, "attempt step b": first, "wait word b": later,
			"attempt step c": later, "wait word c": later, "attempt step d": later, "run order": first,
		} {
			s, linked := found[name], false
			for _, l := range s.Links {
				linked = linked || l.SpanContext.TraceID() == first
			}
			if s.SpanContext.TraceID() != want || linked != (want == later) {
				t.Errorf("%q: trace %s, linked with the first one: %v", name, s.SpanContext.TraceID(), linked)
			}
		}
	})
}
