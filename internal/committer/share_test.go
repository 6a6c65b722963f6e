package committer_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// Separate implements store.Separator: the turns of runs from number 1000 are written apart.
func (d *desk) Separate(t *store.Turn) bool { return t.Run >= 1000 }

// TestTurnsAreWrittenApart: turns that the store writes apart are in batches of their own, which take turns with
// the others; those of each kind stay in order.
func TestTurnsAreWrittenApart(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1)
		k.runs(1)
		k.submit(2)
		k.submit(1001)
		k.submit(3)
		k.submit(1002)
		k.command(store.Command{RunID: "c"})
		k.ok()
		k.runs(1001, 1002)
		k.submit(1003)
		k.submit(4)
		k.ok()
		if b := k.batch(); len(b.Turns) != 3 || b.Turns[0].Run != 2 || b.Turns[2].Run != 4 || len(b.Commands) != 1 {
			t.Errorf("after the turns that are written apart came %v", b)
		}
		k.submit(5)
		k.ok()
		k.runs(1003)
		k.ok()
		k.runs(5)
		k.ok()
		k.wantAnswered(1, 1001, 1002, 2, 3, 4, "c 1", 1003, 5)
	})
}

// TestTurnsApartHoldNobodyUp: however many come, each second batch has what else there is.
func TestTurnsApartHoldNobodyUp(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1000)
		k.runs(1000)
		k.submit(1001)
		k.command(store.Command{RunID: "c"})
		k.ok()
		k.runs(1001)
		k.submit(1002)
		k.ok()
		if b := k.batch(); len(b.Turns) != 0 || len(b.Commands) != 1 {
			t.Errorf("a command waits for %v", b)
		}
		k.submit(1003)
		k.ok()
		k.runs(1002, 1003)
		k.ok()
		k.wantAnswered(1000, 1001, "c 1", 1002, 1003)
	})
}

// TestATurnApartThatIsBusyIsRetriedAlone, as another one is.
func TestATurnApartThatIsBusyIsRetriedAlone(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1)
		k.runs(1)
		k.submit(1000)
		k.submit(1001)
		k.ok()
		k.runs(1000, 1001)
		k.answers <- reply{verdicts: map[int]store.Verdict{0: store.Busy}}
		k.wantAnswered(1, 1001)
		k.submit(2)
		k.runs(2)
		k.submit(1002)
		time.Sleep(100 * time.Millisecond) // the turn is queued again meanwhile
		k.submit(3)
		k.ok()
		k.runs(3)
		k.ok()
		k.runs(1002)
		k.ok()
		k.runs(1000)
		k.ok()
		k.wantAnswered(1, 1001, 2, 3, 1002, 1000)
	})
}
