package stored

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stet-run/stet/store"
)

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
	CodeBudget    = "budget"    // a bound of the engine is reached, as the size of the history
	CodeMisuse    = "misuse"    // an operation where none is allowed
	CodeStall     = "stall"     // the code has asked for a stall
	CodeRun       = "run"       // an awaited run that has not succeeded
	CodeNotFound  = "not_found" // an awaited run, or a promise, that does not exist
	CodeTerminal  = "terminal"  // a promise that nothing can assign any more

	CodeExists          = "exists"           // a child whose ID another run has
	CodeNoQueue         = "no_queue"         // a child on a queue that does not exist
	CodeUnknownWorkflow = "unknown_workflow" // a child of a workflow that no process ever had
	CodeInboxFull       = "inbox_full"       // a message to a run that has received too few
	CodeLost            = "lost"             // a task whose leases have expired too often
)

const (
	maxMessage = 64 << 10
	maxStack   = 32 << 10
	maxCauses  = 20
	maxDepth   = 16
	maxFailure = 1 << 20  // of a failure in all
	maxAttempt = 48 << 10 // of an attempt's failure, so that all that are kept fit into one
)

// Failure is an error as it is stored: what remains of it after a replay. A Failure is
// never changed.
type Failure struct {
	Code     string     `cbor:"1,keyasint"`
	Message  string     `cbor:"2,keyasint,omitempty"`
	Details  []byte     `cbor:"3,keyasint,omitempty"` // encoded value of a registered error type
	Stack    string     `cbor:"4,keyasint,omitempty"`
	Cause    *Failure   `cbor:"5,keyasint,omitempty"`
	Location string     `cbor:"6,keyasint,omitempty"` // text form
	Attempts int        `cbor:"7,keyasint,omitempty"`
	Causes   []*Failure `cbor:"8,keyasint,omitempty"` // of a step: per attempt, oldest first
	Rollback bool       `cbor:"9,keyasint,omitempty"` // of a step's attempt: it requests the undoing
	// Began and Ended are when the attempt of a step did whose failure this is; 0: it is of no
	// attempt that has begun.
	Began store.Time `cbor:"10,keyasint,omitempty"`
	Ended store.Time `cbor:"11,keyasint,omitempty"`
	// Headers are those of the request that has rejected the promise whose failure this is.
	Headers []byte `cbor:"12,keyasint,omitempty"`
	// Lead is what the attempt of a step waited for; nil: nothing, or it is not known.
	Lead *Lead `cbor:"13,keyasint,omitempty"`
	// Foreign says that the process that has recorded Details did not know their type: it got them from elsewhere.
	Foreign bool `cbor:"14,keyasint,omitempty"`
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// EncodeFailure returns the stored form of f, cut to the size that an entry may have.
func EncodeFailure(f *Failure) []byte { return encode(f.bounded(maxFailure)) }

// DecodeFailure is the inverse of EncodeFailure. The error wraps
// store.ErrDamaged.
func DecodeFailure(data []byte) (*Failure, error) {
	f := new(Failure)
	if err := decode(data, f); err != nil {
		return nil, err
	}
	if f.Code == "" {
		return nil, fmt.Errorf("failure record without a code: %w", store.ErrDamaged)
	}
	return f, nil
}

// bounded returns f cut to at most size bytes of text and details in all. The bytes of
// the encoding do not count.
func (f *Failure) bounded(size int) *Failure { return f.within(&size, 0) }

// AddCause adds the failure of an attempt to those of the former ones, and cuts it and
// them so that they fit into the step's entry. The newest are kept. began and ended are
// when the attempt did; 0: it did not begin. lead is what it waited for.
func AddCause(causes []*Failure, of *Failure, lead Lead, began, ended store.Time) []*Failure {
	of = of.bounded(maxAttempt)
	of.Began, of.Ended = began, ended
	if began != 0 {
		of.Lead = lead.Notice(began)
	}
	if causes = append(causes, of); len(causes) > maxCauses {
		causes = causes[1:]
	}
	return causes
}

// within returns f cut to what is left of the size, and subtracts its size from left.
// The newest causes are kept.
func (f *Failure) within(left *int, depth int) *Failure {
	if f == nil || depth >= maxDepth || depth > 0 && *left < 1<<10 {
		return nil
	}
	g := *f
	if g.Code == "" {
		g.Code = CodeError
	}
	g.Code, g.Location = take(g.Code, maxMessage, left), take(g.Location, maxMessage, left)
	g.Message = take(g.Message, maxMessage, left)
	if len(g.Details) > min(maxMessage, *left) {
		g.Details = nil // a part could not be decoded
	}
	*left -= len(g.Details)
	g.Stack = take(g.Stack, maxStack, left)
	g.Cause = g.Cause.within(left, depth+1)
	g.Causes = nil
	for _, c := range slices.Backward(f.Causes[max(len(f.Causes)-maxCauses, 0):]) {
		if c = c.within(left, depth+1); c != nil {
			g.Causes = append(g.Causes, c)
		}
	}
	slices.Reverse(g.Causes)
	return &g
}

// take returns s as valid text, cut to most and left, and subtracts its size from left.
func take(s string, most int, left *int) string {
	s = strings.ToValidUTF8(Cut(s, min(most, max(*left, 0))), "\uFFFD")
	*left -= len(s)
	return s
}

// Cut returns s, or its first n bytes up to a rune's border and an ellipsis.
func Cut(s string, n int) string {
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
	f := &Failure{Code: CodePanic, Message: fmt.Sprintf("panic: %v", p), Stack: Stack()}
	return f.bounded(maxFailure)
}

// maxFrames bounds the frames of a stack that is kept.
const maxFrames = 100

// Stack returns the stack of the caller's caller, without addresses and arguments. They
// differ between executions, but a workflow must see the same text in every replay: it
// sees the stack of a branch that panicked.
func Stack() string {
	var pcs [maxFrames]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var b strings.Builder
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return b.String()
		}
	}
}
