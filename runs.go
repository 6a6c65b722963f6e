package stet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
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
	ID       string
	Number   store.RunNo // names the run in a store.Filter, and as a Parent
	Workflow string
	Shard    store.Shard // whose owner executes the run

	Status      store.Status `json:",omitzero"`
	Marks       store.Marks  `json:",omitzero"`
	Reason      string       // why it is stalled or cancelled
	Cause       Cause        // of a stalled run, in one word; "": it is not stalled
	Incarnation int          // how often it has continued as new
	Generation  int          // how often it was rewound
	Build       string       // of the process that worked on it last; "": no process, or unknown
	Suspect     int          // how often its process died while it executed, as far as that is not refuted

	Parent         store.RunNo // 0: it is no child
	ParentID       string      // of Info and List; "": it is no child, or its parent was deleted
	ParentLocation string      // where the parent has started it; "": there is none, or it was detached

	Created time.Time `json:",omitzero"`
	Started time.Time `json:",omitzero"` // zero: it never ran; a fork has begun when it was created
	Ended   time.Time `json:",omitzero"` // zero: it has not ended
	Wake    time.Time `json:",omitzero"` // when it goes on by itself, or begins; zero: no time is set

	Tags    Tags
	Headers Headers     // that the run was started with
	Policy  RunPolicy   // that the run was started with
	OnQueue *QueuePlace // nil: it is on no queue

	// Unserved says what no process that lives has, and the run needs to be executed: an
	// *UnservedError. nil: one can execute it, or it has ended. Of Info and List.
	Unserved error

	// Why says why the run is in its state, the most important cause first. A listing without values says
	// nothing of what a suspended run waits for. Of Info and List.
	Why []Why

	// WaitsFor says what a suspended run waits for, up to ten operations. A listing
	// without values leaves it out.
	WaitsFor []WaitInfo

	// Input and Output are the values, which a listing without values leaves out.
	// Output is the result of a run that has succeeded; of another it is the record that
	// Err was made from.
	Input, Output         RawValue `json:",omitzero"`
	InputSize, OutputSize int      // encoded, in bytes

	// Err is why the run has not succeeded, a *RunError, or nil. A listing without
	// values leaves it out.
	Err error

	waits []byte // the record of WaitsFor
	lock  *lock  // of a run that has the mark Locked; nil otherwise
}

// LostWake reports whether the run is suspended, waits until a time, and has no time at
// which it wakes: by itself it would never go on. That happens if its row was changed by
// hand. Runs.Nudge repairs it. It needs WaitsFor.
func (i *RunInfo) LostWake() bool {
	return i.Status == store.Suspended && i.Marks&(store.Paused|store.Held) == 0 && i.Wake.IsZero() &&
		slices.ContainsFunc(i.WaitsFor, func(w WaitInfo) bool { return !w.Until.IsZero() })
}

// WaitInfo is something that a suspended run waits for.
type WaitInfo struct {
	Location string   `json:"location"`
	Kind     string   `json:"kind"`             // "sleep", "receive", "promise", "child", …
	Names    []string `json:"names,omitempty"`  // of messages, or of updates
	Update   bool     `json:"update,omitempty"` // Names are those of updates
	Run      string   `json:"run,omitempty"`    // ID of a child or an awaited run
	Topic    string   `json:"topic,omitempty"`  // of an event
	Queue    string   `json:"queue,omitempty"`  // of a step that waits for a permit of it, or of a task
	// Task is the name of a task that a worker is to execute, or executes. TaskSince is when it was offered, or when the
	// worker got it; LeaseUntil is when that worker's lease ends unless it is renewed; zero: it is offered. Worker has it,
	// or had it last, as it names itself.
	Task       string    `json:"task,omitempty"`
	Worker     string    `json:"worker,omitempty"`
	TaskSince  time.Time `json:"task_since,omitzero"`
	LeaseUntil time.Time `json:"lease_until,omitzero"`
	// TaskUnasked says that no worker has asked for a task with this name.
	TaskUnasked bool      `json:"task_unasked,omitempty"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until,omitzero"` // deadline, of a Select the earliest; next attempt; zero: none
	// Failed is how many attempts of a step have failed since Since, all of them, and Error the
	// beginning of the last failure's message.
	Failed int    `json:"failed,omitempty"`
	Error  string `json:"error,omitempty"`
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
	infos := []RunInfo{*r.engine.runInfo(&run)}
	if err := r.complete(ctx, infos); err != nil {
		return nil, err
	}
	return &infos[0], r.stoppedSince(ctx, &infos[0])
}

// stoppedSince fills in since when a run is paused or stalled.
func (r Runs) stoppedSince(ctx context.Context, run *RunInfo) error {
	if run.Status.Terminal() || len(run.Why) == 0 || run.Status != store.Stalled && run.Marks&store.Paused == 0 {
		return nil
	}
	audit, err := r.engine.store.Audit(ctx, run.Number)
	if err != nil {
		return fmt.Errorf("audit of run %q: %w", run.ID, err)
	}
	if rests := restsOf(audit); len(rests) > 0 && rests[len(rests)-1].To == 0 {
		run.Why[0].Since = rests[len(rests)-1].From.Time()
	}
	return nil
}

// complete fills in what the rows of runs do not say.
func (r Runs) complete(ctx context.Context, infos []RunInfo) error {
	e := r.engine
	if err := nameParents(ctx, e.store, infos); err != nil {
		return err
	}
	if err := e.taskWaits(ctx, infos); err != nil {
		return err
	}
	if err := e.lockedRuns(ctx, infos); err != nil {
		return err
	}
	var nodes *NodesInfo
	for i := range infos {
		run := &infos[i]
		if nodes == nil && (!e.serves(run) || run.Status == store.Running) {
			var err error
			if nodes, err = e.Nodes().Info(ctx); err != nil {
				return err
			}
		}
		if nodes != nil {
			run.Unserved = e.unserved(run, nodes)
		}
		run.Why = whyOf(run, nodes)
	}
	return nil
}

// serves reports whether a run needs no node, or has this process without a look at the nodes.
func (e *Engine) serves(run *RunInfo) bool {
	return run.Status.Terminal() || e.single && e.inner.Workflows().Code.Has(run.Workflow) && e.Owner()
}

// unserved returns what the living nodes lack to execute a run, or nil.
func (e *Engine) unserved(run *RunInfo, nodes *NodesInfo) error {
	if !e.serves(run) {
		return nodes.Unserved(run)
	}
	if lack := nodes.unread(run); lack != nil {
		return lack
	}
	return nil
}

// nameParents fills in the IDs of the parents of runs.
func nameParents(ctx context.Context, s store.Store, infos []RunInfo) error {
	parents := map[store.RunNo]string{}
	for i := range infos {
		if no := infos[i].Parent; no != 0 {
			parents[no] = ""
		}
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(parents)), store.DefaultPage) {
		page, err := s.List(ctx, store.Filter{Nos: chunk, Limit: len(chunk)})
		if err != nil {
			return fmt.Errorf("read the parents of runs: %w", err)
		}
		for i := range page.Runs {
			parents[page.Runs[i].No] = page.Runs[i].ID
		}
	}
	for i := range infos {
		infos[i].ParentID = parents[infos[i].Parent]
	}
	return nil
}

// runInfo returns how a run stands, by its row.
func (e *Engine) runInfo(run *store.Run) *RunInfo {
	info := &RunInfo{
		ID: run.ID, Number: run.No, Workflow: run.Workflow, Shard: run.Shard,
		Status: run.Status, Marks: run.Marks &^ store.Admitted, Reason: run.Reason, Cause: Cause(stored.CauseOf(run)),
		Incarnation: run.Incarnation, Generation: run.Generation, Build: run.Build, Suspect: run.Suspect,
		Parent:  run.Parent,
		Created: run.Created.Time(), Started: run.Started.Time(), Ended: run.Ended.Time(), Wake: stored.Waits(run).Time(),
		OnQueue: queuePlace(run), Input: RawValue{run.Input, e.codecs}, Output: RawValue{run.Output, e.codecs},
		InputSize: run.InputSize, OutputSize: run.OutputSize,
		Err: e.runError(run),
	}
	if run.ParentLoc != "" {
		info.ParentLocation = location.Loc(run.ParentLoc).String()
	}
	for _, tag := range run.Tags {
		if info.Tags == nil {
			info.Tags = Tags{}
		}
		info.Tags[tag.Key] = tag.Value
	}
	headers, policy := stored.SplitPolicy(run.Headers)
	info.Headers, _ = decodeHeaders(headers) // were written by encode
	info.Policy = runPolicy(policy)
	if run.Started != 0 && run.Started < run.Created { // of a fork it is the original's, for its code
		info.Started = info.Created
		if run.Status == store.Queued {
			info.Started = time.Time{}
		}
	}
	if run.Waits != nil && run.Status == store.Suspended {
		_ = json.Unmarshal(run.Waits, &info.WaitsFor) // only shown; a newer form shows as nothing
		info.waits = run.Waits
	}
	return info
}

// Wait returns how a run stands once it has ended or stalled. ErrNotFound: there
// is none with the ID. The error is the context's if that ends before; it looks once,
// whatever the context says.
func (r Runs) Wait(ctx context.Context, runID string) (*RunInfo, error) {
	run, err := r.wait(ctx, runID, 0)
	if err != nil {
		return nil, err
	}
	return r.engine.runInfo(run), nil
}

// List returns a page of the runs that match, newest first, and the cursor of the next
// page, "" after the last. Values are read if the filter says so. store.ErrBadCursor:
// the cursor is not one of List's. ErrNotFound: there is no run that its ParentID names.
func (r Runs) List(ctx context.Context, f store.Filter) (runs []RunInfo, next string, err error) {
	f, none, err := r.engine.resolve(ctx, f)
	if err != nil || none {
		return nil, "", err
	}
	page, err := r.engine.store.List(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	runs = make([]RunInfo, len(page.Runs))
	for i := range page.Runs {
		runs[i] = *r.engine.runInfo(&page.Runs[i])
		if !f.Values {
			runs[i].Err = nil // its cause was not read
		}
	}
	if err := r.complete(ctx, runs); err != nil {
		return nil, "", err
	}
	if len(f.IDs) == 1 && len(runs) == 1 {
		return runs, page.Next, r.stoppedSince(ctx, &runs[0])
	}
	return runs, page.Next, nil
}

// Count counts the runs that match, by workflow and status. ErrNotFound is as of List.
func (r Runs) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	f, none, err := r.engine.resolve(ctx, f)
	if err != nil || none {
		return nil, err
	}
	return r.engine.store.Count(ctx, f)
}

// Audit returns what operators did to a run, oldest first, and when the engine has paused or
// stalled it by itself: Who is "engine" then. Requests that were refused are not in it.
// ErrNotFound: there is no run with the ID.
func (r Runs) Audit(ctx context.Context, runID string) ([]store.Audit, error) {
	run, err := r.engine.find(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return r.engine.store.Audit(ctx, run.No)
}
