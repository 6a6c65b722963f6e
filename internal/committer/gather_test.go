package committer_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
)

// letGoOn makes the runs of a batch send their next turns shortly behind their verdicts, each on a goroutine
// of its own, as short steps do. Those of late come only when it is closed.
func (k *counter) letGoOn(late chan struct{}, runs ...store.RunNo) {
	for i, no := range runs {
		k.while[no] = func() {
			go func() {
				if late != nil && i > 0 {
					<-late
				}
				for range 10 * i { // while others go on
					runtime.Gosched()
				}
				k.submitTo(k.h, no)
			}()
		}
	}
}

// okAfter answers a commit that takes some time.
func (k *counter) okAfter(d time.Duration) {
	time.Sleep(d)
	k.ok()
}

// TestRunsThatGoOnTogetherAreWrittenTogether: where a turn waits behind a batch, the next batch has the turns of that
// batch's runs too, if they come soon. It does not wait for runs that do not.
func TestRunsThatGoOnTogetherAreWrittenTogether(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.crowd.Store(true)
		for no := range store.RunNo(4) {
			k.submit(no + 1) // the first is on its way before the others come
		}
		k.crowd.Store(false)
		k.runs(1)
		k.letGoOn(nil, 1, 2, 3, 4)
		k.okAfter(time.Millisecond)
		k.together(1, 2, 3, 4)
		k.okAfter(time.Millisecond)
		k.together(1, 2, 3, 4)
		late := make(chan struct{})
		k.letGoOn(late, 1, 2, 3, 4)
		k.okAfter(time.Millisecond)
		k.together(1)
		close(late)
		k.submit(5)
		clear(k.while)
		k.okAfter(time.Millisecond)
		k.together(2, 3, 4, 5)
		k.okAfter(time.Millisecond)
	})
}

// together expects a batch with the turns of these runs, in any order.
func (k *counter) together(want ...store.RunNo) {
	k.Helper()
	b := k.batch()
	got := map[store.RunNo]bool{}
	for _, turn := range b.Turns {
		got[turn.Run] = true
	}
	for _, no := range want {
		if !got[no] || len(b.Turns) != len(want) {
			k.Fatalf("a batch has the turns of %v; want %v", got, want)
		}
	}
}

// TestARunThatIsAloneWaitsForNobody: its submitter writes each turn at once.
func TestARunThatIsAloneWaitsForNobody(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		for range 5 {
			begun := time.Now()
			k.submit(1)
			k.runs(1)
			if time.Since(begun) > 0 {
				t.Error("it has waited")
			}
			k.okAfter(time.Millisecond)
			synctest.Wait()
			if !k.c.Idle() {
				t.Error("something is left")
			}
		}
	})
}
