package stet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Run is a handle on one run. It is cheap and safe for concurrent use.
type Run[Out any] struct {
	engine *Engine
	id     string
	no     store.RunNo // 0: the run that has the ID
}

// Handle returns a handle on the run with the ID, which need not exist.
func (w *Workflow[In, Out]) Handle(e *Engine, runID string) *Run[Out] {
	return &Run[Out]{engine: e, id: runID}
}

// ID returns the run's ID.
func (r *Run[Out]) ID() string { return r.id }

// Wait returns the run's result once it has ended. If it has failed, was
// cancelled or is stalled the error is a *RunError. It is the context's if that
// ends before, and ErrNotFound if there is no such run. A context that ends at once does
// not hide a result that is there: Wait looks once. While the store cannot be reached Wait
// goes on; if ctx ends then, the error wraps store.ErrUnavailable, too.
func (r *Run[Out]) Wait(ctx context.Context) (Out, error) {
	run, err := r.engine.Runs().wait(ctx, r.id, r.no)
	if err != nil {
		var none Out
		return none, err
	}
	return r.result(run)
}

// Result is Wait without waiting: it reports whether the run has ended or is stalled, and
// returns what Wait would return then.
func (r *Run[Out]) Result(ctx context.Context) (out Out, ended bool, err error) {
	run, ok, err := r.engine.inner.Get(ctx, r.id)
	switch {
	case err != nil:
		return out, false, fmt.Errorf("result of run %q: %w", r.id, err)
	case !ok:
		return out, false, fmt.Errorf("run %q: %w", r.id, ErrNotFound)
	case !over(&run):
		return out, false, nil
	}
	out, err = r.result(&run)
	return out, true, err
}

// over reports whether a run has ended or is stalled.
func over(run *store.Run) bool { return run.Status.Terminal() || run.Status == store.Stalled }

// result decodes the result of a run that is over.
func (r *Run[Out]) result(run *store.Run) (out Out, err error) {
	if err := r.engine.runError(run); err != nil {
		return out, err
	}
	if err := r.engine.codecs.decode(run.Output, &out); err != nil {
		return out, fmt.Errorf("result of run %q: %w", r.id, err)
	}
	return out, nil
}

// oneLook bounds the look at a run whose waiter's context has ended.
const oneLook = time.Second

// wait waits until the run is over. It looks at it once, whatever the context says.
func (r Runs) wait(ctx context.Context, runID string, from store.RunNo) (*store.Run, error) {
	e := r.engine
	begun := time.Now()
	run, ok, err := e.inner.Waiters().Wait(ctx, runID, from)
	if err != nil && ctx.Err() != nil && time.Since(begun) < oneLook { // perhaps before it was read
		looking, end := context.WithTimeout(context.WithoutCancel(ctx), oneLook)
		now, there, readErr := e.inner.Get(looking, runID)
		end()
		if readErr == nil && (!there || over(&now)) {
			run, ok, err = now, there, nil
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("wait for run %q: %w", runID, err)
	case !ok:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	return &run, nil
}

// Info returns how the run stands now. ErrNotFound: there is no such run.
func (r *Run[Out]) Info(ctx context.Context) (*RunInfo, error) {
	return r.engine.Runs().Info(ctx, r.id)
}

// Cancel is Runs.Cancel.
func (r *Run[Out]) Cancel(ctx context.Context, act Act) (bool, error) {
	return r.engine.Runs().Cancel(ctx, r.id, act)
}

// RunError says that a run has not succeeded.
type RunError struct {
	RunID  string
	Status store.Status `json:",omitzero"` // Failed, Cancelled or Stalled
	Reason string       // of Cancelled and Stalled
	// Owed are the locations of the steps that were completed and whose
	// compensations did not run, because the run was terminated, or cancelled
	// where its code could not run; in the order in which they would have, at most
	// 1,000.
	Owed []string
	// Err is what the workflow has returned, of Failed; ErrCancelled or ErrStalled of
	// the others, which wraps what it has returned if it stalled because of that.
	Err error

	record *stored.Failure // that Err was made from; nil: there is none
}

// Error names the run, the status and the reason.
func (e *RunError) Error() string {
	if e.Status == store.Failed {
		return fmt.Sprintf("run %q failed: %v", e.RunID, e.Err)
	}
	text := fmt.Sprintf("run %q is %s: %s", e.RunID, e.Status, e.Reason)
	if len(e.Owed) > 0 {
		text += "; not undone: " + strings.Join(e.Owed, ", ")
	}
	return text
}

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

// As makes errors.As find the run's failure as a *FailureRecord.
func (e *RunError) As(target any) bool { return asRecord(e.record, target) }

// runError returns the error of a run that has not succeeded, or nil.
func (e *Engine) runError(run *store.Run) error {
	out := &RunError{RunID: run.ID, Status: run.Status, Reason: run.Reason}
	if err := payload.Readable(run.Output); err != nil {
		switch run.Status {
		case store.Failed:
			out.Err = err
		case store.Cancelled:
			out.Err = fmt.Errorf("%w: %w", ErrCancelled, err)
		case store.Stalled:
			out.Err = fmt.Errorf("%w: %w", ErrStalled, err)
		default:
			return nil // a result, which is decoded later
		}
		return out
	}
	switch run.Status {
	case store.Failed:
		failure, err := stored.DecodeFailure(run.Output)
		if err != nil {
			return fmt.Errorf("failure of run %q: %w", run.ID, err)
		}
		out.Err, out.record = e.errors.recorded(failure), failure
	case store.Cancelled:
		out.Err = ErrCancelled
		end, err := stored.DecodeEnding(run.Output)
		if err != nil {
			return fmt.Errorf("what run %q owes: %w", run.ID, err)
		}
		out.Owed = end.Owed
	case store.Stalled:
		out.Err = ErrStalled
		failure, err := stored.RunFailed(run)
		if err != nil {
			return fmt.Errorf("failure of run %q: %w", run.ID, err)
		}
		if failure != nil {
			out.Err, out.record = &stalledError{e.errors.recorded(failure)}, failure
		}
	default:
		return nil
	}
	return out
}

// errDuplicate: an item with this ID from another act is in the inbox.
var errDuplicate = errors.New("duplicate")

// put puts an item into a run's inbox.
func (e *Engine) put(ctx context.Context, runID string, item *store.Item) (store.Answer, error) {
	if item.Kind != store.ItemResume { // of a record that is stalled
		if err := checkNotEntity(runID); err != nil {
			return store.Answer{}, fmt.Errorf("%s: %w", item.Kind, err)
		}
	}
	if err := admit(ctx, e, runID, item); err != nil {
		return store.Answer{}, err
	}
	answers, err := e.inner.Apply(ctx, []store.Command{{RunID: runID, Item: item}})
	if err != nil {
		return store.Answer{}, fmt.Errorf("%s to run %q: %w", item.Kind, runID, err)
	}
	e.inboxes.Sent(runID, answers[0].Run.No, item)
	return answers[0], checkPut(&answers[0], runID, item)
}

// checkPut looks at the answer to an item.
func checkPut(a *store.Answer, runID string, item *store.Item) error {
	switch a.Outcome {
	case store.NotFound:
		return fmt.Errorf("run %q: %w", runID, ErrNotFound)
	case store.Ended:
		return fmt.Errorf("%s to run %q, which is %s: %w", item.Kind, runID, a.Run.Status, ErrTerminal)
	case store.Duplicate:
		return errDuplicate
	}
	return nil
}
