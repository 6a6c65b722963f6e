package runner

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"
)

// ErrCancelled is what every operation of a cancelled branch returns.
var ErrCancelled = errors.New("cancelled")

// ErrTimeout is the outcome of a wait whose deadline won.
var ErrTimeout = errors.New("timeout")

// Codes of the failures that the engine itself makes. They are stored.
const (
	CodeError     = "error"     // an error of no registered kind
	CodePanic     = "panic"     // a panic in workflow or step code
	CodeTimeout   = "timeout"   // a deadline has passed
	CodeCancelled = "cancelled" // a step that was cancelled
	CodeStep      = "step"      // a step that has failed for good
	CodeTooLarge  = "too_large" // a value over the limit
	CodeEncoding  = "encoding"  // a value that cannot be encoded or decoded
	CodeInput     = "input"     // an input that cannot be decoded
	CodeDeadlock  = "deadlock"  // every branch waits for another
	CodeBudget    = "budget"    // the history has grown over its budget
	CodeMisuse    = "misuse"    // an operation where none is allowed
)

const (
	maxMessage = 64 << 10
	maxStack   = 32 << 10
	maxCauses  = 20
	maxDepth   = 16
)

// Failure is an error as it crosses the journal: what remains of it after a
// replay. A Failure is not changed once made.
type Failure struct {
	Code     string     `cbor:"1,keyasint"`
	Message  string     `cbor:"2,keyasint,omitempty"`
	Details  []byte     `cbor:"3,keyasint,omitempty"` // encoded value of a registered error type
	Stack    string     `cbor:"4,keyasint,omitempty"`
	Cause    *Failure   `cbor:"5,keyasint,omitempty"`
	Location string     `cbor:"6,keyasint,omitempty"` // text form
	Attempts int        `cbor:"7,keyasint,omitempty"`
	Causes   []*Failure `cbor:"8,keyasint,omitempty"` // of a step: per attempt, oldest first
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// bounded returns f cut to what a record may hold.
func (f *Failure) bounded(depth int) *Failure {
	if f == nil || depth >= maxDepth {
		return nil
	}
	g := *f
	g.Message = cut(g.Message, maxMessage)
	g.Stack = cut(g.Stack, maxStack)
	g.Cause = g.Cause.bounded(depth + 1)
	if n := len(g.Causes); n > maxCauses {
		g.Causes = g.Causes[n-maxCauses:]
	}
	causes := make([]*Failure, 0, len(g.Causes))
	for _, c := range g.Causes {
		if c = c.bounded(depth + 1); c != nil {
			causes = append(causes, c)
		}
	}
	g.Causes = causes
	return &g
}

// cut shortens s to at most n bytes, at a rune's border.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// PanicFailure returns the failure of code that panicked with p. Call it in the
// deferred function that recovered.
func PanicFailure(p any) *Failure {
	f := &Failure{Code: CodePanic, Message: fmt.Sprintf("panic: %v", p), Stack: string(debug.Stack())}
	return f.bounded(0)
}
