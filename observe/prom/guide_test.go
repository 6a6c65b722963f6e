package prom_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/observe/prom"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

func withMetrics(ctx context.Context, s store.Store, w ...stet.Definition) (*stet.Engine, http.Handler, error) {
	registry := prometheus.NewRegistry()
	observer, err := prom.New(registry, prom.Options{Store: true})
	if err != nil {
		return nil, nil, err
	}
	engine, err := stet.New(ctx, stet.Config{Store: s, Workflows: w, Observer: observer})
	return engine, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), err
}

func readiness(engine *stet.Engine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := engine.Ready(r.Context()); err != nil {
			slog.Warn("not ready", "error", err)
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
}

// TestGuide serves what the guide shows.
func TestGuide(t *testing.T) {
	s := memory.New()
	defer s.Close()
	code := stet.Define("order", func(stet.Context, int) (int, error) { return 0, nil })
	e, handler, err := withMetrics(t.Context(), s, code)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := code.Start(t.Context(), e, 0); err != nil {
		t.Fatal(err)
	}
	get := func(h http.Handler) (int, string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		body, err := io.ReadAll(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Code, string(body)
	}
	want := `stet_runs{status="queued",workflow="order"} 1`
	if status, body := get(handler); status != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("the metrics are %d %s", status, body)
	}
	if status, body := get(readiness(e)); status != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("before Run the process is %d %q", status, body)
	}
}
