package main

import (
	"context"
	"errors"

	"github.com/stet-run/stet"
)

// Ask is the request for a lock: the asking run, and the token of the promise that is resolved when it is granted.
type Ask struct {
	Run   string `json:"run"`
	Token string `json:"token"`
}

// Messages to the run that keeps a lock. Released has the token of its last holder.
var (
	Asked    = stet.Message[Ask]("asked")
	Released = stet.Message[string]("released")
)

// keeper keeps locks. A lock is a run, which grants it in the order of the requests. A holder gives it back with a
// message, or by its end, however it ends.
type keeper struct {
	engine *stet.Engine // set before the engine runs
	locks  *stet.Workflow[string, int]
}

func newKeeper() *keeper {
	k := &keeper{}
	k.locks = stet.Define("lock", k.keep, stet.IDFrom(func(name string) string { return name }))
	return k
}

// keep grants the lock to one run after the other, for ever.
func (k *keeper) keep(ctx stet.Context, _ string) (int, error) {
	return stet.Loop(ctx, "grants", 0, func(ctx stet.Context, granted int) (next stet.Next[int, int], err error) {
		ask, err := Asked.Receive(ctx)
		if err != nil {
			return next, err
		}
		holder, err := stet.Watch[any](ctx, "holder", ask.Run)
		if err != nil {
			return next, err
		}
		err = stet.Do(ctx, "grant", func(ctx context.Context) error {
			err := k.engine.Resolve(ctx, ask.Token, true)
			if errors.Is(err, stet.ErrAlreadyResolved) || errors.Is(err, stet.ErrTerminal) {
				return nil // granted before a crash, or not wanted any more
			}
			return err
		}, stet.Retry{Attempts: stet.None})
		if err != nil {
			return next, err
		}
		for token := ""; token != ask.Token; {
			won, err := stet.Select(ctx, Released.Case(&token), holder.Case())
			if err != nil {
				return next, err
			}
			if won == 1 {
				break // the holder has ended
			}
		}
		return next.Continue(granted + 1), nil
	})
}

// lock waits until the run has the lock. unlock gives it back in every case; it is to be deferred.
func (k *keeper) lock(ctx stet.Context, name string) (unlock func(), err error) {
	granted, err := stet.NewPromise[bool](ctx, "lock")
	if err != nil {
		return nil, err
	}
	token, run := granted.Token(), stet.RunID(ctx)
	err = stet.Do(ctx, "ask", func(ctx context.Context) error {
		lock, err := k.locks.Start(ctx, k.engine, name)
		if err != nil {
			return err
		}
		return Asked.Send(ctx, k.engine, lock.ID(), Ask{run, token}, stet.SendKey(token))
	})
	if err != nil {
		return nil, err
	}
	if _, err := granted.Await(ctx); err != nil {
		return nil, err
	}
	return func() {
		// An error means that the run does not go on: its end gives the lock back.
		_ = stet.Do(stet.WithoutCancel(ctx), "unlock", func(ctx context.Context) error {
			lock, err := k.locks.RunID(name)
			if err != nil {
				return err
			}
			return Released.Send(ctx, k.engine, lock, token, stet.SendKey(token))
		})
	}, nil
}
