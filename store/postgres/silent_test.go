package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// TestConnectionsFallSilent under an engine, in whatever it asks, and are not cut: what
// was asked is given up after the length of a lease at most, and asked again by another
// connection. Runs go on.
func TestConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	flow := stet.Define("flow", func(ctx stet.Context, n int) (int, error) {
		for i := range 3 {
			if err := stet.Sleep(ctx, fmt.Sprint("nap-", i), 20*time.Millisecond); err != nil {
				return 0, err
			}
			if err := stet.Do(ctx, fmt.Sprint("step-", i), func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	// A connection that was given up is replaced by one on which nothing is prepared. Within the lease the machine has
	// to get through that, also beside all other tests: otherwise the next one is given up too, and so on.
	engineWith(t, stet.Config{Store: open(t, server.TCP(proxy.Addr())), Workflows: []stet.Definition{flow},
		LeaseTTL: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	// It knows the workflow itself: the other process may not have registered it yet.
	client, err := stet.New(t.Context(), stet.Config{Store: open(t, server.DSN()), Workflows: []stet.Definition{flow},
		Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait := func(n int) time.Duration {
		t.Helper()
		begun := time.Now()
		run, err := flow.Start(ctx, client, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(ctx); err != nil || got != n {
			t.Fatalf("run %d: %d, %v", n, got, err)
		}
		return time.Since(begun)
	}
	wait(0)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n <= 4; n++ {
		hold := proxy.Hold(random.IntN(6))
		t.Cleanup(hold.Go)
		t.Logf("the run took %v", wait(n))
		select {
		case <-hold.Held:
		case <-ctx.Done():
			t.Fatal("no connection fell silent")
		}
		t.Logf("the next one took %v", wait(100+n))
	}
}

// TestCommitWhoseConnectionFallsSilent is given up while the node's renewals get their answers, long
// before the caller's own limit, and its repeat under its number is the same batch.
func TestCommitWhoseConnectionFallsSilent(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := open(t, server.TCP(proxy.Addr()))
	n := takeAll(t, s, "n")
	n.started(t, "before") // which makes the connection
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hold := proxy.Hold(0)
	t.Cleanup(hold.Go)
	b := n.batch(nil, claimedStart("r"))
	ended := make(chan error, 1)
	go func() {
		_, err := s.Commit(ctx, b)
		ended <- err
	}()
	<-hold.Held
	renewals := 0
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		default:
			if _, _, err := s.Renew(ctx, n.leases, ttl); err != nil {
				t.Fatal(err)
			}
			renewals++
		}
	}
	if ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("the commit gave %v after %d renewals; its context: %v", err, renewals, ctx.Err())
	}
	result, err := s.Commit(ctx, b)
	if err != nil || result.Commands[0].Outcome != store.Applied || !result.Commands[0].Claimed {
		t.Errorf("the repeat gave %+v, %v", result, err)
	}
}

// TestClaimWhoseConnectionFallsSilent is given up in the same way.
func TestClaimWhoseConnectionFallsSilent(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := open(t, server.TCP(proxy.Addr()))
	n := takeAll(t, s, "n")
	req := store.ClaimRequest{Node: n.node.ID, Boot: n.node.Boot, Leases: n.leases, Workflows: []string{"w"}, Limit: 10}
	if _, err := s.Claim(t.Context(), req); err != nil { // which makes the connection
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	claim := func() {
		hold := proxy.Hold(0)
		t.Cleanup(hold.Go)
		go func() {
			_, err := s.Claim(ctx, req)
			ended <- err
		}()
		<-hold.Held
	}
	claim()
	for {
		select {
		case err := <-ended:
			if err == nil { // another connection was held, which has spoken at the same time
				claim()
				continue
			}
			if ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("the claim gave %v; its context: %v", err, ctx.Err())
			}
			if _, err := s.Claim(ctx, req); err != nil {
				t.Errorf("the next claim gave %v", err)
			}
			return
		default:
			if _, _, err := s.Renew(ctx, n.leases, ttl); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCommitOfASilentServer is not given up: nobody gets answers.
func TestCommitOfASilentServer(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	s := open(t, server.TCP(proxy.Addr()))
	n := takeAll(t, s, "n")
	n.started(t, "before")
	hold := proxy.HoldAll()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Commit(t.Context(), n.batch(nil, claimedStart("r")))
		ended <- err
	}()
	<-hold.Held
	looks := time.NewTimer(3 * time.Second) // longer than the silence after which it may be given up
	select {
	case err := <-ended:
		hold.Go()
		t.Errorf("the commit has ended: %v", err)
	case <-looks.C:
		hold.Go()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
