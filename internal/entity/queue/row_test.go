package queue

import (
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// rowsOf is a queue whose runs wait in their rows, without a store.
type rowsOf struct {
	*Rules
	t *testing.T
	m *entity.Machine
}

func newRows(t *testing.T, s permit.Settings) *rowsOf {
	q := &rowsOf{Rules: New(&store.Run{ID: permit.EntityID("q")}).(*Rules), t: t}
	q.head = head{Exists: true, Declared: s}
	q.m = entity.New(entity.Config{Run: store.Run{No: 1}, Rules: q.Rules})
	q.looks(nil, nil)
	q.admits()
	return q
}

func waiter(no store.RunNo) store.Waiter {
	p := permit.Place{Queue: "q", InLine: true}
	return store.Waiter{No: no, ID: string(rune('a' + no)), Due: store.Time(no), Place: p.Encode()}
}

func (q *rowsOf) looks(waiting, admitted []store.Waiter) {
	q.LookBegins()
	q.Look(waiting, false, admitted)
}

// admits lets the queue have a turn, and checks whom it admits.
func (q *rowsOf) admits(want ...store.RunNo) {
	q.t.Helper()
	q.m.Hear(func(entity.Lined) {})
	q.m.Advance(1000, 1000)
	var got []store.RunNo
	if turn := q.m.Take(); turn != nil {
		for _, c := range turn.Sends {
			got = append(got, c.RunNo)
		}
		q.m.Committed()
		q.m.Resumed()
	}
	if !slices.Equal(got, want) {
		q.t.Errorf("admitted %v; want %v", got, want)
	}
}

// TestARowIsAdmittedOnce: whatever is heard in whatever order, a run of a line is admitted once, and its permit comes
// back once.
func TestARowIsAdmittedOnce(t *testing.T) {
	q := newRows(t, permit.Settings{Concurrency: 1})
	a, b := waiter(1), waiter(2)
	q.Joined(a)
	q.Joined(a)
	q.looks([]store.Waiter{a, b}, nil)
	q.admits(1)
	q.looks([]store.Waiter{a, b}, nil) // before the Admit was written
	q.admits()
	q.Answered(1, store.Applied)
	q.looks([]store.Waiter{b}, []store.Waiter{a})
	q.admits()
	q.Left(1)
	q.Left(1)
	q.admits(2)
	if q.rows.held != 1 || q.rows.waiting != 0 || len(q.held) != 1 {
		t.Errorf("%d permits, %d wait", q.rows.held, q.rows.waiting)
	}
}

// TestALookMayBeOlderThanWhatWasHeard: what is heard of a run while a look is under way counts more than the look.
func TestALookMayBeOlderThanWhatWasHeard(t *testing.T) {
	a, b := waiter(1), waiter(2)
	t.Run("a run was admitted meanwhile", func(t *testing.T) {
		q := newRows(t, permit.Settings{Concurrency: 1})
		q.Joined(a)
		q.admits(1)
		q.LookBegins()
		q.Answered(1, store.Applied)
		q.Look([]store.Waiter{a, b}, false, nil)
		q.admits()
	})
	t.Run("a run has ended meanwhile", func(t *testing.T) {
		q := newRows(t, permit.Settings{Concurrency: 1})
		q.looks(nil, []store.Waiter{a})
		q.admits()
		q.LookBegins()
		q.Left(1)
		q.Look([]store.Waiter{b}, false, []store.Waiter{a})
		q.admits(2)
	})
	t.Run("a run has joined meanwhile", func(t *testing.T) {
		q := newRows(t, permit.Settings{Concurrency: 1})
		q.LookBegins()
		q.Joined(a)
		q.Look(nil, false, nil)
		q.admits(1)
	})
}

// TestALookFindsWhatOthersDid: runs that have ended, and that do not wait any more, are known by a look.
func TestALookFindsWhatOthersDid(t *testing.T) {
	q := newRows(t, permit.Settings{Concurrency: 1})
	a, b, c := waiter(1), waiter(2), waiter(3)
	q.looks([]store.Waiter{b, c}, []store.Waiter{a})
	q.admits()
	q.looks([]store.Waiter{c}, nil) // a has ended, b is cancelled
	q.admits(3)
	q.Answered(3, store.Duplicate) // it was paused
	q.admits()
	if q.Stays() {
		t.Error("the queue stays although nobody waits")
	}
	q.looks([]store.Waiter{c}, nil)
	q.admits(3)
}

// TestALookBeyondTheWindow: a run behind the last one that a look has read is kept if it is known, and not added.
func TestALookBeyondTheWindow(t *testing.T) {
	q := newRows(t, permit.Settings{Concurrency: 1})
	a, b, c := waiter(1), waiter(2), waiter(3)
	q.LookBegins()
	q.Look([]store.Waiter{a, b}, true, nil)
	q.Joined(c)
	q.admits(1)
	q.Answered(1, store.Applied)
	if q.rows.waiting != 1 {
		t.Errorf("%d wait; want the one that was read", q.rows.waiting)
	}
	if q.Short() {
		t.Error("one of two is left, and that is short")
	}
	q.Left(1)
	q.admits(2)
	if !q.Short() {
		t.Error("none of two is left, and that is not short")
	}
}
