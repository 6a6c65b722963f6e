package redis_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/storetest"
)

// harness opens handles on one store, as several processes would have.
type harness struct {
	url     string
	prefix  string // "": it cannot be set back
	options []redis.Option
	first   *redis.Store
}

// open returns what opens a new store for storetest.
func openWith(options ...redis.Option) storetest.Open {
	return func(t *testing.T, clock func() time.Time) storetest.Harness {
		url, prefix := servers.SharedRedis(t)
		h := &harness{url: url, prefix: prefix, options: append([]redis.Option{redis.Prefix(prefix), redis.Clock(clock),
			redis.Logger(slog.New(slog.DiscardHandler))}, options...)}
		h.first = h.open(t)
		return h
	}
}

func (h *harness) open(t testing.TB) *redis.Store {
	s, err := redis.Open(context.Background(), h.url, h.options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (h *harness) First() store.Store { return h.first }

func (h *harness) Join(t testing.TB) store.Store { return h.open(t) }

// Save keeps all keys of the store. To set it back they are put in place of those that are there, as after the restart
// of a server that has lost acknowledged writes; the handle is the same.
func (h *harness) Save(t testing.TB) (restore func() store.Store) {
	if h.prefix == "" {
		t.Skip("other stores are on the server")
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{strings.TrimPrefix(h.url, "redis://")},
		DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx := context.Background()
	keys := func() []string {
		list, err := client.Do(ctx, client.B().Keys().Pattern("{"+h.prefix+":*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	kept := map[string]string{}
	for _, key := range keys() {
		if kept[key], err = client.Do(ctx, client.B().Dump().Key(key).Build()).ToString(); err != nil {
			t.Fatal(err)
		}
	}
	return func() store.Store {
		commands := rueidis.Commands{client.B().Del().Key(keys()...).Build()}
		for key, value := range kept {
			commands = append(commands, client.B().Restore().Key(key).Ttl(0).SerializedValue(value).Build())
		}
		for _, r := range client.DoMulti(ctx, commands...) {
			if err := r.Error(); err != nil {
				t.Fatal(err)
			}
		}
		return h.first
	}
}

// Kill closes the handle: its leases stay until they end, because no other process
// knows that this one is dead.
func (h *harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return false
}

// TestContract checks the store against the contract and against store/memory: with
// one slot, with all slots in one part, and with parts. Each waits for the server most
// of the time, so they go on beside each other.
func TestContract(t *testing.T) {
	for name, check := range map[string]func(*testing.T){
		"OneSlot": func(t *testing.T) { storetest.RunPart(t, openWith(redis.Slots(1)), 0, 2) },
		"Slots":   func(t *testing.T) { storetest.RunCases(t, storetest.Spread(openWith(), 256)) },
		"Parts": func(t *testing.T) {
			storetest.RunPart(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
				return storetest.Spread(openWith(redis.Slots(7), redis.Spread(), redis.SameNumbers()), 7)(t, clock)
			}, 1, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}
