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
		{"the file would break", other, []string{"-o=json", file}, codecheck.Breaks, `"run":"r"`, "1 would break"},
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
