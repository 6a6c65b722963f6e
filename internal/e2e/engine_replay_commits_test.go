package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// historian exports every run of the committed turns after each commit.
type historian struct {
	store.Store
	reader *stet.Engine

	mu    sync.Mutex
	files [][]byte
	err   error
}

func (h *historian) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	result, err := h.Store.Commit(ctx, b)
	var nos []store.RunNo
	for _, turn := range b.Turns {
		nos = append(nos, turn.Run)
	}
	if len(nos) == 0 || err != nil {
		return result, err
	}
	page, listErr := h.Store.List(ctx, store.Filter{Nos: nos})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, listErr)
	for i := range page.Runs {
		if store.IsEntity(page.Runs[i].ID) {
			continue // it has no code that could change
		}
		var file bytes.Buffer
		h.err = errors.Join(h.err, h.reader.Runs().Export(ctx, page.Runs[i].ID, &file))
		h.files = append(h.files, file.Bytes())
	}
	return result, err
}

// TestReplayFitsAfterEachCommit exports a run after each of its commits. A replay
// of the file against the same code never breaks, whatever was recorded last, and
// executes nothing.
func TestReplayFitsAfterEachCommit(t *testing.T) {
	t.Parallel()
	cases := append(slices.Clone(crashCases), crashCase{
		name: "children",
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			for {
				page, err := e.Store().List(ctx, store.Filter{Workflows: []string{"told"}})
				if err != nil {
					return err
				}
				if len(page.Runs) == 1 {
					return goOn.Send(ctx, e, page.Runs[0].ID, "yes")
				}
				time.Sleep(time.Millisecond)
			}
		},
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				n, err := square.Call(ctx, 7)
				if err != nil {
					return "", err
				}
				child, err := told.Go(ctx, "")
				if err != nil {
					return "", err
				}
				got, err := child.Await(ctx)
				return fmt.Sprint(n, " ", got), err
			})
		},
	})
	for _, c := range undoCases {
		cases = append(cases, crashCase{name: "undo after a " + c.name, drive: c.drive,
			workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
				return stet.Define("w", c.code)
			}})
	}
	large := strings.Repeat("large ", 2000)
	failing := func(ctx stet.Context, _ string) (string, error) {
		if _, err := say(ctx, "large", large, takeBack(large)); err != nil {
			return "", err
		}
		return "", stet.Do(ctx, "last", func(context.Context) error { return errors.New("no") }, stet.Retry{Attempts: 1})
	}
	cases = append(cases,
		crashCase{name: "undo of a large value", workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", failing)
		}},
		crashCase{name: "a failure that waits for a person",
			workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
				return stet.Define("w", failing, stet.StallOnFailure)
			}})
	for _, c := range cases {
		for _, parked := range []int{stet.None, 0} {
			t.Run(fmt.Sprintf("%s/parked %d", c.name, parked), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { replayAfterEachCommit(t, c, parked) })
			})
		}
	}
}

func replayAfterEachCommit(t *testing.T, c crashCase, parked int) {
	ctx := t.Context()
	first := memory.New()
	var current atomic.Pointer[stet.Engine]
	w := c.workflow(current.Load)
	cfg := family(w)
	cfg.MaxParkedBytes, cfg.Retry = parked, stet.Retry{First: time.Millisecond}
	outside := client(t, first.Join(), w, square, told)
	current.Store(outside)
	h := &historian{Store: first, reader: outside}
	startProcess(t, h, cfg)
	if _, err := w.Start(ctx, outside, "", append(c.options, stet.ID("r"))...); err != nil {
		t.Fatal(err)
	}
	if c.drive != nil {
		if err := c.drive(ctx, outside, "r"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := outside.Runs().Wait(ctx, "r"); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil || len(h.files) < 2 {
		t.Fatalf("%d files, %v", len(h.files), h.err)
	}
	check := checker(t, first.Join(), w, square, told)
	for i, file := range h.files {
		if err := check.Replay(ctx, bytes.NewReader(file)); err != nil {
			t.Errorf("the replay after commit %d: %v\n%s", i+1, err, file)
		}
	}
}

// TestReplayFitsAfterRepairs exports a run after each commit while it is retried,
// rewound, edited and forked, and pauses in between.
func TestReplayFitsAfterRepairs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		first := memory.New()
		broken := true
		w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			a, err := say(ctx, "a", "A")
			if err != nil {
				return "", err
			}
			m, err := word.Receive(ctx)
			if err != nil {
				return "", err
			}
			b, err := stet.Step(ctx, "b", func(context.Context) (string, error) {
				if broken {
					return "", errors.New("broken")
				}
				return "B", nil
			}, stet.Retry{Attempts: 1})
			return a + m + b, err
		})
		outside := client(t, first.Join(), w)
		h := &historian{Store: first, reader: outside}
		startProcess(t, h, stet.Config{Workflows: []stet.Definition{w}})
		if _, err := w.Start(ctx, outside, "", stet.ID("r"), stet.FirstMessage(word, "m")); err != nil {
			t.Fatal(err)
		}
		ends := func(id, want string) {
			t.Helper()
			if got, err := w.Handle(outside, id).Wait(ctx); got != want || (err == nil) != (want != "") {
				t.Fatalf("run %s ends with %q, %v; want %q", id, got, err, want)
			}
		}
		asked := func(ok bool, err error) {
			t.Helper()
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		ends("r", "")
		asked(outside.Runs().Retry(ctx, "r", stet.Act{Why: "again"}))
		ends("r", "") // broken still
		broken = false
		asked(outside.Runs().Retry(ctx, "r", stet.Act{Why: "fixed"}))
		ends("r", "AmB")
		asked(outside.Runs().Rewind(ctx, "r", "word", stet.Act{Why: "another word"}))
		ends("r", "AmB")
		asked(outside.Runs().EditResult(ctx, "r", "a", "X", stet.Act{Why: "another letter"}))
		ends("r", "XmB")
		id, err := outside.Runs().Fork(ctx, "r", "b", stet.Act{Why: "a copy"})
		if err != nil {
			t.Fatal(err)
		}
		ends(id, "XmB")
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.err != nil || len(h.files) < 10 {
			t.Fatalf("%d files, %v", len(h.files), h.err)
		}
		check := checker(t, first.Join(), w)
		for i, file := range h.files {
			if err := check.Replay(ctx, bytes.NewReader(file)); err != nil {
				t.Errorf("the replay after commit %d: %v\n%s", i+1, err, file)
			}
		}
	})
}
