package stet_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
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

// Two messages go to a suspended run in one batch, of which the first adopts it; the
// answer is lost, and a claim tells the run of both. When the batch is repeated the store
// says of both that they have adopted the run: it cannot tell. The run, which by the
// second answer suspends again, does not take that for another claim.
func TestARepeatedBatchAdoptsARunOnce(t *testing.T) {
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
			return slices.ContainsFunc(b.Commands, func(c store.Command) bool { return c.Item != nil && bytes.HasSuffix(c.Item.Value, []byte(`"a"`)) })
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
