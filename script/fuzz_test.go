package script_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
	"github.com/stet-run/stet/script/bundle"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// FuzzCompile: no source ends the process.
func FuzzCompile(f *testing.F) {
	for _, c := range cases {
		f.Add(c.source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if _, err := script.Compile("case", source, tasks); err != nil && !errors.Is(err, script.ErrSource) {
			t.Error(err)
		}
		if _, err := script.Warnings("case", source); err != nil && !errors.Is(err, script.ErrSource) {
			t.Error(err)
		}
	})
}

// FuzzExecute: whatever compiles comes to rest when it is executed. It ends, waits, or stalls for a limit, and the
// process goes on.
func FuzzExecute(f *testing.F) {
	script.ShortLimits(f)
	lib, err := script.Open(script.Config{Tasks: append([]script.Task{
		script.Func("slow", func(_ context.Context, seconds int) (int, error) { return seconds, nil }),
	}, quickTasks...)})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	e, err := stet.New(ctx, stet.Config{
		Store: memory.New(), Library: lib, Logger: slog.New(slog.DiscardHandler),
		LeaseTTL: time.Hour, // runaways leave the engine little time
		Retry:    stet.Retry{Attempts: 2, First: time.Millisecond},
	})
	if err != nil {
		f.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		defer stop() // so that nothing waits for an engine that has ended
		ended <- e.Run(ctx)
	}()
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
	})
	for _, c := range cases {
		source, err := bundle.Source("case.ts", c.source)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	for _, name := range []string{"endless loop", "endless callbacks", "endless recursion", "circular join",
		"many matches", "beyond ASCII", "operations", "code from text"} {
		f.Add(plain(runaways[name].code))
	}
	n := 0
	f.Fuzz(func(t *testing.T, source string) {
		n++
		name := fmt.Sprint("fuzz-", n/500) // of which each has at most 1,000 versions
		switch _, err := script.Deploy(ctx, e, name, stet.ScriptCode{Code: source}, stet.Act{}); {
		case errors.Is(err, script.ErrSource), errors.Is(err, stet.ErrInvalid):
			return
		case err != nil:
			t.Fatal(err)
		}
		r := begin(t, ctx, e, name)
		for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			info, err := r.Info(ctx)
			switch {
			case err != nil:
				t.Fatal(err)
			case info.Status == store.Stalled && info.Cause != stet.CauseCode:
				t.Fatalf("the run has stalled for %v: %s", info.Cause, info.Reason)
			case info.Status == store.Stalled, info.Status == store.Suspended:
				_, err := e.Runs().Terminate(ctx, r.ID(), stet.Act{})
				if err != nil && !errors.Is(err, stet.ErrRefused) {
					t.Fatal(err)
				}
				return
			case info.Status.Terminal():
				return
			case time.Now().After(until):
				t.Fatalf("the run is %v, and does not come to rest", info.Status)
			}
		}
	})
}
