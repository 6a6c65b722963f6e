package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
)

// stopped checks what the end of a body says that its process has told to stop. An error counts for nothing, whatever
// it says of itself: the next process executes the body again, and nothing is undone. A success counts. The next
// attempt knows the last heartbeat.
func stopped(t *testing.T, open Open) {
	w := newWorld(t, open)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends := map[string]func(error) error{
		"plain":     func(err error) error { return err },
		"permanent": stet.Permanent,
		"wrapped":   func(err error) error { return fmt.Errorf("ask the bank: %w", stet.Permanent(err)) },
		"rollback":  stet.Rollback,
		"own":       func(error) error { return stet.Permanent(errors.New("no answer")) },
		"success":   func(error) error { return nil },
	}
	var stops, refunds atomic.Int64
	begun := make(chan string, len(ends))
	define := func(again bool) (all []stet.Definition) {
		for name, end := range ends {
			all = append(all, stet.Define("stopped "+name, func(ctx stet.Context, _ string) (string, error) {
				if err := stet.Do(ctx, "charge", func(context.Context) error { return nil },
					stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil })); err != nil {
					return "", err
				}
				return stet.Step(ctx, "ask", func(ctx context.Context) (string, error) {
					if again {
						last, _, err := stet.LastDetail[int](ctx)
						return fmt.Sprint("asked again after ", last), err
					}
					for i := range 4 {
						if err := stet.Heartbeat(ctx, i); err != nil {
							return "", err
						}
					}
					begun <- name
					<-ctx.Done()
					stops.Add(1)
					return "asked", end(ctx.Err())
				})
			}))
		}
		return all
	}
	first := w.start(newFaulty(w.open(), 0, 0), longLease, stet.None, define(false)...)
	for name := range ends {
		err := insist(ctx, func() error {
			_, err := stet.Ref[string, string]("stopped "+name).Start(ctx, w.outside, "", stet.ID(name))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range ends {
		select {
		case <-begun:
		case <-ctx.Done():
			t.Fatal("a body has not begun")
		}
	}
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	if n := stops.Load(); n != int64(len(ends)) {
		t.Fatalf("%d bodies were told to stop", n)
	}
	w.calm(longLease, define(true)...)
	for name := range ends {
		got, err := stet.Ref[string, string]("stopped "+name).Handle(w.outside, name).Wait(ctx)
		want := "asked again after 3"
		if name == "success" {
			want = "asked"
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
	if n := refunds.Load(); n != 0 {
		t.Errorf("%d refunds", n)
	}
}
