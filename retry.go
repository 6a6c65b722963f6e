package stet

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
)

// None means "none", "never" or "without limit" where 0 means the default.
const None = -1

// Retry says how often and when a step is tried. It is an option of Step and Do,
// of Define (the default of a workflow), and a field of Config (the default of
// the engine); a field that is zero takes the value of the next outer one.
//
// By default a step is tried until it succeeds, so that a run outlasts a deploy or an
// outage of what it calls: after 1, 2, 4, … seconds, and then every 5 minutes. An error that
// no attempt can cure is marked with Permanent. A step that is to give up has Attempts or
// Overall: with the default delays 5 attempts take 15 s, 10 take 8.5 min, and 20 take 58 min.
// A run with a step that fails again and again is shown with the number of failures, and with
// PauseAfter it waits for a person.
//
// A failed attempt is durable before the next one begins. An attempt that was
// lost with its process has left no record and is not counted.
type Retry struct {
	// Attempts in total, the first included. Default None: without limit.
	Attempts int
	// First is the delay before the second attempt. Default 1 s; None: none.
	First time.Duration
	// Factor by which the delay grows with each attempt, at least 1. Default 2.
	Factor float64
	// Max is the longest delay. Default 5 min.
	Max time.Duration
	// Jitter is the share by which a delay varies, up and down, from 0 to 1.
	// Default 0.1; None: none.
	Jitter float64
	// Timeout of one attempt, renewed by Heartbeat. Default None. An attempt that
	// exceeds it has failed, and its context ends. A body that returns within 100 ms after
	// that may say with Permanent or Rollback that no attempt follows; another one may
	// still be running when the next begins.
	Timeout time.Duration
	// Overall is the time for all attempts together, from the moment the step
	// was asked for. Default None.
	Overall time.Duration
	// If decides whether an error is worth a retry. Default: all are. It is asked about
	// timeouts of attempts (ErrStepTimeout) and panics of bodies (ErrPanic) too. An error
	// that is marked with Permanent or Rollback is not retried in any case. It is called
	// on the goroutines of bodies and timers, and may be called concurrently.
	If func(error) bool
}

func (r Retry) applyStep(o *stepOptions)     { o.retry = r }
func (r Retry) applyDefine(o *defineOptions) { o.retry = r }

// over returns r with its zero fields taken from outer.
func (r Retry) over(outer Retry) Retry {
	pick(&r.Attempts, outer.Attempts)
	pick(&r.First, outer.First)
	pick(&r.Factor, outer.Factor)
	pick(&r.Max, outer.Max)
	pick(&r.Jitter, outer.Jitter)
	pick(&r.Timeout, outer.Timeout)
	pick(&r.Overall, outer.Overall)
	if r.If == nil {
		r.If = outer.If
	}
	return r
}

func pick[T comparable](field *T, outer T) {
	var zero T
	if *field == zero {
		*field = outer
	}
}

var defaultRetry = Retry{
	Attempts: None, First: time.Second, Factor: 2, Max: 5 * time.Minute, Jitter: 0.1, Timeout: None, Overall: None,
}

// check reports every field that is out of range, by name.
func (r Retry) check(where string) error {
	var problems []error
	bad := func(field, want string, got any) {
		problems = append(problems, fmt.Errorf("%s.%s: expected %s, found %v: %w", where, field, want, got, ErrInvalid))
	}
	if r.Attempts < None {
		bad("Attempts", "1 or more, 0 (default) or None", r.Attempts)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"First", r.First}, {"Max", r.Max}, {"Timeout", r.Timeout}, {"Overall", r.Overall}} {
		if d.value < None {
			bad(d.field, "a positive duration, 0 (default) or None", d.value)
		}
	}
	if r.Factor != 0 && (r.Factor < 1 || math.IsInf(r.Factor, 0) || math.IsNaN(r.Factor)) {
		bad("Factor", "1 or more", r.Factor)
	}
	if r.Jitter != None && (r.Jitter < 0 || r.Jitter > 1 || math.IsNaN(r.Jitter)) {
		bad("Jitter", "0 to 1, or None", r.Jitter)
	}
	return errors.Join(problems...)
}

// policy returns r, which has no zero fields, in the runner's form.
func (r Retry) policy(errors *errorTable) runner.Policy {
	p := runner.Policy{
		Attempts: r.Attempts, First: max(r.First, 0), Factor: r.Factor, Max: max(r.Max, 0),
		Jitter: max(r.Jitter, 0), Timeout: max(r.Timeout, 0), Overall: max(r.Overall, 0),
	}
	if worth := r.If; worth != nil {
		p.Final = func(f *stored.Failure) bool {
			err := errors.restore(f)
			if failure, ok := err.(*Failure); ok && f.Code == stored.CodeTimeout {
				failure.Joined = append(failure.Joined, ErrStepTimeout)
			}
			return !worth(err)
		}
	}
	return p
}

// RetryAfter returns err marked with the shortest delay before the step's next attempt, for
// example the one that a busy service has asked for. The delay that Retry gives is used
// where it is longer; its Max does not bound d. If that is after Retry.Overall, no attempt
// follows. The delay is recorded like any other, and err like err. A d of 0 or less changes
// nothing; a nil err gives nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfter{err, d}
}

type retryAfter struct {
	err   error
	delay time.Duration
}

func (r *retryAfter) Error() string { return r.err.Error() }
func (r *retryAfter) Unwrap() error { return r.err }

// longestDelay bounds what RetryAfter adds to a time.
const longestDelay = 100 * 365 * 24 * time.Hour

// wantedDelay returns the longest delay that err, or what it wraps, is marked with.
func wantedDelay(err error) (longest time.Duration) {
	anyError(err, func(err error) bool {
		if r, ok := err.(*retryAfter); ok {
			longest = max(longest, min(r.delay, longestDelay))
		}
		return false
	})
	return longest
}
