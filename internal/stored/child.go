package stored

import (
	"log/slog"
	"strconv"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Child is what the row of a run says of the place that the run has as a child.
type Child struct {
	No     store.RunNo
	Parent store.RunNo // 0: it is none
	Loc    string      // "": it is detached
}

// ChildOf returns the place of a run.
func ChildOf(run *store.Run) Child { return Child{run.No, run.Parent, run.ParentLoc} }

// Log adds the place of a child to a logger, as place=etl-7/load/[acme-0004]. parentID returns the ID of the
// parent of a child if that is known without a read of the store, and "" otherwise: then the number of the parent is in
// its place.
func (c Child) Log(log *slog.Logger, parentID func(child, parent store.RunNo) string) *slog.Logger {
	if c.Parent == 0 || c.Loc == "" {
		return log
	}
	parent := ""
	if parentID != nil {
		parent = parentID(c.No, c.Parent)
	}
	if parent == "" {
		parent = strconv.FormatInt(int64(c.Parent), 10)
	}
	return log.With("place", parent+"/"+location.Loc(c.Loc).String())
}
