package stet

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/stet-run/stet/internal/runfile"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// ReplayError says that the code does not fit what a run has recorded. The run
// would stall, fail or end differently if the code were deployed.
type ReplayError struct {
	RunID    string
	Workflow string

	// Cause is that of the stall in which the run would end; "": it would not stall.
	Cause Cause

	// Of a stall: where it is, what the history has there, what the code asks for
	// instead, or what is wrong with it, names that are near, and what to do. What does
	// not apply is empty.
	Location string
	Recorded string
	Asked    string
	Nearest  []string
	Remedy   string

	// Reason says all of it in one line.
	Reason string
}

// Error names the run, the workflow and the reason.
func (e *ReplayError) Error() string {
	return fmt.Sprintf("replay of run %q of workflow %s: %s", e.RunID, e.Workflow, e.Reason)
}

// Replay replays an exported run against the code that this engine has for its
// workflow. It executes no step, writes nothing and looks at no store. nil: the
// code fits. A *ReplayError says where and why it does not. A run that has ended
// must end in the same way, with the same result. Other errors:
// ErrUnknownWorkflow if the engine has no code for the run, ErrInvalid if r does
// not give an exported run, and those of r and ctx.
//
// The codecs, errors and limits are those of the engine's Config.
func (e *Engine) Replay(ctx context.Context, r io.Reader) error {
	s, err := runfile.Read(r)
	if err != nil {
		return fmt.Errorf("replay: %w: %w", err, ErrInvalid)
	}
	return e.replay(ctx, s, nil)
}

// replayPatience is how long the code of a run may take for its replay without
// an end.
const replayPatience = 10 * time.Second

// replay replays a snapshot that has all values, against the engine's code, or another.
func (e *Engine) replay(ctx context.Context, s *store.Snapshot, against Definition) error {
	d, err := definitionOf(ctx, e, s)
	if against != nil {
		d, err = against.inner(), nil
	}
	if err != nil {
		return fmt.Errorf("replay of run %q: the library does not give its code: %w", s.Run.ID, err)
	}
	if d == nil {
		return fmt.Errorf("replay of run %q: %w %q: this engine has no code for it", s.Run.ID, ErrUnknownWorkflow,
			s.Run.Workflow)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.rehearse(d, s) }()
	patience := time.NewTimer(replayPatience)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("replay of run %q: %w", s.Run.ID, context.Cause(ctx))
	case <-patience.C:
		return &ReplayError{RunID: s.Run.ID, Workflow: s.Run.Workflow, Reason: fmt.Sprintf(
			"the code has reached no operation and no end for %s; it is left running", replayPatience)}
	}
}

// rehearse replays a snapshot against a definition.
func (e *Engine) rehearse(d *definition, s *store.Snapshot) error {
	env := d.environment(e, &s.Run)
	env.log = slog.New(slog.DiscardHandler)
	out := &ReplayError{RunID: s.Run.ID, Workflow: s.Run.Workflow}
	workflow := d.workflow(e)
	cfg := workflow.Activation(s, e.limits)
	cfg.Code = d.code(env)
	cfg.FailBugs = cfg.FailBugs || failedByBug(&s.Run) // its end is to be the same
	rehearsal, err := runner.Rehearse(cfg)
	switch {
	case err != nil:
		out.Reason = err.Error()
	case rehearsal.Over == nil:
		return nil // it waits for what is not recorded
	case rehearsal.Over.Stall != nil:
		stall := rehearsal.Over.Stall
		out.Location, out.Recorded, out.Asked = stall.Location, stall.Recorded, stall.Asked
		out.Nearest, out.Remedy = stall.Nearest, stall.Remedy
		out.Cause = Cause(cmp.Or(stall.Cause, stored.CauseMismatch))
		out.Reason = stall.Error()
	case rehearsal.Over.Status == store.Stalled:
		out.Reason = rehearsal.Over.Reason
	default:
		out.Reason = e.compareEnds(&s.Run, rehearsal.Over)
	}
	if out.Reason == "" {
		return nil
	}
	over := rehearsal.Over // nil: this process lacks what a value needs
	if misread := rehearsal.Misread; misread != nil && (over == nil || over.Stall == nil) {
		out.Reason += "; before that: " + misread.Error()
	}
	return out
}

// compareEnds says in which way the end of a run differs from what is recorded,
// or returns "".
func (e *Engine) compareEnds(run *store.Run, over *runner.Outcome) string {
	switch {
	case run.Status == store.Stalled && run.Output != nil && over.Status == store.Failed &&
		failureText(run.Output) == failureText(over.Output):
		return "" // it has failed, and waits for a person
	case !run.Status.Terminal():
		// A run that lives may be about to succeed; a failure at once is due to the
		// code.
		if over.Status == store.Failed {
			return "the run would fail at once: " + failureText(over.Output)
		}
		return ""
	case run.Status == store.Cancelled:
		return "" // terminated, or ended by its cancel
	case over.Renewal != nil:
		return fmt.Sprintf("the run has %s, with the code it continues as new", run.Status)
	case over.Status != run.Status:
		text := fmt.Sprintf("the run has %s, with the code it has %s", run.Status, over.Status)
		if over.Status == store.Failed {
			text += ": " + failureText(over.Output)
		}
		return text
	case run.Status == store.Failed:
		if was, is := failureText(run.Output), failureText(over.Output); was != is {
			return fmt.Sprintf("the run has failed with %q, with the code it fails with %q", was, is)
		}
	case !bytes.Equal(run.Output, over.Output):
		return fmt.Sprintf("the run's result was %s, with the code it is %s", shortValue(run.Output), shortValue(over.Output))
	}
	return ""
}

func failureText(output []byte) string {
	f, err := stored.DecodeFailure(output)
	if err != nil {
		return err.Error()
	}
	return f.Code + ": " + f.Message
}

// shortValue shows a stored value.
func shortValue(data []byte) string {
	const most = 200
	switch {
	case data == nil:
		return "nothing"
	case len(data) == 0:
		return "empty"
	case len(data) > most:
		return fmt.Sprintf("%q… (%d bytes, SHA-256 %x)", data[1:most], len(data), short(data))
	}
	return fmt.Sprintf("%q", data[1:])
}
