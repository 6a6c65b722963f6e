package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet"
)

const word = stet.Message[string]("word")

// TestOpenTransactionUnderTheEngine: an application's transaction has started a run
// and sent a message, and stays open. Other runs, and the run that it has sent to,
// go on meanwhile; a start of the same run waits. After the commit both are there,
// once, and what the run has received meanwhile came first.
func TestOpenTransactionUnderTheEngine(t *testing.T) {
	s, dsn, _ := fresh(t)
	square := stet.Define("square", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "square", func(context.Context) (int, error) { return n * n, nil })
	})
	received := make(chan string, 2)
	two := stet.Define("two", func(ctx stet.Context, _ int) (string, error) {
		var all string
		for i := range 2 {
			next, err := word.Receive(ctx)
			if err != nil {
				return "", err
			}
			if err := stet.Do(ctx, fmt.Sprintf("note %d", i), func(context.Context) error {
				received <- next
				return nil
			}); err != nil {
				return "", err
			}
			all += next
		}
		return all, nil
	})
	e := serve(t, s, square, two)
	receiver, err := two.Start(t.Context(), e, 0, stet.ID("receiver"))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := application(t, dsn).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stet.StartTx[pgx.Tx](t.Context(), tx, e, square, 3, stet.ID("shared")); err != nil {
		t.Fatal(err)
	}
	if err := stet.SendTx[pgx.Tx](t.Context(), tx, e, word, "receiver", "late", stet.SendKey("k")); err != nil {
		t.Fatal(err)
	}
	same := make(chan error, 1)
	go func() {
		run, err := square.Start(t.Context(), e, 3, stet.ID("shared"))
		if err == nil {
			var got int
			if got, err = run.Wait(t.Context()); err == nil && got != 9 {
				err = fmt.Errorf("got %d", got)
			}
		}
		same <- err
	}()
	begun := time.Now()
	for n := range 20 {
		run, err := square.Start(t.Context(), e, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(t.Context()); err != nil || got != n*n {
			t.Fatalf("got %d: %v", got, err)
		}
	}
	if err := word.Send(t.Context(), e, "receiver", "early, "); err != nil {
		t.Fatal(err)
	}
	if got := <-received; got != "early, " {
		t.Errorf("beside the open transaction the run received %q", got)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("beside the open transaction 20 runs took %s", took)
	}
	select {
	case err := <-same:
		t.Errorf("the start of the same run did not wait: %v", err)
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-same; err != nil {
		t.Errorf("the start of the same run gave %v", err)
	}
	if got, err := receiver.Wait(t.Context()); err != nil || got != "early, late" {
		t.Errorf("got %q: %v", got, err)
	}
}
