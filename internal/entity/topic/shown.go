package topic

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// Histories reads the entries of runs. A store.Store does.
type Histories interface {
	History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error)
}

// Shown is an event that a topic holds, as it is shown.
type Shown struct {
	event.Event       // without the value where it is longer than asked for
	Bytes       int   // of the value
	Runs        int64 // that got a broadcast one
	InFlight    bool
}

// Page selects events of a topic. The zero Page selects all.
type Page struct {
	Before  store.ItemNo // only events with a lower number; 0: all
	Limit   int          // at most so many, the last ones; 0: all
	Longest int          // leaves out values with more bytes; 0: none; below 0: all
	// Bytes leaves out the values of older events once those of newer ones have so many bytes; 0: none.
	Bytes int
}

const (
	// readBytes is from how many bytes of records on no further one is read at a time.
	readBytes = 4 << 20
	// readAtOnce is how many are.
	readAtOnce = 500
)

// Events reads events that a topic holds from the entries of its entity, in the order of their numbers. Large values
// that the page leaves out are not in memory together. The error wraps store.ErrDamaged, or payload.ErrSealed.
func Events(ctx context.Context, r Histories, run store.RunNo, p Page) ([]Shown, error) {
	heads, err := r.History(ctx, store.HistoryQuery{Run: run, After: eventLoc})
	if err != nil {
		return nil, err
	}
	heads = slices.DeleteFunc(heads, func(e store.Entry) bool {
		return !strings.HasPrefix(e.Loc, eventLoc) || p.Before > 0 && e.Loc >= at(eventLoc, p.Before)
	})
	if p.Limit > 0 {
		heads = heads[max(len(heads)-p.Limit, 0):]
	}
	if len(heads) == 0 {
		return nil, nil
	}
	s := newState()
	if err := s.read(ctx, r, store.HistoryQuery{Run: run, After: runLoc}); err != nil {
		return nil, err
	}
	inFlight := map[store.ItemNo]bool{}
	for _, reader := range s.readers {
		for _, f := range reader.Flights {
			inFlight[f.Number] = true
		}
	}
	shown, kept := make([]Shown, 0, len(heads)), 0
	for len(heads) > 0 { // from the last ones on
		n, bytes := 0, 0
		var locs []string
		for ; n < min(len(heads), readAtOnce); n++ {
			e := &heads[len(heads)-1-n]
			if bytes += e.Size; n > 0 && bytes > readBytes {
				break
			}
			locs = append(locs, e.Loc, countLoc+strings.TrimPrefix(e.Loc, eventLoc))
		}
		heads = heads[:len(heads)-n]
		part, counts, err := readEvents(ctx, r, store.HistoryQuery{Run: run, Locs: locs})
		if err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(part) {
			one := Shown{e, len(e.Value), counts[e.Number], e.Mode == event.Consumed && inFlight[e.Number]}
			if p.Longest != 0 && len(e.Value) > p.Longest || p.Bytes > 0 && kept >= p.Bytes {
				one.Value = nil
			}
			kept += len(one.Value)
			shown = append(shown, one)
		}
	}
	slices.Reverse(shown)
	return shown, nil
}

// readEvents reads events, and how many runs got them.
func readEvents(ctx context.Context, r Histories, q store.HistoryQuery) ([]event.Event, map[store.ItemNo]int64, error) {
	q.Values = true
	entries, err := r.History(ctx, q)
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	if err != nil {
		return nil, nil, err
	}
	var events []event.Event
	counts := map[string]int64{}
	for i := range entries {
		loc, value := entries[i].Loc, entries[i].Value
		if digits, ok := strings.CutPrefix(loc, countLoc); ok {
			if count, used := binary.Uvarint(value); used > 0 {
				counts[digits] = int64(count)
			}
			continue
		}
		var e event.Event
		if err := event.Decode(value, &e); err != nil {
			return nil, nil, fmt.Errorf("entry %q: %w", loc, err)
		}
		events = append(events, e)
	}
	byNumber := map[store.ItemNo]int64{}
	for i := range events {
		byNumber[events[i].Number] = counts[strings.TrimPrefix(at(countLoc, events[i].Number), countLoc)]
	}
	return events, byNumber, nil
}

// Waiting returns the runs that wait at a topic, in the order of their numbers, from the entries of its entity. It
// reads no event. The errors are those of Events.
func Waiting(ctx context.Context, r Histories, run store.RunNo) ([]store.RunNo, error) {
	s := newState()
	if err := s.read(ctx, r, store.HistoryQuery{Run: run, After: runLoc}); err != nil {
		return nil, err
	}
	var runs []store.RunNo
	for no, r := range s.readers {
		if len(r.Waits) > 0 {
			runs = append(runs, no)
		}
	}
	slices.Sort(runs)
	return runs, nil
}

// read adds entries of the topic's entity to the state.
func (s *state) read(ctx context.Context, r Histories, q store.HistoryQuery) error {
	q.Values = true
	entries, err := r.History(ctx, q)
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	if err != nil {
		return err
	}
	return s.load(entries)
}
