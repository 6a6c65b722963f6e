package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// unheard is a store that may lose the answer to a commit.
type unheard struct {
	store.Store
	lose func(*store.Batch) bool
}

func (u unheard) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	result, err := u.Store.Commit(ctx, b)
	if err == nil && u.lose(&b) {
		return store.BatchResult{}, fmt.Errorf("%w: nobody has heard it", store.ErrUnknown)
	}
	return result, err
}

// errorsOf is a log that fails its test when the store has refused a turn.
type errorsOf struct{ t *testing.T }

func (e errorsOf) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("refused")) {
		e.t.Errorf("%s", line)
	}
	return len(line), nil
}

// Two messages go to a suspended run in one batch, of which the first claims it. The answer is lost, and a claim brings
// both to the run. When the batch is repeated, the store answers for both that they have claimed the run: it cannot
// distinguish them. The run, which has suspended again by the second answer, does not take that for another claim.
func TestARepeatedBatchAdoptsARunOnce(t *testing.T) {
	t.Parallel()
	stray := stet.Message[string]("stray")
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		ctx := testContext(t)
		w := stet.Define("w", func(ctx stet.Context, _ string) (all string, err error) {
			for range 3 {
				v, err := word.Receive(ctx)
				if err != nil {
					return "", err
				}
				all += v
			}
			return all, nil
		})
		other := stet.Define("other", func(stet.Context, string) (string, error) { return "", nil })
		cfg.Workflows = []stet.Definition{w, other}
		has := func(b *store.Batch) bool {
			return slices.ContainsFunc(b.Commands,
				func(c store.Command) bool { return c.Item != nil && bytes.HasSuffix(c.Item.Value, []byte(`"a"`)) })
		}
		tries, lost, again := 0, make(chan bool), make(chan bool)
		held, hold := make(chan bool), make(chan bool)
		g.Store = unheard{g.Store, func(b *store.Batch) bool { return has(b) && tries == 1 }}
		g.beforeCommit = func(b *store.Batch) {
			switch {
			case slices.ContainsFunc(b.Commands, func(c store.Command) bool { return c.Start != nil && c.Start.ID == "gate" }):
				close(held)
				<-hold
			case has(b):
				if tries++; tries == 2 {
					close(lost)
					<-again
				}
			}
		}
		cfg.Logger = slog.New(slog.NewTextHandler(errorsOf{t}, nil))
		e := serve(t, cfg)
		run, err := w.Start(ctx, e, "")
		if err != nil {
			t.Fatal(err)
		}
		filler, err := w.Start(ctx, e, "", stet.ID("filler"))
		if err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, run.ID(), store.Suspended)
		waitStatus(t, e, filler.ID(), store.Suspended)
		const fillers = 300 // between the two, so that the run has suspended by the second
		errs := make(chan error, fillers+3)
		go func() {
			_, err := other.Start(ctx, e, "", stet.ID("gate"))
			errs <- err
		}()
		<-held
		go func() { errs <- word.Send(ctx, e, run.ID(), "a") }()
		synctest.Wait()
		for range fillers {
			go func() { errs <- stray.Send(ctx, e, filler.ID(), "") }()
		}
		synctest.Wait()
		go func() { errs <- word.Send(ctx, e, run.ID(), "b") }()
		synctest.Wait()
		close(hold)
		select {
		case <-lost:
		case <-ctx.Done():
			t.Fatal("no batch was repeated")
		}
		if _, err := other.Start(ctx, client(t, s, w, other), ""); err != nil { // for a claim
			t.Fatal(err)
		}
		if err := takes(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(again)
		for range fillers + 3 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if err := word.Send(ctx, e, run.ID(), "c"); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(ctx); err != nil || got != "abc" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// A sender's first message was accepted by the store, but has not reached the run, which is claimed. The sender sends
// the second: the next claim brings the first, and the second does not overtake it. Either the first one's batch is
// repeated, because its answer was lost, or the sender sends it again. If that was received long ago, no message waits
// for it.
func TestNoMessageOvertakesOneThatWaitsForAClaim(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the batch is repeated", "it is sent again", "it was received long ago"} {
		t.Run(how, func(t *testing.T) {
			forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
				ctx := testContext(t)
				begun, over := make(chan bool), make(chan bool)
				w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
					busy := stet.Go(ctx, "busy", func(ctx stet.Context) (string, error) { // so that it stays claimed
						return stet.Step(ctx, "s", func(context.Context) (string, error) {
							close(begun)
							<-over
							return "", nil
						})
					})
					var all string
					for range 3 {
						v, err := word.Receive(ctx)
						if err != nil {
							return "", err
						}
						all += v
					}
					rest, err := busy.Await(ctx)
					return all + rest, err
				})
				cfg.Workflows = []stet.Definition{w}
				var claims atomic.Pointer[chan struct{}] // holds them up
				g.beforeClaim = func() {
					if c := claims.Load(); c != nil {
						<-*c
					}
				}
				tries := 0
				g.Store = unheard{g.Store, func(b *store.Batch) bool {
					if !slices.ContainsFunc(b.Commands,
						func(c store.Command) bool { return c.Item != nil && bytes.HasSuffix(c.Item.Value, []byte(`"a"`)) }) {
						return false
					}
					tries++
					return how == "the batch is repeated" && tries == 1
				}}
				e := serve(t, cfg)
				run, err := w.Start(ctx, e, "")
				if err != nil {
					t.Fatal(err)
				}
				<-begun
				synctest.Wait()
				held := make(chan struct{})
				if how == "it was received long ago" {
					close(held)
				}
				claims.Store(&held)
				if how != "the batch is repeated" { // the first try was another process'
					if err := word.Send(ctx, client(t, s, w), run.ID(), "a", stet.SendKey("first")); err != nil {
						t.Fatal(err)
					}
				}
				if how == "it was received long ago" {
					if err := takes(ctx, time.Second); err != nil {
						t.Fatal(err)
					}
				}
				since := time.Now()
				for _, v := range []string{"a", "b"} {
					key := map[string]string{"a": "first", "b": "second"}[v]
					if err := word.Send(ctx, e, run.ID(), v, stet.SendKey(key)); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if how != "it was received long ago" {
					close(held)
				}
				claims.Store(nil)
				synctest.Wait()
				if err := word.Send(ctx, e, run.ID(), "c",
					stet.SendKey("third")); err != nil { // and later messages arrive at once
					t.Fatal(err)
				}
				synctest.Wait()
				entries, err := e.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
				if err != nil {
					t.Fatal(err)
				}
				received := 0
				for i := range entries {
					if entries[i].Kind == store.KindReceive && entries[i].State == store.Done {
						received++
					}
				}
				if received != 3 || time.Since(since) >= cfg.Poll {
					t.Errorf("%d messages were received after %s", received, time.Since(since))
				}
				close(over)
				if got, err := run.Wait(ctx); err != nil || got != "abc" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		})
	}
}

// A claim has read a message that the run consumes before the claim's answer arrives, and that is then sent again: the
// run does not receive that message once more.
func TestAnOldClaimDoesNotBringAMessageTwice(t *testing.T) {
	t.Parallel()
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		ctx := testContext(t)
		over := make(chan bool)
		w := stet.Define("w", func(ctx stet.Context, _ string) (all string, err error) {
			busy := stet.Go(ctx, "busy", func(ctx stet.Context) (string, error) { // so that it stays claimed
				return stet.Step(ctx, "s", func(context.Context) (string, error) {
					<-over
					return "", nil
				})
			})
			for range 3 {
				v, err := word.Receive(ctx)
				if err != nil {
					return "", err
				}
				all += v
			}
			_, err = busy.Await(ctx)
			return all, err
		})
		other := stet.Define("other", func(stet.Context, string) (string, error) { return "", nil })
		cfg.Workflows = []stet.Definition{w, other}
		consumes, durable := make(chan bool), make(chan bool)
		read, told := make(chan bool), make(chan bool)
		var holding, first atomic.Bool
		g.beforeCommit = func(b *store.Batch) {
			if slices.ContainsFunc(b.Turns, func(turn *store.Turn) bool { return len(turn.Consumed) > 0 }) &&
				first.CompareAndSwap(false, true) {
				close(consumes)
				<-durable
			}
		}
		g.afterClaim = func(c *store.Claims) {
			if slices.ContainsFunc(c.Runs, func(r store.Claimed) bool { return len(r.Items) > 0 }) &&
				holding.CompareAndSwap(true, false) {
				close(read)
				<-told
			}
		}
		e, outside := serve(t, cfg), client(t, s, w, other)
		run, err := w.Start(ctx, e, "")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		send := func(v string) {
			if err := word.Send(ctx, e, run.ID(), v, stet.SendKey(v)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := takes(ctx, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		holding.Store(true)
		if err := word.Send(ctx, e, run.ID(), "a", stet.SendKey("a")); err != nil {
			t.Fatal(err)
		}
		<-consumes
		if _, err := other.Start(ctx, outside, ""); err != nil { // for a claim
			t.Fatal(err)
		}
		<-read
		close(durable)
		send("a")
		close(told)
		synctest.Wait()
		if _, err := other.Start(ctx, outside, ""); err != nil {
			t.Fatal(err)
		}
		send("b")
		send("c")
		close(over)
		if got, err := run.Wait(ctx); err != nil || got != "abc" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
