package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

var update = flag.Bool("update", false,
	"record the histories that this version's folder of testdata/compat does not have")

// compatVersion is the version that records histories: a folder of testdata/compat.
// After a release it is raised; what the release has recorded stays.
const compatVersion = "v0.1"

// compatCase is a workflow of which histories are recorded. To add one, add it to
// compatCases and execute
//
//	go test -run TestCompat -update .
//
// which records missing files. Existing files must continue to fit: their workflows are not edited any more. Changed
// code is a new case.
type compatCase struct {
	name   string
	code   func(ctx stet.Context, in string) (string, error)
	former func(ctx stet.Context, in string) (string, error) // the code that records, if it is another
	play   func(w *compatWorld)                              // what the world does; nil: nothing
	opts   []stet.DefineOption
}

// compatWorld is the world of a run that is recorded.
type compatWorld struct {
	t   testing.TB
	ctx context.Context
	e   *stet.Engine
	id  string
}

// waits blocks until the run is suspended and waits at a location, and records
// what it is then.
func (w *compatWorld) waits(place string) {
	w.t.Helper()
	for {
		info, err := w.e.Runs().Info(w.ctx, w.id)
		switch {
		case err != nil:
			w.t.Fatal(err)
		case info.Status.Terminal():
			w.t.Fatalf("run %s is %s before it waits at %s: %v", w.id, info.Status, place, info.Err)
		case info.Status == store.Suspended &&
			slices.ContainsFunc(info.WaitsFor, func(x stet.WaitInfo) bool { return x.Location == place }):
			w.record("at " + place)
			return
		}
	}
}

// record writes the run as it is to a file of its name and the stage's.
func (w *compatWorld) record(stage string) {
	w.t.Helper()
	var file bytes.Buffer
	if err := w.e.Runs().Export(w.ctx, w.id, &file); err != nil {
		w.t.Fatal(err)
	}
	w.must(os.WriteFile(filepath.Join(compatFolder, compatVersion, fileName(w.id+"."+stage)+".json"), file.Bytes(), 0o644))
}

func fileName(text string) string { return strings.NewReplacer(" ", "-", "/", "-").Replace(text) }

func (w *compatWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// unused are kinds of which no workflow makes entries.
var unused = []store.Kind{store.KindWait, store.KindEntity}

var compatFolder = filepath.Join("testdata", "compat")

// compatConfig has all that the histories need to be read.
func compatConfig(former bool) stet.Config {
	cfg := stet.Config{
		Workflows: []stet.Definition{square, told, declining},
		Errors:    []stet.ErrorCode{stet.Sentinel("declined", errRefusedCard)},
		Retry:     stet.Retry{Attempts: 1},
	}
	for _, c := range compatCases {
		code := c.code
		if former && c.former != nil {
			code = c.former
		}
		cfg.Workflows = append(cfg.Workflows, stet.Define(c.name, code, c.opts...))
	}
	return cfg
}

// TestCompat replays what this version and all former ones have recorded: each
// history must fit the code of today, and come to the same end. There is one for
// each kind of entry.
func TestCompat(t *testing.T) {
	t.Parallel()
	if *update {
		recordCompat(t)
	}
	folders, err := os.ReadDir(compatFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(compatFolder, folder.Name(), "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		kinds, runs := map[string]bool{}, map[string]bool{}
		for _, file := range files {
			t.Run(folder.Name()+"/"+filepath.Base(file), func(t *testing.T) {
				stettest.ReplayWith(t, file, compatConfig(false))
			})
			run, _, _ := strings.Cut(filepath.Base(file), ".")
			runs[run] = true
			maps.Copy(kinds, kindsOf(t, file))
		}
		if folder.Name() != compatVersion {
			continue
		}
		for _, c := range compatCases {
			if !runs[fileName(c.name)] {
				t.Errorf("no history of %s is recorded: execute go test -run TestCompat -update .", c.name)
			}
		}
		for k := store.Kind(1); !strings.HasPrefix(k.String(), "kind("); k++ {
			if !kinds[k.String()] && !slices.Contains(unused, k) {
				t.Errorf("no history has an entry of kind %s: add a workflow to compatCases", k)
			}
		}
	}
}

// kindsOf returns the kinds of entries in a history.
func kindsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var run struct{ Entries []struct{ Kind string } }
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	kinds := map[string]bool{}
	for _, e := range run.Entries {
		kinds[e.Kind] = true
	}
	return kinds
}

// recordCompat records the histories of this version that are not there.
func recordCompat(t *testing.T) {
	folder := filepath.Join(compatFolder, compatVersion)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := compatConfig(true)
	cfg.Store, cfg.Logger, cfg.Build, cfg.Node = memory.New(), slog.New(slog.DiscardHandler), compatVersion, "recorder"
	e := serve(t, cfg)
	for _, c := range compatCases {
		if files, _ := filepath.Glob(filepath.Join(folder, fileName(c.name)+".*.json")); len(files) > 0 {
			continue
		}
		w := &compatWorld{t: t, ctx: testContext(t), e: e, id: c.name}
		_, err := stet.Ref[string, string](c.name).Start(w.ctx, e, "", stet.ID(c.name))
		w.must(err)
		if c.play != nil {
			c.play(w)
		}
		info, err := e.Runs().Wait(w.ctx, c.name)
		w.must(err)
		if !info.Status.Terminal() {
			t.Fatalf("%s is %s: %s", c.name, info.Status, info.Reason)
		}
		w.record("ended")
	}
}

// later is what the runs of compatCases wait for to be recorded under way.
var later = stet.Message[string]("later")

func (w *compatWorld) goOn(place string) {
	w.t.Helper()
	w.waits(place)
	w.must(later.Send(w.ctx, w.e, w.id, "go on"))
}

var compatCases = []compatCase{
	{
		name: "steps",
		code: func(ctx stet.Context, _ string) (string, error) {
			a, err := say(ctx, "a", "A")
			if err != nil {
				return "", err
			}
			failed := stet.Do(ctx, "declined", func(context.Context) error { return fmt.Errorf("card: %w", errRefusedCard) })
			b, err := stet.Step(ctx, "second attempt", func(ctx context.Context) (string, error) {
				if stet.Attempt(ctx) == 1 {
					return "", errors.New("not yet")
				}
				return "B", nil
			}, stet.Retry{Attempts: 2, First: time.Millisecond})
			if err != nil {
				return "", err
			}
			text := ""
			for range 2 {
				c, err := say(ctx, "again", "C")
				if err != nil {
					return "", err
				}
				text += c
			}
			k, err := say(ctx, "keyed", strings.Repeat("large ", 1000), stet.Key("k"))
			if err != nil {
				return "", err
			}
			if _, err := later.Receive(ctx); err != nil {
				return "", err
			}
			return fmt.Sprint(a, b, text, len(k), errors.Is(failed, errRefusedCard)), nil
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "a step between attempts",
		code: func(ctx stet.Context, _ string) (string, error) {
			_, err := stet.Step(ctx, "flaky", func(context.Context) (string, error) { return "", errors.New("not yet") },
				stet.Retry{Attempts: 5, First: time.Hour})
			return "", err
		},
		play: func(w *compatWorld) {
			w.waits("flaky")
			_, err := w.e.Runs().Cancel(w.ctx, w.id, stet.Act{Why: "enough"})
			w.must(err)
		},
	},
	{
		name: "failure",
		code: func(ctx stet.Context, _ string) (string, error) {
			_, err := stet.Step(ctx, "declined", func(context.Context) (string, error) { return "", errRefusedCard })
			return "", fmt.Errorf("in the end: %w", err)
		},
	},
	{
		name: "sleeps",
		code: func(ctx stet.Context, _ string) (string, error) {
			begun := stet.Now(ctx)
			if err := stet.Sleep(ctx, "nap", time.Millisecond); err != nil {
				return "", err
			}
			if err := stet.SleepUntil(ctx, "past", begun); err != nil {
				return "", err
			}
			if _, err := say(ctx, "a", "A"); err != nil {
				return "", err
			}
			return fmt.Sprint(stet.Now(ctx).Sub(begun) > 0, stet.UUID(ctx), stet.Random(ctx).Int64()), nil
		},
	},
	compatShows,
	{
		name: "a long sleep",
		code: func(ctx stet.Context, _ string) (string, error) { return "", stet.Sleep(ctx, "night", 8*time.Hour) },
		play: func(w *compatWorld) {
			w.waits("night")
			_, err := w.e.Runs().Cancel(w.ctx, w.id, stet.Act{Why: "enough"})
			w.must(err)
		},
	},
	{
		name: "messages",
		code: func(ctx stet.Context, _ string) (string, error) {
			one, err := word.Receive(ctx)
			if err != nil {
				return "", err
			}
			two, err := word.ReceiveBatch(ctx, 2, stet.Named("two"), stet.Within(time.Hour))
			if err != nil {
				return "", err
			}
			_, timeout := never.Receive(ctx, stet.Within(time.Millisecond))
			return fmt.Sprint(one, two, errors.Is(timeout, stet.ErrTimeout)), nil
		},
		play: func(w *compatWorld) {
			w.waits("word")
			w.must(word.Send(w.ctx, w.e, w.id, "one"))
			w.waits("two")
			w.must(word.Send(w.ctx, w.e, w.id, "two", stet.SendKey("key")))
			w.must(word.Send(w.ctx, w.e, w.id, "three"))
		},
	},
	{
		name: "promises",
		code: func(ctx stet.Context, _ string) (string, error) {
			p, err := stet.NewPromise[string](ctx, "given")
			if err != nil {
				return "", err
			}
			q, err := stet.NewPromise[string](ctx, "refused")
			if err != nil {
				return "", err
			}
			if err := hand(ctx, p.Token(), q.Token()); err != nil {
				return "", err
			}
			v, err := p.Await(ctx)
			if err != nil {
				return "", err
			}
			_, err = q.Await(ctx)
			return fmt.Sprint(v, errors.Is(err, errRefusedCard)), nil
		},
		play: func(w *compatWorld) {
			w.waits("given")
			w.must(w.e.Resolve(w.ctx, <-tokens, "yes"))
			w.waits("refused")
			w.must(w.e.Reject(w.ctx, <-tokens, errRefusedCard))
		},
	},
	{
		name: "branches",
		code: func(ctx stet.Context, _ string) (string, error) {
			branch := func(name string, d time.Duration) *stet.Future[string] {
				return stet.Go(ctx, name, func(ctx stet.Context) (string, error) {
					if err := stet.Sleep(ctx, "nap", d); err != nil {
						return "", err
					}
					return say(ctx, "say", name)
				})
			}
			_, first, err := stet.Race(ctx, branch("slow", time.Hour), branch("fast", 0))
			if err != nil {
				return "", err
			}
			all, err := stet.All(ctx, branch("a", 0), branch("b", 0))
			if err != nil {
				return "", err
			}
			mapped, err := stet.Map(ctx, "each", []string{"x", "y", "z"},
				func(ctx stet.Context, s string) (string, error) { return say(ctx, "say", s) },
				stet.MapLimit(2), stet.KeyBy(func(s string) string { return s }))
			if err != nil {
				return "", err
			}
			if _, err := later.Receive(ctx); err != nil {
				return "", err
			}
			return fmt.Sprint(first, all, mapped), nil
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "select",
		code: func(ctx stet.Context, _ string) (string, error) {
			var v string
			timer, err := stet.Select(ctx, never.Case(&v), stet.AfterDelay("tick", time.Millisecond))
			if err != nil {
				return "", err
			}
			message, err := stet.Select(ctx, later.Case(&v), stet.AfterDelay("tock", time.Hour))
			return fmt.Sprint(timer, message, v), err
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "cancel",
		code: func(ctx stet.Context, _ string) (string, error) {
			_, err := never.Receive(ctx)
			if errors.Is(err, stet.ErrCancelled) {
				_, err = say(stet.WithoutCancel(ctx), "clean up", "done")
			}
			return "", err
		},
		play: func(w *compatWorld) {
			w.waits("never")
			_, err := w.e.Runs().Cancel(w.ctx, w.id, stet.Act{Why: "enough"})
			w.must(err)
		},
	},
	{
		name: "loop",
		code: func(ctx stet.Context, _ string) (string, error) {
			return stet.Loop(ctx, "poll", 0, func(ctx stet.Context, n int) (next stet.Next[int, string], err error) {
				version := stet.Version(ctx, "per iteration", 1)
				if _, err := say(ctx, "fetch", fmt.Sprint(n, version)); err != nil {
					return next, err
				}
				if n == 7 {
					if _, err := later.Receive(ctx); err != nil {
						return next, err
					}
				}
				if n == 12 {
					return next.Break(fmt.Sprint(n)), nil
				}
				return next.Continue(n + 1), nil
			}, stet.LoopOptions{Every: 3, Keep: 2})
		},
		play: func(w *compatWorld) { w.goOn("poll/~7/later") },
	},
	{
		name: "children",
		code: func(ctx stet.Context, _ string) (string, error) {
			sum, err := square.Call(ctx, 7)
			if err != nil {
				return "", err
			}
			_, declined := declining.Call(ctx, "")
			id, err := square.Detach(ctx, 3, stet.Named("detached"))
			if err != nil {
				return "", err
			}
			alone, err := stet.Await[int](ctx, "alone", id)
			if err != nil {
				return "", err
			}
			child, err := told.Go(ctx, "")
			if err != nil {
				return "", err
			}
			text, err := child.Await(ctx)
			return fmt.Sprint(sum, errors.Is(declined, errRefusedCard), alone, text), err
		},
		play: func(w *compatWorld) {
			w.waits("told")
			for _, child := range children(w.t, w.e, w.id) {
				if child.Workflow == "told" {
					w.must(goOn.Send(w.ctx, w.e, child.ID, "told"))
				}
			}
		},
	},
	{
		name: "undo",
		code: func(ctx stet.Context, _ string) (string, error) {
			back := stet.Undo(func(_ context.Context, what string) error { return nil })
			for _, name := range []string{"reserve", "charge"} {
				if _, err := say(ctx, name, name, back); err != nil {
					return "", err
				}
			}
			if _, err := later.Receive(ctx); err != nil {
				return "", err
			}
			return "", fmt.Errorf("no van: %w", errRefusedCard)
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "undoing",
		code: func(ctx stet.Context, _ string) (string, error) {
			back := stet.Undo(func(_ context.Context, what string) error { return errors.New("bank is closed") },
				stet.Retry{Attempts: 5, First: time.Hour})
			if _, err := say(ctx, "charge", "c", back); err != nil {
				return "", err
			}
			return "", stet.Rollback(fmt.Errorf("no van: %w", errRefusedCard))
		},
		play: func(w *compatWorld) {
			w.waits("charge/undo")
			_, err := w.e.Runs().Terminate(w.ctx, w.id, stet.Act{Why: "enough"})
			w.must(err)
		},
	},
	{
		name: "saga",
		code: func(ctx stet.Context, _ string) (string, error) {
			back := stet.Undo(func(context.Context, string) error { return nil })
			_, err := stet.Saga(ctx, "book", func(ctx stet.Context) (string, error) {
				for _, name := range []string{"hotel", "car"} {
					if _, err := say(ctx, name, name, back); err != nil {
						return "", err
					}
				}
				return "", errRefusedCard
			})
			if !errors.Is(err, errRefusedCard) {
				return "", err
			}
			if _, err := say(ctx, "other", "other", back); err != nil {
				return "", err
			}
			if _, err := later.Receive(ctx); err != nil {
				return "", err
			}
			return "", err
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "paused for failures",
		opts: []stet.DefineOption{stet.PauseAfter(1)},
		code: func(ctx stet.Context, _ string) (string, error) {
			return stet.Step(ctx, "flaky", func(context.Context) (string, error) { return "", errors.New("not yet") },
				stet.Retry{Attempts: 5, First: time.Hour})
		},
		play: func(w *compatWorld) {
			for {
				info, err := w.e.Runs().Info(w.ctx, w.id)
				w.must(err)
				if info.Marks&store.Paused != 0 {
					break
				}
			}
			w.record("paused")
			_, err := w.e.Runs().Terminate(w.ctx, w.id, stet.Act{Why: "enough"})
			w.must(err)
		},
	},
	{
		name: "rewound",
		code: func(ctx stet.Context, _ string) (string, error) {
			all := ""
			for _, name := range []string{"a", "b"} {
				v, err := say(ctx, name, name)
				if err != nil {
					return "", err
				}
				all += v
			}
			word, err := later.Receive(ctx)
			return all + word, err
		},
		play: func(w *compatWorld) {
			w.goOn("later")
			_, err := w.e.Runs().Wait(w.ctx, w.id)
			w.must(err)
			w.record("before")
			_, err = w.e.Runs().Rewind(w.ctx, w.id, "b", stet.Act{Why: "once more"})
			w.must(err)
		},
	},
	{
		name: "combinators",
		code: func(ctx stet.Context, _ string) (string, error) {
			bad := stet.Go(ctx, "bad", func(ctx stet.Context) (string, error) {
				return "", stet.Do(ctx, "declined", func(context.Context) error { return errRefusedCard })
			})
			good := stet.Go(ctx, "good", func(ctx stet.Context) (string, error) { return say(ctx, "say", "good") })
			joined := stet.Join(ctx, bad, good)
			_, first, err := stet.Any(ctx,
				stet.Go(ctx, "fails", func(ctx stet.Context) (string, error) { return "", errRefusedCard }),
				stet.Go(ctx, "succeeds", func(ctx stet.Context) (string, error) { return say(ctx, "say", "first") }))
			if err != nil {
				return "", err
			}
			words, err := later.ReceiveBatch(ctx, 2, stet.Within(time.Hour))
			if err != nil {
				return "", err
			}
			var v string
			won, err := stet.Select(ctx, never.Case(&v), stet.AtTime("past", stet.Now(ctx)))
			return fmt.Sprint(joined != nil, first, len(words) > 0, won), err
		},
		play: func(w *compatWorld) {
			w.goOn("later")
			w.must(later.Send(w.ctx, w.e, w.id, "and on"))
		},
	},
	{
		name: "continue",
		code: func(ctx stet.Context, in string) (string, error) {
			version := stet.Version(ctx, "change", 1)
			if _, err := later.Receive(ctx); err != nil {
				return "", err
			}
			if len(in) < 2 {
				return "", stet.ContinueAsNew(in + "x")
			}
			return fmt.Sprint(in, version), nil
		},
		play: func(w *compatWorld) {
			for range 3 {
				w.goOn("later")
			}
		},
	},
	{
		name: "version",
		code: func(ctx stet.Context, _ string) (string, error) {
			version := stet.Version(ctx, "change", 2)
			a, err := say(ctx, "a", fmt.Sprint(version))
			if err != nil {
				return "", err
			}
			_, err = later.Receive(ctx)
			return fmt.Sprint(a, stet.Version(ctx, "change", 3)), err
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "events",
		code: func(ctx stet.Context, _ string) (string, error) {
			news, jobs := stet.Topic[string]{Name: "news"}, stet.Topic[string]{Name: "jobs", Mode: stet.Consumed}
			if _, err := stet.Publish(ctx, news, "own"); err != nil {
				return "", err
			}
			own, err := news.Receive(ctx)
			if err != nil {
				return "", err
			}
			_, late := jobs.Receive(ctx, stet.Named("in vain"), stet.Within(time.Millisecond))
			var word, job string
			if _, err := stet.Select(ctx, later.Case(&word), jobs.Case(&job)); err != nil {
				return "", err
			}
			last, err := jobs.Receive(ctx, stet.Named("last"))
			return fmt.Sprint(own, errors.Is(late, stet.ErrTimeout), word, job, last), err
		},
		play: func(w *compatWorld) {
			w.goOn("later")
			w.waits("last")
			_, err := stet.Topic[string]{Name: "jobs", Mode: stet.Consumed}.Publish(w.ctx, w.e, "job")
			w.must(err)
		},
	},
	{
		name: "sends",
		code: func(ctx stet.Context, _ string) (string, error) {
			if err := later.SendFrom(ctx, "sends", "own"); err != nil {
				return "", err
			}
			own, err := later.Receive(ctx, stet.Named("own"))
			if err != nil {
				return "", err
			}
			_, err = later.Receive(ctx)
			return own, err
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
	{
		name: "changed code",
		former: func(ctx stet.Context, _ string) (string, error) {
			if _, err := say(ctx, "gone", "G"); err != nil {
				return "", err
			}
			if err := stet.Sleep(ctx, "gone too", time.Millisecond); err != nil {
				return "", err
			}
			a, err := say(ctx, "a", "A")
			if err != nil {
				return "", err
			}
			_, err = later.Receive(ctx)
			return a, err
		},
		code: func(ctx stet.Context, _ string) (string, error) {
			stet.Removed(ctx, "gone")
			stet.Removed(ctx, "gone too")
			if stet.Version(ctx, "check", 1) >= 1 {
				if _, err := say(ctx, "check", "C"); err != nil {
					return "", err
				}
			}
			a, err := say(ctx, "a", "A")
			if err != nil {
				return "", err
			}
			_, err = later.Receive(ctx)
			return a, err
		},
		play: func(w *compatWorld) { w.goOn("later") },
	},
}

// tokens carries the tokens that hand is given, to the world of the case.
var tokens = make(chan string, 2)

// hand is a step that gives tokens away.
func hand(ctx stet.Context, given ...string) error {
	return stet.Do(ctx, "hand over", func(context.Context) error {
		for _, token := range given {
			tokens <- token
		}
		return nil
	})
}
