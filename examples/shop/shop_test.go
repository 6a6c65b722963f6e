package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// database returns one that is set up, and the shop's tables in it.
func database(t *testing.T) (options, *pgxpool.Pool) {
	t.Helper()
	dsn, schema := servers.SharedPostgres(t)
	o := options{dsn, schema, true}
	if err := run(t.Context(), o, []string{"setup"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	pool, err := o.tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer pool.Close()
		_, err := pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE; DROP SCHEMA "+schema+"_runs CASCADE")
		if err != nil {
			t.Error(err)
		}
	})
	return o, pool
}

// node is an engine with a store of its own, as a process has it.
type node struct {
	*shop
	engine *stet.Engine
	db     *postgres.Store
	ends   chan *stet.RunInfo // the runs that have ended on it
	cancel context.CancelFunc
	served func() error // waits until it is stopped
}

// serve starts a node with a build of the code.
func serve(t *testing.T, o options, name, build string, s *shop) *node {
	t.Helper()
	db, err := o.runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{shop: s, db: db, ends: make(chan *stet.RunInfo, 10)}
	n.engine, err = stet.New(t.Context(), stet.Config{
		Store: db, Node: name, Build: build, Workflows: []stet.Definition{s.orders}, Errors: errorCodes,
		LeaseTTL: 2 * time.Second, Grace: stet.None, OnEnd: func(info *stet.RunInfo) { n.ends <- info },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	ended := make(chan error, 1)
	go func() { ended <- n.engine.Run(ctx) }()
	n.served = sync.OnceValue(func() error { return <-ended })
	t.Cleanup(func() { n.stop(t) })
	return n
}

// stop ends the node: no body may finish.
func (n *node) stop(t *testing.T) {
	t.Helper()
	n.cancel()
	if err := n.served(); err != nil && !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if err := n.db.Close(); err != nil {
		t.Error(err)
	}
}

// lose takes the store away under the node, as a crash does: it releases nothing, and others wait until its lease is
// over.
func (n *node) lose(t *testing.T) {
	t.Helper()
	if err := n.db.Close(); err != nil {
		t.Error(err)
	}
	if err := n.served(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a node without a store ends with %v", err)
	}
}

// reach waits until an order is at a stage.
func (n *node) reach(t *testing.T, order, stage string) {
	t.Helper()
	for at, err := range Stage.Watch(t.Context(), n.engine, runID(order)) {
		if err != nil {
			t.Fatal(err)
		}
		if at == stage {
			return
		}
	}
	t.Fatalf("order %s has ended, and was never %s", order, stage)
}

// slow is a town whose bank never answers the first request, though it takes the money.
type slow struct {
	town
	node     string
	charging chan<- string // the nodes that wait for the bank
	requests *atomic.Int64
}

func (w slow) Charge(ctx context.Context, o Order, key string) error {
	if err := w.town.Charge(ctx, o, key); err != nil || w.requests.Add(1) > 1 {
		return err
	}
	w.charging <- w.node
	<-ctx.Done()
	return ctx.Err()
}

// TestTwoNodes stops one of two nodes while it waits for the bank. The other one ends the order, and nothing was done
// twice.
func TestTwoNodes(t *testing.T) {
	for name, end := range map[string]func(*node, *testing.T){"stopped": (*node).stop, "lost": (*node).lose} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			o, pool := database(t)
			charging, requests := make(chan string, 1), new(atomic.Int64)
			nodes := map[string]*node{}
			for _, name := range []string{"a", "b"} {
				nodes[name] = serve(t, o, name, "2", newShop(pool, slow{town{pool}, name, charging, requests}))
			}

			order := Order{ID: "1", SKU: "anvil", Pieces: 2, Cents: 3980, Address: "1 Main Street"}
			if _, err := nodes["a"].place(ctx, nodes["a"].engine, order); err != nil {
				t.Fatal(err)
			}
			if _, err := nodes["b"].place(ctx, nodes["b"].engine, order); err == nil {
				t.Error("an order was placed twice")
			}
			first := <-charging
			end(nodes[first], t)
			other := nodes["a"]
			if first == "a" {
				other = nodes["b"]
			}
			other.reach(t, "1", "packing")
			if err := other.packed(ctx, other.engine, "1", 25_000); err != nil {
				t.Fatal(err)
			}
			if info := <-other.ends; info.ID != runID("1") || info.Status != store.Succeeded {
				t.Errorf("run %s is %s", info.ID, info.Status)
			}
			carrier, err := other.orders.Handle(other.engine, runID("1")).Wait(ctx)
			if carrier != "south" || err != nil {
				t.Errorf("shipped with %q, %v", carrier, err)
			}
			if stage, ok, err := Stage.Get(ctx, other.engine, runID("1")); stage != "shipped with south" || !ok || err != nil {
				t.Errorf("it is %q, %t, %v", stage, ok, err)
			}
			other.stop(t)
			if n := len(nodes["a"].ends) + len(nodes["b"].ends); n != 0 {
				t.Errorf("the order has ended %d times more", n)
			}
			if n := requests.Load(); n < 2 {
				t.Errorf("the bank was asked %d times: expected the second node to ask again", n)
			}
			for query, want := range map[string]int64{
				"SELECT count(*) FROM orders":                                             1,
				"SELECT count(*) FROM reservations":                                       1,
				"SELECT free FROM stock WHERE sku = 'anvil'":                              1,
				"SELECT count(*) FROM charges WHERE NOT refunded":                         1,
				"SELECT sum(cents)::bigint FROM charges":                                  3980,
				"SELECT count(*) FROM bookings WHERE carrier = 'north' AND cancelled":     1,
				"SELECT count(*) FROM bookings WHERE carrier = 'south' AND NOT cancelled": 1,
				"SELECT count(*) FROM bookings":                                           2,
			} {
				expect(t, pool, query, want)
			}
		})
	}
}

func expect(t *testing.T, pool *pgxpool.Pool, query string, want int64) {
	t.Helper()
	var got int64
	if err := pool.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
		t.Errorf("%s: got %d, %v; want %d", query, got, err, want)
	}
}

// TestFails ends orders that cannot be sold: there is no run without its order, and what was taken is given back.
func TestFails(t *testing.T) {
	ctx := t.Context()
	o, pool := database(t)
	n := serve(t, o, "a", "2", newShop(pool, town{pool}))
	for _, c := range []struct {
		order Order
		grams int
		want  error
	}{
		{Order{ID: "nowhere", SKU: "tea", Pieces: 1, Cents: 990}, 0, errNoAddress},
		{Order{ID: "many", SKU: "anvil", Pieces: 4, Cents: 7960, Address: "1 Main Street"}, 0, errSoldOut},
		{Order{ID: "heavy", SKU: "anvil", Pieces: 3, Cents: 5970, Address: "1 Main Street"}, 40_000, errNoVan},
	} {
		r, err := n.place(ctx, n.engine, c.order)
		if err != nil {
			t.Fatal(err)
		}
		if c.grams > 0 {
			n.reach(t, c.order.ID, "packing")
			if err := n.packed(ctx, n.engine, c.order.ID, c.grams); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Wait(ctx); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.order.ID, err, c.want)
		}
	}
	for query, want := range map[string]int64{
		"SELECT count(*) FROM reservations":               0,
		"SELECT free FROM stock WHERE sku = 'anvil'":      3,
		"SELECT free FROM stock WHERE sku = 'tea'":        100,
		"SELECT count(*) FROM charges":                    1,
		"SELECT count(*) FROM charges WHERE NOT refunded": 0,
		"SELECT count(*) FROM bookings WHERE cancelled":   2,
	} {
		expect(t, pool, query, want)
	}
}

// former is the shop as the build before had it: no check, and the warehouse had a fax machine.
func former(pool *pgxpool.Pool, faxes *atomic.Int64) *shop {
	s := newShop(pool, town{pool})
	s.orders = stet.Define("order", func(ctx stet.Context, o Order) (string, error) {
		if err := s.reserve(ctx, o); err != nil {
			return "", err
		}
		if err := s.charge(ctx, o); err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "fax", func(context.Context) error {
			faxes.Add(1)
			return nil
		}); err != nil {
			return "", err
		}
		grams, err := s.pack(ctx, o)
		if err != nil {
			return "", err
		}
		return s.ship(ctx, o, grams)
	})
	return s
}

// TestNextBuild begins an order with the former build and ends it with the next one. It has no address, which only
// orders that begin with the next build need.
func TestNextBuild(t *testing.T) {
	ctx := t.Context()
	o, pool := database(t)
	faxes := new(atomic.Int64)
	old := serve(t, o, "old", "1", former(pool, faxes))
	without := Order{ID: "1", SKU: "tea", Pieces: 5, Cents: 4950}
	if _, err := old.place(ctx, old.engine, without); err != nil {
		t.Fatal(err)
	}
	old.reach(t, "1", "packing")
	next := serve(t, o, "next", "2", newShop(pool, town{pool})) // a rolling upgrade: for a while there are both
	old.stop(t)

	if err := next.packed(ctx, next.engine, "1", 500); err != nil {
		t.Fatal(err)
	}
	if carrier, err := next.orders.Handle(next.engine, runID("1")).Wait(ctx); carrier != "north" || err != nil {
		t.Errorf("shipped with %q, %v", carrier, err)
	}
	without.ID = "2"
	r, err := next.place(ctx, next.engine, without)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); !errors.Is(err, errNoAddress) {
		t.Errorf("an order without an address ends with %v", err)
	}
	if n := faxes.Load(); n != 1 {
		t.Errorf("%d faxes were sent: expected that of the former build", n)
	}
	expect(t, pool, "SELECT count(*) FROM charges", 1)
	expect(t, pool, "SELECT free FROM stock WHERE sku = 'tea'", 95)
}

// TestProgram runs the commands as a user would.
func TestProgram(t *testing.T) {
	o, _ := database(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 2)
	for range 2 {
		go func() { served <- run(ctx, o, []string{"serve"}, io.Discard) }()
	}
	command := func(args ...string) {
		t.Helper()
		if err := run(t.Context(), o, args, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	command("order", "1", "anvil", "2")
	out, printed := io.Pipe()
	watched := make(chan error, 1)
	go func() {
		err := run(t.Context(), o, []string{"watch", "1"}, printed)
		watched <- err
		printed.CloseWithError(err)
	}()
	var lines []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		lines = append(lines, scan.Text())
		if scan.Text() == "packing" {
			command("pack", "1", "2000")
		}
	}
	if err := <-watched; err != nil || !slices.Contains(lines, "packing") || lines[len(lines)-1] != "shipped with south" {
		t.Errorf("it shows %q, %v", lines, err)
	}
	if err := run(t.Context(), o, []string{"pack", "2", "10"}, io.Discard); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("packing no order gives %v", err)
	}
	if err := run(t.Context(), o, []string{"order", "1"}, io.Discard); err == nil {
		t.Error("an order of nothing was taken")
	}
	stop()
	for range 2 {
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
