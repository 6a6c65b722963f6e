// Package clienttest is the suite of the HTTP API as a program in Go sees it: package client, the
// server behind it, and engines on a store, of any kind.
package clienttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// Open makes an empty store, and returns what opens it, as each process does. What it opens is
// closed by a clean-up of the test.
type Open func(testing.TB) func() store.Store

// Run executes the suite with a server in the process that executes the runs.
func Run(t *testing.T, open Open) { t.Helper(); run(t, site{open, false}) }

// RunApart executes it with a server in another process, which executes nothing.
func RunApart(t *testing.T, open Open) { t.Helper(); run(t, site{open, true}) }

func run(t *testing.T, s site) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, site){
		"byAnyID": byAnyID, "errors": errorsOfTheEngine, "keys": keysOfTheEngine, "revoked": revoked,
		"queues": queues, "schedules": schedules, "letters": lettersNodesTokens, "follow": follow,
		"reads": reads, "repairs": repairs, "bulk": bulk, "sends": sends,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// site is where the suite is executed.
type site struct {
	open  Open
	apart bool
}

// as returns a client with a role, and the engine that executes the runs.
func (s site) as(t *testing.T, role string) (*client.Client, *stet.Engine) {
	t.Helper()
	open, quiet := s.open(t), slog.New(slog.DiscardHandler)
	newEngine := func(db store.Store, w ...stet.Definition) *stet.Engine {
		e, err := stet.New(t.Context(), stet.Config{Store: db, Workflows: w, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := newEngine(open(), order, parcel)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		if stop(); <-ended != nil {
			t.Error("the engine has ended with an error")
		}
	})
	at := e
	if s.apart {
		db := open()
		at = newEngine(db)
		servers.Until(t, "the other process knows the workflows", func() bool {
			d, err := db.Describe(t.Context())
			return err == nil && slices.Contains(d.Workflows, order.Name()) && slices.Contains(d.Workflows, parcel.Name())
		})
	}
	h, err := server.New(at, server.Options{
		Access: []access.Authenticator{server.Tokens(at)}, Logger: quiet, Rate: stet.None,
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/stet/", http.StripPrefix("/ops/stet", h)) // any prefix does
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	token, err := stet.TokensOf(e).Create(t.Context(), stet.TokenInfo{Name: "ada", Role: role}, stet.Act{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(web.URL+"/ops/stet/", client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c, e
}

var (
	order = stet.Define("order", func(ctx stet.Context, sku string) (string, error) {
		who, err := stet.Message[string]("approved").Receive(ctx)
		return sku + " by " + who, err
	})
	// parcel has a step, which fails for what is heavy, a child, a value, a stream and a promise.
	parcel = stet.Define("parcel", func(ctx stet.Context, what string) (string, error) {
		weighed, err := stet.Step(ctx, "weigh", func(context.Context) (string, error) {
			if what == "heavy" {
				return "", stet.Permanent(errors.New("too heavy"))
			}
			return what + ": 1 kg", nil
		})
		if err != nil {
			return "", err
		}
		if err := stet.SetTags(ctx, stet.Tags{"what": what}); err != nil {
			return "", err
		}
		places := stet.Stream[int]("places")
		err = errors.Join(stet.Value[string]("place").Set(ctx, "depot"),
			places.Append(ctx, 1), places.Append(ctx, 2), places.Append(ctx, 3))
		if err != nil {
			return "", err
		}
		child, err := order.Go(ctx, what)
		if err != nil {
			return "", err
		}
		p, err := stet.NewPromise[string](ctx, "signature")
		if err != nil {
			return "", err
		}
		by, err := p.Await(ctx)
		if err != nil {
			return "", err
		}
		if _, err := child.Await(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, signed by %s", weighed, by), nil
	})
)
