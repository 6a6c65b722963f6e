package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// undo gives some steps a compensation, which is logged like a step, takes a while, and fails at first. Those of loops
// have none: an iteration with a pending compensation is not pruned.
func (e *execution) undo(name string, value uint64) []stet.StepOption {
	if value%3 != 0 || name == turnName {
		return nil
	}
	return []stet.StepOption{stet.Undo(func(ctx context.Context, got stepResult) error {
		e.linger(ctx)
		switch {
		case got.Value != value:
			return stet.Permanent(fmt.Errorf("expected %d, found %d", value, got.Value))
		case stet.Attempt(ctx) <= int(value%2):
			return errPlanned
		}
		return nil
	})}
}

// checkUndone checks the compensations of a run that has ended. A cancelled one has undone all its steps that have one,
// newest first. A terminated one has undone the newest and lists the others. Any other has undone nothing.
func (a *audit) checkUndone(r *store.Run, entries []stet.HistoryEntry) {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b stet.HistoryEntry) int { return int(b.Number - a.Number) })
	var owed, undone []string // newest first
	for i := range entries {
		switch e := &entries[i]; {
		case e.Kind.Undoes() && e.State == store.Done:
			undone = slices.Insert(undone, 0, strings.TrimSuffix(e.Location, "/undo"))
		case e.Owes:
			owed = append(owed, e.Location)
		}
	}
	a.report.count("steps undone", len(undone))
	var listed []string
	if r.Status == store.Cancelled {
		if end, err := stored.DecodeEnding(r.Output); err == nil {
			listed = end.Owed
		}
	}
	switch {
	case r.Status != store.Cancelled:
		owed = nil
	case strings.HasPrefix(r.Reason, "terminated"):
		for _, place := range listed {
			if slices.Contains(owed, place) { // others may have had an effect, and have no record
				undone = append(undone, place)
			}
		}
	case len(listed) > 0:
		a.report.violated(wrongResults, "run %s was cancelled and lists as owed %s", r.ID, strings.Join(listed, ", "))
	}
	if !slices.Equal(undone, owed) {
		a.report.violated(wrongResults, "run %s is %s (%s): undone or listed are %q, expected %q",
			r.ID, r.Status, r.Reason, undone, owed)
	}
}
