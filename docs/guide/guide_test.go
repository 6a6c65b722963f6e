// Package guide_test compiles and executes the code that the guide shows.
package guide_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	_ "time/tzdata" // this machine may have none

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// TestShownCode finds each block of Go in the guide in a file of this folder.
func TestShownCode(t *testing.T) {
	guide, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("tasks_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```go\n")[1:]
	if len(blocks) < 8 {
		t.Errorf("the guide shows %d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		block, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(string(code), block) {
			t.Errorf("this is not in tasks_test.go:\n%s", block)
		}
	}
}

// TestTasks executes what the guide shows.
func TestTasks(t *testing.T) {
	check := func(name string, got any, err error, want any) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	charged, err := result(t, charge, Order{ID: "1"})
	check("charge", charged, err, Charge{"c-1"})
	worked, err := result(t, work, 0)
	check("work", worked, err, "nothing to do")
	seen, err := result(t, follow, Cursor{})
	check("follow", seen, err, 100)
	shipped, err := result(t, ship, Order{ID: "1"})
	check("ship", shipped, err, "shipped")
	lengths, err := result(t, measure, []string{"https://a.example", "http://b.example"})
	check("measure", slices.Equal(lengths, []int{17, 16}), err, true)
	if _, err := result(t, book, Order{ID: "1", Customer: "the moon"}); !errors.Is(err, errNoRoute) {
		t.Errorf("book: got %v", err)
	}
}

func result[In, Out any](t *testing.T, code func(stet.Context, In) (Out, error), in In) (out Out, err error) {
	t.Helper()
	w := stet.Define("task", code)
	cfg := stet.Config{Workflows: []stet.Definition{w}, Errors: []stet.ErrorCode{stet.Sentinel("no-route", errNoRoute)}}
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		var run *stet.Run[Out]
		if run, err = w.Start(context.Background(), env.Engine, in); err == nil {
			out, err = run.Wait(t.Context())
		}
	})
	return out, err
}
