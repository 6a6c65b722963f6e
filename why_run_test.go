package stet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestWhyOfARun: why a run stands as it does is said while a process executes it, before, and afterwards.
func TestWhyOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := stet.Define("hangs", func(ctx stet.Context, in string) (string, error) {
			if in == "sleeps" {
				return "", stet.Sleep(ctx, "long", time.Hour)
			}
			return "", stet.Do(ctx, "call", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		first := memory.New()
		cfg := stet.Config{Store: first.Join(), Workflows: []stet.Definition{hangs}, Node: "n-1", Grace: stet.None}
		e, err := stet.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		outside, err := stet.New(t.Context(), stet.Config{Store: first.Join(), Workflows: cfg.Workflows})
		if err != nil {
			t.Fatal(err)
		}
		says := func(id, code, text string) stet.Why {
			t.Helper()
			info, err := outside.Runs().Info(t.Context(), id)
			if err != nil || len(info.Why) == 0 || info.Why[0].Code != code || info.Why[0].Text != text {
				t.Fatalf("%s: %+v, %v; want %s: %s", id, info, err, code, text)
			}
			return info.Why[0]
		}
		if _, err := e.RunOnce(t.Context()); err != nil { // the store knows the workflow from now on
			t.Fatal(err)
		}
		if _, err := hangs.Start(t.Context(), outside, "hangs", stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		if _, err := hangs.Start(t.Context(), outside, "sleeps", stet.ID("s")); err != nil {
			t.Fatal(err)
		}
		says("r", "code", "no process with the workflow hangs works on this store")

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(5 * time.Second)
		says("r", "running", "a process executes it, or will at once")
		time.Sleep(15 * time.Second)
		if w := says("r", "executing", "executing step call on n-1"); w.Since.IsZero() || w.Location != "call" {
			t.Errorf("%+v", w)
		}
		if w := says("s", "timer", "waits for sleep long"); w.Until.IsZero() || w.Since.IsZero() || !w.GoesOn() {
			t.Errorf("%+v", w)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if info, err := outside.Runs().Info(t.Context(), "r"); err != nil || info.Status != store.Running ||
			info.Why[0].Code != "code" {
			t.Errorf("%+v, %v", info, err)
		}
	})
}
