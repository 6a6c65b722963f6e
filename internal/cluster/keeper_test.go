package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// stubborn is a store whose lease calls can be made to hang or fail.
type stubborn struct {
	store.Store
	hangAcquire atomic.Int32 // so many calls wait for their context
	failRenew   atomic.Bool
}

func (s *stubborn) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	if s.hangAcquire.Add(-1) >= 0 {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return s.Store.Acquire(ctx, n, shards, ttl)
}

func (s *stubborn) Renew(
	ctx context.Context, leases []store.Lease, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	if s.failRenew.Load() {
		return nil, 0, store.ErrUnavailable
	}
	return s.Store.Renew(ctx, leases, ttl)
}

func keeper(t *testing.T, s store.Store, node string) *Keeper {
	return &Keeper{
		Store: s, Node: store.Node{ID: node, Boot: node + "1"}, Shards: []store.Shard{{Group: store.DefaultGroup}},
		TTL: 30 * time.Second, Renew: 10 * time.Second, Retry: time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Observe: func(time.Time, store.Time) {},
		Last: func() int64 { return 0 },
	}
}

// hold serves until it is told to end, and notes how.
func hold(terms chan<- string) func(stop, held context.Context, t Term) error {
	return func(stop, held context.Context, _ Term) error {
		terms <- "begun"
		select {
		case <-stop.Done():
			terms <- "stopped"
		case <-held.Done():
			terms <- "lost: " + context.Cause(held).Error()
		}
		return nil
	}
}

// A lease call that hangs is tried again; it does not end the keeper.
func TestAcquireThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{Store: memory.New()}
		s.hangAcquire.Store(3)
		ctx, cancel := context.WithCancel(t.Context())
		terms, ended := make(chan string, 8), make(chan error, 1)
		go func() { ended <- keeper(t, s, "a").Run(ctx, hold(terms)) }()
		if got := <-terms; got != "begun" {
			t.Fatal(got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A node that cannot renew stops by its own clock before its lease can be taken,
// and stands by.
func TestSelfFencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{Store: memory.New()}
		ctx, cancel := context.WithCancel(t.Context())
		terms, ended := make(chan string, 8), make(chan error, 1)
		go func() { ended <- keeper(t, s, "a").Run(ctx, hold(terms)) }()
		<-terms
		begun := time.Now()
		s.failRenew.Store(true)
		if got := <-terms; got != "lost: "+ErrLost.Error() {
			t.Fatal(got)
		}
		if after := time.Since(begun); after >= 30*time.Second {
			t.Errorf("stopped after %s; the lease ends after 30s", after)
		}
		s.failRenew.Store(false)
		if got := <-terms; got != "begun" {
			t.Fatal(got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A standby waits for the lease of an owner that is silent, and takes over at
// once from one that has stopped.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		owner, standby, ended := make(chan string, 8), make(chan string, 8), make(chan error, 2)
		go func() { ended <- keeper(t, first, "a").Run(ctx, hold(owner)) }()
		<-owner
		other, stop := context.WithCancel(t.Context())
		go func() { ended <- keeper(t, first.Join(), "b").Run(other, hold(standby)) }()
		time.Sleep(5 * time.Minute)
		if len(standby) != 0 {
			t.Fatal("two owners")
		}
		begun := time.Now()
		cancel()
		<-standby
		if after := time.Since(begun); after > 2*time.Second {
			t.Errorf("the standby took over after %s", after)
		}
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		owner, ended := make(chan string, 8), make(chan error, 1)
		go func() { ended <- keeper(t, first, "a").Run(ctx, hold(owner)) }()
		<-owner
		k := keeper(t, first.Join(), "b")
		k.Exclusive = true
		var held *HeldError
		if err := k.Run(ctx, hold(make(chan string, 8))); !errors.As(err, &held) || held.Holder.Node != "a" {
			t.Errorf("got %v; want a HeldError that names the owner", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// twins returns two processes of one name that replace each other. Their boots are the same.
func twins(t *testing.T) (former, later *Keeper) {
	s := memory.New()
	former, later = keeper(t, s, "a"), keeper(t, s, "a")
	former.Node.Replaces, later.Node.Replaces = true, true
	return former, later
}

// TestALaterProcessWhoseClockIsBehind waits for the leases of the former one, whose boot sorts behind its own. It is
// not told that it was replaced.
func TestALaterProcessWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, later := twins(t)
		former.Node.Boot = "a2"
		ctx, stop := context.WithCancel(t.Context())
		begun, ended, over := make(chan string, 8), make(chan error, 1), make(chan error, 1)
		go func() { ended <- former.Run(ctx, hold(begun)) }()
		<-begun
		lives, end := context.WithCancel(t.Context())
		go func() { over <- later.Run(lives, hold(begun)) }()
		time.Sleep(later.TTL)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the former one: %v", err)
		}
		<-begun // the later one has taken over
		end()
		if err := <-over; err != nil {
			t.Errorf("the later one: %v", err)
		}
	})
}

// TestAReplacedProcessThatIsStuck says both: that it was replaced, and what has not returned.
func TestAReplacedProcessThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, later := twins(t)
		later.Node.Boot = "a2"
		ctx, cancel := context.WithCancel(t.Context())
		stuck := errors.New("one has not returned")
		begun, ended, over := make(chan string, 8), make(chan error, 1), make(chan error, 1)
		go func() {
			ended <- former.Run(ctx, func(_, held context.Context, _ Term) error {
				begun <- "former"
				<-held.Done()
				return stuck
			})
		}()
		<-begun
		go func() { over <- later.Run(ctx, hold(begun)) }()
		if err := <-ended; !errors.Is(err, ErrReplaced) || !errors.Is(err, stuck) {
			t.Errorf("expected both errors, found %v", err)
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestAStandbyOfAnotherServiceSaysSo once a minute, at Warn: the runs of its workflows wait as long as the holder
// works. One of the same service does not, nor one that waits for a command, which has no workflows.
func TestAStandbyOfAnotherServiceSaysSo(t *testing.T) {
	for _, c := range []struct {
		holds, workflows []string
		lines            int
	}{{[]string{"shop"}, []string{"shop"}, 0}, {[]string{"shop"}, []string{"bank"}, 5}, {nil, []string{"shop"}, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New()
			ctx, cancel := context.WithCancel(t.Context())
			var both sync.WaitGroup
			run := func(id string, workflows []string, out io.Writer) {
				k := keeper(t, s, id)
				k.Node.Workflows, k.Log = workflows, slog.New(slog.NewTextHandler(out, nil))
				both.Go(func() { _ = k.Run(ctx, hold(make(chan string, 8))) })
			}
			run("a", c.holds, io.Discard)
			time.Sleep(time.Second)
			var text bytes.Buffer
			run("b", c.workflows, &text)
			time.Sleep(5*time.Minute - time.Second)
			cancel()
			both.Wait()
			if n := strings.Count(text.String(), "lacks workflows"); n != c.lines {
				t.Errorf("in five minutes %d lines; want %d:\n%s", n, c.lines, text.String())
			}
		})
	}
}
