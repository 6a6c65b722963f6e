package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
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
		h := &harness{url: url, prefix: prefix, options: append([]redis.Option{redis.Prefix(prefix), redis.Clock(clock)},
			options...)}
		h.first = h.open(t)
		return h
	}
}

func (h *harness) open(t testing.TB) *redis.Store {
	s, err := redis.Open(context.Background(), h.url, append([]redis.Option{quiet, small}, h.options...)...)
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
	ctx := context.Background()
	client, pattern := clientOf(t, address(h.url)), "{"+h.prefix+":*"
	kept, err := client.Do(ctx, client.B().Eval().Script(saveKeys).Numkeys(0).Arg(pattern).Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return func() store.Store {
		restore := client.B().Eval().Script(restoreKeys).Numkeys(0).Arg(pattern).Arg(kept...).Build()
		if err := client.Do(ctx, restore).Error(); err != nil {
			t.Fatal(err)
		}
		return h.first
	}
}

// saveKeys and restoreKeys are scripts, so that a store that is in use is copied as it is at one moment.
const (
	saveKeys = `local kept = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
	kept[#kept + 1] = key
	kept[#kept + 1] = redis.call('DUMP', key)
end
return kept`
	restoreKeys = `for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
	redis.call('DEL', key)
end
for i = 2, #ARGV, 2 do
	redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1])
end
return redis.status_reply('OK')`
)

// Kill closes the handle: its leases stay until they end, because no other process
// knows that this one is dead.
func (h *harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return false
}

// TestContract checks the store with one slot against the contract and against store/memory.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.RunPart(t, openWith(redis.Slots(1)), 0, 2)
}

// TestContractWithSlots checks all slots in one part.
func TestContractWithSlots(t *testing.T) {
	t.Parallel()
	share(t, storetest.Spread(openWith(), 256))
}

// TestContractWithParts checks slots that have a part each.
func TestContractWithParts(t *testing.T) {
	t.Parallel()
	share(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
		return storetest.Spread(openWith(redis.Slots(7), redis.Spread(), redis.SameNumbers()), 7)(t, clock)
	})
}

// share checks a further setting of the store: all of the contract, or a seventh of it each day in a quick run.
func share(t *testing.T, open storetest.Open) {
	if soak.Usual(t) {
		storetest.Run(t, open)
		return
	}
	storetest.RunShare(t, open, soak.Part(t, 0, soak.Week), soak.Week)
}

// TestStoreWentBack copies the store's keys, and puts the copy in their place while an engine works on them.
func TestStoreWentBack(t *testing.T) {
	t.Parallel()
	h := openWith(redis.Slots(7))(t, nil).(*harness)
	enginetest.WentBack(t, h.first, func() (func() error, error) {
		restore := h.Save(t)
		return func() error { restore(); return nil }, nil
	})
}
