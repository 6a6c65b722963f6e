package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"stet": func() { os.Exit(command()) },
		"app":  func() { os.Exit(application()) },
	})
}

// TestScripts runs the command line as a user does, beside an application or
// without one.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

var (
	name  = stet.Message[string]("name")
	greet = stet.Define("greet", func(ctx stet.Context, _ any) (string, error) {
		n, err := name.Receive(ctx)
		if err != nil {
			return "", err
		}
		return stet.Step(ctx, "compose", func(context.Context) (string, error) { return "hello " + n, nil })
	})
	double = stet.Define("double", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	fails = stet.Define("fails", func(ctx stet.Context, _ any) (int, error) {
		return stet.Step(ctx, "charge", func(context.Context) (int, error) { return 0, errors.New("card declined") },
			stet.Retry{Attempts: 2, First: time.Millisecond})
	})
	sleepy  = stet.Define("sleepy", func(ctx stet.Context, _ any) (int, error) { return 1, stet.Sleep(ctx, "long", time.Hour) })
	approve = stet.Define("approve", func(ctx stet.Context, _ any) (string, error) {
		p, err := stet.NewPromise[string](ctx, "decision")
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "tell", func(context.Context) error {
			return os.WriteFile("token", []byte(p.Token()), 0o644)
		}); err != nil {
			return "", err
		}
		return p.Await(ctx)
	})
)

// application is a user's program: an engine on app.db with the workflows above.
func application() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := sqlite.Open("app.db")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	e, err := stet.New(stet.Config{
		Store: db, Workflows: []stet.Definition{greet, double, fails, sleepy, approve},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Node: "app",
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(os.Args) > 1 && os.Args[1] == "register" { // once, so that the names are known
		ctx, stop = context.WithCancel(ctx)
		go func() {
			for !e.Owner() {
				time.Sleep(time.Millisecond)
			}
			stop()
		}()
	}
	if err := e.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
