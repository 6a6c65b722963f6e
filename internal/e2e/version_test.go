package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// doomed is a store handle whose process dies at a commit of turns, before it or
// after it.
type doomed struct {
	store.Store
	at    int64
	after bool
	count atomic.Int64
	dead  atomic.Bool
	died  chan struct{}
}

func (d *doomed) Commit(ctx context.Context, b store.Batch) (result store.BatchResult, err error) {
	switch {
	case d.dead.Load():
		return result, errDead
	case len(b.Turns) == 0 || d.count.Add(1) != d.at:
		return d.Store.Commit(ctx, b)
	case d.after:
		result, err = d.Store.Commit(ctx, b)
	default:
		err = errDead
	}
	if d.dead.CompareAndSwap(false, true) {
		err = errDead
		close(d.died)
		d.Store.Close()
	}
	return result, err
}

// diary is what the steps of a test write, each in its second attempt.
type diary struct {
	mu    sync.Mutex
	pages []string
}

func (d *diary) write(ctx stet.Context, name string) error {
	return stet.Do(ctx, name, func(ctx context.Context) error {
		if stet.Attempt(ctx) == 1 {
			return errRefusedCard
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pages = append(d.pages, name)
		return nil
	}, stet.Retry{First: time.Microsecond})
}

// TestCodeChangesAtEveryCommit lets a process die at every commit of a run and others with changed code take over: a
// run that has passed the place of a change has version 0, every other one the newest. Recorded steps are not executed
// again, and no run stalls.
func TestCodeChangesAtEveryCommit(t *testing.T) {
	t.Parallel()
	var book diary
	steps := func(ctx stet.Context, names ...string) error {
		for _, name := range names {
			if err := book.write(ctx, name); err != nil {
				return err
			}
		}
		return nil
	}
	former := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		if err := steps(ctx, "a", "old"); err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "nap", time.Millisecond); err != nil {
			return "", err
		}
		return "", steps(ctx, "b", "c")
	})
	changed := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		versions := make([]int, 3)
		mark := func(i int) error {
			change := fmt.Sprint("change ", i)
			if versions[i] = stet.Version(ctx, change, 1); versions[i] == 0 {
				return nil
			}
			return book.write(ctx, change)
		}
		if err := mark(0); err != nil {
			return "", err
		}
		if err := steps(ctx, "a"); err != nil {
			return "", err
		}
		stet.Removed(ctx, "old")
		stet.Removed(ctx, "nap")
		if err := mark(1); err != nil {
			return "", err
		}
		if err := steps(ctx, "b", "c"); err != nil {
			return "", err
		}
		err := mark(2)
		return fmt.Sprint(versions), err
	})

	// A removed operation that is not recorded is not waited for, so what stands
	// behind it is passed with what stands before it.
	seen := map[string]bool{}
	for at, reached := int64(1), true; reached; at++ {
		for _, after := range []bool{false, true} {
			book = diary{}
			first := memory.New()
			handle := &doomed{Store: first.Join(), at: at, after: after, died: make(chan struct{})}
			p := startProcess(t, handle, stet.Config{Workflows: []stet.Definition{former}})
			ctx, cancel := context.WithCancel(testContext(t))
			run, err := former.Start(ctx, p.Engine, "", stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = run.Wait(ctx); cancel() }()
			select {
			case <-handle.died:
				cancel()
			case <-ctx.Done(): // the run has ended, or its store is closed
				select {
				case <-handle.died:
				default:
					reached = false
				}
			}
			p.stop()
			if err := <-p.ended; err != nil && !errors.Is(err, store.ErrClosed) { // which it may find out
				t.Error(err)
			}
			if !reached {
				break
			}
			durable := map[string]bool{}
			info, err := first.List(t.Context(), store.Filter{})
			if err != nil || len(info.Runs) != 1 {
				t.Fatal(info, err)
			}
			entries, err := first.History(t.Context(), store.HistoryQuery{Run: info.Runs[0].No})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.State == store.Done {
					durable[strings.Trim(e.Loc, "\x00\x02")] = true
				}
			}

			if info.Runs[0].Status.Terminal() {
				continue
			}
			book.pages = nil
			q := startProcess(t, first.Join(), stet.Config{Workflows: []stet.Definition{changed}})
			got, err := changed.Handle(q.Engine, "r").Wait(testContext(t))
			q.bury(t)
			// A body may begin before anything is committed; then the run is new. The build is that of the start.
			begun := len(entries) > 0 || info.Runs[0].Waits != nil
			want := fmt.Sprint([]int{number(!begun), number(!durable["a"]), number(!durable["c"])})
			where := fmt.Sprintf("commit %d, after it: %v, durable %v", at, after, durable)
			if err != nil || got != want {
				t.Errorf("%s: versions %s, %v; want %s", where, got, err, want)
			}
			for name := range durable {
				if slices.Contains(book.pages, name) {
					t.Errorf("%s: %s is executed again", where, name)
				}
			}
			seen[got] = true
		}
	}
	if len(seen) < 3 {
		t.Errorf("only the versions %v were seen", seen)
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestVersionInTheHistory stands beside the operations, with its number.
func TestVersionInTheHistory(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ string) (int, error) {
		return stet.Version(ctx, "check", 3), stet.Do(ctx, "check", func(context.Context) error { return nil })
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	run, err := w.Start(ctx, e, "", stet.ID("r"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(ctx); err != nil || got != 3 {
		t.Fatalf("got version %d, %v; want 3", got, err)
	}
	history, err := e.Runs().History(ctx, "r", stet.HistoryQuery{Values: true})
	if err != nil || len(history) != 2 {
		t.Fatalf("the history is %+v, %v", history, err)
	}
	var version int
	if err := history[1].Decode(&version); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(history[0].Location, " ", history[1].Location, " ", history[1].Kind, " ", history[1].State, " ",
		version); got != "check [version]/check version done 3" {
		t.Errorf("the history is %s", got)
	}
}

// TestVersionOfBadInput fails the run and names the expected form.
func TestVersionOfBadInput(t *testing.T) {
	t.Parallel()
	for text, ask := range map[string]func(stet.Context){
		`change "c": expected a version of 1 or more, found 0`: func(ctx stet.Context) { stet.Version(ctx, "c", 0) },
		`change: name ""`:                 func(ctx stet.Context) { stet.Version(ctx, "", 1) },
		`name ""`:                         func(ctx stet.Context) { stet.Removed(ctx, "") },
		`key "\x00": expected no control`: func(ctx stet.Context) { stet.Removed(ctx, "n", stet.Key("\x00")) },
		`operation "c" was`: func(ctx stet.Context) {
			//stetvet:ignore error only the start of it matters here
			//stetvet:ignore context the misuse is what is tested
			_ = stet.Do(ctx, "s", func(context.Context) error { stet.Version(ctx, "c", 1); return nil })
		},
	} {
		w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) { ask(ctx); return "", nil })
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, Retry: stet.Retry{Attempts: 1}})
		if _, err := run(t, e, w, ""); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the run ends with %v, want %s", err, text)
		}
	}
}

// TestVersionsOfWhatIsTakenBack follows a rewind, a retry and a fork under changed code: operations that stand keep
// their version, and repeated ones at a place that former code has not passed take the newest.
func TestVersionsOfWhatIsTakenBack(t *testing.T) {
	t.Parallel()
	var versions, executed []string
	workflow := func(isChanged bool) *stet.Workflow[string, string] {
		return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			versions = nil
			mark := func(change string) error {
				if !isChanged {
					return nil
				}
				version := stet.Version(ctx, change, 1)
				versions = append(versions, fmt.Sprint(change, version))
				if version == 0 {
					return nil
				}
				_, err := say(ctx, "new at "+change, "")
				return err
			}
			for _, name := range []string{"a", "b", "c"} {
				if err := mark(name); err != nil {
					return "", err
				}
				err := stet.Do(ctx, name, func(context.Context) error {
					executed = append(executed, name)
					if name == "c" && !isChanged {
						return errRefusedCard
					}
					return nil
				}, stet.Retry{Attempts: 1})
				if err != nil {
					return "", err
				}
			}
			return "", mark("end")
		})
	}
	rewind := func(before string) func(context.Context, *stet.Engine) (string, error) {
		return func(ctx context.Context, e *stet.Engine) (string, error) {
			ok, err := e.Runs().Rewind(ctx, "r", before, stet.Act{Why: "test"})
			return "r", errors.Join(err, notOK(ok))
		}
	}
	fork := func(before string) func(context.Context, *stet.Engine) (string, error) {
		return func(ctx context.Context, e *stet.Engine) (string, error) {
			return e.Runs().Fork(ctx, "r", before, stet.Act{Why: "test"})
		}
	}
	for _, c := range []struct {
		name               string
		act                func(context.Context, *stet.Engine) (string, error)
		versions, executed string
	}{
		{"retry", func(ctx context.Context, e *stet.Engine) (string, error) {
			ok, err := e.Runs().Retry(ctx, "r", stet.Act{Why: "test"})
			return "r", errors.Join(err, notOK(ok))
		}, "[a0 b0 c0 end1]", "[c]"},
		{"rewind to the last one", rewind("c"), "[a0 b0 c0 end1]", "[c]"},
		{"rewind to the one before", rewind("b"), "[a0 b0 c1 end1]", "[b c]"},
		{"rewind to the first one", rewind("a"), "[a1 b1 c1 end1]", "[a b c]"},
		{"rewind to the begin", rewind("/"), "[a1 b1 c1 end1]", "[a b c]"},
		{"fork at the last one", fork("c"), "[a0 b0 c0 end1]", "[c]"},
		{"fork at the begin", fork("/"), "[a1 b1 c1 end1]", "[a b c]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := memory.New()
			former := workflow(false)
			p := startProcess(t, first.Join(), stet.Config{Workflows: []stet.Definition{former}, Build: "1"})
			ctx := testContext(t)
			run, err := former.Start(ctx, p.Engine, "", stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Wait(ctx); err == nil {
				t.Fatal("the run has not failed")
			}
			p.stop()
			if err := <-p.ended; err != nil {
				t.Error(err)
			}
			executed = nil
			q := startProcess(t, first.Join(), stet.Config{Workflows: []stet.Definition{workflow(true)}, Build: "2"})
			id, err := c.act(ctx, q.Engine)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := q.Runs().Wait(ctx, id); err != nil || info.Err != nil {
				t.Fatal(err, info)
			}
			if got := fmt.Sprint(executed); got != c.executed {
				t.Errorf("%s are executed, want %s", got, c.executed)
			}
			q.bury(t)
			if got := fmt.Sprint(versions); got != c.versions {
				t.Errorf("the versions are %s, want %s", got, c.versions)
			}
		})
	}
}

func notOK(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("refused")
}
