package stet

import (
	"fmt"

	"github.com/stet-run/stet/internal/stored"
)

// Stall returns an error with which a workflow's code stalls its run instead of failing it:
// for what a person must look at, and what may be right the next time.
//
//	if limits.Version < 3 {
//		return Report{}, stet.Stall("the limits of the market are of last year")
//	}
//
// The function of the workflow, a branch, an iteration of a Loop or a Saga returns it, as it
// is or wrapped; the run stalls at once, with CauseCode and the reason, also where OnBug
// says FailOnBug, and in a cancelled run. What the code has begun since the last completion
// is not written: no operation, value, message or compensation of that stretch. Resume
// executes the stretch again, with the code that there is then.
//
// A step that returns it has failed for misuse: a step ends with an outcome.
func Stall(reason string) error { return &stall{reason} }

// stall is the error of Stall.
type stall struct{ reason string }

// Error returns the reason.
func (s *stall) Error() string { return s.reason }

// stallIn returns the failure with which a run stalls whose code has returned err, or nil
// if that is and wraps no Stall.
func stallIn(err error) *stored.Failure {
	if wrapped[*stall](err) == nil {
		return nil
	}
	return &stored.Failure{Code: stored.CodeStall, Message: err.Error()}
}

func (s *stall) misplaced(by string) *stored.Failure {
	return &stored.Failure{Code: stored.CodeMisuse, Message: fmt.Sprintf(
		"Stall was returned by %s, with %q: only the workflow's code may return it", by, stored.Cut(s.reason, 200))}
}
