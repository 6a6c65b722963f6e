package guide_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

type Film struct {
	Title  string
	Scenes int
}

var Percent = stet.Value[int]("percent")

func convert(ctx stet.Context, film Film) (string, error) {
	for scene := range film.Scenes {
		err := stet.Do(ctx, "scene", func(context.Context) error { return nil }, stet.Key(strconv.Itoa(scene)))
		if err != nil {
			return "", err
		}
		if err := Percent.Set(ctx, 100*(scene+1)/film.Scenes); err != nil {
			return "", err
		}
	}
	return film.Title + ".mp4", nil
}

func percentOf(ctx context.Context, e *stet.Engine, runID string) (int, error) {
	percent, set, err := Percent.Get(ctx, e, runID)
	if err == nil && !set {
		return 0, nil // the run has not set it yet
	}
	return percent, err
}

var Lines = stet.Stream[string]("lines")

func build(ctx stet.Context, targets []string) (int, error) {
	for _, target := range targets {
		if err := stet.Do(ctx, target, func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
		if err := Lines.Append(ctx, target+": built"); err != nil {
			return 0, err
		}
	}
	return len(targets), nil
}

// printLines prints what follows a position, and returns the position to go on from.
func printLines(ctx context.Context, e *stet.Engine, runID string, after int64, w io.Writer) (int64, error) {
	for line, err := range Lines.Tail(ctx, e, runID, after) {
		if err != nil {
			return after, err
		}
		fmt.Fprintln(w, line.Value)
		after = line.Position
	}
	return after, nil // the run has ended
}

var Deposit = stet.Update[int, int]("deposit")

func account(ctx stet.Context, balance int) (int, error) {
	for balance < 100 {
		request, err := Deposit.Receive(ctx)
		if err != nil {
			return balance, err
		}
		if request.Value <= 0 {
			err = request.Reject(ctx, errors.New("expected an amount above 0"))
		} else {
			balance += request.Value
			err = request.Answer(ctx, balance)
		}
		if err != nil {
			return balance, err
		}
	}
	return balance, nil
}

func deposit(ctx context.Context, e *stet.Engine, runID string, amount int, transfer string) (int, error) {
	return Deposit.Call(ctx, e, runID, amount, stet.SendKey(transfer))
}

func TestProgress(t *testing.T) {
	films, builds := stet.Define("convert", convert), stet.Define("build", build)
	accounts := stet.Define("account", account)
	cfg := stet.Config{Workflows: []stet.Definition{films, builds, accounts}}
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		film, err := films.Start(ctx, e, Film{"M", 4})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := film.Wait(ctx); got != "M.mp4" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := percentOf(ctx, e, film.ID()); got != 100 || err != nil {
			t.Errorf("got %d%%, %v", got, err)
		}
		run, err := builds.Start(ctx, e, []string{"a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if at, err := printLines(ctx, e, run.ID(), 0, &out); at != 2 || err != nil || out.String() != "a: built\nb: built\n" {
			t.Errorf("got %d, %v, %q", at, err, &out)
		}
		saved, err := accounts.Start(ctx, e, 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deposit(ctx, e, saved.ID(), -5, "transfer-1"); !errors.Is(err, stet.ErrRefused) {
			t.Errorf("got %v", err)
		}
		for range 2 { // the second is the same request
			if got, err := deposit(ctx, e, saved.ID(), 90, "transfer-2"); got != 100 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		}
	})
}
