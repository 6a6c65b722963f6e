package stet

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// The policies of one run: MaxRunTime, MaxSuspension, OnFailure and OnBug given to a start
// count in place of those of Define. They stay with the run when it continues as new, is
// retried or rewound, and its forks have them; its children do not.

func (d MaxRunTime) applyStart(o *startOptions) error {
	o.policy.MaxRun = time.Duration(d)
	return checkLimit("MaxRunTime", time.Duration(d))
}

func (d MaxSuspension) applyStart(o *startOptions) error {
	o.policy.MaxSuspended = time.Duration(d)
	return checkLimit("MaxSuspension", time.Duration(d))
}

func (f OnFailure) applyStart(o *startOptions) error {
	if o.policy.OnFailure = uint8(f); f > StallOnFailure {
		return fmt.Errorf("OnFailure: expected EndOnFailure or StallOnFailure, found %d: %w", f, ErrInvalid)
	}
	return nil
}

func (b OnBug) applyStart(o *startOptions) error {
	if o.policy.OnBug = uint8(b); b > FailOnBug {
		return fmt.Errorf("OnBug: expected StallOnBug or FailOnBug, found %d: %w", b, ErrInvalid)
	}
	return nil
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
