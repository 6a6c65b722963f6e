package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A process without the code of a workflow starts it by name.
func ExampleRef() {
	double := stet.Define("double", func(_ stet.Context, n int) (int, error) { return 2 * n, nil })
	engine, stop := background(double)
	defer stop()

	fmt.Println(result(engine, stet.Ref[int, int]("double"), 21))
	// Output: 42 <nil>
}

// What a request needs everywhere is passed with the context, as it is in Go; it is made
// from the input, because values are not recorded.
func ExampleWithValue() {
	type tenant struct{}
	greet := func(ctx stet.Context) (string, error) {
		return stet.Step(ctx, "greet", func(ctx context.Context) (string, error) {
			info, _ := stet.StepOf(ctx)
			return fmt.Sprintf("attempt %d of %s", info.Attempt, info.Location), nil
		})
	}
	w := stet.Define("w", func(ctx stet.Context, name string) (string, error) {
		ctx = stet.WithValue(ctx, tenant{}, name)
		stet.Log(ctx).Info("begins", "tenant", ctx.Value(tenant{}))
		text, err := greet(ctx)
		return fmt.Sprintf("%s: %s", ctx.Value(tenant{}), text), err
	})
	engine, stop := background(w)
	defer stop()

	fmt.Println(result(engine, w, "acme"))
	// Output: acme: attempt 1 of greet <nil>
}

// A run waits for an instant of its own, alone or beside something else.
func ExampleAtTime() {
	answer := stet.Message[string]("answer")
	ask := stet.Define("ask", func(ctx stet.Context, patience time.Duration) (string, error) {
		if err := stet.SleepUntil(ctx, "at once", stet.Now(ctx)); err != nil {
			return "", err
		}
		var said string
		won, err := stet.Select(ctx, answer.Case(&said), stet.AtTime("too late", stet.Now(ctx).Add(patience)))
		if won == 1 {
			said = "nobody has answered"
		}
		return said, err
	})
	engine, stop := background(ask)
	defer stop()

	fmt.Println(result(engine, ask, time.Millisecond))
	// Output: nobody has answered <nil>
}

// Messages that are there are taken together.
func ExampleMessage_ReceiveBatch() {
	line := stet.Message[string]("line")
	mail := stet.Define("mail", func(ctx stet.Context, _ int) ([]string, error) {
		return line.ReceiveBatch(ctx, 3, stet.Within(time.Minute))
	})
	engine, stop := background(mail)
	defer stop()
	ctx := context.Background()

	run, err := mail.Start(ctx, engine, 0, stet.FirstMessage(line, "one"), stet.FirstMessage(line, "two"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := line.Send(ctx, engine, run.ID(), "three"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(run.Wait(ctx))
	// Output: [one two three] <nil>
}

// An event has an ID and a time beside its value, and can be looked at where it is kept.
func ExampleTopic_ReceiveEvent() {
	news := stet.Topic[string]{Name: "news", Visible: stet.Retained}
	read := stet.Define("read", func(ctx stet.Context, _ int) (string, error) {
		e, err := news.ReceiveEvent(ctx)
		return e.ID + ": " + e.Value, err
	})
	engine, stop := background(read)
	defer stop()
	ctx := context.Background()

	if _, err := news.Publish(ctx, engine, "rain", stet.SendKey("today")); err != nil {
		fmt.Println(err)
	}
	fmt.Println(result(engine, read, 0))
	events, err := engine.Topics().Events(ctx, "news")
	mode, err2 := stet.ParseTopicMode("broadcast")
	fmt.Println(len(events), events[0].Mode == mode, errors.Join(err, err2))
	// Output:
	// today: rain <nil>
	// 1 true <nil>
}

// tooFew is an error with details, which cross the journal under its code.
type tooFew struct{ Left int }

func (e *tooFew) Error() string { return fmt.Sprintf("only %d left", e.Left) }

// An error type that is registered comes back as itself, also after a replay.
func ExampleErrorType() {
	sell := stet.Define("sell", func(ctx stet.Context, n int) (string, error) {
		err := stet.Do(ctx, "take", func(context.Context) error { return stet.Permanent(&tooFew{Left: 3}) })
		var few *tooFew
		if errors.As(err, &few) && few.Left < n {
			return fmt.Sprint("sold ", few.Left), nil
		}
		return "", err
	})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{sell}, Errors: []stet.ErrorCode{stet.ErrorType[*tooFew]("too few")},
	})
	defer stop()

	fmt.Println(result(engine, sell, 5))
	// Output: sold 3 <nil>
}

// A run fails a request that it cannot carry out; the caller gets the reason.
func ExampleRequest_Fail() {
	pay := stet.Update[int, string]("pay")
	account := stet.Define("account", func(ctx stet.Context, _ int) (string, error) {
		request, err := pay.Receive(ctx)
		if err != nil {
			return "", err
		}
		return "closed", request.Fail(ctx, errors.New("the bank does not answer"))
	})
	engine, stop := background(account)
	defer stop()
	ctx := context.Background()

	run, err := account.Start(ctx, engine, 0, stet.ID("account-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = pay.Call(ctx, engine, run.ID(), 10)
	fmt.Println(err)
	// Output: update "pay" of run "account-1": the bank does not answer
}
