package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// hostile are texts that a page must show as they are: they stand in IDs, names, tags, errors
// and results.
var hostile = []string{
	`<img src=x onerror=alert(1)>`,
	`"><script>alert(1)</script>`,
	`javascript:alert(1)`,
	`../../etc/passwd?x=1#y`,
	`%2e%2e%2f%00 {{7*7}} ${7*7}`,
	"a b\u202egnp.exe",
	`'; DROP TABLE runs; --`,
}

// hostileID is the ID of the run with a hostile text. IDs have printable characters alone.
func hostileID(i int) string {
	return fmt.Sprintf("%d %s", i, strings.ReplaceAll(hostile[i], "\u202e", ""))
}

type receipt struct {
	ID    string   `json:"id"`
	Cents int      `json:"cents"`
	Lines []string `json:"lines"`
}

// work is the body of a step that takes a while.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errDeclined = errors.New("card declined: the issuer does not answer (code 91)")

var (
	fraud = stet.Define("fraud", func(ctx stet.Context, order string) (int, error) {
		return stet.Step(ctx, "score", func(ctx context.Context) (int, error) { return 12, work(ctx, 90*time.Millisecond) })
	})

	checkout = stet.Define("checkout", func(ctx stet.Context, in order) (receipt, error) {
		if err := stet.SetTags(ctx, stet.Tags{"tenant": in.Tenant, "country": "DE"}); err != nil {
			return receipt{}, err
		}
		if err := stet.Value[string]("phase").Set(ctx, "paying"); err != nil {
			return receipt{}, err
		}
		tries := 0
		paid, err := stet.Step(ctx, "charge", func(ctx context.Context) (receipt, error) {
			if err := work(ctx, 60*time.Millisecond); err != nil {
				return receipt{}, err
			}
			//stetvet:ignore captured the test counts what this process executes
			if tries++; in.Declined || tries < 3 && in.Slow {
				return receipt{}, errDeclined
			}
			return receipt{"c-1", 4990, in.SKUs}, nil
		}, stet.Retry{Attempts: 4, First: 70 * time.Millisecond, Jitter: stet.None}, stet.Undo(
			func(context.Context, receipt) error { return nil }))
		if err != nil {
			return receipt{}, err
		}
		check, err := fraud.Go(ctx, in.Tenant)
		if err != nil {
			return receipt{}, err
		}
		packed := stet.Go(ctx, "pack", func(ctx stet.Context) (int, error) {
			done, err := stet.Map(ctx, "items", in.SKUs, func(ctx stet.Context, sku string) (string, error) {
				_, err := stet.Step(ctx, "pick", func(ctx context.Context) (string, error) {
					return "shelf 4", work(ctx, time.Duration(20+10*(len(sku)%7))*time.Millisecond)
				})
				if err != nil {
					return "", err
				}
				return stet.Step(ctx, "wrap", func(ctx context.Context) (string, error) {
					return "wrapped " + sku, work(ctx, 30*time.Millisecond)
				})
			})
			return len(done), err
		})
		if _, err = packed.Await(ctx); err != nil {
			return receipt{}, err
		}
		if _, err = check.Await(ctx); err != nil {
			return receipt{}, err
		}
		if in.Approval {
			if _, err := stet.Message[string]("approved").Receive(ctx, stet.Within(72*time.Hour)); err != nil {
				return receipt{}, err
			}
		}
		if err := stet.Stream[string]("log").Append(ctx, "shipped"); err != nil {
			return receipt{}, err
		}
		return paid, stet.Do(ctx, "ship", func(ctx context.Context) error { return work(ctx, 40*time.Millisecond) })
	})

	invoice = stet.Define("invoice", func(ctx stet.Context, n int) (int, error) {
		rows := []int{1, 2, 3}
		return rows[n], nil // with 3 that is a bug, which stalls
	})

	mail = stet.Define("mail", func(ctx stet.Context, to string) (string, error) {
		return stet.Step(ctx, "send", func(ctx context.Context) (string, error) { return "sent to " + to, nil })
	}, stet.OnQueue{Name: "mail"})

	// hold executes until the test ends.
	hold = make(chan struct{})
	slow = stet.Define("import", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "read the file", func(ctx context.Context) (int, error) {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return 0, ctx.Err()
		})
	})

	odd = stet.Define(`odd <b>"workflow"</b>`, func(ctx stet.Context, text string) (map[string]string, error) {
		if err := stet.SetTags(ctx, stet.Tags{"odd": text}); err != nil {
			return nil, err
		}
		if err := stet.Value[string](`<u>value</u>`).Set(ctx, text); err != nil {
			return nil, err
		}
		if _, err := stet.Step(ctx, `<s>step</s>`, func(context.Context) (string, error) { return text, nil }); err != nil {
			return nil, err
		}
		return stet.Step(ctx, `fails & "quotes"`, func(context.Context) (map[string]string, error) {
			return nil, stet.Permanent(errors.New("error: " + text))
		})
	})

	many = stet.Define("many", func(ctx stet.Context, n int) (int, error) {
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		done, err := stet.Map(ctx, "parts", items, func(ctx stet.Context, _ int) (int, error) {
			if err := stet.Do(ctx, "load", func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
			return 1, stet.Do(ctx, "store", func(context.Context) error { return nil })
		})
		return len(done), err
	})

	// contract waits for a promise.
	contract = stet.Define("contract", func(ctx stet.Context, _ int) (string, error) {
		p, err := stet.NewPromise[string](ctx, "signature")
		if err != nil {
			return "", err
		}
		return p.Await(ctx)
	})

	jobs    = stet.Topic[string]{Name: "jobs", Mode: stet.Consumed, Expiry: time.Hour}
	prices  = stet.Topic[int]{Name: "prices"}
	watcher = stet.Define("watcher", func(ctx stet.Context, _ int) (int, error) { return prices.Receive(ctx) })
)

type order struct {
	ID       string
	Tenant   string
	SKUs     []string
	Declined bool
	Slow     bool
	Approval bool
}

// site is a filled store behind a server.
type site struct {
	url    string
	engine *stet.Engine
}

// as is who the browser is; a test may change it for pages that it opens later.
var admin = &access.Identity{Name: "alice", Role: access.Administrator}

// newSite fills a store as a day of work would, and serves it.
func newSite(t *testing.T, who *access.Identity) *site {
	t.Helper()
	return newSiteWith(t, server.Func(func(*http.Request) (*access.Identity, error) { return who, nil }))
}

// newSiteWith serves a store to those whom an authenticator lets in.
func newSiteWith(t *testing.T, who access.Authenticator) *site {
	t.Helper()
	return serve(t, stet.Config{
		Workflows: []stet.Definition{checkout, fraud, invoice, mail, slow, odd, many, watcher, contract, counted, held},
	}, server.Options{Access: []access.Authenticator{who}})
}

// serve runs an engine on a store of its own, and serves it.
func serve(t *testing.T, cfg stet.Config, o server.Options) *site {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memory.New()
	}
	s := cfg.Store
	ctx, cancel := context.WithCancel(context.Background())
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Node, cfg.Build = cmp.Or(cfg.Node, "node-1"), cmp.Or(cfg.Build, "1120.3")
	e, err := stet.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	o.Logger, o.Rate = slog.New(slog.DiscardHandler), stet.None
	h, err := server.New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/stet/", http.StripPrefix("/ops/stet", h)) // any prefix does
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
	return &site{web.URL + "/ops/stet/", e}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// until waits until a run has a status.
func (s *site) until(t *testing.T, id string, want store.Status) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		info, err := s.engine.Runs().Info(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if info.Status == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("run %s: expected %s, found %s: %v", id, want, info.Status, info.Err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// fill starts the runs of a day, and waits until each stands where the pages expect it.
func (s *site) fill(t *testing.T) {
	t.Helper()
	ctx, e := t.Context(), s.engine
	start := func(in order) {
		t.Helper()
		must[*stet.Run[receipt]](t)(checkout.Start(ctx, e, in, stet.ID(in.ID)))
	}
	skus := strings.Fields("tea mugs spoons kettle tray sugar biscuits milk honey lemon")
	start(order{ID: "order-4709", Tenant: "acme", SKUs: skus[:3]})
	s.until(t, "order-4709", store.Succeeded)
	start(order{ID: "order-4711", Tenant: "acme", SKUs: skus[:2], Declined: true})
	start(order{ID: "order-4712", Tenant: "globex", SKUs: skus, Slow: true, Approval: true})
	must[*stet.Run[int]](t)(invoice.Start(ctx, e, 3, stet.ID("invoice-2211")))
	must[*stet.Run[int]](t)(slow.Start(ctx, e, 1, stet.ID("import-7")))
	must[*stet.Run[int]](t)(watcher.Start(ctx, e, 1, stet.ID("watcher-1")))
	for i, text := range hostile {
		must[*stet.Run[map[string]string]](t)(odd.Start(ctx, e, text, stet.ID(hostileID(i))))
	}
	s.until(t, "order-4711", store.Failed)
	s.until(t, "order-4712", store.Suspended)
	s.until(t, "invoice-2211", store.Stalled)
	s.until(t, "watcher-1", store.Suspended)
	for i := range hostile {
		s.until(t, hostileID(i), store.Failed)
	}
	start(order{ID: "order-4713", Tenant: "acme", SKUs: skus[:1], Approval: true})
	s.until(t, "order-4713", store.Suspended)
	if _, err := e.Runs().Pause(ctx, "order-4713", stet.Act{By: "alice", Why: "the shop moves house"}); err != nil {
		t.Fatal(err)
	}
	if err := stet.Message[string]("unheard").Send(ctx, e, "order-4712", hostile[0]); err != nil {
		t.Fatal(err)
	}
	if err := e.Queues().Create(ctx, "mail", stet.QueueSettings{Concurrency: 2, PerKey: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Queues().Pause(ctx, "mail", stet.Act{Why: "the mail server is being moved"}); err != nil {
		t.Fatal(err)
	}
	must[*stet.Run[string]](t)(mail.Start(ctx, e, "bob@example.com", stet.ID("mail-1")))
	at := stet.Schedule{Cron: "30 2 * * *", Zone: "Europe/Berlin"}
	if err := mail.Schedule(ctx, e, "nightly", "all@example.com", at); err != nil {
		t.Fatal(err)
	}
	if err := mail.Schedule(ctx, e, "paused one", "x", stet.Schedule{Every: time.Hour, Paused: true}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := jobs.Publish(ctx, e, fmt.Sprintf("job %d %s", i, hostile[1])); err != nil {
			t.Fatal(err)
		}
	}
	// A message that nobody takes becomes a dead letter when its run ends.
	start(order{ID: "order-4714", Tenant: "acme", SKUs: skus[:1], Approval: true})
	s.until(t, "order-4714", store.Suspended)
	if err := stet.Message[string]("refund").Send(ctx, e, "order-4714", "12 EUR "+hostile[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Runs().Cancel(ctx, "order-4714", stet.Act{By: "bob", Why: "the customer has called"}); err != nil {
		t.Fatal(err)
	}
	s.until(t, "order-4714", store.Cancelled)
}
