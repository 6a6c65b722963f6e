package e2e_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestAPendingPauseCanBeTakenBack: while a long body is waited for, a resume withdraws the
// pause, and a cancel ends the body and the run. A message that was sent meanwhile is
// received, though its deadline is over by then.
func TestAPendingPauseCanBeTakenBack(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"resume", "cancel"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				word, free, ended := stet.Message[string]("word"), make(chan struct{}), make(chan error, 1)
				w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
					long := stet.Go(ctx, "long", func(ctx stet.Context) (string, error) {
						return stet.Step(ctx, "body", func(ctx context.Context) (string, error) {
							select {
							case <-ctx.Done():
								ended <- ctx.Err()
								return "", ctx.Err()
							case <-free:
								return "done", nil
							}
						}, stet.Retry{Attempts: 1})
					})
					got, err := word.Receive(ctx, stet.Within(time.Hour))
					if err != nil {
						return "", err
					}
					said, err := long.Await(ctx)
					return got + said, err
				})
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
				r := begin(t, e, w, "")
				synctest.Wait()
				short, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := e.Runs().Pause(short, r.ID(), stet.Act{}); !errors.Is(err, stet.ErrPending) {
					t.Fatalf("a pause while a body is executing: %v; want pending", err)
				}
				if err := word.Send(t.Context(), e, r.ID(), "hello "); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				if how == "cancel" {
					if ok, err := r.Cancel(t.Context(), stet.Act{By: "ada"}); !ok {
						t.Fatal(err)
					}
					if err := <-ended; err == nil {
						t.Error("the body was not cancelled")
					}
					if info, err := e.Runs().Wait(t.Context(), r.ID()); err != nil || info.Status != store.Cancelled {
						t.Errorf("it is %v, %v", info.Status, err)
					}
					return
				}
				if ok, err := e.Runs().Resume(t.Context(), r.ID(), stet.Act{By: "ada"}); !ok {
					t.Fatal(err)
				}
				close(free)
				if got, err := r.Wait(t.Context()); err != nil || got != "hello done" {
					t.Errorf("it gave %q, %v", got, err)
				}
				audit, err := e.Runs().Audit(t.Context(), r.ID())
				if err != nil || len(audit) != 1 || audit[0].Verb != "resume" {
					t.Errorf("the audit is %+v, %v", audit, err)
				}
			})
		})
	}
}
