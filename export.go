package stet

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/runfile"
	"github.com/stet-run/stet/store"
)

// Export writes a run with its history and inbox as a file: JSON with a version,
// all values included, which Replay and stettest.Replay read. The values are there
// as the codec gave them, neither compressed nor encrypted, whatever
// Config.Payloads says: keep the file as carefully as the values themselves. It shows
// the run at one moment; a run that is executing may be exported. Errors:
// ErrNotFound, ErrUnknownKey, and those of the store and of w.
func (r Runs) Export(ctx context.Context, runID string, w io.Writer) error {
	run, ok, err := r.engine.inner.Head(ctx, runID)
	switch {
	case err != nil:
		return fmt.Errorf("export run %q: %w", runID, err)
	case !ok:
		return fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	s, err := r.engine.snapshot(ctx, run.No)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("run %q: %w", runID, err)
	}
	if err == nil {
		err = runfile.Write(w, s)
	}
	if err != nil {
		return fmt.Errorf("export run %q: %w", runID, err)
	}
	return nil
}

// errUnsteady: what was read of a run does not fit together.
var errUnsteady = errors.New("the run changes too fast to be read as a whole; try again")

// snapshot returns a run with all values. ErrNotFound: there is none any more.
func (e *Engine) snapshot(ctx context.Context, no store.RunNo) (*store.Snapshot, error) {
	var err error
	for range 10 { // a run that goes on may change between the two reads
		var s *store.Snapshot
		var complete bool
		if s, complete, err = e.readSnapshot(ctx, no); err != nil || complete {
			return s, err
		}
	}
	return nil, errUnsteady
}

func (e *Engine) readSnapshot(ctx context.Context, no store.RunNo) (s *store.Snapshot, complete bool, err error) {
	snapshots, _, err := e.store.Load(ctx, []store.RunNo{no})
	if err != nil {
		return nil, false, err
	}
	if len(snapshots) == 0 {
		return nil, false, ErrNotFound
	}
	s = &snapshots[0]
	if complete, err := store.FillItems(ctx, e.store, no, s.Items); err != nil || !complete {
		return nil, false, err
	}
	var large []string
	for i := range s.Entries {
		if x := &s.Entries[i]; x.Value == nil && x.Size > 0 {
			large = append(large, x.Loc)
		}
	}
	if large == nil {
		return s, true, nil
	}
	read, err := e.store.History(ctx, store.HistoryQuery{Run: no, Incarnation: s.Run.Incarnation, Locs: large,
		Values: true})
	if err != nil {
		return nil, false, err
	}
	values := make(map[string]store.Entry, len(read))
	for _, x := range read {
		values[x.Loc] = x
	}
	for i := range s.Entries {
		x := &s.Entries[i]
		if x.Value != nil || x.Size == 0 {
			continue
		}
		full := values[x.Loc]
		if full.Value == nil || full.State != x.State || full.Seq != x.Seq || full.Attempt != x.Attempt {
			return nil, false, nil
		}
		if err := payload.Readable(full.Value); errors.Is(err, payload.ErrSealed) {
			return nil, false, fmt.Errorf("%s: %w", location.Loc(x.Loc), err)
		}
		x.Value = full.Value
	}
	return s, true, nil
}
