package view

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// undoing is why a run that has begun to undo its steps is not retried.
const undoing = "its undoing has begun: it can be rewound to before what is undone, and not retried"

// undoneMemo keeps the first undone step of the run that was read last: a caller that waits for a
// change reads an ended run twice a second, and its history stays as it is.
type undoneMemo struct {
	mu     sync.Mutex
	of     undoneKey
	undone bool
	before string
}

// undoneKey is the part of an ended run's row that changes whenever its history does.
type undoneKey struct {
	number                  store.RunNo
	incarnation, generation int
	status                  store.Status
}

// judge completes the verbs that a run refuses by its row with those that its history forbids: a
// run that has undone steps is not retried. It is rewound instead, to before the first of them.
func (v *View) judge(ctx context.Context, info *stet.RunInfo, run *api.Run) error {
	const retry = "retry"
	if run.Refused[retry] != "" && info.Status != store.Cancelled {
		return nil
	}
	undone, before, err := v.firstUndone(ctx, info)
	if err != nil {
		return err
	}
	if undone && run.Refused[retry] == "" {
		if run.Refused == nil {
			run.Refused = map[string]string{}
		}
		run.Refused[retry] = undoing
	}
	if run.Refused["rewind"] == "" {
		run.RewindBefore = before
	}
	return nil
}

// firstUndone reports whether a run that is over has begun to undo its steps, and returns the location
// before which it can be rewound; "": none.
func (v *View) firstUndone(ctx context.Context, info *stet.RunInfo) (undone bool, before string, err error) {
	key := undoneKey{info.Number, info.Incarnation, info.Generation, info.Status}
	m := &v.undone
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == key && info.Status.Terminal() { // a stalled run may have gone on, and stalled again
		return m.undone, m.before, nil
	}
	entries, err := v.engine.Runs().History(ctx, info.ID, stet.HistoryQuery{})
	if errors.Is(err, stet.ErrNotFound) {
		return false, "", nil // it was deleted since its row was read
	}
	if err != nil {
		return false, "", err
	}
	numbers := make(map[string]int64, len(entries))
	checked := false // whether a rewind to there needs a second look
	for i := range entries {
		e := &entries[i]
		numbers[e.Location] = e.Number
		checked = checked || e.Kind == store.KindLoop || e.Kind == store.KindSagaUndo
	}
	first := int64(0)
	for i := range entries {
		e := &entries[i]
		if e.Kind != store.KindUndo {
			continue
		}
		undone = true
		step := e.Location[:max(strings.LastIndexByte(e.Location, '/'), 0)]
		if n := numbers[step]; n > 0 && (first == 0 || n < first) {
			first, before = n, step
		}
	}
	if before != "" && checked { // iterations may be pruned, and sagas be undone across
		_, err = v.engine.Runs().Preview(ctx, info.ID, store.ItemRewind, before)
		switch {
		case errors.Is(err, stet.ErrRefused) || errors.Is(err, stet.ErrNotFound):
			before = ""
		case err != nil:
			return false, "", err
		}
	}
	m.of, m.undone, m.before = key, undone, before
	return undone, before, nil
}
