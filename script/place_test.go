package script

import (
	"testing"
	"time"
)

// TestAStretchThatCannotBeInterruptedGivesItsPlace: as many stretches as there are places execute what no interrupt
// ends. Others begin all the same, and the count of executing stretches is right when they end.
func TestAStretchThatCannotBeInterruptedGivesItsPlace(t *testing.T) {
	before := maxCode
	maxCode = 5 * time.Millisecond
	t.Cleanup(func() { maxCode = before })
	executing := stretches.count.Load()
	interrupted := make(chan struct{}, cap(places))
	var ends []func()
	for range cap(places) {
		leave := beginStretch()
		w := &watch{ask: func() {}, interrupt: func(string) { interrupted <- struct{}{} }}
		w.start(leave)
		ends = append(ends, func() { leave(); w.end() })
	}
	leave := beginStretch()
	for range cap(places) {
		<-interrupted
	}
	shutStretches()
	leave()
	beginStretch()() // after the gate was shut
	for _, end := range ends {
		end()
	}
	if n := stretches.count.Load(); n != executing {
		t.Errorf("%d stretches execute, expected %d", n, executing)
	}
	if n := len(places); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}
