package entity_test

import (
	"testing"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
)

// lined are rules with a line, which asks to be woken at a time.
type lined struct {
	entity.Lined // of the methods only Known is called
	known        bool
	wake         store.Time
	ticks        int
}

func (l *lined) Load([]store.Entry) error                     { return nil }
func (l *lined) Take(*store.Item, store.Time, *entity.Writer) {}
func (l *lined) Tick(store.Time, *entity.Writer)              { l.ticks, l.wake = l.ticks+1, 0 }
func (l *lined) Wake() store.Time                             { return l.wake }
func (l *lined) Known() bool                                  { return l.known }
func (l *lined) Stays() bool                                  { return true }

// TestAnEntityThatLooksAtItsLineHasNoTimer: while a slow look is under way it does nothing, whatever is due. A timer
// would wake it again and again.
func TestAnEntityThatLooksAtItsLineHasNoTimer(t *testing.T) {
	const now = store.Time(1_000_000)
	rules := &lined{wake: now - 1}
	m := entity.New(entity.Config{Rules: rules})
	m.Advance(now, now)
	if at, _ := m.NextTimer(); rules.ticks != 0 || at != 0 {
		t.Errorf("before the look the entity acted %d times and has a timer at %d; expected neither", rules.ticks, at)
	}
	rules.known = true
	if at, _ := m.NextTimer(); at != now-1 {
		t.Errorf("after the look it has a timer at %d; expected %d", at, now-1)
	}
	if m.Advance(now, now); rules.ticks != 1 {
		t.Errorf("after the look the entity acted %d times; expected once", rules.ticks)
	}
}
