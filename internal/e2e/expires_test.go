package e2e_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestAMessageExpires: a message that has expired when its run would receive it becomes a
// dead letter with the reason, and the next one is received; sent again it does not expire.
func TestAMessageExpires(t *testing.T) {
	t.Parallel()
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		w := stet.Define("late", func(ctx stet.Context, _ int) (string, error) {
			if err := stet.Sleep(ctx, "night", time.Hour); err != nil {
				return "", err
			}
			first, err := word.ReceiveDelivery(ctx)
			if err != nil {
				return "", err
			}
			if len(first.Headers) != 1 || first.Headers["from"] != "ada" {
				return "", errors.New("other headers")
			}
			second, err := word.Receive(ctx, stet.Named("second"))
			return first.Value + " " + second, err
		})
		ctx := t.Context()
		p := startProcess(t, cfg.Store, with(cfg, w))
		r := begin(t, p.Engine, w, 0, stet.ID("r"))
		for _, m := range []struct {
			value string
			d     time.Duration
		}{{"stale", time.Minute}, {"fresh", 2 * time.Hour}} {
			if err := word.Send(ctx, p.Engine, "r", m.value, stet.ExpiresIn(m.d), stet.Headers{"from": "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour + time.Minute) // of virtual time
		l := untilLetters(t, p.Engine, 1)[0]
		if textIn(t, &l) != "stale" || !strings.Contains(l.Reason, "word: expired 1m0s after it was sent") ||
			len(l.Headers) != 1 {
			t.Errorf("the letter is %+v", l)
		}
		if err := p.DeadLetters().Replay(ctx, l.Number, "r", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(ctx); err != nil || got != "fresh stale" {
			t.Errorf("got %q, %v", got, err)
		}
		replays(t, p.Engine, "r")

		for what, err := range map[string]error{
			"no time":           word.Send(ctx, p.Engine, "r", "x", stet.ExpiresIn(0)),
			"a reserved header": word.Send(ctx, p.Engine, "r", "x", stet.Headers{"stet-expires-us": "1"}),
			"an update": func() error {
				_, err := stet.Update[int, int]("u").Call(ctx, p.Engine, "r", 1, stet.ExpiresIn(time.Hour))
				return err
			}(),
			"an event": func() error {
				_, err := stet.Topic[int]{Name: "t"}.Publish(ctx, p.Engine, 1, stet.ExpiresIn(time.Hour))
				return err
			}(),
		} {
			if !errors.Is(err, stet.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
