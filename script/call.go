package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
)

// # Interpreter and driver
//
// A script's run has two halves. The interpreter executes JavaScript: it knows operations by number, and begins none.
// The driver belongs to the run's branch: it executes operations, and enters the interpreter with what they give. What
// they say to each other is data, so that they need not be in one process. All of it is in this file.

// script is an interpreter as its driver sees it. A driver enters it for one stretch after the other.
type script interface {
	// enter executes code of the script until it waits. Meanwhile the script asks its host.
	enter(e entry) left
	// end drops the interpreter.
	end()
}

// host is what an interpreter asks within a stretch. Its driver answers.
type host interface {
	random() float64
	header(name string) string
	// token makes a promise that is assigned from outside. It returns the number for a call with awaitToken.
	token(name string, clean bool) (token string, number int, failed *problem)
	// continueAsNew returns the problem with which the script ends this incarnation.
	continueAsNew(input string) *problem
	log(level slog.Level, text string)
}

// entry is what happens to a script at the begin of a stretch: one of these.
type entry struct {
	Begin  *beginning
	Settle *outcome
	Cancel bool // the run is cancelled
	Finish bool // the result is to be given, and nothing is begun any more

	Now time.Time // the time of the run, during the stretch
}

// beginning is what a script begins with.
type beginning struct {
	RunID string
	Input json.RawMessage
}

// outcome is what an operation has given.
type outcome struct {
	Number  int // of the operation
	Value   json.RawMessage
	Problem *problem // nil: it has succeeded
}

// left is what an interpreter leaves a stretch with.
type left struct {
	Calls   []call // begun in the stretch, in their order
	Cancels []int  // operations of former stretches that are cancelled
	State   resultState
	Owes    bool // operations with an effect are under way
	Result  string
	Failure *failure // with which the run ends; nil: none
}

// resultState is how far the result of a script is.
type resultState int

const (
	resultPending resultState = iota
	resultFulfilled
	resultRejected
)

// problem is an error of an operation, as a script sees it.
type problem struct {
	Name, Code, Message string
	Attempts            int
	Number              int   // of err, where the interpreter is in another process; 0: it has none
	err                 error // which the run ends with if nothing catches it
}

// cancelled is the problem of what a script calls when it is cancelled.
var cancelled = problemOf(stet.ErrCancelled)

// problemOf returns an error as a script sees it.
func problemOf(err error) *problem {
	p := &problem{Name: "TaskError", Message: err.Error(), err: err}
	var step *stet.StepError
	if errors.As(err, &step) {
		p.Attempts = step.Attempts
		if len(step.Causes) > 0 {
			p.Message = step.Causes[len(step.Causes)-1].Error()
		}
	}
	var failed *stet.Failure
	if errors.As(err, &failed) {
		p.Code = failed.Code
	}
	switch {
	case errors.Is(err, stet.ErrCancelled):
		p.Name = "Cancelled"
	case errors.Is(err, stet.ErrTimeout):
		p.Name = "Timeout"
	}
	return p
}

// cancels reports whether a problem is that the run, or a part of it, is cancelled.
func (p *problem) cancels() bool { return p.Name == cancelled.Name }

// failure is why a script cannot go on.
type failure struct {
	Problem *problem // of an operation; nil: it is another failure
	Fault   bool     // of the code: the run stalls
	Text    string
}

// Error implements error, within the interpreter.
func (f *failure) Error() string {
	if f.Problem != nil {
		return f.Problem.Message
	}
	return f.Text
}

func faultf(format string, args ...any) *failure {
	return &failure{Fault: true, Text: fmt.Sprintf(format, args...)}
}

// act is what an operation does.
type act int

const (
	_ act = iota
	runTask
	delay
	receive
	runChild
	startChild
	setValue
	appendItem
	receiveEvent
	publish
	awaitToken
)

// acts are the kind of the entry that an operation has in its branch, if it is of interest, and whether it has an
// effect: the run does not succeed before such an operation has ended. What only waits ends with the run.
var acts = map[act]struct {
	kind   string
	effect bool
}{
	runTask: {"step", true}, runChild: {"child", true}, startChild: {"child", true},
	setValue: {"", true}, appendItem: {"", true}, publish: {"", true},
	delay: {"sleep", false}, receive: {"receive", false}, receiveEvent: {"receive", false}, awaitToken: {"", false},
}

// call is an operation that a script has begun.
type call struct {
	Number    int // of the interpreter's operations, from 1
	Act       act
	Name, Key string
	Input     string  // JSON
	Seconds   float64 // of a delay, or the deadline of a wait; below 0: it has none
	Task      taskOptions
	Child     childOptions
	Token     int  // the number of host.token
	Clean     bool // it works in a cancelled run
	Unwanted  bool // it was cancelled in the stretch that has called it
	At        stet.ScriptPlace
}

// taskOptions are those of Task.run.
type taskOptions struct {
	Undo, Queue                 string
	Attempts, Priority, Timeout float64
}

// childOptions are those of Workflow.run and Workflow.start.
type childOptions struct {
	Named         bool // it has an ID, which may be empty
	ID            string
	Tags, Headers map[string]string
}
