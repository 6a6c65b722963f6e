package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// counted is what a picky run wants. A text is no number, and 13 makes its decoder panic.
type counted int

func (n *counted) UnmarshalJSON(data []byte) error {
	switch text := string(data); {
	case text == "13":
		panic("thirteen")
	case strings.ContainsAny(text, `"{[`):
		return errors.New("no number")
	default:
		*n = counted(len(text))
		return nil
	}
}

const shownText = stet.Value[string]("shown")

// untilLetters waits until the store has so many dead letters, and returns them, newest
// first.
func untilLetters(t *testing.T, e *stet.Engine, n int) []stet.DeadLetter {
	t.Helper()
	return until(t, "dead letters", func(context.Context) ([]stet.DeadLetter, error) {
		return letters(t, e, store.DeadFilter{}), nil
	}, func(list []stet.DeadLetter) bool { return len(list) >= n })
}

func textIn(t *testing.T, l *stet.DeadLetter) (text string) {
	t.Helper()
	if err := l.Decode(&text); err != nil {
		t.Error(err)
	}
	return text
}

// TestWhatDoesNotDecodeIsRefused: a message, an event and a resolution that do not decode
// become dead letters with the reason, each is logged, and the wait goes on, also after a
// crash.
func TestWhatDoesNotDecodeIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []stet.TopicMode{stet.Broadcast, stet.Consumed} {
		t.Run(mode.String(), func(t *testing.T) { refuses(t, mode) })
	}
}

func refuses(t *testing.T, mode stet.TopicMode) {
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		count, price := stet.Message[counted]("count"), stet.Topic[counted]{Name: "price", Mode: mode}
		texts, prices := stet.Message[string]("count"), stet.Topic[any]{Name: "price", Mode: mode}
		w := stet.Define("picky", func(ctx stet.Context, _ int) (int, error) {
			p, err := stet.NewPromise[counted](ctx, "answer")
			if err != nil {
				return 0, err
			}
			if err := shownText.Set(ctx, p.Token()); err != nil {
				return 0, err
			}
			var a counted
			won, err := stet.Select(ctx, count.Case(&a), stet.AfterDelay("late", 24*3600e9))
			if err != nil || won != 0 {
				return 0, err
			}
			b, err := price.Receive(ctx)
			if err != nil {
				return 0, err
			}
			c, err := p.Await(ctx)
			return int(100*a + 10*b + c), err
		})
		var mu sync.Mutex
		var log bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&lockedWriter{&mu, &log}, nil))
		ctx := testContext(t)
		first := startProcess(t, cfg.Store, with(cfg, w))
		begin(t, first.Engine, w, 0, stet.ID("r"))
		if err := texts.Send(ctx, first.Engine, "r", "many", stet.Headers{"from": "ada"}); err != nil {
			t.Fatal(err)
		}
		if l := untilLetters(t, first.Engine, 1)[0]; l.Kind != store.ItemMessage || l.Name != "count" || l.RunID != "r" ||
			l.Status.Terminal() || l.Headers["from"] != "ada" || textIn(t, &l) != "many" ||
			!strings.Contains(l.Reason, "count: decode e2e_test.counted: ") || !strings.Contains(l.Reason, "no number") {
			t.Errorf("the letter of the message is %+v", l)
		}
		if err := stet.Message[int]("count").Send(ctx, first.Engine, "r", 13); err != nil { // a panic of the decoder
			t.Fatal(err)
		}
		if l := untilLetters(t, first.Engine, 2)[0]; !strings.Contains(l.Reason, "panicked: thirteen") {
			t.Errorf("the letter of the panic is %+v", l)
		}
		if err := count.Send(ctx, first.Engine, "r", 7); err != nil {
			t.Fatal(err)
		}
		if _, err := prices.Publish(ctx, first.Engine, "cheap"); err != nil {
			t.Fatal(err)
		}
		if l := untilLetters(t, first.Engine, 3)[0]; l.Kind != store.ItemDelivery || l.Name != "price" ||
			textIn(t, &l) != "cheap" || !strings.Contains(l.Reason, "price: decode e2e_test.counted: ") {
			t.Errorf("the letter of the event is %+v", l)
		}
		waitStatus(t, first.Engine, "r", store.Suspended)
		first.bury(t)
		mu.Lock()
		if n := strings.Count(log.String(), "is of no use to the code: it is a dead letter now"); n != 3 ||
			strings.Count(log.String(), "level=WARN msg=\"a message is of no use") != 2 ||
			!strings.Contains(log.String(), "run_id=r workflow=picky location=price") {
			t.Errorf("the log has %d lines about letters:\n%s", n, log.String())
		}
		mu.Unlock()

		second := startProcess(t, other, with(cfg, w))
		if _, err := prices.Publish(ctx, second.Engine, 55); err != nil {
			t.Fatal(err)
		}
		token, ok, err := shownText.Get(ctx, second.Engine, "r")
		if err != nil || !ok {
			t.Fatalf("the token: %v, %v", ok, err)
		}
		if err := second.Resolve(ctx, token, "later"); err != nil {
			t.Fatal(err)
		}
		if l := untilLetters(t, second.Engine, 4)[0]; l.Kind != store.ItemResolution ||
			!strings.Contains(l.Reason, "answer: decode e2e_test.counted: ") {
			t.Errorf("the letter of the resolution is %+v", l)
		}
		if err := second.Resolve(ctx, token, 333); err != nil {
			t.Fatalf("the promise cannot be resolved again: %v", err)
		}
		got, err := w.Handle(second.Engine, "r").Wait(ctx)
		if err != nil || got != 123 {
			t.Errorf("got %d, %v, want 123", got, err)
		}
		replays(t, second.Engine, "r")
		if list := letters(t, second.Engine, store.DeadFilter{}); len(list) != 4 {
			t.Errorf("after the end there are %d letters: %+v", len(list), list)
		}
	})
}

// TestARefusedEventIsNotTakenAgain: a wait whose deadline wins after a broadcast event was
// refused leaves that event behind.
func TestARefusedEventIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		price, prices := stet.Topic[int]{Name: "price"}, stet.Topic[any]{Name: "price"}
		w := stet.Define("twice", func(ctx stet.Context, _ int) (int, error) {
			go1 := stet.Message[int]("go")
			var a int
			if _, err := stet.Select(ctx, price.Case(&a), go1.Case(&a)); err != nil {
				return 0, err
			}
			if err := shownText.Set(ctx, "second"); err != nil {
				return 0, err
			}
			b, err := price.Receive(ctx, stet.Named("second"))
			return 10*a + b, err
		})
		ctx := testContext(t)
		first := startProcess(t, cfg.Store, with(cfg, w))
		r := begin(t, first.Engine, w, 0, stet.ID("r"))
		if _, err := prices.Publish(ctx, first.Engine, "cheap"); err != nil {
			t.Fatal(err)
		}
		untilLetters(t, first.Engine, 1)
		first.bury(t)
		second := startProcess(t, other, with(cfg, w))
		if err := stet.Message[int]("go").Send(ctx, second.Engine, r.ID(), 4); err != nil {
			t.Fatal(err)
		}
		for _, err := range shownText.Watch(ctx, second.Engine, "r") {
			if err != nil {
				t.Fatal(err)
			}
			break // the first wait is over
		}
		if _, err := prices.Publish(ctx, second.Engine, 2); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Handle(second.Engine, "r").Wait(ctx); err != nil || got != 42 {
			t.Errorf("got %d, %v", got, err)
		}
		if list := letters(t, second.Engine, store.DeadFilter{}); len(list) != 1 {
			t.Errorf("there are %d letters", len(list))
		}
	})
}
