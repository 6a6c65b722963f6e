package stet

import "fmt"

// ChildFailure says what becomes of the failure of a child that Go has started. It is an
// option of Go; and of Define, as the default for runs of that workflow that Go starts.
type ChildFailure uint8

const (
	// FailAwaiter: the failure is the error of Await, and of nothing if nobody awaits the
	// child. It is the default.
	FailAwaiter ChildFailure = 1
	// FailScope: the failure cancels the scope that has started the child, and is the
	// error of that scope, as if its code had returned it.
	//
	// The scope is the innermost around the call of Go: a Saga, an iteration of a Loop,
	// a branch (of Go, Map, …), or the workflow's function. Its operations and branches
	// get ErrCancelled, except under WithoutCancel, and its other children are cancelled.
	// When its code has returned, whatever it returns, the scope ends with a *RunError: a
	// Saga is undone and returns it, a Loop returns it, a branch's future has it, the run
	// fails with it. The code around the scope goes on. A mark by Rollback stays.
	//
	// Each end but success is a failure, a cancel by somebody else too. The first one
	// counts. It counts also if the child is awaited: Await returns it then as well. It
	// does not count if the scope is over, which matters for LeaveChild only, or is
	// cancelled already.
	FailScope ChildFailure = 2
)

func (f ChildFailure) applyChild(o *childOptions)   { o.fails = f }
func (f ChildFailure) applyDefine(o *defineOptions) { o.childFailure = f }

// over reports whether a child fails its scope, if its workflow's default is def.
func (f ChildFailure) over(def ChildFailure, by usage) (fails bool, err error) {
	for _, given := range []ChildFailure{f, def} {
		if given > FailScope {
			return false, fmt.Errorf("ChildFailure: expected FailAwaiter or FailScope, found %d: %w", given, ErrInvalid)
		}
	}
	if by != byGo {
		if f == FailScope {
			return false, fmt.Errorf("FailScope is an option of Go: Call returns the child's failure, "+
				"and Detach does not wait for it: %w", ErrInvalid)
		}
		return false, nil
	}
	pick(&f, def)
	return f == FailScope, nil
}

// ended returns the error with which the innermost scope of c ends, if its code has returned
// err: that of a child which has failed it.
func (c Context) ended(err error) error {
	failure := c.branch.ScopeFailure()
	if failure == nil {
		return err
	}
	failure = c.seen(failure)
	if asksRollback(err) {
		return Rollback(failure)
	}
	return failure
}
