package stet

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/inboxes"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Errors that callers branch on, wrapped with what they are about.
var (
	// ErrCancelled is what every operation of a cancelled run or branch returns,
	// and what Wait returns for a cancelled run.
	ErrCancelled = runner.ErrCancelled
	// ErrTimeout is a deadline that won: of a wait, of a step's attempts.
	ErrTimeout = runner.ErrTimeout
	// ErrNotFound: there is no run with this ID, or no promise with this token.
	ErrNotFound = errors.New("not found")
	// ErrInboxFull: the run has not received as many messages, or bytes, as Config.MaxInbox
	// and MaxInboxBytes say. Send again when it has received some.
	ErrInboxFull = inboxes.ErrFull
	// ErrTerminal: the run has ended.
	ErrTerminal = errors.New("the run has ended")
	// ErrExists: a run with this ID exists, and differs or must not exist.
	ErrExists = errors.New("the run exists")
	// ErrLacks: this process lacks what a run needs and another process may have: the codec of a value, the type of a
	// step's error, or, as a Library says, code that compiles. The run is left as it is, for such a process.
	ErrLacks = entity.ErrLacks
	// ErrUnknownWorkflow: no node has ever registered a workflow of this name.
	ErrUnknownWorkflow = engine.ErrUnknownWorkflow
	// ErrInput: the run's input cannot be decoded as the workflow's input type.
	ErrInput = errors.New("input does not fit the workflow")
	// ErrAlreadyResolved: the promise was assigned by another call.
	ErrAlreadyResolved = errors.New("already resolved")
	// ErrRefused: what a request is about, a run, a queue, a topic, a script or a node, does not
	// allow it as it stands, and the text says why.
	ErrRefused = errors.New("refused")
	// ErrPending: the context ended before the owner decided; the request stands.
	ErrPending = engine.ErrPending
	// ErrHeld: another process works on the store, and nobody else can meanwhile.
	ErrHeld = engine.ErrHeld
	// ErrReplaced: a later process has the same Config.Node, and Config.Replaces is set.
	ErrReplaced = engine.ErrReplaced
	// ErrUnanswered: the run has ended without an answer to an update, or has continued as new
	// after it had received it.
	ErrUnanswered = errors.New("the update was not answered")
	// ErrKeyUsed: the key of a message, an event or an update was used for another value.
	ErrKeyUsed = errors.New("the key was used for another request")
	// ErrStalled: the run needs a person; its reason says for what.
	ErrStalled = errors.New("the run is stalled")
	// ErrTooLarge: a value is over the limit.
	ErrTooLarge = errors.New("value too large")
	// ErrInvalid: an argument is not allowed. Nothing changed. It is the value that
	// the stores return too. What schedule.Compile returns wraps the ErrInvalid of
	// package schedule instead; what this package returns of it wraps both.
	ErrInvalid = store.ErrInvalid
	// ErrEmpty: Any or Race was given no branches, or none is left in a Settled.
	ErrEmpty = runner.ErrEmpty
	// ErrStepTimeout is the cause with which the context of a step's attempt ends
	// when its time is over.
	ErrStepTimeout = steps.ErrTimeout
	// ErrPanic: the body of a step, or the code of a branch, has panicked. The *Failure
	// that wraps it has the stack.
	ErrPanic = errors.New("panic")
)

// Failure is an error as it crosses the journal: the message, the code, and the
// error that it wraps. Errors registered with Config.Errors come back as
// themselves; all others come back as a *Failure. It is the same live and after
// a replay.
type Failure struct {
	Code    string // "error", "panic", "timeout", …, or a code of Config.Errors
	Message string
	Stack   string  // of a panic
	Cause   error   // nil: none
	Joined  []error // of an error that wraps several

	details []byte // of a type that this process does not know: recorded again with it
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the causes.
func (f *Failure) Unwrap() []error {
	if f.Cause != nil {
		return append([]error{f.Cause}, f.Joined...)
	}
	return f.Joined
}

// FailureRecord is a failure as it is recorded, for readers that show it: data, without
// the error types that Config.Errors and this package make of it. errors.As finds it in
// the errors that RunInfo.Err, Run.Wait, HistoryEntry.Err and DeadLetter.Err return. Not
// in those that workflow code sees: these are a *Failure, a *StepError, a *RunError or a
// registered error. The error of a record is restored, by the codec, when errors.Is or
// errors.As asks for anything else than the record.
type FailureRecord struct {
	Code     string // "error", "panic", "step", …, or a code of Config.Errors
	Message  string
	Location string           // of a step
	Attempts int              // of a step
	Stack    string           // of a panic
	Cause    *FailureRecord   // that the error wraps; nil: none
	Causes   []*FailureRecord // of a step: of its last attempts, oldest first; or what a joined error wraps
}

// Error returns the message.
func (f *FailureRecord) Error() string { return f.Message }

func failureRecord(f *stored.Failure) *FailureRecord {
	if f == nil {
		return nil
	}
	out := &FailureRecord{
		Code: f.Code, Message: f.Message, Location: f.Location, Attempts: f.Attempts, Stack: f.Stack,
		Cause: failureRecord(f.Cause),
	}
	for _, cause := range f.Causes {
		out.Causes = append(out.Causes, failureRecord(cause))
	}
	return out
}

// asRecord is the method As of an error that was restored from a record.
func asRecord(f *stored.Failure, target any) bool {
	out, ok := target.(**FailureRecord)
	if !ok || f == nil {
		return false
	}
	*out = failureRecord(f)
	return true
}

// recordedError is an error of a record that is restored when errors.Is or errors.As looks
// behind it: what only shows the record, as the server does, calls neither a codec nor the
// methods of a registered type.
type recordedError struct {
	record  *stored.Failure
	restore func() error
}

// recorded returns the error of a record, nil for none. It is restored when it is needed.
func (t *errorTable) recorded(f *stored.Failure) error {
	if f == nil {
		return nil
	}
	return &recordedError{f, sync.OnceValue(func() error { return t.restore(f) })}
}

func (e *recordedError) Error() string      { return e.record.Message }
func (e *recordedError) Unwrap() error      { return e.restore() }
func (e *recordedError) As(target any) bool { return asRecord(e.record, target) }

// stalledError is the error with which a run has stalled.
type stalledError struct{ err error }

func (e *stalledError) Error() string   { return ErrStalled.Error() + ": " + e.err.Error() }
func (e *stalledError) Unwrap() []error { return []error{ErrStalled, e.err} }

// StepError says that a step has failed for good.
type StepError struct {
	Location string  // of the step
	Attempts int     // how many attempts were made
	Causes   []error // of the last attempts, at most 20, oldest first
}

// Error names the step and the last cause.
func (e *StepError) Error() string {
	if e.Attempts <= 1 {
		return fmt.Sprintf("step %s failed: %v", e.Location, e.last())
	}
	return fmt.Sprintf("step %s failed after %d attempts: %v", e.Location, e.Attempts, e.last())
}

// Unwrap returns the cause of the last attempt.
func (e *StepError) Unwrap() error { return e.last() }

func (e *StepError) last() error {
	if len(e.Causes) == 0 {
		return ErrCancelled
	}
	return e.Causes[len(e.Causes)-1]
}

// Permanent returns err marked as not worth a retry. It is recorded like err. An error that wraps or joins it, as
// errors.Join does, has the mark too.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ err error }

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }

// ErrorCode makes an error known by a code, so that errors.Is and errors.As find
// it after a replay. Make one with Sentinel or ErrorType.
type ErrorCode struct {
	code     string
	sentinel error
	typ      reflect.Type // of errors of a type; nil for a sentinel
}

// Sentinel registers one error value under a code. The code is stored: keep it. The codes of
// stet's own failures are reserved, such as "budget", "step" and "timeout"; New names them all
// when it is given one.
func Sentinel(code string, err error) ErrorCode { return ErrorCode{code: code, sentinel: err} }

// ErrorType registers an error type, usually a pointer to a struct, under a code.
// Its values cross the journal through the codec. The code is stored: keep it. Where
// workflow code gets one whose record is no T any more, the run stalls with CauseDecode. A process
// whose Config.Errors lacks the code does not execute a run that gets one from a step (see ErrLacks);
// readers outside of workflows, and code with FailOnBug, get a *Failure with its message.
func ErrorType[T error](code string) ErrorCode {
	return ErrorCode{code: code, typ: reflect.TypeFor[T]()}
}

// errorTable turns errors into records and back.
type errorTable struct {
	codecs codecs
	codes  map[string]ErrorCode
	types  map[reflect.Type]ErrorCode
	values []ErrorCode // sentinels
}

func newErrorTable(c codecs, codes []ErrorCode) (*errorTable, error) {
	t := &errorTable{codecs: c, codes: map[string]ErrorCode{}, types: map[reflect.Type]ErrorCode{}}
	var problems []error
	for _, ec := range codes {
		_, taken := t.codes[ec.code]
		switch {
		case ec.code == "" || ec.sentinel == nil && ec.typ == nil:
			problems = append(problems, fmt.Errorf("errors: a code and an error are needed; make entries with Sentinel or "+
				"ErrorType: %w", ErrInvalid))
		case reserved[ec.code]:
			problems = append(problems, fmt.Errorf("errors: code %q is one of stet's own: choose another in Config.Errors, "+
				"none of %s: %w", ec.code, strings.Join(slices.Sorted(maps.Keys(reserved)), ", "), ErrInvalid))
		case taken:
			problems = append(problems, fmt.Errorf("errors: code %q is in Config.Errors twice: each error needs a code of its "+
				"own: %w", ec.code, ErrInvalid))
		case ec.typ != nil:
			t.types[ec.typ] = ec
		default:
			t.values = append(t.values, ec)
		}
		t.codes[ec.code] = ec
	}
	return t, errors.Join(problems...)
}

// reserved are the codes of the engine's own failures.
var reserved = map[string]bool{
	stored.CodeError: true, stored.CodePanic: true, stored.CodeTimeout: true, stored.CodeCancelled: true,
	stored.CodeStep: true, stored.CodeTooLarge: true, stored.CodeEncoding: true, stored.CodeInput: true,
	stored.CodeDeadlock: true, stored.CodeBudget: true, stored.CodeMisuse: true,
	stored.CodeRun: true, stored.CodeNotFound: true, stored.CodeUnknownWorkflow: true, stored.CodeNoQueue: true,
	stored.CodeExists:    true,
	stored.CodeInboxFull: true, stored.CodeStall: true, stored.CodeTerminal: true, // not CodeLost: applications have it
}

// accepts reports whether the code of a worker's failure may stand in a record: one of the
// engine's own, or of an error type, says more than a worker has said.
func (t *errorTable) accepts(code string) bool { return !reserved[code] && t.codes[code].typ == nil }

// meanings are the errors that the engine's own failures wrap.
var meanings = map[string]error{
	stored.CodeTimeout: ErrTimeout, stored.CodeCancelled: ErrCancelled, stored.CodePanic: ErrPanic,
	stored.CodeTooLarge: ErrTooLarge, stored.CodeInput: ErrInput,
	stored.CodeNotFound: ErrNotFound, stored.CodeUnknownWorkflow: ErrUnknownWorkflow, stored.CodeNoQueue: ErrNoQueue,
	stored.CodeExists:    ErrExists,
	stored.CodeInboxFull: ErrInboxFull, stored.CodeTerminal: ErrTerminal,
}

// record returns err as it is stored. A nil error gives nil.
func (t *errorTable) record(err error) *stored.Failure {
	r := recording{t, maxErrors}
	return r.record(err, 0)
}

const (
	// maxChain bounds how far an error is unwrapped: a chain may be a circle.
	maxChain = 100
	// maxErrors bounds how many errors are recorded of one.
	maxErrors = 10_000
)

// recording makes a record of an error. What is deeper, or more, than a record holds is
// left out.
type recording struct {
	*errorTable
	left int
}

func (t *recording) record(err error, depth int) *stored.Failure {
	if t.left--; t.left < 0 || depth > maxChain {
		return nil
	}
	depth++
	switch e := err.(type) {
	case nil:
		return nil
	case *stored.Failure:
		return e
	case *continuation:
		return e.misplaced("a step, or another function that is not the workflow's own")
	case *stall:
		return e.misplaced("a step")
	case *recordedError:
		return t.passOn(e.record)
	case *permanent:
		return t.record(e.err, depth)
	case *rollback:
		return t.record(e.err, depth)
	case *retryAfter:
		return t.record(e.err, depth)
	case *StepError:
		f := &stored.Failure{Code: stored.CodeStep, Message: e.Error(), Location: e.Location, Attempts: e.Attempts}
		for _, cause := range e.Causes {
			f.Causes = append(f.Causes, t.record(cause, depth))
		}
		return f
	case *RunError:
		return t.recordRun(e, depth)
	case *Failure:
		f := &stored.Failure{Code: e.Code, Message: e.Message, Stack: e.Stack, Details: e.details,
			Foreign: t.isForeign(e.Code, e.details)}
		if meanings[e.Code] == nil {
			f.Cause = t.record(e.Cause, depth)
		}
		for _, joined := range e.Joined {
			f.Causes = append(f.Causes, t.record(joined, depth))
		}
		return f
	}
	f := &stored.Failure{Code: stored.CodeError, Message: err.Error()}
	switch err {
	case ErrCancelled:
		f.Code = stored.CodeCancelled
	case ErrTimeout:
		f.Code = stored.CodeTimeout
	}
	for _, ec := range t.values {
		if sameError(err, ec.sentinel) {
			f.Code = ec.code
			return f
		}
	}
	if ec, ok := t.types[reflect.TypeOf(err)]; ok {
		details, encodeErr := t.codecs.encode(err)
		if encodeErr == nil {
			f.Code, f.Details = ec.code, details
			return f
		}
		f.Message += " (" + encodeErr.Error() + ")"
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		f.Cause = t.record(e.Unwrap(), depth)
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			f.Causes = append(f.Causes, t.record(joined, depth))
		}
	}
	return f
}

// isForeign reports whether there are details of an error type that this process does not know.
func (t *errorTable) isForeign(code string, details []byte) bool {
	_, known := t.codes[code]
	return details != nil && !known && !reserved[code]
}

// passOn returns the record of an error that another process has recorded, with a note of what is foreign in it.
func (t *errorTable) passOn(f *stored.Failure) *stored.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Foreign = f.Foreign || t.isForeign(f.Code, f.Details)
	out.Cause, out.Causes = t.passOn(f.Cause), slices.Clone(f.Causes)
	for i := range out.Causes {
		out.Causes[i] = t.passOn(out.Causes[i])
	}
	return &out
}

// wrapped returns the first E that err is or wraps, or the zero E.
func wrapped[E error](err error) (found E) {
	anyError(err, func(err error) (ok bool) {
		found, ok = err.(E)
		return ok
	})
	return found
}

// anyError reports whether test accepts err, or an error that it wraps. Unlike errors.Is
// it ends also if the errors wrap one another in a circle.
func anyError(err error, test func(error) bool) bool {
	left := maxErrors
	var walk func(err error, depth int) bool
	walk = func(err error, depth int) bool {
		if left--; err == nil || left < 0 || depth > maxChain {
			return false
		}
		if test(err) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			return walk(e.Unwrap(), depth+1)
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return walk(err, depth+1) })
		}
		return false
	}
	return walk(err, 0)
}

// isCancelled reports whether err is or wraps ErrCancelled.
func isCancelled(err error) bool {
	return anyError(err, func(err error) bool { return err == ErrCancelled })
}

// sameError reports whether a and b are the same error value.
func sameError(a, b error) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// restore is the inverse of record.
func (t *errorTable) restore(f *stored.Failure) error {
	if f == nil {
		return nil
	}
	if f.Rollback {
		g := *f
		g.Rollback = false
		return &rollback{t.restore(&g)}
	}
	if f.Code == stored.CodeStep {
		e := &StepError{Location: f.Location, Attempts: f.Attempts}
		for _, cause := range f.Causes {
			e.Causes = append(e.Causes, t.restore(cause))
		}
		return e
	}
	if f.Code == stored.CodeRun {
		return t.restoreRun(f)
	}
	if ec, ok := t.codes[f.Code]; ok {
		if err := t.restoreCoded(ec, f); err != nil {
			return err
		}
	}
	out := &Failure{Code: f.Code, Message: f.Message, Stack: f.Stack, Cause: t.restore(f.Cause), details: f.Details}
	if out.Cause == nil {
		out.Cause = meanings[f.Code]
	}
	for _, joined := range f.Causes {
		out.Joined = append(out.Joined, t.restore(joined))
	}
	return out
}

// restoreCoded returns the registered error, or nil if the record does not fit
// the type that the code has now.
func (t *errorTable) restoreCoded(ec ErrorCode, f *stored.Failure) error {
	if ec.sentinel != nil {
		return ec.sentinel
	}
	restored, err := t.decodeDetails(ec, f)
	if err != nil {
		return nil
	}
	return restored
}

// decodeDetails returns the error of a registered type.
func (t *errorTable) decodeDetails(ec ErrorCode, f *stored.Failure) (restored, err error) {
	if f.Details == nil { // the code was a sentinel's
		return nil, errors.New("nothing is recorded of it")
	}
	target := reflect.New(ec.typ)
	if err := t.codecs.decode(f.Details, target.Interface()); err != nil {
		return nil, err
	}
	restored, _ = target.Elem().Interface().(error)
	return restored, nil
}

// undecodable returns the first error in f, or in what it wraps, that is recorded with
// the code of a registered type and is no such error; nil: there is none. In the failure of a step, ours, it also
// returns one of a type that this process does not know: its code would take another branch than where the step failed.
func (t *errorTable) undecodable(f *stored.Failure, ours bool) *runner.Undecodable {
	if f == nil {
		return nil
	}
	ours = ours && f.Code != stored.CodeRun
	if ours && !f.Foreign && t.isForeign(f.Code, f.Details) {
		what := fmt.Sprintf("error %q", f.Code)
		return &runner.Undecodable{What: what, Recorded: recordedForm(f.Details), Wanted: "error",
			Reason: "Config.Errors has no such type",
			Lacks:  fmt.Errorf("%s: Config.Errors has no such type: %w", what, ErrLacks)}
	}
	if ec, ok := t.codes[f.Code]; ok {
		if ec.typ == nil {
			return nil
		}
		_, err := t.decodeDetails(ec, f)
		if err == nil {
			return nil // what it wraps is not restored
		}
		return undecodableAs(ec.typ, fmt.Sprintf("error %q", ec.code), f.Details, err)
	}
	if u := t.undecodable(f.Cause, ours); u != nil {
		return u
	}
	for _, cause := range f.Causes {
		if u := t.undecodable(cause, ours); u != nil {
			return u
		}
	}
	return nil
}

// seen turns an error of the runner into what workflow code sees. An error of a registered
// type that does not decode stops the run; with FailOnBug it is a plain *Failure.
func (c Context) seen(err error) error {
	f, ok := err.(*stored.Failure)
	if !ok {
		return err
	}
	table := c.env.engine.errors
	if u := table.undecodable(f, f.Code == stored.CodeStep); u != nil {
		c.branch.Undecodable(u, false)
	}
	return table.restore(f)
}
