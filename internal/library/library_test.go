package library_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/store"
)

var errAway = errors.New("the store is away")

// source is a Source whose reads may fail, or end with their context.
type source struct {
	mu    sync.Mutex
	names []string
	away  bool
	hangs bool
}

func (s *source) set(change func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) read(ctx context.Context) error {
	s.mu.Lock()
	away, hangs := s.away, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if away {
		return errAway
	}
	return nil
}

func (s *source) Names(ctx context.Context) ([]string, error) {
	err := s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names), err
}

func (s *source) Code(ctx context.Context, of *store.Snapshot) (library.Workflow, error) {
	return library.Workflow{PauseAfter: len(of.Run.Workflow)}, s.read(ctx)
}

// TestNamesOutliveReadsThatFail: while the source cannot be read the names stay as they were, and what is new is
// found in the interval in which it can be again.
func TestNamesOutliveReadsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &source{names: []string{"b", "a", "own", "a"}}
		shelf := &library.Shelf{Own: map[string]library.Workflow{"own": {}}, Source: from, Beside: []string{"beside"}}
		var log bytes.Buffer
		changes := 0
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			shelf.Watch(ctx, time.Second, func() { changes++ }, slog.New(slog.NewTextHandler(&log, nil)))
			close(ended)
		}()
		expect := func(wantChanges int, names ...string) {
			t.Helper()
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if changes != wantChanges || !slices.Equal(shelf.Names(), names) {
				t.Errorf("expected %v after %d changes, found %v after %d", names, wantChanges, shelf.Names(), changes)
			}
		}
		expect(1, "a", "b", "own")
		executed := []string{"a", "b", "own", "beside"}
		if !slices.Equal(shelf.Executed(), executed) || shelf.IsShared("own") || !shelf.Has("own") {
			t.Errorf("executed are %v", shelf.Executed())
		}
		from.set(func(s *source) { s.names, s.away = []string{"c"}, true })
		expect(1, "a", "b", "own")
		if shelf.Shared(t.Context(), "c") || !shelf.Shared(t.Context(), "a") {
			t.Error("a name is known of a source that cannot be read, or is no more")
		}
		if !strings.Contains(log.String(), errAway.Error()) {
			t.Errorf("the log has %s", &log)
		}
		from.set(func(s *source) { s.away, s.hangs = false, true })
		time.Sleep(11 * time.Second) // a read that hangs is given up
		from.set(func(s *source) { s.hangs = false })
		time.Sleep(10 * time.Second)
		expect(2, "c", "own")
		stop()
		<-ended
	})
}

// TestCodeThatIsNotGiven: without code there is none, and not that of another run; the caller tries again.
func TestCodeThatIsNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &source{names: []string{"script"}}
		shelf := &library.Shelf{Source: from}
		if _, err := shelf.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		of := &store.Snapshot{Run: store.Run{ID: "r", Workflow: "script"}}
		fetch := func() (int, error) {
			w := library.Workflow{PauseAfter: -1}
			err := shelf.Fetch(t.Context(), time.Second, of, &w)
			return w.PauseAfter, err
		}
		if n, err := fetch(); err != nil || n != len("script") {
			t.Errorf("found %d, %v", n, err)
		}
		from.set(func(s *source) { s.away = true })
		if n, err := fetch(); !errors.Is(err, errAway) || n != -1 {
			t.Errorf("of a source that cannot be read: %d, %v", n, err)
		}
		from.set(func(s *source) { s.hangs = true })
		before := time.Now()
		if n, err := fetch(); err == nil || n != -1 || time.Since(before) != time.Second {
			t.Errorf("of a source that hangs: %d, %v after %v", n, err, time.Since(before))
		}
		from.set(func(s *source) { s.away, s.hangs = false, false })
		if n, err := fetch(); err != nil || n != len("script") {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// TestALackIsToldOnceAMinute: of each workflow.
func TestALackIsToldOnceAMinute(t *testing.T) {
	var shelf library.Shelf
	now := time.Now()
	for _, row := range []struct {
		workflow string
		after    time.Duration
		want     bool
	}{{"a", 0, true}, {"a", time.Second, false}, {"b", time.Second, true}, {"a", 59 * time.Second, false},
		{"a", time.Minute, true}, {"a", 61 * time.Second, false}} {
		if got := shelf.Tell(row.workflow, now.Add(row.after)); got != row.want {
			t.Errorf("%s after %s: %t", row.workflow, row.after, got)
		}
	}
}
