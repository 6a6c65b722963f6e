package stet

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// HistoryEntry is what is recorded of one operation of a run.
type HistoryEntry struct {
	Location string           // as in logs: "pack/[sku-7]/pick#2"
	Kind     store.Kind       // step, sleep, receive, …
	State    store.EntryState // open, done, failed, withdrawn
	Number   int64            // in the order of completions, from 1; 0: not completed
	Attempts int              // of a step, on record
	Started  time.Time        // when it was asked for; of a step when its first attempt began
	Ended    time.Time        // zero: not ended
	Wake     time.Time        // deadline, end of a sleep or next attempt of an open one; zero: none
	Size     int              // of the stored value in bytes
	Run      string           // ID of the child or the awaited run, if values are read
	Owes     bool             // a completed step that carries a compensation, undone or not

	value  []byte
	codecs codecs
	errors *errorTable
}

// Decode decodes into v, a pointer, the result of a step that is done, or of a child
// or an awaited run that has succeeded, or of an event, or the number of a version. An entry without
// a value, or one that was read without values, leaves v alone.
func (e *HistoryEntry) Decode(v any) error {
	if e.State != store.Done || e.value == nil {
		return nil
	}
	if err := payload.Readable(e.value); err != nil {
		return err
	}
	switch e.Kind {
	case store.KindStep:
		return e.codecs.decode(e.value, v)
	case store.KindChild, store.KindRun:
		link, err := stored.DecodeLink(e.State, e.value)
		if err != nil {
			return err
		}
		return e.codecs.decode(link.Output, v)
	case store.KindEvent:
		_, _, data, err := stored.DecodeEvent(e.value)
		if err != nil {
			return err
		}
		return e.codecs.decode(data, v)
	case store.KindVersion:
		version, err := stored.DecodeVersion(e.value)
		if err != nil {
			return err
		}
		number, err := (codecs{JSON}).encode(version)
		if err != nil {
			return err
		}
		return (codecs{JSON}).decode(number, v)
	}
	return nil
}

// Err returns the failure of a failed operation, and of an open step or
// compensation that of its last attempt, or nil. It needs values.
func (e *HistoryEntry) Err() error {
	if err := payload.Readable(e.value); err != nil {
		return err
	}
	switch {
	case e.value == nil:
		return nil
	case e.State == store.FailedEntry:
		failure, err := stored.DecodeFailure(e.value)
		if err != nil {
			return err
		}
		return e.errors.restore(failure)
	case e.State == store.Open && (e.Kind == store.KindStep || e.Kind == store.KindUndo):
		progress, err := stored.DecodeProgress(e.value)
		if err != nil || len(progress.Causes) == 0 {
			return err
		}
		return e.errors.restore(progress.Causes[len(progress.Causes)-1])
	}
	return nil
}

// HistoryQuery selects entries. The zero HistoryQuery selects all, without
// values.
type HistoryQuery struct {
	Values bool   // with values
	After  string // only locations after this one, as HistoryEntry.Location gives it
	Limit  int    // at most so many; 0: all
}

// History returns what is recorded of a run, in the order of locations: names
// in byte order, occurrences and iterations by number. Errors: ErrNotFound, and
// ErrInvalid for a location that is none.
func (r Runs) History(ctx context.Context, runID string, q HistoryQuery) ([]HistoryEntry, error) {
	run, ok, err := r.engine.inner.Get(ctx, runID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("history of run %q: %w", runID, err)
	case !ok:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	query := store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation, Limit: q.Limit, Values: q.Values}
	if q.After != "" {
		after, err := location.Parse(q.After)
		if err != nil {
			return nil, fmt.Errorf("history of run %q: After: %w: %w", runID, err, ErrInvalid)
		}
		query.After = string(after)
	}
	recorded, err := r.engine.store.History(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("history of run %q: %w", runID, err)
	}
	entries := make([]HistoryEntry, len(recorded))
	for i := range recorded {
		s := &recorded[i]
		entries[i] = HistoryEntry{
			Location: location.Loc(s.Loc).String(), Kind: s.Kind, State: s.State, Number: s.Seq, Attempts: s.Attempt,
			Started: s.Started.Time(), Ended: s.Ended.Time(), Wake: s.Wake.Time(), Size: s.Size, Owes: s.Owes && s.State == store.Done,
			value: s.Value, codecs: r.engine.codecs, errors: r.engine.errors,
		}
		if s.Value != nil && (s.Kind == store.KindChild || s.Kind == store.KindRun) {
			if link, err := stored.DecodeLink(s.State, s.Value); err == nil { // else Decode or Err say so
				entries[i].Run = link.RunID
			}
		}
		if s.State == store.Open || s.State == store.Withdrawn {
			entries[i].Ended = time.Time{}
		}
	}
	return entries, nil
}
