package postgres_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// A database that takes connections and does not answer is away for all who ask, however short
// their own time is.
func TestADatabaseThatDoesNotAnswerIsAway(t *testing.T) {
	t.Parallel()
	one, two := newDatabase(t), newDatabase(t)
	proxy := servers.NewProxy(t, two.Addr())
	dsns := []string{one.DSN(), two.TCP(proxy.Addr())}
	first := openAll(t, dsns, postgres.AllowLoss(), postgres.Slots(4))
	id := first.NewID(1)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() }) // it has written nothing
	proxy.Refuse(true)
	w := openAll(t, dsns, postgres.AllowLoss(), postgres.Slots(4))
	proxy.Target(silent.Addr().String()) // its backlog takes connections
	proxy.Refuse(false)
	gaveUp := false
	for begun := time.Now(); time.Since(begun) < 20*time.Second && !gaveUp; {
		for _, limit := range []time.Duration{50 * time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, err := w.List(ctx, store.Filter{IDs: []string{id}})
			cancel()
			if !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("a caller with %s: expected store.ErrUnavailable, found %v", limit, err)
			}
			gaveUp = gaveUp || errors.Is(err, context.DeadlineExceeded)
		}
	}
	if !gaveUp {
		t.Error("expected that an attempt to open it is given up")
	}
}
