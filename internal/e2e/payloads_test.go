package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/files"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

func payloadKey(id string) stet.PayloadKey {
	return stet.PayloadKey{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)}
}

// secret returns a value that must not be found in a file. Much of it cannot be
// compressed.
func secret(what string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "top-secret-%s %x ", what, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	return b.String()
}

var (
	payloadUpdate = stet.Update[string, string]("change")
	payloadValue  = stet.Value[string]("state")
	payloadStream = stet.Stream[string]("log")
)

// everything uses all that stores values.
func everything(tokens chan string) (parent, child *stet.Workflow[string, string]) {
	child = stet.Define("child", func(ctx stet.Context, in string) (string, error) {
		return stet.Step(ctx, "s", func(context.Context) (string, error) { return in + secret("child", 1), nil })
	})
	parent = stet.Define("everything", func(ctx stet.Context, in string) (string, error) {
		small, err := stet.Step(ctx, "small", func(ctx context.Context) (string, error) {
			if err := stet.Heartbeat(ctx, secret("detail", 1)); err != nil {
				return "", err
			}
			if stet.Attempt(ctx) < 2 {
				return "", errors.New(secret("failure", 1))
			}
			return secret("result", 1), nil
		}, stet.Retry{First: time.Millisecond})
		if err != nil {
			return "", err
		}
		large, err := stet.Step(ctx, "large", func(context.Context) (string, error) { return secret("result", 2000), nil })
		if err != nil {
			return "", err
		}
		if err := payloadValue.Set(ctx, secret("value", 1)); err != nil {
			return "", err
		}
		if err := payloadStream.Append(ctx, secret("stream", 1)); err != nil {
			return "", err
		}
		p, err := stet.NewPromise[string](ctx, "p")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error { tokens <- p.Token(); return nil }); err != nil {
			return "", err
		}
		promised, err := p.Await(ctx)
		if err != nil {
			return "", err
		}
		got, err := word.Receive(ctx)
		if err != nil {
			return "", err
		}
		req, err := payloadUpdate.Receive(ctx)
		if err != nil {
			return "", err
		}
		if err := req.Answer(ctx, req.Value+secret("answer", 1)); err != nil {
			return "", err
		}
		of, err := child.Call(ctx, in)
		if err != nil {
			return "", err
		}
		if len(in) < 1000 {
			return "", stet.ContinueAsNew(in + secret("second", 3000))
		}
		return fmt.Sprint(len(small), len(large), len(promised), len(got), len(of), len(in)), nil
	})
	return parent, child
}

// TestPayloads: with compression, encryption and objects everything works as
// without, on either store, in memory and after replays, and nothing of the values
// is in the files.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"memory", "sqlite"} {
		for _, parked := range []int{stet.None, 0} {
			t.Run(fmt.Sprintf("%s/parked=%d", name, parked), func(t *testing.T) {
				dir := t.TempDir()
				var s store.Store = memory.New()
				if name == "sqlite" {
					db, err := sqlite.Open(context.Background(), filepath.Join(dir, "app.db"))
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { db.Close() })
					s = db
				}
				objects, err := files.Open(filepath.Join(dir, "objects"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { objects.Close() })
				tokens := make(chan string, 2)
				parent, child := everything(tokens)
				payloads := stet.Payloads{Compress: 1000, Keys: []stet.PayloadKey{payloadKey("k1")}, Objects: objects,
					Offload: 5000}
				if parked == stet.None {
					payloads.Compress = stet.None
				}
				e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{parent, child}, Payloads: payloads,
					MaxParkedBytes: parked})
				ctx := testContext(t)
				start := func() (*stet.Run[string], error) {
					return parent.Start(ctx, e, "in "+secret("input", 1), stet.ID("r"),
						stet.FirstMessage(word, secret("first", 500), stet.SendKey("first")))
				}
				r, err := start()
				if err != nil {
					t.Fatal(err)
				}
				for incarnation := range 2 {
					token := <-tokens
					if err := e.Resolve(ctx, token, secret("promise", 1)); err != nil {
						t.Fatal(err)
					}
					if incarnation > 0 {
						if err := word.Send(ctx, e, "r", secret("message", 1)); err != nil {
							t.Fatal(err)
						}
					}
					if got, err := payloadUpdate.Call(ctx, e, "r", secret("update", 1)); err != nil ||
						got != secret("update", 1)+secret("answer", 1) {
						t.Fatalf("%.50q, %v", got, err)
					}
				}
				got, err := r.Wait(ctx)
				input := "in " + secret("input", 1) + secret("second", 3000)
				want := fmt.Sprint(len(secret("result", 1)), len(secret("result", 2000)), len(secret("promise", 1)),
					len(secret("message", 1)),
					len(input+secret("child", 1)), len(input))
				if err != nil || got != want {
					t.Fatalf("got %q, %v; want %q", got, err, want)
				}
				if again, err := start(); err != nil || again.ID() != "r" {
					t.Errorf("an equal start: %v", err)
				}
				if _, err := parent.Start(ctx, e, "other", stet.ID("r")); !errors.Is(err, stet.ErrExists) {
					t.Errorf("a start with another input: %v", err)
				}
				if v, ok, err := payloadValue.Get(ctx, e, "r"); err != nil || !ok || v != secret("value", 1) {
					t.Errorf("the value: %q, %v, %v", v, ok, err)
				}
				entries, err := e.Runs().History(ctx, "r", stet.HistoryQuery{Values: true})
				if err != nil {
					t.Fatal(err)
				}
				for i := range entries {
					if v := ""; entries[i].Location == "large" {
						if err := entries[i].Decode(&v); err != nil || v != secret("result", 2000) {
							t.Errorf("the large result: %.30q, %v", v, err)
						}
					}
				}
				if kept, err := objects.List(ctx, ""); err != nil || len(kept) == 0 {
					t.Errorf("%d objects, %v: nothing was kept outside", len(kept), err)
				}
				nothingIn(t, dir)
				if name == "sqlite" {
					db := s.(*sqlite.Store)
					findings, err := db.Doctor(ctx)
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range findings {
						if !f.OK {
							t.Errorf("doctor: %s: %s", f.What, f.Detail)
						}
					}
				}
			})
		}
	}
}

// nothingIn looks for secrets in all files of a folder.
func nothingIn(t *testing.T, dir string) {
	t.Helper()
	size := int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		size += int64(len(data))
		if i := bytes.Index(data, []byte("top-secret")); i >= 0 {
			t.Errorf("%s has %q at byte %d", filepath.Base(path), data[i:min(i+40, len(data))], i)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if size == 0 {
		t.Error("there are no files")
	}
}

// TestPayloadsOfFailures: errors, reasons and panics are encrypted too, and found
// again.
func TestPayloadsOfFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := sqlite.Open(context.Background(), filepath.Join(dir, "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	fails := stet.Define("fails", func(ctx stet.Context, how string) (string, error) {
		switch how {
		case "panic":
			panic(secret("panic", 1))
		case "wait":
			return word.Receive(ctx)
		}
		return "", fmt.Errorf("%s: %w", secret("error", 1), errDeclined)
	})
	cfg := stet.Config{Store: db, Workflows: []stet.Definition{fails}, OnBug: stet.FailOnBug,
		Payloads: stet.Payloads{Keys: []stet.PayloadKey{payloadKey("k")}},
		Errors:   []stet.ErrorCode{stet.Sentinel("declined", errDeclined)}}
	e := serve(t, cfg)
	ctx := testContext(t)
	if _, err := run(t, e, fails, "error"); !errors.Is(err, errDeclined) ||
		!strings.Contains(err.Error(), "top-secret-error") {
		t.Errorf("an error: %v", err)
	}
	if _, err := run(t, e, fails, "panic"); err == nil || !strings.Contains(err.Error(), "top-secret-panic") {
		t.Errorf("a panic: %v", err)
	}
	r, err := fails.Start(ctx, e, "wait", stet.ID("w"))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := r.Cancel(ctx, stet.Act{Why: secret("reason", 1)}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := r.Wait(ctx); err == nil || !strings.Contains(err.Error(), "top-secret-reason") {
		t.Errorf("a cancelled run: %v", err)
	}
	nothingIn(t, dir)
	cfg.Payloads = stet.Payloads{}
	other := client(t, db)
	info, err := other.Runs().Info(ctx, "w")
	if err != nil || !strings.Contains(info.Reason, "encrypted with key k") {
		t.Errorf("the reason without the key: %q, %v", info.Reason, err)
	}
	failed, _, err := other.Runs().List(ctx, store.Filter{Statuses: []store.Status{store.Failed}, Values: true})
	if err != nil || len(failed) != 2 {
		t.Fatal(err)
	}
	for _, r := range failed {
		if err := r.Err; err == nil || !errors.Is(err, stet.ErrSealed) ||
			!strings.Contains(err.Error(), "encrypted with key k") {
			t.Errorf("a failure without the key: %v", err)
		}
	}
}

// TestKeyRotation: old keys read, the first one writes; without a key a run is left
// alone, with an error that names the key, and goes on when the key is there.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		ctx := context.Background()
		var mu sync.Mutex
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return logged.Write(b)
		}), nil))
		twice := stet.Define("twice", func(ctx stet.Context, in string) (string, error) {
			a, err := stet.Step(ctx, "a", func(context.Context) (string, error) { return in + "1", nil })
			if err != nil {
				return "", err
			}
			b, err := word.Receive(ctx)
			return a + b, err
		})
		process := func(keys []stet.PayloadKey, fn func(e *stet.Engine)) {
			e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{twice}, Logger: log,
				Payloads: stet.Payloads{Keys: keys}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- e.Run(ctx) }()
			fn(e)
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		first, second := payloadKey("first"), payloadKey("second")
		process([]stet.PayloadKey{first}, func(e *stet.Engine) {
			if _, err := twice.Start(ctx, e, "in", stet.ID("r")); err != nil {
				t.Fatal(err)
			}
			waitStatus(t, e, "r", store.Suspended)
		})
		process([]stet.PayloadKey{second}, func(e *stet.Engine) {
			if err := word.Send(ctx, e, "r", "2"); err != nil {
				t.Fatal(err)
			}
			fine, err := twice.Start(ctx, e, "fine", stet.FirstMessage(word, "!"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := fine.Wait(ctx); err != nil || got != "fine1!" {
				t.Errorf("a run beside it: %q, %v", got, err)
			}
			time.Sleep(5 * time.Minute)
			info, err := e.Runs().Info(ctx, "r")
			if err != nil || info.Status.Terminal() || info.Status == store.Stalled {
				t.Errorf("the run without its key is %s, %v", info.Status, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if text := logged.String(); !strings.Contains(text, `key \"first\"`) || !strings.Contains(text, "run_id=r ") {
				t.Errorf("the log does not name the key and the run:\n%s", text)
			}
			if n := strings.Count(logged.String(), "level=ERROR"); n > 6 {
				t.Errorf("in five minutes %d errors were logged", n)
			}
		})
		process([]stet.PayloadKey{second, first}, func(e *stet.Engine) {
			info, err := e.Runs().Wait(ctx, "r")
			if err != nil || info.Status != store.Succeeded {
				t.Errorf("with both keys: %+v, %v", info, err)
			}
			if got, err := twice.Handle(e, "r").Wait(ctx); err != nil || got != "in12" {
				t.Errorf("got %q, %v", got, err)
			}
		})
		process([]stet.PayloadKey{second}, func(e *stet.Engine) { // the last value is of the second key
			if got, err := twice.Handle(e, "r").Wait(ctx); err != nil || got != "in12" {
				t.Errorf("got %q, %v", got, err)
			}
			if _, err := twice.Start(ctx, e, "in", stet.ID("r")); err == nil {
				t.Error("a start was compared with an input that cannot be read")
			}
		})
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestPayloadsInTransactions: StartTx and SendTx seal as well.
func TestPayloadsInTransactions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "app.db")
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{hearing}, Poll: 10 * time.Millisecond,
		Payloads: stet.Payloads{Keys: []stet.PayloadKey{payloadKey("k")}}})
	db, err := sql.Open("sqlite3", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ctx := testContext(t)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := stet.StartTx(ctx, tx, e, hearing, 2, stet.ID("r"), stet.FirstMessage(word, secret("first", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := stet.SendTx(ctx, tx, e, word, "r", secret("second", 1)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || got != secret("first", 1)+secret("second", 1) {
		t.Errorf("got %q, %v", got, err)
	}
	nothingIn(t, dir)
}

// away is Objects that are not there for a while.
type away struct {
	store.Objects
	mu   sync.Mutex
	gone bool
}

func (a *away) set(gone bool) { a.mu.Lock(); a.gone = gone; a.mu.Unlock() }

func (a *away) Put(ctx context.Context, name string, content []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return fmt.Errorf("objects are away: %w", store.ErrUnavailable)
	}
	return a.Objects.Put(ctx, name, content)
}

// TestObjectsAway: while objects cannot be written a start is refused, and a step's
// result waits; the run goes on by itself, and others meanwhile.
func TestObjectsAway(t *testing.T) {
	t.Parallel()
	objects, err := files.Open(filepath.Join(t.TempDir(), "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	a := &away{Objects: objects}
	began := make(chan struct{}, 1)
	large := stet.Define("large", func(ctx stet.Context, n int) (int, error) {
		s, err := stet.Step(ctx, "s", func(context.Context) (string, error) {
			began <- struct{}{}
			return strings.Repeat("x", n), nil
		})
		return len(s), err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{large, hearing},
		Payloads: stet.Payloads{Objects: a, Offload: 10_000}})
	ctx := testContext(t)
	a.set(true)
	r, err := large.Start(ctx, e, 50_000)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	if _, err := hearing.Start(ctx, e, 1,
		stet.FirstMessage(word, strings.Repeat("x", 50_000))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a start with a large message: %v", err)
	}
	if got, err := run(t, e, hearing, 0); err != nil || got != "" {
		t.Errorf("a run beside it: %q, %v", got, err)
	}
	a.set(false)
	if got, err := r.Wait(ctx); err != nil || got != 50_000 {
		t.Errorf("got %d, %v", got, err)
	}
	select {
	case <-began:
		t.Error("the step was executed again")
	default:
	}
}

// TestLargeValuesAreLogged once per place.
func TestLargeValuesAreLogged(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var logged bytes.Buffer
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		for range 3 {
			if _, err := stet.Step(ctx, "big", func(context.Context) (string, error) {
				return strings.Repeat("x", 600),
					nil
			}); err != nil {
				return "", err
			}
		}
		return stet.Step(ctx, "small", func(context.Context) (string, error) { return "x", nil })
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxValue: 1000,
		Logger: slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return logged.Write(b)
		}), nil))})
	for range 3 {
		if _, err := run(t, e, w, strings.Repeat("x", 700)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	text := logged.String()
	for _, place := range []string{"location=input bytes=703", "workflow=w location=big bytes=603",
		"location=big#2", "location=big#3"} {
		if n := strings.Count(text, place); n != 1 {
			t.Errorf("%s is logged %d times", place, n)
		}
	}
	if strings.Contains(text, "small") {
		t.Errorf("a small value was logged:\n%s", text)
	}
}

func TestBadPayloads(t *testing.T) {
	t.Parallel()
	good := payloadKey("k")
	_, err := stet.New(t.Context(), stet.Config{Store: memory.New(), WarnValue: -7, WarnStep: -7,
		Payloads: stet.Payloads{Compress: -5, Offload: 7, Keys: []stet.PayloadKey{
			{ID: "", Secret: good.Secret}, {ID: "a b", Secret: good.Secret}, {ID: "short", Secret: []byte("x")}, good, good,
		}}})
	if !errors.Is(err, stet.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"WarnValue", "WarnStep", "Compress", "Offload", "Keys[0]", "Keys[1]",
		"Keys[2]: key \"short\": expected a secret of 32 bytes, found 1", "Keys[4]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s:\n%v", want, err)
		}
	}
}

// TestPayloadsCrashEverywhere: at whatever commit the process dies, encrypted and
// offloaded values are there again.
func TestPayloadsCrashEverywhere(t *testing.T) {
	t.Parallel()
	objects, err := files.Open(filepath.Join(t.TempDir(), "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		parts, err := stet.Map(ctx, "m", []string{"a", "b"}, func(ctx stet.Context, part string) (string, error) {
			return stet.Step(ctx, "s", func(ctx context.Context) (string, error) {
				if stet.Attempt(ctx) < 2 {
					return "", errors.New("again")
				}
				return part + secret("part", 100), nil
			})
		})
		if err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "nap", time.Hour); err != nil {
			return "", err
		}
		got, err := word.Receive(ctx)
		return fmt.Sprint(len(parts[0]), len(parts[1]), len(got), len(in)), err
	})
	got, err := stettest.CrashEverywhere(t, w, secret("in", 100), stettest.WithConfig(stet.Config{
		Payloads: stet.Payloads{Compress: 500, Keys: []stet.PayloadKey{payloadKey("k")}, Objects: objects, Offload: 5000},
	}), stettest.Starting(stet.FirstMessage(word, secret("message", 200))))
	n := len(secret("part", 100)) + 1
	if want := fmt.Sprint(n, n, len(secret("message", 200)), len(secret("in", 100))); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestPayloadsOfForks: a fork has the values, large ones too, as its own.
func TestPayloadsOfForks(t *testing.T) {
	t.Parallel()
	objects, err := files.Open(filepath.Join(t.TempDir(), "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	calls := 0
	w := stet.Define("w", func(ctx stet.Context, in string) (string, error) {
		var all int
		for _, n := range []int{1, 30, 100, 1000} {
			v, err := stet.Step(ctx, fmt.Sprint("s", n),
				func(context.Context) (string, error) { calls++; return secret("x", n), nil })
			if err != nil {
				return "", err
			}
			all += len(v)
		}
		same, err := stet.Step(ctx, "same", func(context.Context) (string, error) {
			calls++
			return strings.Repeat("x", 50_000), nil
		})
		if err != nil {
			return "", err
		}
		return stet.Step(ctx, "last", func(context.Context) (string, error) {
			calls++
			return fmt.Sprint(all + len(same)),
				nil
		})
	})
	for name, p := range map[string]stet.Payloads{
		"none": {}, "encrypted": {Keys: []stet.PayloadKey{payloadKey("k")}}, "compressed": {Compress: 100},
		"all": {Compress: 100, Keys: []stet.PayloadKey{payloadKey("k")}, Objects: objects, Offload: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}, Payloads: p})
			ctx := testContext(t)
			r, err := w.Start(ctx, e, "in", stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := r.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			calls = 0
			id, err := e.Runs().Fork(ctx, "r", "last", stet.Act{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := w.Handle(e, id).Wait(ctx); err != nil || got != want || calls != 1 {
				t.Errorf("the fork gives %q, %v, after %d calls; want %q", got, err, calls, want)
			}
		})
	}
}

// TestExportWithoutTheObjects is refused, and a check says what is missing instead of
// blaming the code.
func TestExportWithoutTheObjects(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	objects, err := files.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { objects.Close() })
	s := memory.New()
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		text, err := stet.Step(ctx, "write", func(context.Context) (string, error) { return strings.Repeat("x", 9000), nil })
		if err != nil {
			return 0, err
		}
		_, err = word.Receive(ctx)
		return len(text), err
	})
	cfg := stet.Config{Store: s, Workflows: []stet.Definition{w}}
	with := cfg
	with.Payloads = stet.Payloads{Objects: objects, Offload: 5000}
	e := serve(t, with)
	if _, err := w.Start(ctx, e, 1, stet.ID("r")); err != nil {
		t.Fatal(err)
	}
	untilWaits(t, e, "r", "word")
	without, err := stet.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := without.Runs().Export(ctx, "r", &file); !errors.Is(err, stet.ErrSealed) ||
		!strings.Contains(err.Error(), "object") || file.Len() > 0 {
		t.Errorf("Export: %v, %d bytes", err, file.Len())
	}
	report, err := without.Check(ctx, stet.CheckQuery{})
	if err == nil {
		err = report.Err()
	}
	if err == nil || strings.Contains(err.Error(), "mismatch") || !strings.Contains(err.Error(), "object") {
		t.Errorf("Check: %v", err)
	}
	if err := e.Runs().Export(ctx, "r", &file); err != nil {
		t.Errorf("Export with the objects: %v", err)
	}
}
