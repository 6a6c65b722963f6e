package stet

import (
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// The policies of one run: MaxRunTime, MaxSuspension, Retention, OnFailure and OnBug given to a start,
// to Go, Call and Detach, or to a schedule count in place of those of Define. They stay with
// the run when it continues as new, is retried or rewound, and its forks have them; its
// children do not.

// RunPolicy is what the start of a run has given it in place of its workflow's definition.
// Fields that are zero are as it is defined.
type RunPolicy struct {
	MaxRunTime    time.Duration // None: without limit
	MaxSuspension time.Duration // None: without limit
	OnFailure     OnFailure     `json:",omitzero"`
	OnBug         OnBug         `json:",omitzero"`
	// Retention counts by itself, whatever the code that a process has: a field that is zero
	// is as the definition and the configuration say.
	Retention Retention
}

func runPolicy(p stored.Policy) RunPolicy {
	return RunPolicy{
		MaxRunTime: p.MaxRun, MaxSuspension: p.MaxSuspended, OnFailure: OnFailure(p.OnFailure), OnBug: OnBug(p.OnBug),
		Retention: Retention{Succeeded: p.KeepSucceeded, Failed: p.KeepFailed, Cancelled: p.KeepCancelled},
	}
}

// String returns the policy for people: "at most 1m0s, stalls on failure". It is "" where all
// is as defined.
func (p RunPolicy) String() string {
	var all []string
	limit := func(text string, d time.Duration) {
		switch {
		case d == None:
			all = append(all, text+" without limit")
		case d != 0:
			all = append(all, text+" at most "+d.String())
		}
	}
	limit("runs", p.MaxRunTime)
	limit("waits", p.MaxSuspension)
	switch p.OnFailure {
	case EndOnFailure:
		all = append(all, "ends on failure")
	case StallOnFailure:
		all = append(all, "stalls on failure")
	}
	switch p.OnBug {
	case StallOnBug:
		all = append(all, "stalls on a bug")
	case FailOnBug:
		all = append(all, "fails on a bug")
	}
	return strings.Join(append(all, p.Retention.texts()...), ", ")
}

// policyOption is an option that says something of one run.
type policyOption interface {
	put(*stored.Policy) error
}

// policies are what a child, or the runs of a schedule, are given: the first problem, and
// what the options say.
type policies struct {
	stored.Policy
	err error
}

func (p *policies) add(o policyOption) {
	if err := o.put(&p.Policy); p.err == nil {
		p.err = err
	}
}

func (d MaxRunTime) applyStart(o *startOptions) error    { return d.put(&o.policy) }
func (d MaxSuspension) applyStart(o *startOptions) error { return d.put(&o.policy) }
func (f OnFailure) applyStart(o *startOptions) error     { return f.put(&o.policy) }
func (b OnBug) applyStart(o *startOptions) error         { return b.put(&o.policy) }
func (r Retention) applyStart(o *startOptions) error     { return r.put(&o.policy) }

func (d MaxRunTime) applyChild(o *childOptions)    { o.policies.add(d) }
func (d MaxSuspension) applyChild(o *childOptions) { o.policies.add(d) }
func (f OnFailure) applyChild(o *childOptions)     { o.policies.add(f) }
func (b OnBug) applyChild(o *childOptions)         { o.policies.add(b) }
func (r Retention) applyChild(o *childOptions)     { o.policies.add(r) }

func (d MaxRunTime) applySchedule(o *scheduleOptions) error    { return d.put(&o.policy) }
func (d MaxSuspension) applySchedule(o *scheduleOptions) error { return d.put(&o.policy) }
func (f OnFailure) applySchedule(o *scheduleOptions) error     { return f.put(&o.policy) }
func (b OnBug) applySchedule(o *scheduleOptions) error         { return b.put(&o.policy) }
func (r Retention) applySchedule(o *scheduleOptions) error     { return r.put(&o.policy) }

func (d MaxRunTime) put(p *stored.Policy) error {
	p.MaxRun = time.Duration(d)
	return checkLimit("MaxRunTime", time.Duration(d))
}

func (d MaxSuspension) put(p *stored.Policy) error {
	p.MaxSuspended = time.Duration(d)
	return checkLimit("MaxSuspension", time.Duration(d))
}

func (f OnFailure) put(p *stored.Policy) error {
	if p.OnFailure = uint8(f); f > StallOnFailure {
		return fmt.Errorf("OnFailure: expected EndOnFailure or StallOnFailure, found %d: %w", f, ErrInvalid)
	}
	return nil
}

func (b OnBug) put(p *stored.Policy) error {
	if p.OnBug = uint8(b); b > FailOnBug {
		return fmt.Errorf("OnBug: expected StallOnBug or FailOnBug, found %d: %w", b, ErrInvalid)
	}
	return nil
}

func (r Retention) put(p *stored.Policy) error {
	p.KeepSucceeded, p.KeepFailed, p.KeepCancelled = r.Succeeded, r.Failed, r.Cancelled
	return r.check()
}

func checkLimit(name string, d time.Duration) error {
	if d < None {
		return fmt.Errorf("%s: expected a positive duration, or None, found %s: %w", name, d, ErrInvalid)
	}
	return nil
}

// withPolicy returns the stored headers of a run that has a policy of its own.
func withPolicy(headers []byte, p stored.Policy) ([]byte, error) {
	if p == (stored.Policy{}) {
		return headers, nil
	}
	data, err := p.Put(headers)
	switch {
	case err != nil:
		return nil, fmt.Errorf("headers: %w: %w", err, ErrInvalid)
	case len(data) > store.MaxHeaders:
		return nil, fmt.Errorf("headers and policies have %d bytes, more than the limit of %d: %w", len(data),
			store.MaxHeaders, ErrTooLarge)
	}
	return data, nil
}
