package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// writable is a store to which somebody can write who has no key. Where a value is stored
// it has put another one.
type writable struct {
	store.Store
	mu   sync.Mutex
	from []byte // nil: everything is as it was written
	to   []byte
}

func (s *writable) exchange(from, to []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.to = from, to
}

func (s *writable) value(v *[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from != nil && bytes.Equal(*v, s.from) {
		*v = bytes.Clone(s.to)
	}
}

func (s *writable) items(items []store.Item) {
	for i := range items {
		s.value(&items[i].Value)
	}
}

func (s *writable) entries(entries []store.Entry) {
	for i := range entries {
		s.value(&entries[i].Value)
	}
}

func (s *writable) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	snaps, left, err := s.Store.Load(ctx, runs)
	for i := range snaps {
		s.value(&snaps[i].Run.Input)
		s.entries(snaps[i].Entries)
		s.items(snaps[i].Items)
	}
	return snaps, left, err
}

func (s *writable) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	claims, err := s.Store.Claim(ctx, req)
	for i := range claims.Runs {
		s.items(claims.Runs[i].Items)
	}
	return claims, err
}

func (s *writable) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	entries, err := s.Store.History(ctx, q)
	s.entries(entries)
	return entries, err
}

// payments pays what the step says once the run is told to.
type payments struct {
	*stet.Workflow[string, string]
	mu   sync.Mutex
	paid []string
}

var payNow = stet.Message[string]("pay now")

func newPayments(size int) *payments {
	p := &payments{}
	p.Workflow = stet.Define("payment", func(ctx stet.Context, who string) (string, error) {
		account, err := stet.Step(ctx, "account", func(context.Context) (string, error) {
			return "account of " + who + strings.Repeat(" ", size), nil
		})
		if err != nil {
			return "", err
		}
		words, err := payNow.Receive(ctx)
		if err != nil {
			return "", err
		}
		return who, stet.Do(ctx, "pay", func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.paid = append(p.paid, who+": "+strings.TrimSpace(account)+" "+words)
			return nil
		})
	})
	return p
}

// TestEncryptedValuesCannotBeExchanged: a run into which somebody has put a value of another
// place goes on with nothing. It stalls, says which value it is, and goes on once the value
// is what it was.
func TestEncryptedValuesCannotBeExchanged(t *testing.T) {
	t.Parallel()
	raw := func(t *testing.T, s store.Store, id string) store.Snapshot {
		t.Helper()
		page, err := s.List(t.Context(), store.Filter{IDs: []string{id}})
		if err != nil || len(page.Runs) != 1 {
			t.Fatal(page, err)
		}
		snaps, _, err := s.Load(t.Context(), []store.RunNo{page.Runs[0].No})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := s.History(t.Context(), store.HistoryQuery{Run: page.Runs[0].No, Values: true})
		if err != nil {
			t.Fatal(err)
		}
		snaps[0].Entries = entries
		return snaps[0]
	}
	step := func(s store.Snapshot) []byte {
		for i := range s.Entries {
			if s.Entries[i].Kind == store.KindStep {
				return s.Entries[i].Value
			}
		}
		return nil
	}
	input := func(s store.Snapshot) []byte { return s.Run.Input }
	message := func(s store.Snapshot) []byte { return s.Items[0].Value }
	for name, c := range map[string]struct {
		from, to func(store.Snapshot) []byte // of run a, of run b
		size     int
		want     string
	}{
		"result of another run":         {step, step, 1, "damaged: step account: "},
		"large result of another run":   {step, step, 20_000, "damaged: "},
		"input of another run":          {input, input, 1, "damaged: input: "},
		"input in place of a result":    {step, input, 1, "damaged: step account: "},
		"message for another run":       {message, message, 1, "damaged: message pay now "},
		"message in place of a result":  {step, message, 1, "damaged: step account: "},
		"result in place of a message":  {message, step, 1, "damaged: message pay now "},
		"value that was never sealed":   {step, func(store.Snapshot) []byte { return []byte("\x01\"mine\"") }, 1, "step account: "},
		"message that was never sealed": {message, func(store.Snapshot) []byte { return []byte("\x01\"mine\"") }, 1, "message pay"},
	} {
		for _, s := range testStores {
			t.Run(name+"/"+s.name, func(t *testing.T) {
				ctx := testContext(t)
				p := newPayments(c.size)
				open := &writable{Store: s.open(t)()}
				e := serve(t, stet.Config{Store: open, Workflows: []stet.Definition{p.Workflow}, MaxParkedBytes: stet.None,
					Payloads: stet.Payloads{Keys: []stet.PayloadKey{payloadKey("k")}, Require: stet.RequireBound}})
				runs := map[string]*stet.Run[string]{}
				for _, id := range []string{"a", "b"} {
					r, err := p.Start(ctx, e, id, stet.ID(id))
					if err != nil {
						t.Fatal(err)
					}
					runs[id] = r
					untilWaits(t, e, id, "pay now")
					if _, err := e.Runs().Pause(ctx, id, stet.Act{}); err != nil {
						t.Fatal(err)
					}
					if err := payNow.Send(ctx, e, id, "for "+id); err != nil {
						t.Fatal(err)
					}
				}
				a, b := raw(t, open.Store, "a"), raw(t, open.Store, "b")
				if c.from(a) == nil || c.to(b) == nil {
					t.Fatal("nothing to exchange")
				}
				open.exchange(c.from(a), c.to(b))
				if _, err := e.Runs().Resume(ctx, "a", stet.Act{}); err != nil {
					t.Fatal(err)
				}
				_, err := runs["a"].Wait(ctx)
				if !errors.Is(err, stet.ErrStalled) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("expected a stall with %q, found %v", c.want, err)
				}
				if info, err := e.Runs().Info(ctx, "a"); err != nil || info.Cause != stet.CauseDamaged {
					t.Errorf("the cause: %+v, %v", info, err)
				}
				if p.mu.Lock(); len(p.paid) > 0 {
					t.Errorf("it has paid %q", p.paid)
				}
				p.mu.Unlock()
				open.exchange(nil, nil)
				for _, id := range []string{"a", "b"} {
					if _, err := e.Runs().Resume(ctx, id, stet.Act{}); err != nil {
						t.Fatal(err)
					}
					if got, err := runs[id].Wait(ctx); err != nil || got != id {
						t.Errorf("%q, %v", got, err)
					}
				}
				want := []string{"a: account of a for a", "b: account of b for b"}
				if slices.Sort(p.paid); !slices.Equal(p.paid, want) {
					t.Errorf("paid %q; want %q", p.paid, want)
				}
			})
		}
	}
}

// TestAForkKeepsNoSealedValue: what cannot be read here would be sealed in the fork as if it were plain, and nobody
// could read it again. So there is no fork.
func TestAForkKeepsNoSealedValue(t *testing.T) {
	t.Parallel()
	s := memory.New()
	keys := func(ids ...string) stet.Payloads {
		p := stet.Payloads{}
		for _, id := range ids {
			p.Keys = append(p.Keys, payloadKey(id))
		}
		return p
	}
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{hearing}, Payloads: keys("1", "2")})
	engine := func(p stet.Payloads) *stet.Engine {
		e, err := stet.New(t.Context(), stet.Config{Store: s, Payloads: p})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	ctx := testContext(t)
	r := startHearing(t, e, hearing, 1)
	if err := stet.Message[string]("other").Send(ctx, engine(keys("2", "1")), r.ID(), "kept"); err != nil {
		t.Fatal(err)
	}
	if err := word.Send(ctx, e, r.ID(), "heard"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	partial := engine(keys("1"))
	id, err := partial.Runs().Fork(ctx, r.ID(), "/", stet.Act{}, "fork")
	if !errors.Is(err, stet.ErrSealed) || !strings.Contains(err.Error(), `message other`) {
		t.Errorf("expected stet.ErrSealed that names the message, found %q, %v", id, err)
	}
	if _, err := e.Runs().Info(ctx, "fork"); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("expected no fork, found %v", err)
	}
	if _, err := e.Runs().Fork(ctx, r.ID(), "/", stet.Act{}, "fork"); err != nil {
		t.Errorf("with all keys: %v", err)
	}
}
