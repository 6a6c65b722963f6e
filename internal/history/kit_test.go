package history_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// path returns the encoded location of names.
func path(names ...string) location.Loc {
	loc := location.Loc("")
	for _, n := range names {
		loc = loc.Name(n, 1)
	}
	return loc
}

// recorded makes an entry.
func recorded(loc string, kind store.Kind, seq, born int64, change ...func(*store.Entry)) store.Entry {
	l, err := location.Parse(loc)
	if err != nil {
		panic(err)
	}
	e := store.Entry{Loc: string(l), Kind: kind, State: store.Done, Seq: seq, Born: born, Attempt: 1, Value: []byte("v")}
	if seq == 0 {
		e.State = store.Open
	}
	for _, c := range change {
		c(&e)
	}
	e.Size = len(e.Value)
	return e
}

func sorted(entries ...store.Entry) []store.Entry {
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	return entries
}

// saga is the history of a saga that has undone its two steps, and of what came behind it.
func saga(then ...store.Entry) []store.Entry {
	return sorted(append(then, step("s/a", 1, 0), step("s/b", 2, 1), recorded("s/b/undo", store.KindSagaUndo, 3, 2),
		recorded("s/a/undo", store.KindSagaUndo, 4, 3))...)
}

// told says what became of a history: of each entry its text, number and state.
func told(entries []store.Entry) string {
	var parts []string
	for _, e := range entries {
		text := location.Loc(e.Loc).String()
		if e.Seq > 0 {
			text += fmt.Sprint(":", e.Seq)
		} else {
			text += ":" + e.State.String()
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func with(value []byte) func(*store.Entry) { return func(e *store.Entry) { e.Value = value } }

func state(s store.EntryState) func(*store.Entry) { return func(e *store.Entry) { e.State = s } }

// step makes the entry of a step.
func step(loc string, seq, born int64, change ...func(*store.Entry)) store.Entry {
	return recorded(loc, store.KindStep, seq, born, change...)
}
