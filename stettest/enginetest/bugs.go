package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// parcel is what a number has become in a later build.
type parcel struct{ Weight int }

// bug is a fault of the code that is deployed while a run waits.
type bug struct {
	name         string
	cause        stet.Cause
	right, wrong func(ctx stet.Context, wait func(stet.Context) error) error
}

// waits is the code that only waits.
func waits(ctx stet.Context, wait func(stet.Context) error) error { return wait(ctx) }

func packs[T any](value T) func(stet.Context, func(stet.Context) error) error {
	return func(ctx stet.Context, wait func(stet.Context) error) error {
		_, err := stet.Step(ctx, "pack", func(context.Context) (T, error) { return value, nil })
		return errors.Join(err, wait(ctx))
	}
}

func counts[S any](first S) func(stet.Context, func(stet.Context) error) error {
	return func(ctx stet.Context, wait func(stet.Context) error) error {
		rounds := 0
		_, err := stet.Loop(ctx, "rounds", first, func(ctx stet.Context, s S) (next stet.Next[S, int], err error) {
			//stetvet:ignore captured how often it goes round does not matter, if it does
			if rounds++; rounds < 3 {
				return next.Continue(s), stet.Do(ctx, "turn", func(context.Context) error { return nil })
			}
			return next.Break(0), wait(ctx)
		}, stet.LoopOptions{Every: 1, Keep: 1})
		return err
	}
}

var bugs = []bug{
	{name: "result", cause: stet.CauseDecode, right: packs(7), wrong: packs(parcel{7})},
	{name: "state of a loop", cause: stet.CauseDecode, right: counts(7), wrong: counts(parcel{7})},
	{name: "input", cause: stet.CauseDecode, right: waits}, // see deploy
	{
		name: "heartbeat", cause: stet.CauseDecode, right: waits,
		wrong: func(ctx stet.Context, wait func(stet.Context) error) error {
			if err := wait(ctx); err != nil {
				return err
			}
			return stet.Do(ctx, "beat", func(ctx context.Context) error {
				if stet.Attempt(ctx) == 1 {
					return errors.Join(stet.Heartbeat(ctx, "text"), errors.New("again"))
				}
				_, _, err := stet.LastDetail[int](ctx)
				return err
			}, quick)
		},
	},
	{
		name: "misuse", cause: stet.CauseMisuse, right: waits,
		wrong: func(ctx stet.Context, wait func(stet.Context) error) error {
			done := make(chan struct{})
			//stetvet:ignore goroutine the misuse is what is tested
			go func() {
				defer close(done)
				//stetvet:ignore leak the misuse is what is tested
				//stetvet:ignore error only the start of it matters here
				_ = stet.Do(ctx, "write", func(context.Context) error { return nil })
			}()
			//stetvet:ignore channel the code holds the run until the misuse has happened
			<-done
			return wait(ctx)
		},
	},
	{
		name: "panic", cause: stet.CausePanic, right: waits,
		wrong: func(stet.Context, func(stet.Context) error) error { panic("on purpose") },
	},
	{
		name: "encode", cause: stet.CauseEncode, right: waits,
		wrong: func(ctx stet.Context, wait func(stet.Context) error) error {
			return errors.Join(wait(ctx), stet.Value[float64]("rate").Set(ctx, math.NaN()))
		},
	},
	{
		name: "deadlock", cause: stet.CauseDeadlock, right: waits,
		wrong: func(ctx stet.Context, _ func(stet.Context) error) error {
			var second *stet.Future[int]
			first := stet.Go(ctx, "first", func(ctx stet.Context) (int, error) { return second.Await(ctx) })
			second = stet.Go(ctx, "second", func(ctx stet.Context) (int, error) { return first.Await(ctx) })
			return stet.Join(ctx, first, second)
		},
	},
	{
		name: "mismatch", cause: stet.CauseMismatch, right: packs(7),
		wrong: func(ctx stet.Context, wait func(stet.Context) error) error {
			return errors.Join(stet.Sleep(ctx, "pack", 1), wait(ctx))
		},
	},
	{
		name: "code", cause: stet.CauseCode, right: waits,
		wrong: func(ctx stet.Context, wait func(stet.Context) error) error {
			return errors.Join(wait(ctx), stet.Stall("look at it"))
		},
	},
}

// deploy returns the workflows of the bugs, in their right or wrong form.
func deploy(right bool, refunds *atomic.Int64) (all []stet.Definition) {
	charge := func(ctx stet.Context) error {
		return stet.Do(ctx, "charge", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil }))
	}
	wait := func(ctx stet.Context) error {
		_, err := word.Receive(ctx)
		return err
	}
	for i := range bugs {
		b := &bugs[i]
		code := b.right
		if !right {
			code = b.wrong
		}
		if code == nil {
			all = append(all, stet.Define(b.name, func(ctx stet.Context, _ parcel) (string, error) {
				return "done", errors.Join(charge(ctx), wait(ctx))
			}))
			continue
		}
		all = append(all, stet.Define(b.name, func(ctx stet.Context, _ string) (string, error) {
			if err := charge(ctx); err != nil {
				return "", err
			}
			return "done", code(ctx, wait)
		}))
	}
	return all
}

// stalls deploys each fault of code while a run waits that fits the code before. The run
// stalls with the cause, nothing is recorded, undone or executed, and once the code is right
// again it goes on.
func stalls(t *testing.T, open Open) {
	w := newWorld(t, open)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var refunds atomic.Int64
	each := func(do func(b *bug) error) {
		t.Helper()
		for i := range bugs {
			if err := do(&bugs[i]); err != nil {
				t.Fatalf("%s: %v", bugs[i].name, err)
			}
		}
	}
	until := func(id string, stands func(*stet.RunInfo) bool) (*stet.RunInfo, error) {
		for {
			info, err := w.outside.Runs().Info(ctx, id)
			if err != nil || stands(info) {
				return info, err
			}
			if info.Status.Terminal() {
				return nil, fmt.Errorf("has ended: %+v", info)
			}
			rest(ctx, 10*time.Millisecond)
		}
	}
	history := func(id string) (string, error) {
		entries, err := w.outside.Runs().History(ctx, id, stet.HistoryQuery{})
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(entries)
		return string(text), err
	}
	before := map[string]string{}

	first := w.calm(longLease, deploy(true, &refunds)...)
	each(func(b *bug) error {
		return insist(ctx, func() error {
			_, err := stet.Ref[string, string](b.name).Start(ctx, w.outside, "", stet.ID(b.name))
			return err
		})
	})
	each(func(b *bug) (err error) {
		if _, err = until(b.name, func(i *stet.RunInfo) bool { return i.Status == store.Suspended }); err == nil {
			before[b.name], err = history(b.name)
		}
		return err
	})
	if err := first.end(); err != nil {
		t.Fatal(err)
	}

	second := w.calm(longLease, deploy(false, &refunds)...)
	each(func(b *bug) error {
		return insist(ctx, func() error { return word.Send(ctx, w.outside, b.name, "go", stet.SendKey("go")) })
	})
	each(func(b *bug) error {
		info, err := until(b.name, func(i *stet.RunInfo) bool { return i.Status == store.Stalled })
		if err != nil {
			return err
		}
		if info.Cause != b.cause {
			t.Errorf("%s: expected the cause %s, found %s: %s", b.name, b.cause, info.Cause, info.Reason)
		}
		if b.name == "heartbeat" {
			return nil // its first attempt is recorded
		}
		after, err := history(b.name)
		if after != before[b.name] {
			t.Errorf("%s: the history is\n%s\nwas\n%s", b.name, after, before[b.name])
		}
		return err
	})
	if err := second.end(); err != nil {
		t.Fatal(err)
	}

	w.calm(longLease, deploy(true, &refunds)...)
	each(func(b *bug) error {
		if b.name == "heartbeat" {
			return nil // what it has begun stands in its history: this code does not fit
		}
		return insist(ctx, func() error {
			if _, err := w.outside.Runs().Resume(ctx, b.name, stet.Act{}); err != nil {
				return err
			}
			got, err := stet.Ref[string, string](b.name).Handle(w.outside, b.name).Wait(ctx)
			if err == nil && got != "done" {
				err = fmt.Errorf("resumed, it returns %q", got)
			}
			return err
		})
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	each(func(b *bug) error {
		if n := w.executions[b.name+" charge"]; n != 1 || refunds.Load() != 0 {
			return fmt.Errorf("charged %d times, %d refunds of all", n, refunds.Load())
		}
		return nil
	})
}
