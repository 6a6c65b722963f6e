package sentinel

import (
	"context"
	"errors"
	"io"

	"github.com/stet-run/stet"
)

var (
	ErrLost  = errors.New("lost")
	ErrKnown = errors.New("known")
)

type Declined struct{}

func (*Declined) Error() string { return "declined" }

type Refused struct{}

func (*Refused) Error() string { return "refused" }

func step(context.Context) error { return ErrLost }

func bad(ctx stet.Context) error {
	err := stet.Do(ctx, "s", step)
	if errors.Is(err, ErrLost) { // want `sentinel: an operation's error is read from the store, where sentinel.ErrLost is not found`
		return nil
	}
	if errors.Is(err, io.EOF) { // want `sentinel: an operation's error is read from the store, where io.EOF is not found`
		return nil
	}
	var declined *Declined
	if errors.As(err, &declined) { // want `sentinel: .* sentinel.Declined is not found: name it in Config.Errors, with stet.ErrorType`
		return nil
	}
	if _, ok := errors.AsType[*Declined](err); ok { // want `sentinel: .* sentinel.Declined is not found`
		return nil
	}
	_, err = stet.Saga(ctx, "saga", func(ctx stet.Context) (int, error) { return 1, ErrLost })
	if errors.Is(err, ErrLost) { // want `sentinel: .* sentinel.ErrLost`
		return nil
	}
	return err
}

func parse(text string) error {
	if text == "" {
		return ErrLost
	}
	return nil
}

func good(ctx stet.Context, text string) error {
	err := stet.Do(ctx, "s", func(ctx context.Context) error {
		if err := step(ctx); !errors.Is(err, ErrLost) {
			return err
		}
		return nil
	})
	if errors.Is(err, ErrKnown) || errors.Is(err, stet.ErrTimeout) {
		return nil
	}
	if _, ok := errors.AsType[*Refused](err); ok {
		return nil
	}
	if _, ok := errors.AsType[*stet.StepError](err); ok {
		return nil
	}
	if _, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok {
		return nil
	}
	plain := parse(text) // code of the workflow, which no store has kept
	if errors.Is(plain, ErrLost) {
		return nil
	}
	return err
}
