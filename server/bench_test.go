package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// BenchmarkHistory asks for the 10,000 entries of a run, without values, in the pages of the
// dashboard: of the store, and of the API. In turns, of which the best count, so that other work
// on the machine concerns both alike. It reports the ratio of the times, and an entry's bytes.
func BenchmarkHistory(b *testing.B) {
	for kind, open := range map[string]func(b *testing.B) (store.Store, error){
		"memory": func(*testing.B) (store.Store, error) { return memory.New(), nil },
		"sqlite": func(b *testing.B) (store.Store, error) {
			return sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "s.db"), sqlite.AllowLoss())
		},
	} {
		b.Run(kind, func(b *testing.B) {
			s, err := open(b)
			if err != nil {
				b.Fatal(err)
			}
			benchHistory(b, s)
		})
	}
}

func benchHistory(b *testing.B, s store.Store) {
	const entries, size = 10_000, 2000
	many := stet.Define("many", func(ctx stet.Context, _ int) (int, error) {
		items := make([]int, entries/2)
		_, err := stet.Map(ctx, "parts", items, func(ctx stet.Context, _ int) (int, error) {
			for _, name := range []string{"load", "store"} {
				if err := stet.Do(ctx, name, func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		return 0, err
	})
	e, err := stet.New(b.Context(), stet.Config{Store: s, Logger: quiet(), Workflows: []stet.Definition{many}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			b.Error(err)
		}
	})
	handler, err := server.New(e, server.Options{Access: []access.Authenticator{server.Func(byName)}, Logger: quiet(),
		Rate: stet.None})
	if err != nil {
		b.Fatal(err)
	}
	run, err := many.Start(b.Context(), e, 0, stet.ID("many-1"))
	if err == nil {
		_, err = run.Wait(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	info, err := e.Runs().Info(b.Context(), "many-1")
	if err != nil {
		b.Fatal(err)
	}
	found, body := 0, bytes.Buffer{}
	byStore := func() time.Duration {
		begun := time.Now()
		found = 0
		for after := ""; ; {
			page, err := s.History(b.Context(), store.HistoryQuery{Run: info.Number, After: after, Limit: size})
			if err != nil {
				b.Fatal(err)
			}
			if found += len(page); len(page) < size {
				return time.Since(begun)
			}
			after = page[size-1].Loc
		}
	}
	byAPI := func() (took time.Duration) {
		body.Reset()
		for after := ""; ; {
			r := httptest.NewRequest("GET", "/api/v1/runs/many-1/history?values=none&after="+url.QueryEscape(after), nil)
			r.Header.Set("Authorization", "Bearer viewer")
			rec := httptest.NewRecorder()
			rec.Body.Grow(1 << 20) // a socket has no buffer that grows
			begun := time.Now()
			handler.ServeHTTP(rec, r)
			took += time.Since(begun)
			body.Write(rec.Body.Bytes())
			var page api.History
			if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil {
				b.Fatal(err)
			}
			if after = page.Next; after == "" {
				return took
			}
		}
	}
	best, bestAPI := byStore(), byAPI()
	for b.Loop() {
		best, bestAPI = min(best, byStore()), min(bestAPI, byAPI())
	}
	if found < entries {
		b.Fatalf("expected %d entries, found %d", entries, found)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(body.Bytes()); err != nil || z.Close() != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(bestAPI)/float64(best), "ratio")
	b.ReportMetric(float64(body.Len())/float64(found), "B/entry")
	b.ReportMetric(float64(packed.Len())/float64(found), "gzB/entry")
	b.ReportMetric(float64(best.Microseconds())/1000, "store-ms")
	b.ReportMetric(float64(bestAPI.Microseconds())/1000, "api-ms")
}
