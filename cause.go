package stet

import (
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Cause says why a run is stalled, in one word for programs. RunInfo.Reason says it for a
// person, and begins with it.
type Cause string

// The causes of stalls. "" is the cause of a run that is not stalled, and of one whose
// reason could not be decrypted.
const (
	// CauseMismatch: the code does not fit what the run has recorded.
	CauseMismatch = Cause(stored.CauseMismatch)
	// CauseDecode: an input, a result, or another recorded value does not decode as the
	// type that the code has for it.
	CauseDecode = Cause(stored.CauseDecode)
	// CauseEncode: a value that the code gives to the engine does not encode, or is larger than
	// Config.MaxValue: a result, an input, the state of a loop, a message, what it shows.
	CauseEncode = Cause(stored.CauseEncode)
	// CauseMisuse: an operation was called where none is allowed, or one name at two places.
	CauseMisuse = Cause(stored.CauseMisuse)
	// CausePanic: workflow code has panicked. RunInfo.Err has the stack.
	CausePanic = Cause(stored.CausePanic)
	// CauseDeadlock: every branch waits for another one.
	CauseDeadlock = Cause(stored.CauseDeadlock)
	// CauseCode: the code has asked for it by Stall, or a script has a fault or exceeds a limit.
	CauseCode = Cause(stored.CauseCode)
	// CauseBudget: a bound of the engine is reached: Config.MaxEntries or MaxBytes, the number of
	// tags, or what the run shows without an operation between. Resume lets it go on when the
	// bound is larger, or the code needs less.
	CauseBudget = Cause(stored.CauseBudget)
	// CauseFailure: the run would have failed, with StallOnFailure.
	CauseFailure = Cause(stored.CauseFailure)
	// CauseUndo: a compensation has failed for good.
	CauseUndo = Cause(stored.CauseUndo)
	// CausePoison: the run has ended its process again and again.
	CausePoison = Cause(stored.CausePoison)
	// CauseRefused: the store has refused what the run was to write.
	CauseRefused = Cause(stored.CauseRefused)
	// CauseDamaged: what is stored of the run cannot be read.
	CauseDamaged = Cause(stored.CauseDamaged)
	// CauseInvariant: the engine itself has a fault.
	CauseInvariant = Cause(stored.CauseInvariant)
)

// OnBug says what happens to a run when its code has a fault: a recorded value that does not
// decode, a value that does not encode or is too large, a panic, a misused Context, a
// deadlock. It is an option of Define and a field of Config, which is the default of all
// workflows.
type OnBug uint8

const (
	// StallOnBug: the run stalls, with a cause. Nothing fails and nothing is undone; what
	// was recorded stays, and what the code has begun since the last completion is taken
	// back. When the code is fixed, Resume lets the run go on. A step whose result could not
	// be recorded is executed again then, with its idempotency key; until then its
	// compensation counts as owed. It is the default.
	StallOnBug OnBug = 1
	// FailOnBug: the run fails with the fault, and is undone if UndoOn says so. A bound of the
	// engine (CauseBudget) is none: the run stalls. A panic of
	// a branch, and a value that does not decode or encode, are errors of the operation. So a
	// step whose result cannot be recorded has failed, and is not undone.
	FailOnBug OnBug = 2
)

func (b OnBug) applyDefine(o *defineOptions) { o.onBug = b }

// undecodable describes a stored value that is no T.
func undecodable[T any](what string, data []byte, err error) *runner.Undecodable {
	return undecodableAs(reflect.TypeFor[T](), what, data, err)
}

func undecodableAs(wanted reflect.Type, what string, data []byte, err error) *runner.Undecodable {
	reason := err.Error()
	if cause := errors.Unwrap(err); cause != nil {
		reason = cause.Error() // without the type's name
	}
	u := &runner.Undecodable{
		What: what, Recorded: recordedForm(data), Wanted: wanted.String(), Reason: reason + position(err),
	}
	if errors.Is(err, ErrLacks) {
		u.Lacks = fmt.Errorf("%s: %w", what, err)
	}
	return u
}

// maxRecordedForm is how many bytes of a recorded value a message shows.
const maxRecordedForm = 200

// recordedForm shows a stored value in a message.
func recordedForm(data []byte) string {
	switch {
	case len(data) == 0:
		return "nothing"
	case data[0] != JSON.Format() || !utf8.Valid(data[1:]):
		return fmt.Sprintf("%d bytes of format %d", len(data)-1, data[0])
	}
	return stored.Cut(string(data[1:]), maxRecordedForm)
}

// misfit is the error of a body, or a compensation, that cannot decode what is recorded.
type misfit struct {
	value *runner.Undecodable
	err   error
}

func (m *misfit) Error() string { return m.value.What + ": " + m.err.Error() }
func (m *misfit) Unwrap() error { return m.err }

// failed returns the end of an attempt that has failed with err.
func (e *Engine) failed(err error, worth func(error) bool) runner.BodyResult {
	result := runner.BodyResult{Failure: e.errors.record(err), After: wantedDelay(err), Marked: isPermanent(err)}
	result.Final = result.Marked || worth != nil && !worth(err)
	if m := wrapped[*misfit](err); m != nil {
		result.Undecodable = m.value
	}
	if u := wrapped[*unrecorded](err); u != nil {
		result.Unrecorded, result.Failure, result.Final = true, encodingFailure(u), true
	}
	return result
}

// failedByBug reports whether a run has failed with a fault of its code.
func failedByBug(run *store.Run) bool {
	if run.Status != store.Failed {
		return false
	}
	f, err := stored.DecodeFailure(run.Output)
	return err == nil && stored.BugOf(f) != ""
}
