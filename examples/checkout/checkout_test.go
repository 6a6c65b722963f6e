package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

var order = Order{ID: "1", Card: "4242", Lines: []Line{{"tea", 2, 350}, {"pot", 1, 1900}}}

// books is a world that keeps books: an effect under a key counts once.
type books struct {
	refuse map[string]error // by effect

	mu      sync.Mutex
	engine  *stet.Engine
	arrival Arrival
	silent  bool // parcels arrive without a word
	effects map[string]string
	undone  []string
}

func newBooks() *books { return &books{refuse: map[string]error{}, effects: map[string]string{}} }

func (b *books) do(key, what string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse[what]; err != nil {
		return "", stet.Permanent(err)
	}
	b.effects[key] = what
	return what, nil
}

func (b *books) take(key, what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.effects["undo "+key] == "" {
		b.undone = append(b.undone, what)
	}
	b.effects["undo "+key] = what
	return nil
}

func (b *books) Charge(_ context.Context, _ string, cents int, key string) (string, error) {
	return b.do(key, fmt.Sprint("charge of ", cents))
}
func (b *books) Refund(_ context.Context, charge, key string) error { return b.take(key, charge) }
func (b *books) Reserve(_ context.Context, l Line, key string) (string, error) {
	return b.do(key, l.SKU)
}
func (b *books) Release(_ context.Context, reservation, key string) error {
	return b.take(key, reservation)
}

func (b *books) Ship(ctx context.Context, reservation, key string) (string, error) {
	parcel, err := b.do(key, "parcel of "+reservation)
	b.mu.Lock()
	engine, arrival, silent := b.engine, b.arrival, b.silent
	b.mu.Unlock()
	if err != nil || silent {
		return parcel, err
	}
	step, _ := stet.StepOf(ctx)
	return parcel, Arrived.Send(ctx, engine, step.RunID, arrival, stet.SendKey(key))
}

func (b *books) ready(e *stet.Engine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.engine = e
}

// standing returns the effects that were not undone, sorted.
func (b *books) standing() []string {
	all := slices.Sorted(maps.Values(b.effects))
	for _, what := range b.undone {
		for range 2 { // the effect and its undoing
			if i := slices.Index(all, what); i >= 0 {
				all = slices.Delete(all, i, i+1)
			}
		}
	}
	return all
}

// TestOrders end in every way with books that are in order.
func TestOrders(t *testing.T) {
	sold := Receipt{Charge: "charge of 2600", Parcels: []string{"parcel of tea", "parcel of pot"}}
	for name, c := range map[string]struct {
		prepare  func(*books)
		receipt  Receipt
		err      error
		standing []string
	}{
		"sold":     {func(*books) {}, sold, nil, []string{"charge of 2600", "parcel of pot", "parcel of tea", "pot", "tea"}},
		"declined": {func(b *books) { b.refuse["charge of 2600"] = errDeclined }, Receipt{}, errDeclined, nil},
		"sold out": {func(b *books) { b.refuse["pot"] = errSoldOut }, Receipt{}, errSoldOut, nil},
		"lost":     {func(b *books) { b.arrival.Lost = true }, Receipt{}, errLost, nil},
		"silence":  {func(b *books) { b.silent = true }, Receipt{}, errLost, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks()
			c.prepare(b)
			s := newShop(b)
			stettest.Run(t, stet.Config{Workflows: []stet.Definition{s.orders, s.parcels}, Errors: errorCodes},
				func(t *testing.T, env *stettest.Env) {
					b.ready(env.Engine)
					r, err := s.orders.Start(t.Context(), env.Engine, order)
					if err != nil {
						t.Fatal(err)
					}
					receipt, err := r.Wait(t.Context())
					if !errors.Is(err, c.err) || receipt.Charge != c.receipt.Charge ||
						!slices.Equal(receipt.Parcels, c.receipt.Parcels) {
						t.Errorf("got %+v, %v", receipt, err)
					}
				})
			got := b.standing()
			if c.err != nil { // a parcel under way is lost, if it was shipped at all
				got = slices.DeleteFunc(got, func(what string) bool { return strings.HasPrefix(what, "parcel") })
			}
			if !slices.Equal(got, c.standing) {
				t.Errorf("the books say %q, want %q", got, c.standing)
			}
		})
	}
}

// TestSurvivesACrashAtEveryCommit of an order that is sold, and of one that is
// undone because a parcel is lost.
func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	for name, lost := range map[string]bool{"sold": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			b := newBooks()
			b.arrival.Lost = lost
			s := newShop(b)
			_, err := stettest.CrashEverywhere(t, s.orders, order, stettest.Ready(b.ready),
				stettest.WithConfig(stet.Config{Workflows: []stet.Definition{s.parcels}, Errors: errorCodes}))
			if lost != errors.Is(err, errLost) {
				t.Errorf("got the error %v", err)
			}
		})
	}
}

// TestProgram sells on a file, twice: the second time it has the result.
func TestProgram(t *testing.T) {
	db := t.TempDir() + "/checkout.db"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var first, second bytes.Buffer
	if err := errors.Join(sell(ctx, db, order, false, &first), sell(ctx, db, order, false, &second)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(first.String(), second.String()) ||
		!strings.HasPrefix(second.String(), "sold: charge charged-") {
		t.Errorf("first:\n%s\nthen:\n%s", &first, &second)
	}
}
