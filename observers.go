package stet

import (
	"context"
	"maps"
	"time"
)

// Observers returns an observer that calls each of several, in their order; nil ones are
// skipped. A context that one returns is given to the next, and of headers with one key the
// last ones count. The shortest
// LongPause counts for all. Functions that Attempt, Start and Send return are called in reverse order.
func Observers(list ...*Observer) *Observer {
	var all []*Observer
	for _, o := range list {
		if o != nil {
			all = append(all, o)
		}
	}
	pause := time.Duration(0)
	for _, o := range all {
		if o.LongPause > 0 && (pause == 0 || o.LongPause < pause) {
			pause = o.LongPause
		}
	}
	return &Observer{
		LongPause:  pause,
		Attached:   each(all, func(o *Observer) func(*Engine) { return o.Attached }),
		Start:      eachCall(all, func(o *Observer) announced[StartInfo] { return o.Start }),
		Send:       eachCall(all, func(o *Observer) announced[SendInfo] { return o.Send }),
		Attempt:    eachAttempt(all),
		RunBegan:   each(all, func(o *Observer) func(RunEvent) { return o.RunBegan }),
		RunEnded:   each(all, func(o *Observer) func(RunEvent) { return o.RunEnded }),
		RunStalled: each(all, func(o *Observer) func(RunEvent) { return o.RunStalled }),
		Turn:       eachOf(all, func(o *Observer) func(RunEvent, TurnInfo) { return o.Turn }),
		Waited:     eachOf(all, func(o *Observer) func(RunEvent, WaitEnded) { return o.Waited }),
		Sent:       eachOf(all, func(o *Observer) func(RunEvent, SentInfo) { return o.Sent }),
		Woken:      eachOf(all, func(o *Observer) func(RunEvent, time.Duration) { return o.Woken }),
		Committed:  each(all, func(o *Observer) func(CommitInfo) { return o.Committed }),
		Claimed:    each(all, func(o *Observer) func(ClaimInfo) { return o.Claimed }),
		Lease:      each(all, func(o *Observer) func(LeaseInfo) { return o.Lease }),
		Value:      eachOf(all, func(o *Observer) func(string, int) { return o.Value }),
		StoreError: eachOf(all, func(o *Observer) func(string, error) { return o.StoreError }),
	}
}

// announced is the type of Start and Send.
type announced[T any] = func(context.Context, T) (Headers, func(error))

// each returns a function that calls those of the observers that are there; nil: none is.
func each[T any](list []*Observer, of func(*Observer) func(T)) func(T) {
	var calls []func(T)
	for _, o := range list {
		if f := of(o); f != nil {
			calls = append(calls, f)
		}
	}
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return calls[0]
	}
	return func(v T) {
		for _, f := range calls {
			f(v)
		}
	}
}

// eachOf is each for functions with two parameters.
func eachOf[T, U any](list []*Observer, of func(*Observer) func(T, U)) func(T, U) {
	var calls []func(T, U)
	for _, o := range list {
		if f := of(o); f != nil {
			calls = append(calls, f)
		}
	}
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return calls[0]
	}
	return func(v T, w U) {
		for _, f := range calls {
			f(v, w)
		}
	}
}

// eachCall is each for Start and Send.
func eachCall[T any](list []*Observer, of func(*Observer) announced[T]) announced[T] {
	var calls []announced[T]
	for _, o := range list {
		if f := of(o); f != nil {
			calls = append(calls, f)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return func(ctx context.Context, v T) (Headers, func(error)) {
		headers := Headers{}
		var ends []func(error)
		for _, f := range calls {
			h, done := f(ctx, v)
			maps.Copy(headers, h)
			if done != nil {
				ends = append(ends, done)
			}
		}
		return headers, reversed(ends)
	}
}

// eachAttempt is each for Attempt.
func eachAttempt(list []*Observer) func(context.Context, StepInfo) (context.Context, func(error)) {
	var calls []func(context.Context, StepInfo) (context.Context, func(error))
	for _, o := range list {
		if o.Attempt != nil {
			calls = append(calls, o.Attempt)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return func(ctx context.Context, step StepInfo) (context.Context, func(error)) {
		ends := make([]func(error), 0, len(calls))
		for _, f := range calls {
			derived, done := f(ctx, step)
			if derived != nil {
				ctx = derived
			}
			if done != nil {
				ends = append(ends, done)
			}
		}
		return ctx, reversed(ends)
	}
}

// reversed returns a function that calls others, the last one first; nil if there is none.
func reversed(ends []func(error)) func(error) {
	if len(ends) == 0 {
		return nil
	}
	return func(err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](err)
		}
	}
}
