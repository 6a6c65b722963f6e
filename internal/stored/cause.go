package stored

import (
	"strings"

	"github.com/stet-run/stet/store"
)

// Cause says why a run is stalled. It is the word with which the run's reason begins.
type Cause string

// The causes. They are stored.
const (
	CauseMismatch  Cause = "mismatch"  // history and code do not fit together
	CauseDecode    Cause = "decode"    // what is recorded does not decode
	CauseEncode    Cause = "encode"    // a value of the code does not encode, or is too large
	CauseMisuse    Cause = "misuse"    // an operation where none is allowed
	CausePanic     Cause = "panic"     // of workflow code
	CauseDeadlock  Cause = "deadlock"  // every branch waits for another
	CauseCode      Cause = "code"      // the code has asked for it
	CauseBudget    Cause = "budget"    // a bound of the engine is reached
	CauseFailure   Cause = "failure"   // the run would have failed
	CauseUndo      Cause = "undo"      // a compensation has failed for good
	CausePoison    Cause = "poison"    // the run ends its process
	CauseRefused   Cause = "refused"   // the store has refused a turn
	CauseDamaged   Cause = "damaged"   // what is stored cannot be read
	CauseInvariant Cause = "invariant" // the engine's own code has a fault
)

// causes are all, by the first word of the reason.
var causes = map[string]Cause{"broken": CauseInvariant}

func init() {
	for _, c := range []Cause{
		CauseMismatch, CauseDecode, CauseEncode, CauseMisuse, CausePanic, CauseDeadlock, CauseCode, CauseBudget,
		CauseFailure, CauseUndo,
		CausePoison, CauseRefused, CauseDamaged, CauseInvariant,
	} {
		causes[string(c)] = c
	}
}

// CauseOf returns the cause of a stalled run, or "" of another, or if its reason could not
// be opened.
func CauseOf(run *store.Run) Cause {
	if run.Status != store.Stalled {
		return ""
	}
	word, _, _ := strings.Cut(run.Reason, " ")
	return causes[strings.TrimSuffix(word, ":")]
}

// IsBug reports whether the run has stalled in place of failing: for a fault of the workflow's
// code that the engine has found, or the code itself, or for a bound of the engine. A
// difference between code and history is none of these.
func (c Cause) IsBug() bool {
	switch c {
	case CauseDecode, CauseEncode, CauseMisuse, CausePanic, CauseDeadlock, CauseCode, CauseBudget:
		return true
	}
	return false
}

// BugOf returns the cause with which a run stalls instead of failing with f, or "" if f is
// no fault of its code, and no bound of the engine.
func BugOf(f *Failure) Cause {
	switch f.Code {
	case CodeInput:
		return CauseDecode
	case CodeEncoding, CodeTooLarge:
		return CauseEncode
	case CodeMisuse:
		return CauseMisuse
	case CodePanic:
		return CausePanic
	case CodeDeadlock:
		return CauseDeadlock
	case CodeStall:
		return CauseCode
	case CodeBudget:
		return CauseBudget
	}
	return ""
}

// DamagedReason returns the reason of a run that is stalled because what is stored of it
// cannot be read.
func DamagedReason(damage string) string {
	return string(CauseDamaged) + ": " + damage +
		"; correct what is stored, or take it back with a rewind or an edit; then resume the run"
}
