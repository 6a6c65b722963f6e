package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store/memory"
)

// The address of the shop's server, which is mounted under a prefix.
const (
	shopPrefix  = "/stet"
	shopAddress = "https://ops.example.com" + shopPrefix
	// shopSettles is how long is waited before each request.
	shopSettles = 200 * time.Millisecond
)

// parcel is an order.
type parcel struct {
	SKU   string `json:"sku"`
	Cents int    `json:"cents"`
}

var (
	shopInvoice = stet.Define("invoice", func(ctx stet.Context, cents int) (string, error) {
		return stet.Step(ctx, "print", func(context.Context) (string, error) { return "printed", nil })
	})
	shopCheckout = stet.Define("checkout", func(ctx stet.Context, o parcel) (string, error) {
		if err := stet.SetTags(ctx, stet.Tags{"sku": o.SKU}); err != nil {
			return "", err
		}
		charge, err := stet.Step(ctx, "charge", func(context.Context) (string, error) {
			if o.Cents > 100_000 {
				return "", stet.Permanent(errors.New("the card was declined"))
			}
			return "paid by card", nil
		})
		if err != nil {
			return "", err
		}
		if _, err := shopInvoice.Call(ctx, o.Cents); err != nil {
			return "", err
		}
		if err := errors.Join(stet.Value[string]("stage").Set(ctx, "packed"),
			stet.Stream[string]("log").Append(ctx, "packed "+o.SKU)); err != nil {
			return "", err
		}
		who, err := stet.Message[string]("approved").Receive(ctx)
		return o.SKU + " is sent, " + charge + ", approved by " + who, err
	})
	// shopBasket adds what it is sent until that is nothing.
	shopBasket = stet.Define("basket", func(ctx stet.Context, sum int) (int, error) {
		for {
			add, err := stet.Update[int, int]("add").Receive(ctx)
			if err != nil || add.Value == 0 {
				return sum, err
			}
			sum += add.Value
			if err := add.Answer(ctx, sum); err != nil {
				return sum, err
			}
		}
	})
	shopReview = stet.Define("review", func(ctx stet.Context, _ string) (string, error) {
		legal, err := stet.NewPromise[string](ctx, "legal")
		if err != nil {
			return "", err
		}
		finance, err := stet.NewPromise[string](ctx, "finance")
		if err != nil {
			return "", err
		}
		said, err := legal.Await(ctx)
		if err != nil {
			return "", err
		}
		also, err := finance.Await(ctx)
		return said + ", " + also, err
	})
	shopPhoto = stet.Define("photo", func(ctx stet.Context, address string) (int, error) {
		return stet.Task[string, int]("resize").Run(ctx, address, stet.Retry{First: stet.None})
	})
	shopWatch = stet.Define("watch", func(ctx stet.Context, _ string) (int, error) {
		return stet.Topic[int]{Name: "prices"}.Receive(ctx)
	})
	shopReport = stet.Define("report", func(stet.Context, string) (string, error) { return "written", nil })
	shopGreet  = stet.Define("greet", func(ctx stet.Context, name string) (string, error) {
		stet.Version(ctx, stet.ScriptChange, 1) // as a script records the version to which it is bound
		return "hello " + name, nil
	})
)

// shop is the server of a shop, with what the page of the API shows.
type shop struct {
	*world
	mounted http.Handler
	env     map[string]string // the variables of the page
	route   string            // of the last request: its method and path
}

// elsewhere is an identity provider that returns at once.
type elsewhere struct {
	access.Authenticator
	token string
}

func (elsewhere) Title() string { return "Example Inc." }

func (elsewhere) Begin(context.Context) (address, state string, err error) {
	return "https://login.example.com/authorize?client_id=stet&state=c5f7", "c5f7", nil
}

func (e elsewhere) Finish(_ context.Context, state string, answer url.Values) (string, error) {
	if answer.Get("state") != state {
		return "", access.ErrDenied
	}
	return e.token, nil
}

// newShop returns the shop on the first of December 2026, by the clock of a bubble.
func newShop(t *testing.T) *shop {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
	db := memory.New(memory.Slots(4))
	t.Cleanup(func() { _ = db.Close() })
	// The shop fails to import until import is mended.
	mended := false
	imports := stet.Define("import", func(ctx stet.Context, file string) (string, error) {
		if !mended {
			mended = true
			return "", stet.Stall(file + " has a column that nobody knows")
		}
		return "imported", nil
	})
	e, err := stet.New(t.Context(), stet.Config{
		Store: db, Logger: quiet(), Node: "shop-1", Build: "v1.4", Workflows: []stet.Definition{shopInvoice, shopCheckout,
			shopBasket, shopReview, shopPhoto, shopWatch, shopReport, shopGreet, imports},
	})
	if err != nil {
		t.Fatal(err)
	}
	running(t, e)
	s := &shop{world: &world{t: t, engine: e, store: db}, env: map[string]string{"STET_SERVER": shopAddress}}
	s.fill(imports)
	return s
}

// must ends the test if something has failed.
func (s *shop) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

// settle waits until nothing is left to do but to wait.
func (s *shop) settle() {
	time.Sleep(shopSettles)
	synctest.Wait()
}

// tokens makes the token of ci and then that of ada, and returns hers.
func (s *shop) tokens(act stet.Act) string {
	s.t.Helper()
	ctx, tokens := s.t.Context(), stet.TokensOf(s.engine)
	_, err := tokens.Create(ctx, stet.TokenInfo{Name: "ci", Role: "caller", Workflows: []string{"checkout"}}, act)
	time.Sleep(time.Second) // the newest stands first
	token, err2 := tokens.Create(ctx, stet.TokenInfo{Name: "ada", Role: "admin"}, act)
	s.must(err, err2)
	return token
}

// fill makes what the page asks for, and the server.
func (s *shop) fill(imports *stet.Workflow[string, string]) {
	s.t.Helper()
	ctx, e := s.t.Context(), s.engine
	by := func(why string) stet.Act { return stet.Act{By: "ada", Why: why} }
	start := func(_ any, err error) { s.t.Helper(); s.must(err); s.settle() }

	token := s.tokens(by(""))
	s.env["STET_TOKEN"] = token
	tokens := server.Tokens(e)
	handler, err := server.New(e, server.Options{
		Access: []access.Authenticator{tokens, elsewhere{tokens, token}}, Logger: quiet(), OpenPromises: true,
		Requested: func(method, route string, _ int, _ time.Duration) {
			s.route = method + " " + strings.TrimPrefix(route, "/api/v1/")
		},
	})
	s.must(err)
	s.handler = handler
	mux := http.NewServeMux()
	mux.Handle(shopPrefix+"/", http.StripPrefix(shopPrefix, s.handler))
	s.mounted = mux

	note, approved := stet.Message[string]("note"), stet.Message[string]("approved")
	apple := parcel{"apple", 499}
	for _, id := range []string{"order-1", "order-3", "order-4", "order-5"} {
		start(shopCheckout.Start(ctx, e, apple, stet.ID(id)))
	}
	start(shopCheckout.Start(ctx, e, parcel{"piano", 250_000}, stet.ID("order-2")))
	for _, id := range []string{"order-0", "order-6"} {
		start(shopCheckout.Start(ctx, e, apple, stet.ID(id), stet.FirstMessage(approved, "bob")))
	}
	start(shopCheckout.Start(ctx, e, apple, stet.ID("order-8"), stet.FirstMessage(approved, "bob"),
		stet.FirstMessage(note, "ring twice"), stet.FirstMessage(note, "no ribbon")))
	s.must(note.Send(ctx, e, "order-1", "gift wrap"))
	_, err = e.Runs().Pause(ctx, "order-1", by("the scales are broken"))
	_, err2 := e.Runs().Resume(ctx, "order-1", by("the scales are back"))
	s.must(err, err2)
	start(shopBasket.Start(ctx, e, 0, stet.ID("basket-1")))
	start(shopReview.Start(ctx, e, "contract.pdf", stet.ID("review-1")))
	for _, id := range []string{"1", "2", "3"} {
		start(shopPhoto.Start(ctx, e, "https://shop.example.com/"+id+".jpg", stet.ID("photo-"+id)))
	}
	start(imports.Start(ctx, e, "stock.csv", stet.ID("import-1")))
	start(shopWatch.Start(ctx, e, "", stet.ID("watch-1")))

	for _, code := range []string{"greet = (name) => 'hi ' + name", "greet = (name) => 'hello ' + name"} {
		_, err = stet.ScriptsOf(e).Deploy(ctx, "greet", stet.ScriptCode{Code: code}, by("the new greeting"))
		s.must(err)
	}
	start(shopGreet.Start(ctx, e, "bob", stet.ID("greet-1")))

	s.must(e.Queues().Create(ctx, "mail", stet.QueueSettings{Concurrency: 10, PerKey: 2}),
		e.Queues().Create(ctx, "fax", stet.QueueSettings{Concurrency: 1}),
		shopReport.Schedule(ctx, e, "nightly", "sales", stet.Schedule{Cron: "0 3 * * *", Zone: "Europe/Berlin"}))
	_, err = stet.Topic[string]{Name: "news", Mode: stet.Consumed}.Publish(ctx, e, "open on Sunday")
	s.must(err)
	hook := api.SetHook{Scheme: "hmac", Secrets: []string{"the secret that the shop knows"}, Start: "checkout"}
	s.must(stet.HooksOf(e).Create(ctx, hook.Hook("old-shop"), by("")))
	s.settle()
}
