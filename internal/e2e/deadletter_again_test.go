package e2e_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestRefusedLettersAreSentAgain: what did not decode is sent again when the code fits: a
// message and a resolution to the same run, or to another run; an event of a consumed topic to the
// topic. What is of no use anywhere stays a letter.
func TestRefusedLettersAreSentAgain(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		const name = "loose"
		topic := func(mode stet.TopicMode) stet.Topic[string] {
			return stet.Topic[string]{Name: mode.String(), Mode: mode}
		}
		picky := stet.Define(name, func(ctx stet.Context, _ int) (string, error) { return receiveAll[counted](ctx) })
		loose := stet.Define(name, func(ctx stet.Context, _ int) (string, error) { return receiveAll[string](ctx) })
		ctx := testContext(t)
		first := startProcess(t, cfg.Store, with(cfg, picky))
		begin(t, first.Engine, picky, 0, stet.ID("r"))
		waitStatus(t, first.Engine, "r", store.Suspended)
		token, ok, err := shownText.Get(ctx, first.Engine, "r")
		if err != nil || !ok {
			t.Fatalf("the token: %v, %v", ok, err)
		}
		if err := word.Send(ctx, first.Engine, "r", "message", stet.Headers{"from": "ada"}); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []stet.TopicMode{stet.Consumed, stet.Broadcast} {
			if _, err := topic(mode).Publish(ctx, first.Engine, "event"); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Resolve(ctx, token, "resolution"); err != nil {
			t.Fatal(err)
		}
		refused := untilLetters(t, first.Engine, 4)
		waitStatus(t, first.Engine, "r", store.Suspended)
		const another = "another"
		begin(t, first.Engine, picky, 0, stet.ID(another))
		waitStatus(t, first.Engine, another, store.Suspended)
		first.bury(t)

		second := startProcess(t, other, with(cfg, loose))
		again := func(l *stet.DeadLetter, to string, want error) {
			t.Helper()
			if err := second.DeadLetters().Replay(ctx, l.Number, to, stet.Act{}); !errors.Is(err, want) {
				t.Errorf("the %s %s goes to %q again: %v, want %v", l.Kind, l.Name, to, err, want)
			}
		}
		for i := range refused {
			switch l := &refused[i]; {
			case l.Kind == store.ItemDelivery && l.Name == "broadcast":
				again(l, "", stet.ErrInvalid)
				again(l, "r", stet.ErrInvalid)
			case l.Kind == store.ItemDelivery:
				again(l, "r", stet.ErrInvalid)
				again(l, "", nil)
			case l.Kind == store.ItemResolution:
				again(l, "nobody", stet.ErrNotFound)
				if err := second.Resolve(ctx, token, "by a person"); err != nil {
					t.Fatal(err)
				}
				again(l, "", stet.ErrAlreadyResolved)
				again(l, another, nil)
				again(l, another, stet.ErrNotFound)
			default:
				again(l, "", nil)
				again(l, "", stet.ErrNotFound)
			}
		}
		if list := letters(t, second.Engine, store.DeadFilter{}); len(list) != 1 || list[0].Name != "broadcast" {
			t.Errorf("the letters are %+v", list)
		}
		if _, err := topic(stet.Consumed).Publish(ctx, second.Engine, "event"); err != nil {
			t.Fatal(err)
		}
		if err := word.Send(ctx, second.Engine, another, "other"); err != nil {
			t.Fatal(err)
		}
		got, err := loose.Handle(second.Engine, "r").Wait(ctx)
		if err != nil || got != "message from ada, event, by a person" {
			t.Errorf("the run has %q, %v", got, err)
		}
		if got, err := loose.Handle(second.Engine, another).Wait(ctx); err != nil || got != "other from , event, resolution" {
			t.Errorf("the other run has %q, %v", got, err)
		}
	})
}

// receiveAll waits at everything that may be refused, one after the other.
func receiveAll[T any](ctx stet.Context) (string, error) {
	p, err := stet.NewPromise[T](ctx, "answer")
	if err != nil {
		return "", err
	}
	if err := shownText.Set(ctx, p.Token()); err != nil {
		return "", err
	}
	consumed := stet.Topic[T]{Name: "consumed", Mode: stet.Consumed}
	events := stet.Go(ctx, "broadcast", func(ctx stet.Context) (T, error) {
		return stet.Topic[T]{Name: "broadcast"}.Receive(ctx)
	})
	event := stet.Go(ctx, "consumed", func(ctx stet.Context) (T, error) { return consumed.Receive(ctx) })
	answer := stet.Go(ctx, "promise", func(ctx stet.Context) (T, error) { return p.Await(ctx) })
	m, err := stet.Message[T](word).ReceiveDelivery(ctx)
	if err != nil {
		return "", err
	}
	e, err := event.Await(ctx)
	if err != nil {
		return "", err
	}
	a, err := answer.Await(ctx)
	if err != nil {
		return "", err
	}
	events.Cancel(ctx)
	return fmt.Sprintf("%v from %s, %v, %v", m.Value, m.Headers["from"], e, a), nil
}
