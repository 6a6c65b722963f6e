package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// TestSendFromIsExactlyOnce crashes a run at every commit: what its code sends to another
// run arrives once, in its order.
func TestSendFromIsExactlyOnce(t *testing.T) {
	t.Parallel()
	word := stet.Message[string]("word")
	listens := stet.Define("listens", func(ctx stet.Context, n int) (string, error) {
		var all []string
		for range n {
			next, err := word.Receive(ctx)
			if err != nil {
				return "", err
			}
			all = append(all, next)
		}
		return strings.Join(all, " "), nil
	})
	speaks := stet.Define("speaks", func(ctx stet.Context, _ int) (string, error) {
		child, err := listens.Go(ctx, 4)
		if err != nil {
			return "", err
		}
		for i := range 4 {
			err := word.SendFrom(ctx, child.RunID(ctx), fmt.Sprint(i), stet.Key(fmt.Sprint(i)))
			if err == nil && i%2 == 1 {
				err = stet.Do(ctx, fmt.Sprint("between ", i), func(context.Context) error { return nil })
			}
			if err != nil {
				return "", err
			}
		}
		return child.Await(ctx)
	})
	others := stettest.WithConfig(stet.Config{Workflows: []stet.Definition{listens}})
	got, err := stettest.CrashEverywhere(t, speaks, 0, others)
	if err != nil || got != "0 1 2 3" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSendFromToNobody drops the message, says so in the log, and lets the run go on.
func TestSendFromToNobody(t *testing.T) {
	t.Parallel()
	w := stet.Define("speaks", func(ctx stet.Context, to string) (string, error) {
		return "sent", word.SendFrom(ctx, to, "hello")
	})
	var log lockedBuffer
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, hearing}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ended := startHearing(t, e, hearing, 0)
	outcome(t, ended)
	for to, why := range map[string]string{"none": "there is no such run", ended.ID(): "the run has ended"} {
		if got := outcome(t, begin(t, e, w, to)); got != "sent" {
			t.Errorf("to %s: %s", to, got)
		}
		if !strings.Contains(log.String(), why) {
			t.Errorf("to %s: the log does not say %q:\n%s", to, why, log.String())
		}
	}
	for to, want := range map[string]error{"": stet.ErrInvalid, "stet.topic/x": stet.ErrInvalid} {
		if _, err := begin(t, e, w, to).Wait(testContext(t)); err == nil || !strings.Contains(err.Error(), want.Error()) {
			t.Errorf("to %q: %v; want %v", to, err, want)
		}
	}
}

// TestSendFromIsShown with its receiver, and a rewind does not send again what stands.
func TestSendFromIsShown(t *testing.T) {
	t.Parallel()
	w := stet.Define("speaks", func(ctx stet.Context, to string) (string, error) {
		if err := word.SendFrom(ctx, to, "hello"); err != nil {
			return "", err
		}
		return "sent", stet.Do(ctx, "after", func(context.Context) error { return nil })
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w, hearing}})
	ctx := testContext(t)
	listener := startHearing(t, e, hearing, 2)
	r := begin(t, e, w, listener.ID(), stet.ID("r"))
	outcome(t, r)
	if ok, err := e.Runs().Rewind(ctx, "r", "after", stet.Act{}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	outcome(t, r)
	history, err := e.Runs().History(ctx, "r", stet.HistoryQuery{Values: true})
	if err != nil || len(history) != 2 {
		t.Fatal(history, err)
	}
	if h := history[1]; h.Kind != store.KindSend || h.Run != listener.ID() || h.Location != "send word" ||
		h.Kind.String() != "send" {
		t.Errorf("%+v", h)
	}
	if err := word.Send(ctx, e, listener.ID(), "!"); err != nil {
		t.Fatal(err)
	}
	if got := outcome(t, listener); got != "hello!" {
		t.Errorf("the listener has heard %q", got)
	}
}

// TestEngineOfAStep is the engine that executes it, and nil elsewhere.
func TestEngineOfAStep(t *testing.T) {
	t.Parallel()
	var engine *stet.Engine
	w := stet.Define("asks", func(ctx stet.Context, _ int) (bool, error) {
		_, err := stet.Step(ctx, "undone", func(ctx context.Context) (bool, error) {
			return stet.EngineOf(ctx) == engine, nil
		}, stet.UndoDo(func(ctx context.Context) error {
			if stet.EngineOf(ctx) != engine {
				return stet.Permanent(errors.New("another engine"))
			}
			return nil
		}))
		if err != nil {
			return false, err
		}
		return false, stet.Rollback(errors.New("done"))
	})
	engine = serve(t, stet.Config{Workflows: []stet.Definition{w}})
	r := begin(t, engine, w, 0)
	if _, err := r.Wait(testContext(t)); err == nil || strings.Contains(err.Error(), "another engine") {
		t.Error(err)
	}
	history, err := engine.Runs().History(testContext(t), r.ID(), stet.HistoryQuery{Values: true})
	if err != nil || len(history) != 2 {
		t.Fatal(history, err)
	}
	var same bool
	if err := history[0].Decode(&same); err != nil || !same {
		t.Error(same, err)
	}
	if stet.EngineOf(context.Background()) != nil {
		t.Error("an engine outside of a step")
	}
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestADeadlineComesAfterARepeatedSend: a message that is sent twice with one key is in the inbox of a run that waits
// for another one, with a deadline, beside a step. The claim that looks for what the answer to the second send was
// about finds nothing, since the run has consumed it. The deadline comes all the same.
func TestADeadlineComesAfterARepeatedSend(t *testing.T) {
	t.Parallel()
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		other := stet.Message[string]("other")
		received := make(chan struct{})
		w := stet.Define("repeated", func(ctx stet.Context, _ int) (string, error) {
			beside := stet.Go(ctx, "beside", func(ctx stet.Context) (string, error) {
				return stet.Step(ctx, "long", func(ctx context.Context) (string, error) {
					select {
					case <-time.After(time.Hour):
					case <-ctx.Done():
					}
					return "", ctx.Err()
				})
			})
			if _, err := word.Receive(ctx); err != nil {
				return "", err
			}
			if err := stet.Do(ctx, "received", func(context.Context) error { close(received); return nil }); err != nil {
				return "", err
			}
			_, err := other.Receive(ctx, stet.Within(time.Minute))
			beside.Cancel(ctx)
			if errors.Is(err, stet.ErrTimeout) {
				return "timeout", nil
			}
			return "", err
		})
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		r, err := w.Start(ctx, e, 0, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		if err := word.Send(ctx, e, "r", "hello", stet.SendKey("once")); err != nil {
			t.Fatal(err)
		}
		<-received
		if err := word.Send(ctx, e, "r", "hello", stet.SendKey("once")); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if got, err := r.Wait(ctx); err != nil || got != "timeout" || time.Since(begun) > 2*time.Minute {
			t.Errorf("got %q, %v after %s; want a timeout after a minute", got, err, time.Since(begun))
		}
	})
}
