package stet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

// Runs are the runs of an engine's store, for operators: to list and read them, and
// to change what they do. Application code starts runs with a Workflow and reads one
// with its handle, a Run. Safe for concurrent use, like all that an Engine returns.
type Runs struct{ engine *Engine }

// Runs returns the runs of the store.
func (e *Engine) Runs() Runs { return Runs{e} }

// RunInfo is how a run stands.
type RunInfo struct {
	store.Run
	// WaitsFor says what a suspended run waits for, up to ten of them.
	WaitsFor []Wait
	// Headers are those that the run was started with. They stand for the encoded
	// ones in Run.
	Headers Headers
	// OnQueue says where it stands in its queue; nil: it is on none. It stands for the
	// encoded place in Run.
	OnQueue *QueuePlace
	// Err is why it has not succeeded, or nil.
	Err error
}

// Wait is something that a suspended run waits for.
type Wait struct {
	Location string    `json:"location"`
	Kind     string    `json:"kind"`            // "sleep", "receive", "promise", "child", …
	Names    []string  `json:"names,omitempty"` // of messages
	Run      string    `json:"run,omitempty"`   // ID of a child or an awaited run
	Topic    string    `json:"topic,omitempty"` // of an event
	Queue    string    `json:"queue,omitempty"` // of a step that waits for a permit of it
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"` // deadline; zero: none
}

// Info returns how a run stands. ErrNotFound: there is none with the ID.
func (r Runs) Info(ctx context.Context, runID string) (*RunInfo, error) {
	run, ok, err := r.engine.inner.Get(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("get run %q: %w", runID, err)
	}
	if !ok {
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	return r.engine.Info(run), nil
}

// Info returns how a listed run stands; what it waits for and its error are there
// if it was listed with values.
func (e *Engine) Info(run store.Run) *RunInfo {
	info := &RunInfo{Run: run, OnQueue: queuePlace(&run), Err: e.runError(&run)}
	info.Headers, _ = decodeHeaders(run.Headers) // were written by encode
	if run.Waits != nil {
		_ = json.Unmarshal(run.Waits, &info.WaitsFor) // only shown; a newer form shows as nothing
	}
	return info
}

// Wait returns how a run stands once it has ended or stalled. ErrNotFound: there
// is none with the ID. The error is the context's if that ends before.
func (r Runs) Wait(ctx context.Context, runID string) (*RunInfo, error) {
	run, ok, err := r.engine.inner.Wait(ctx, runID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("wait for run %q: %w", runID, err)
	case !ok:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	return r.engine.Info(run), nil
}

// List returns a page of the runs that match, newest first. store.ErrBadCursor:
// the cursor is not one of List's.
func (r Runs) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return r.engine.store.List(ctx, f)
}

// Count counts the runs that match, by workflow and status.
func (r Runs) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	return r.engine.store.Count(ctx, f)
}

// Audit returns what operators did to a run, oldest first. Requests that were
// refused are not in it. ErrNotFound: there is no run with the ID.
func (r Runs) Audit(ctx context.Context, runID string) ([]store.Audit, error) {
	run, ok, err := r.engine.inner.Get(ctx, runID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("audit of run %q: %w", runID, err)
	case !ok:
		return nil, fmt.Errorf("audit of run %q: %w", runID, ErrNotFound)
	}
	return r.engine.store.Audit(ctx, run.No)
}
