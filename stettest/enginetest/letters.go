package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Scenarios of what is sent to a run: with a start, of a wrong type, and more than it takes.

// unheard is a handle on a store that loses the answer to every second commit.
type unheard struct {
	store.Store
	store.Laned
	commits *atomic.Int64 // of all lanes
}

// Commit implements store.Store.
func (u *unheard) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	result, err := u.Store.Commit(ctx, b)
	if u.commits.Add(1)%2 == 1 && err == nil {
		return store.BatchResult{}, fmt.Errorf("the answer is lost: %w", store.ErrUnknown)
	}
	return result, err
}

// others are functions that return the other client of a world, by its first one.
var others sync.Map

// addOther gives a world another client, which is made when it is asked for. Every second answer to
// it is lost, and an inbox with three messages is full for it.
func (w *world) addOther() {
	others.Store(w.outside, sync.OnceValues(func() (*stet.Engine, error) {
		var commits atomic.Int64
		whole := w.open()
		lanes := store.WrapLanes(whole, func(lane store.Store) store.Store {
			return &unheard{Store: lane, commits: &commits}
		})
		return stet.New(context.Background(), stet.Config{
			Store: &unheard{whole, lanes, &commits}, Payloads: payloads, Node: "other", Logger: slog.New(slog.DiscardHandler),
			Poll: poll, MaxInbox: 3,
		})
	}))
	w.t.Cleanup(func() { others.Delete(w.outside) })
}

// otherThan returns the other client of the world of e.
func otherThan(e *stet.Engine) (*stet.Engine, error) {
	other, ok := others.Load(e)
	if !ok {
		return nil, errors.New("the world has no other client")
	}
	return other.(func() (*stet.Engine, error))()
}

// untilEnd receives words until the word is "end", and returns the others.
func untilEnd(ctx stet.Context, _ string) (string, error) {
	var words []string
	for {
		w, err := word.Receive(ctx)
		if err != nil || w == "end" {
			return strings.Join(words, " "), err
		}
		words = append(words, w)
	}
}

// sendOrStart is a start that sends a word to the run with the ID, with the key unless that is "".
func sendOrStart(
	ctx context.Context, e *stet.Engine, id, text, key string, policy stet.Existing,
) (*stet.Run[string], error) {
	var opts []stet.SendOption
	if key != "" {
		opts = append(opts, stet.SendKey(key))
	}
	w := stet.Ref[string, string]("sent or started")
	return w.Start(ctx, e, "", stet.ID(id), policy, stet.FirstMessage(word, text, opts...))
}

var (
	count = stet.Message[int]("count")
	wrong = stet.Message[string]("count")
	token = stet.Value[string]("token")
)

// pricesOf and bidsOf are topics of a run of the scenario "refused".
func pricesOf[T any](run string) stet.Topic[T] { return stet.Topic[T]{Name: "prices-" + run} }
func bidsOf[T any](run string) stet.Topic[T] {
	return stet.Topic[T]{Name: "bids-" + run, Mode: stet.Consumed}
}

// promised makes a promise, and shows its token.
func promised[T any](ctx stet.Context) (*stet.Promise[T], error) {
	p, err := stet.NewPromise[T](ctx, "gate")
	if err == nil {
		err = token.Set(ctx, p.Token())
	}
	return p, err
}

// untilWaits waits until the run waits at the place, and looks that it waits for nothing while it
// is executed.
func untilWaits(ctx context.Context, e *stet.Engine, id, kind, place string) error {
	for {
		info, err := e.Runs().Info(ctx, id)
		switch {
		case err != nil:
			return err
		case info.Status.Terminal():
			return nil // this is a repeat
		case info.Status != store.Suspended && len(info.WaitsFor) > 0:
			return fmt.Errorf("the run is %s and waits for %+v", info.Status, info.WaitsFor)
		case len(info.WaitsFor) == 1 && info.WaitsFor[0].Kind == kind && info.WaitsFor[0].Location == place:
			return nil
		}
		rest(ctx, poll/2)
	}
}

// lettersOf returns the reasons of the dead letters of a run, by kind.
func lettersOf(ctx context.Context, e *stet.Engine, id string) (map[store.ItemKind][]string, error) {
	letters, _, err := e.DeadLetters().List(ctx, store.DeadFilter{RunIDs: []string{id}, Values: true})
	reasons := map[store.ItemKind][]string{}
	for i := range letters {
		reasons[letters[i].Kind] = append(reasons[letters[i].Kind], letters[i].Reason)
	}
	return reasons, err
}

var letterScenarios = []scenario{
	{
		name: "sent or started", want: "a",
		workflows: func(*stet.Engine) []stet.Definition { return define("sent or started", untilEnd) },
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			c, err := otherThan(e)
			if err != nil {
				return err
			}
			for _, text := range []string{"a", "a", "end"} {
				if _, err := sendOrStart(ctx, c, id, text, text, stet.UseExisting); err != nil {
					return err
				}
			}
			return nil
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			c, err := otherThan(e)
			if err != nil {
				return err
			}
			if _, err := sendOrStart(ctx, c, id, "late", "", stet.ReplaceFailed); !errors.Is(err, stet.ErrTerminal) {
				return fmt.Errorf("a message to a run that has ended: %w", err)
			}
			var r *stet.Run[string]
			for _, text := range []string{"b", "end"} { // without a key
				if r, err = sendOrStart(ctx, c, id, text, "", stet.ReplaceEnded); err != nil {
					return err
				}
			}
			if got, err := r.Wait(ctx); got != "b" || err != nil {
				return fmt.Errorf("the run in place of it gives %q: %w", got, err)
			}
			runs, _, err := e.Runs().List(ctx, store.Filter{IDPrefix: id})
			if err != nil || len(runs) != 2 {
				return fmt.Errorf("there are the runs %+v: %w", runs, err)
			}
			for _, info := range runs {
				want := map[bool]string{true: "b", false: "a"}[info.ID == id]
				out, ended, err := stet.Ref[string, string]("sent or started").Handle(e, info.ID).Result(ctx)
				if out != want || !ended || err != nil {
					return fmt.Errorf("the result of %s is %q, %t: %w", info.ID, out, ended, err)
				}
			}
			return nil
		},
	},
	{
		name: "told by code", want: "42 told done",
		workflows: func(*stet.Engine) []stet.Definition {
			told := stet.Define("told", func(ctx stet.Context, token string) (string, error) {
				r, err := double.Receive(ctx)
				if err == nil {
					err = r.Answer(ctx, 2*r.Value)
				}
				if err == nil {
					err = stet.ResolveFrom(ctx, token, "told")
				}
				return "done", err
			})
			return append(define("told by code", func(ctx stet.Context, _ string) (string, error) {
				p, err := stet.NewPromise[string](ctx, "gate")
				if err != nil {
					return "", err
				}
				child, err := told.Go(ctx, p.Token())
				if err != nil {
					return "", err
				}
				id := child.RunID(ctx)
				key, err := double.SendFrom(ctx, id, 21)
				if err != nil {
					return "", err
				}
				answer, err := stet.Step(ctx, "answer", func(ctx context.Context) (int, error) {
					return double.Call(ctx, stet.EngineOf(ctx), id, 21, key)
				}, stet.Retry{Attempts: stet.None, First: time.Millisecond, Max: poll}) // the child may be on its way
				if err != nil {
					return "", err
				}
				said, err := p.Await(ctx)
				if err != nil {
					return "", err
				}
				out, err := child.Await(ctx)
				return fmt.Sprint(answer, " ", said, " ", out), err
			}), told)
		},
	},
	{
		name: "refused", want: "1 2 3 4",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("refused", func(ctx stet.Context, _ string) (string, error) {
				p, err := promised[int](ctx)
				if err != nil {
					return "", err
				}
				var got [4]int
				if got[0], err = count.Receive(ctx); err != nil {
					return "", err
				}
				if got[1], err = pricesOf[int](stet.RunID(ctx)).Receive(ctx); err != nil {
					return "", err
				}
				if got[2], err = bidsOf[int](stet.RunID(ctx)).Receive(ctx); err != nil {
					return "", err
				}
				got[3], err = p.Await(ctx)
				return strings.Trim(fmt.Sprint(got), "[]"), err
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			if err := untilWaits(ctx, e, id, "receive", "count"); err != nil {
				return err
			}
			secret, _, err := token.Get(ctx, e, id)
			if err != nil {
				return err
			}
			if err := e.Resolve(ctx, secret, "late"); err != nil && !errors.Is(err, stet.ErrAlreadyResolved) {
				return err
			}
			err = wrong.Send(ctx, e, id, "many", stet.SendKey("wrong"))
			if err == nil {
				err = count.Send(ctx, e, id, 1, stet.SendKey("right"))
			}
			for i, value := range []any{"cheap", 2} {
				if err == nil {
					_, err = pricesOf[any](id).Publish(ctx, e, value, stet.SendKey(fmt.Sprint(i)))
				}
			}
			for i, value := range []any{"high", 3} {
				if err == nil {
					_, err = bidsOf[any](id).Publish(ctx, e, value, stet.SendKey(fmt.Sprint(i)))
				}
			}
			for err == nil {
				if err = e.Resolve(ctx, secret, 4); err == nil {
					return nil
				}
				if errors.Is(err, stet.ErrAlreadyResolved) { // until the run has refused the first one
					err = ctx.Err()
				}
				rest(ctx, poll/2)
			}
			if errors.Is(err, stet.ErrTerminal) {
				return nil
			}
			return err
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			letters, err := lettersOf(ctx, e, id)
			if err != nil {
				return err
			}
			all := slices.Concat(letters[store.ItemMessage], letters[store.ItemResolution], letters[store.ItemDelivery])
			other := func(reason string) bool { return !strings.Contains(reason, "decode int: ") }
			if len(all) != 4 || len(letters[store.ItemDelivery]) != 2 || slices.ContainsFunc(all, other) {
				return fmt.Errorf("the dead letters are %q", letters)
			}
			return nil
		},
	},
	{
		name: "full", want: "0 1",
		workflows: func(*stet.Engine) []stet.Definition {
			return define("full", func(ctx stet.Context, _ string) (string, error) {
				p, err := promised[string](ctx)
				if err != nil {
					return "", err
				}
				if _, err := p.Await(ctx); err != nil {
					return "", err
				}
				if err := stet.Sleep(ctx, "nap", 20*time.Millisecond); err != nil { // until one has expired
					return "", err
				}
				words, err := word.ReceiveBatch(ctx, 10)
				return strings.Join(words, " "), err
			})
		},
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			if err := untilWaits(ctx, e, id, "promise", "gate"); err != nil {
				return err
			}
			c, err := otherThan(e)
			if err == nil {
				err = word.Send(ctx, c, id, "stale", stet.SendKey("stale"), stet.ExpiresIn(time.Millisecond))
			}
			for n := 0; err == nil; n++ {
				if err = word.Send(ctx, c, id, fmt.Sprint(n), stet.SendKey(fmt.Sprint(n))); err == nil && n == 2 {
					return errors.New("its inbox takes four messages")
				}
			}
			if errors.Is(err, stet.ErrInboxFull) {
				var secret string
				if secret, _, err = token.Get(ctx, e, id); err == nil {
					err = e.Resolve(ctx, secret, "open")
				}
			}
			if errors.Is(err, stet.ErrTerminal) || errors.Is(err, stet.ErrAlreadyResolved) {
				return nil
			}
			return err
		},
		check: func(ctx context.Context, e *stet.Engine, id string) error {
			letters, err := lettersOf(ctx, e, id)
			reasons := letters[store.ItemMessage]
			expired := "word: expired 1ms after it was sent"
			if err == nil && (len(letters) != 1 || len(reasons) != 1 || !strings.Contains(reasons[0], expired)) {
				err = fmt.Errorf("the dead letters are %q", letters)
			}
			return err
		},
	},
}
