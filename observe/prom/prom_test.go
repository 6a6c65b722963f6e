package prom_test

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

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe/prom"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// serving runs an engine on a store, in a bubble, until the test ends.
func serving(t testing.TB, s store.Store, cfg stet.Config) *stet.Engine {
	t.Helper()
	cfg.Store, cfg.Logger, cfg.Grace = s, slog.New(slog.DiscardHandler), stet.None
	e, err := stet.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e
}

// gathered returns the metrics of a registry by name.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// labelsOf returns the labels of a metric, as text.
func labelsOf(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(pairs, " ")
}

// table are the metrics with the names of their labels.
var table = map[string]string{
	"stet_runs_started_total": "workflow", "stet_runs_ended_total": "status workflow",
	"stet_runs_stalled_total": "cause workflow", "stet_run_seconds": "status workflow",
	"stet_attempt_seconds": "outcome step workflow", "stet_wake_lag_seconds": "group", "stet_claim_lag_seconds": "group",
	"stet_commit_seconds": "", "stet_commit_turns": "", "stet_commit_bytes": "", "stet_bodies": "state",
	"stet_runs_in_memory": "state", "stet_shards": "group", "stet_lease_events_total": "event", "stet_fenced_total": "",
	"stet_store_errors_total": "act", "stet_value_bytes": "kind", "stet_runs": "status workflow",
	"stet_ready_oldest_seconds": "", "stet_dead_letters": "", "stet_queue_waiting": "queue", "stet_queue_held": "queue",
	"stet_schedule_late_seconds": "", "stet_http_requests_total": "code method route",
	"stet_http_seconds": "code method route", "stet_followers": "",
}

// TestRequestsAreCounted by route and code; methods that nobody knows, and those who follow
// for hours, do not spoil the counts.
func TestRequestsAreCounted(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	h, err := prom.NewHTTP(reg)
	if err != nil {
		t.Fatal(err)
	}
	h.Requested("GET", "/api/v1/runs", 200, time.Second)
	h.Requested("GET", "/api/v1/runs", 200, time.Second)
	h.Requested("GET", "/api/v1/events", 200, time.Hour)
	h.Requested("BREW", "", 405, time.Second)
	h.Following(1)
	h.Following(1)
	h.Following(-1)
	var got []string
	for name, f := range gathered(t, reg) {
		for _, m := range f.GetMetric() {
			n := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			got = append(got, fmt.Sprint(name, " ", labelsOf(m), " ", n))
		}
	}
	slices.Sort(got)
	want := []string{
		"stet_followers  1",
		"stet_http_requests_total code=200 method=GET route=/api/v1/events 1",
		"stet_http_requests_total code=200 method=GET route=/api/v1/runs 2",
		"stet_http_requests_total code=405 method=other route= 1",
		"stet_http_seconds code=200 method=GET route=/api/v1/runs 2",
		"stet_http_seconds code=405 method=other route= 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("expected\n%s\nfound\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	if _, err := prom.NewHTTP(reg); err == nil {
		t.Error("a second NewHTTP with one registerer was not refused")
	}
}

// TestMetricsOfAWorkload: each metric of the table is there with its labels and no others, the
// counts are those of the workload, and no label has an ID.
func TestMetricsOfAWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := stet.Message[int]("said")
		order := stet.Define("order", func(ctx stet.Context, fail bool) (int, error) {
			for i := range 3 {
				if err := stet.Do(ctx, "ask", func(ctx context.Context) error {
					if fail && stet.Attempt(ctx) == 1 {
						return errors.New("no")
					}
					return nil
				}, stet.Key(fmt.Sprint("key-", i))); err != nil {
					return 0, err
				}
			}
			if err := stet.Sleep(ctx, "rest", time.Minute); err != nil {
				return 0, err
			}
			return said.Receive(ctx)
		}, stet.OnQueue{Name: "line"})
		bad := stet.Define("bad", func(stet.Context, int) (int, error) { panic("on purpose") })
		reg := prometheus.NewPedanticRegistry()
		observer, err := prom.New(reg, prom.Options{Store: true})
		if err != nil {
			t.Fatal(err)
		}
		web, err := prom.NewHTTP(reg)
		if err != nil {
			t.Fatal(err)
		}
		web.Requested("GET", "/api/v1/runs", 200, time.Second)
		s := memory.New()
		t.Cleanup(func() { s.Close() })
		e := serving(t, s, stet.Config{
			Workflows: []stet.Definition{order, bad}, Observer: observer, MaxParkedBytes: stet.None,
		})
		synctest.Wait()
		ctx := context.Background()
		if err := e.Queues().Create(ctx, "line", stet.QueueSettings{Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
		other, err := stet.New(ctx, stet.Config{Store: s.Join()}) // another process: its start is found by a claim
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Start(ctx, other, 0, stet.ID("id-bad")); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if _, err := order.Start(ctx, e, true, stet.ID(fmt.Sprint("id-", i))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if err := said.Send(ctx, e, "id-0", 7); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		observer.StoreError("commit", store.ErrUnavailable)

		found := gathered(t, reg)
		for name, want := range table {
			f := found[name]
			if f == nil {
				t.Errorf("%s is not there", name)
				continue
			}
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName())
					if strings.Contains(l.GetValue(), "id-") || strings.Contains(l.GetValue(), "key-") {
						t.Errorf("%s has the label %s", name, labelsOf(m))
					}
				}
				if got := strings.Join(labels, " "); got != want {
					t.Errorf("%s has the labels %q, want %q", name, got, want)
				}
			}
		}
		for name := range found {
			if _, ok := table[name]; !ok {
				t.Errorf("%s is not in the table", name)
			}
		}
		value := func(name, labels string) float64 {
			for _, m := range found[name].GetMetric() {
				if labelsOf(m) == labels {
					switch {
					case m.Counter != nil:
						return m.GetCounter().GetValue()
					case m.Gauge != nil:
						return m.GetGauge().GetValue()
					}
					return float64(m.GetHistogram().GetSampleCount())
				}
			}
			return -1
		}
		for _, c := range []struct {
			name, labels string
			want         float64
		}{
			{"stet_runs_started_total", "workflow=order", 2},
			{"stet_runs_ended_total", "status=succeeded workflow=order", 1},
			{"stet_run_seconds", "status=succeeded workflow=order", 1},
			{"stet_runs_stalled_total", "cause=panic workflow=bad", 1},
			{"stet_attempt_seconds", "outcome=failed step=ask workflow=order", 6},
			{"stet_attempt_seconds", "outcome=done step=ask workflow=order", 6},
			{"stet_store_errors_total", "act=commit", 1},
			{"stet_runs", "status=stalled workflow=bad", 1},
			{"stet_runs", "status=suspended workflow=order", 1},
			{"stet_queue_held", "queue=line", 1},
			{"stet_queue_waiting", "queue=line", 0},
			{"stet_runs_in_memory", "state=parked", 0},
			{"stet_dead_letters", "", 0},
			{"stet_fenced_total", "", 0},
		} {
			if got := value(c.name, c.labels); got != c.want {
				t.Errorf("%s{%s} is %v, want %v", c.name, c.labels, got, c.want)
			}
		}
	})
}

// TestNamesBecomeOther: from 1,000 sets of labels on, names are counted as other, and their
// statuses stay.
func TestNamesBecomeOther(t *testing.T) {
	reg := prometheus.NewRegistry()
	observer, err := prom.New(reg, prom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		_, done := observer.Attempt(t.Context(), stet.StepInfo{Workflow: "w", Name: fmt.Sprint("step-", i)})
		done(nil)
		observer.RunBegan(stet.RunEvent{Workflow: fmt.Sprint("w-", i)})
	}
	found := gathered(t, reg)
	for name, rest := range map[string]string{
		"stet_attempt_seconds":    "outcome=done step=other workflow=other",
		"stet_runs_started_total": "workflow=other",
	} {
		metrics := found[name].GetMetric()
		if len(metrics) != 1001 {
			t.Errorf("%s has %d sets of labels, want 1001", name, len(metrics))
		}
		i := slices.IndexFunc(metrics, func(m *dto.Metric) bool { return labelsOf(m) == rest })
		if i < 0 {
			t.Errorf("%s has no set %q", name, rest)
		} else if n := metrics[i].GetHistogram().GetSampleCount() + uint64(metrics[i].GetCounter().GetValue()); n != 500 {
			t.Errorf("%s{%s} is %d, want 500", name, rest, n)
		}
	}
}

// TestASecondNewIsRefused by a registerer that has the metrics.
func TestASecondNewIsRefused(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := prom.New(reg, prom.Options{Store: true}); err != nil {
		t.Fatal(err)
	}
	var twice prometheus.AlreadyRegisteredError
	if _, err := prom.New(reg, prom.Options{Store: true}); !errors.As(err, &twice) {
		t.Errorf("got %v, want an AlreadyRegisteredError", err)
	}
}

// BenchmarkThroughput compares engines without and with the metrics, in turns, and reports the
// ratio of their throughput: runs of ten steps that are started by 64 callers.
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
		e := serving(b, s, stet.Config{Workflows: []stet.Definition{code}, Observer: o})
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
	observer, err := prom.New(prometheus.NewRegistry(), prom.Options{Store: true})
	if err != nil {
		b.Fatal(err)
	}
	without, observed := with(nil), with(observer)
	without()
	observed()
	best, bestObserved := without(), observed()
	for b.Loop() { // of each the best counts: other work on the machine slows single rounds down
		best, bestObserved = min(best, without()), min(bestObserved, observed())
	}
	b.ReportMetric(best.Seconds()/bestObserved.Seconds(), "ratio")
}
