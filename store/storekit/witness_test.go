package storekit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWitnessesLookAsOftenAsNeeded: a process looks often while there are others, or one of them is
// gone that may come back; and seldom when it is alone.
func TestWitnessesLookAsOftenAsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Witnesses
		b := Boot{"b", "1"}
		looks := func(what string, gone map[Boot]int64, others bool, want time.Duration, wantDied bool) {
			t.Helper()
			if next, died := w.Look(gone, others); next != want || died != wantDied {
				t.Errorf("%s: the next look is in %s, died %t; want %s, %t", what, next, died, want, wantDied)
			}
			if dead := w.Dead(b); dead != (len(gone) > 0 && want != WitnessGrace) {
				t.Errorf("%s: dead %t", what, dead)
			}
		}
		absent := map[Boot]int64{b: 1}
		looks("alone", nil, false, WitnessAlone, false)
		looks("with another", nil, true, WitnessLook, false)
		looks("it is gone", absent, false, WitnessGrace, false)
		time.Sleep(WitnessGrace - 1)
		looks("not for long enough", absent, false, WitnessGrace, false)
		time.Sleep(time.Nanosecond)
		looks("it is dead", absent, false, WitnessLook, true)
		looks("it is dead, and a third one lives", absent, true, WitnessLook, false)
		time.Sleep(WitnessFresh - WitnessGrace - 1)
		looks("it may come back", absent, false, WitnessLook, false)
		time.Sleep(time.Nanosecond)
		looks("it has been dead for long", absent, false, WitnessAlone, false)
		looks("for long, and a third one lives", absent, true, WitnessLook, false)
		absent[b] = 2
		looks("another connection of it is gone", absent, false, WitnessGrace, false)
		w.Alone = time.Second
		looks("alone, as a test says", nil, false, time.Second, false)
	})
}

// TestStirReachesEachWitness, also one that is not waiting yet.
func TestStirReachesEachWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Witnesses
		defer w.Close()
		stirs := map[string]*atomic.Int64{"a": {}, "b": {}}
		for _, name := range []string{"a", "b"} {
			w.Keep(Boot{name, "1"}, func(ctx context.Context, stirred <-chan struct{}) {
				time.Sleep(time.Second) // it looks
				for {
					select {
					case <-stirred:
						stirs[name].Add(1)
					case <-ctx.Done():
						return
					}
				}
			})
		}
		w.Stir()
		w.Stir() // while they look: they look once more
		time.Sleep(time.Minute)
		synctest.Wait()
		w.Stir()
		synctest.Wait()
		w.End(Boot{"b", "1"})
		synctest.Wait()
		w.Stir()
		synctest.Wait()
		if a, b := stirs["a"].Load(), stirs["b"].Load(); a != 3 || b != 2 {
			t.Errorf("stirred %d and %d times; want 3 and 2", a, b)
		}
	})
}
