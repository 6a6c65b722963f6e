// Package definition holds what an engine knows of a workflow: its code, and what was said
// about its runs when it was defined.
package definition

import (
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Workflow is the code of one workflow.
type Workflow struct {
	// Code returns the function of one run, which is given its input.
	Code         func(run *store.Run) func(*runner.Branch) ([]byte, *stored.Failure)
	MaxRun       time.Duration // longest run time; 0: without limit
	MaxSuspended time.Duration // longest time without a completion while suspended; 0: without limit
	PauseAfter   int           // as in runner.Config
	Footprint    int           // bytes of memory that a run's code holds while it waits, beside its history
	Discard      bool          // items that an ended run has not received are dropped: no dead letters
	DiscardNames []string      // names of messages that are, when Discard does not say it of all items

	// As in runner.Config.
	UndoFailed, UndoCancelled, StallFailed, FailBugs bool
}

// Activation returns the configuration of a run of the workflow, without its code and the
// functions that read the store.
func (w *Workflow) Activation(s *store.Snapshot, limits runner.Limits) runner.Config {
	cfg := runner.Config{
		Run: s.Run, Entries: s.Entries, Items: s.Items, Limits: limits,
		MaxSuspended: w.MaxSuspended, PauseAfter: w.PauseAfter,
		UndoFailed: w.UndoFailed, UndoCancelled: w.UndoCancelled, StallFailed: w.StallFailed, FailBugs: w.FailBugs,
	}
	most := w.MaxRun
	_, own := stored.SplitPolicy(s.Run.Headers)
	if own.Over(&most, &cfg.MaxSuspended, &cfg.StallFailed, &cfg.FailBugs); most > 0 {
		cfg.CancelAt = s.Run.Started.Add(most)
		cfg.MaxRun, cfg.CancelReason = most, "ran longer than "+most.String()
	}
	return cfg
}
