package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
)

// looked counts what was read, each in a second of virtual time.
type looked struct {
	mu    sync.Mutex
	reads [][]string
	bad   string // a read of several with this run fails
}

func (l *looked) lookups() *lookups {
	note := func(ids ...string) {
		time.Sleep(time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reads = append(l.reads, slices.Sorted(slices.Values(ids)))
	}
	return &lookups{
		get: func(ctx context.Context, id string) (store.Run, bool, error) {
			note(id)
			return store.Run{ID: id}, id != "missing", ctx.Err()
		},
		all: func(ctx context.Context, ids []string) ([]store.Run, error) {
			note(ids...)
			if slices.Contains(ids, l.bad) {
				return nil, errors.New("unreadable")
			}
			var runs []store.Run
			for _, id := range ids {
				if id != "missing" {
					runs = append(runs, store.Run{ID: id})
				}
			}
			return runs, ctx.Err()
		},
	}
}

// TestLookupsTogether: one reads at once, those who come meanwhile together, and each
// gets its own.
func TestLookupsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looked
		s := l.lookups()
		var all sync.WaitGroup
		ask := func(id string) {
			all.Go(func() {
				run, ok, err := s.read(t.Context(), id)
				if err != nil || ok != (id != "missing") || ok && run.ID != id {
					t.Errorf("%s: found %+v, %t, %v", id, run, ok, err)
				}
			})
		}
		ask("first")
		synctest.Wait()
		for range 2 {
			ask("a")
			ask("missing")
		}
		for i := range maxLookup {
			ask(fmt.Sprint("run-", i))
		}
		begun := time.Now()
		all.Wait()
		if took := time.Since(begun); took != 3*time.Second || len(l.reads) != 3 {
			t.Errorf("expected three reads one after the other, found %d in %s", len(l.reads), took)
		}
		if s.reading || len(s.waiting) > 0 {
			t.Error("somebody is still to read")
		}
	})
}

// TestLookupsThatFail: what is wrong with one of several is not told to the others, and
// who waits no more leaves nobody waiting.
func TestLookupsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := looked{bad: "b"}
		s := l.lookups()
		var all sync.WaitGroup
		impatient, leave := context.WithCancel(t.Context())
		ask := func(ctx context.Context, id string) {
			all.Go(func() {
				run, ok, err := s.read(ctx, id)
				switch {
				case ctx == impatient && !errors.Is(err, context.Canceled):
					t.Errorf("%s: expected the context's error, found %v", id, err)
				case ctx != impatient && (err != nil || !ok || run.ID != id):
					t.Errorf("%s: found %+v, %t, %v", id, run, ok, err)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), "first")
		ask(impatient, "x") // it would be the next to read
		for _, id := range []string{"a", "b", "c"} {
			ask(t.Context(), id)
		}
		leave()
		synctest.Wait()
		ask(impatient, "y") // withdrawn at once
		all.Wait()
		if s.reading || len(s.waiting) > 0 {
			t.Error("somebody is still to read")
		}
	})
}
