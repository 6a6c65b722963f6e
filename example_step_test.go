package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A step that fails is tried again; each failed attempt is recorded.
func ExampleStep() {
	fetch := stet.Define("fetch", func(ctx stet.Context, url string) (string, error) {
		return stet.Step(ctx, "get", func(ctx context.Context) (string, error) {
			if stet.Attempt(ctx) < 3 {
				return "", errors.New("connection refused")
			}
			return "the page of " + url, nil
		}, stet.Retry{Attempts: 5, First: time.Millisecond})
	})
	engine, stop := background(fetch)
	defer stop()

	fmt.Println(result(engine, fetch, "example.com"))
	// Output: the page of example.com <nil>
}

// The key is the same in every attempt, so the bank charges once.
func ExampleIdempotencyKey() {
	keys := map[string]bool{}
	pay := stet.Define("pay", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			keys[stet.IdempotencyKey(ctx)] = true
			if stet.Attempt(ctx) == 1 {
				return 0, errors.New("timeout")
			}
			return len(keys), nil
		}, stet.Retry{First: time.Millisecond})
	})
	engine, stop := background(pay)
	defer stop()

	fmt.Println(result(engine, pay, 100))
	// Output: 1 <nil>
}

var errDeclined = errors.New("card declined")

// A permanent error is not tried again. Registered with Config.Errors, it is the
// same error for who waits, in another process and after a restart.
func ExamplePermanent() {
	pay := stet.Define("pay", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "charge", func(context.Context) (int, error) { return 0, stet.Permanent(errDeclined) })
	})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{pay},
		Errors:    []stet.ErrorCode{stet.Sentinel("declined", errDeclined)},
	})
	defer stop()

	_, err := result(engine, pay, 100)
	var step *stet.StepError
	fmt.Println(errors.Is(err, errDeclined), errors.As(err, &step), step.Attempts)
	// Output: true true 1
}

// A busy service says when it wants to be asked again: the next attempt comes no sooner.
func ExampleRetryAfter() {
	var asked []time.Time
	call := stet.Define("call", func(ctx stet.Context, _ int) (bool, error) {
		err := stet.Do(ctx, "post", func(context.Context) error {
			if asked = append(asked, time.Now()); len(asked) == 1 {
				return stet.RetryAfter(errors.New("429 Too Many Requests"), 200*time.Millisecond)
			}
			return nil
		}, stet.Retry{First: time.Millisecond, Max: time.Millisecond})
		return asked[1].Sub(asked[0]) >= 200*time.Millisecond, err
	})
	engine, stop := background(call)
	defer stop()

	fmt.Println(result(engine, call, 0))
	// Output: true <nil>
}

// Retry.If is asked about timeouts and panics too: this payment is not tried again after a
// timeout, because the bank may have received it.
func ExampleRetry_If() {
	pay := stet.Define("pay", func(ctx stet.Context, _ int) (int, error) {
		return 0, stet.Do(ctx, "charge", func(ctx context.Context) error {
			<-ctx.Done() // no answer
			return ctx.Err()
		}, stet.Retry{Timeout: 10 * time.Millisecond, If: func(err error) bool {
			return !errors.Is(err, stet.ErrStepTimeout) && !errors.Is(err, stet.ErrPanic)
		}})
	})
	engine, stop := background(pay)
	defer stop()

	_, err := result(engine, pay, 0)
	var step *stet.StepError
	fmt.Println(errors.Is(err, stet.ErrTimeout), errors.As(err, &step), step.Attempts)
	// Output: true true 1
}
