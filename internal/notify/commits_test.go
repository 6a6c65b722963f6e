package notify_test

import (
	"testing"

	"github.com/stet-run/stet/internal/notify"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestCommitsAreHinted: each listener of a run gets one hint for the commits since it took the
// last one, and none of another run, nor after it has left.
func TestCommitsAreHinted(t *testing.T) {
	s := memory.New()
	defer s.Close()
	w := notify.New(notify.Config{Store: s})
	first, leave := w.Commits(7)
	second, leaveSecond := w.Commits(7)
	other, leaveOther := w.Commits(8)
	defer leaveSecond()
	defer leaveOther()
	taken := func(hints <-chan struct{}) (n int) {
		for {
			select {
			case <-hints:
				n++
			default:
				return n
			}
		}
	}
	expect := func(what string, a, b, c int) {
		t.Helper()
		if x, y, z := taken(first), taken(second), taken(other); x != a || y != b || z != c {
			t.Errorf("%s: hints %d, %d and %d, expected %d, %d and %d", what, x, y, z, a, b, c)
		}
	}
	expect("before", 0, 0, 0)
	w.Committed(&store.Turn{Run: 7}, store.Committed)
	w.Committed(&store.Turn{Run: 7}, store.Committed)
	expect("two commits", 1, 1, 0)
	w.RunEnded(store.Run{No: 7, ID: "r"})
	w.Committed(&store.Turn{Run: 8}, store.Committed)
	expect("an end, and another run", 1, 1, 1)
	leave()
	leave()
	w.Committed(&store.Turn{Run: 7}, store.Committed)
	expect("after the first has left", 0, 1, 0)
}
