package codecheck_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/codecheck"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

var goOn = stet.Message[string]("go on")

// asking is a workflow that makes a step and then waits.
func asking(step string) *stet.Workflow[int, string] {
	return stet.Define("asking", func(ctx stet.Context, _ int) (string, error) {
		if err := stet.Do(ctx, step, func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		return goOn.Receive(ctx)
	})
}

// engineOf returns an engine with the workflow's code.
func engineOf(t *testing.T, s store.Store, w stet.Definition) *stet.Engine {
	t.Helper()
	cfg := stet.Config{Store: s, Workflows: []stet.Definition{w}, Logger: slog.New(slog.DiscardHandler)}
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// waitingRun starts a run, executes it until it waits, and exports it to a file.
func waitingRun(t *testing.T, s store.Store) (file string) {
	t.Helper()
	w := asking("greet")
	e := engineOf(t, s, w)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	run, err := w.Start(t.Context(), e, 0, stet.ID("r"))
	if err != nil {
		t.Fatal(err)
	}
	for {
		info, err := run.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Status == store.Suspended {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if err := e.Runs().Export(t.Context(), "r", &data); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExitCodes(t *testing.T) {
	db := memory.New()
	file := waitingRun(t, db)
	same, other := engineOf(t, db.Join(), asking("greet")), engineOf(t, db.Join(), asking("salute"))
	elsewhere := engineOf(t, db.Join(), stet.Define("another", func(stet.Context, int) (int, error) { return 0, nil }))
	for _, c := range []struct {
		name   string
		engine *stet.Engine
		args   []string
		code   int
		out    string // a part of it
		errOut string // likewise
	}{
		{"the code fits", same, nil, codecheck.Fits, "", "1 runs match, 1 were replayed, 0 would break"},
		{"the code breaks a run", other, []string{"-o", "ids"}, codecheck.Breaks, "r\n", "1 would break"},
		{"the file fits", same, []string{file}, codecheck.Fits, "", "1 were replayed"},
		{"the file would break", other, []string{"-o=json", file}, codecheck.Breaks, `"runs":1,"like":["r"]`, "1 would break"},
		{"no code for the file", elsewhere, []string{file}, codecheck.Unknown, "", "unknown workflow"},
		{"no code for the run", elsewhere, nil, codecheck.Fits, "", "this binary has no code for it"},
		{"no such file", same, []string{file + "?"}, codecheck.Failed, "", "no such file"},
		{"a wrong flag", same, []string{"-wrong"}, codecheck.Usage, "", "check: flag provided but not defined"},
		{"help", same, []string{"-help"}, codecheck.Fits, "", "usage: check"},
	} {
		var out, errOut bytes.Buffer
		code := codecheck.Command(t.Context(), c.engine, c.args, &out, &errOut)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.errOut) {
			t.Errorf("%s: %d; want %d\n%s%s", c.name, code, c.code, &out, &errOut)
		}
	}
}

// Runs that break in the same way are one line, with a count and three of them; others
// are lines of their own, and the list of IDs has all.
func TestRunsThatBreakAlikeAreOneLine(t *testing.T) {
	db := memory.New()
	code := func(version int) stet.Definition {
		return stet.Define("packing", func(ctx stet.Context, items []string) (int, error) {
			_, err := stet.Map(ctx, "pack", items, func(ctx stet.Context, item string) (string, error) {
				name := "pick"
				if version == 2 && item != "egg" {
					name = "fetch"
				}
				return stet.Step(ctx, name, func(context.Context) (string, error) { return "picked " + item, nil })
			}, stet.KeyBy(func(item string) string { return item }))
			if err != nil {
				return 0, err
			}
			if version == 1 {
				if _, err := stet.Step(ctx, "weigh", func(context.Context) (string, error) { return items[0], nil }); err != nil {
					return 0, err
				}
			} else if _, err := stet.Step(ctx, "weigh", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return 0, err
			}
			_, err = goOn.Receive(ctx)
			return 0, err
		})
	}
	e := engineOf(t, db, code(1))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	w := code(1).(*stet.Workflow[[]string, int])
	for _, items := range [][]string{{"a"}, {"b"}, {"c"}, {"d", "egg"}, {"egg"}, {"egg", "egg2"}} {
		run, err := w.Start(t.Context(), e, items, stet.ID(strings.Join(items, "-")))
		if err != nil {
			t.Fatal(err)
		}
		for {
			info, err := run.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if info.Status == store.Suspended {
				break
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	next := engineOf(t, db.Join(), code(2))
	var out, errOut bytes.Buffer
	if code := codecheck.Command(t.Context(), next, nil, &out, &errOut); code != codecheck.Breaks {
		t.Fatalf("%d\n%s%s", code, &out, &errOut)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	fields := func(i int) string { return strings.Join(strings.Fields(lines[i])[:7], " ") }
	if len(lines) != 3 || fields(1) != "packing pack/[egg2]/pick 5 egg-egg2 d-egg c …" ||
		!strings.HasPrefix(fields(2), "packing weigh 1 egg decode at") ||
		!strings.Contains(errOut.String(), "first difference") {
		t.Errorf("it prints\n%s%s", &out, &errOut)
	}
	out.Reset()
	if codecheck.Command(t.Context(), next, []string{"-o=ids"}, &out, &errOut); strings.Count(out.String(), "\n") != 6 {
		t.Errorf("the IDs are\n%s", &out)
	}
}
