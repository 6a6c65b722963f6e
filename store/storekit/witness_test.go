package storekit

import (
	"context"
	"os"
	"os/exec"
	"runtime"
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
		looks := func(what string, gone map[Boot]Sign, others bool, want time.Duration, wantDied bool) {
			t.Helper()
			if next, died := w.Look(Life{}, gone, others); next != want || died != wantDied {
				t.Errorf("%s: the next look is in %s, died %t; want %s, %t", what, next, died, want, wantDied)
			}
			if dead := w.Dead(b); dead != (len(gone) > 0 && want != WitnessGrace) {
				t.Errorf("%s: dead %t", what, dead)
			}
		}
		absent := map[Boot]Sign{b: {Number: 1}}
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
		absent[b] = Sign{Number: 2}
		looks("another connection of it is gone", absent, false, WitnessGrace, false)
		w.Alone = time.Second
		looks("alone, as a test says", nil, false, time.Second, false)
	})
}

// TestOneLookFindsAProcessThatTheMachineHasNoMore, and no other. A process of another machine, or one that executes,
// may make its witness again.
func TestOneLookFindsAProcessThatTheMachineHasNoMore(t *testing.T) {
	ended := exec.Command(os.Args[0], "-test.run", "^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	was, is := ended.Process.Pid, os.Getpid()
	if runtime.GOOS == "windows" {
		t.Skip("it is not known here which processes the machine has")
	}
	own := Life{Boot{"b", "2"}, Process{"h", is}}
	for _, c := range []struct {
		what  string
		other Life
		dead  bool
	}{
		{"a process of this machine that has ended", Life{Boot{"a", "1"}, Process{"h", was}}, true},
		{"one of another machine", Life{Boot{"a", "1"}, Process{"other", was}}, false},
		{"one that is not known", Life{Boot{"a", "1"}, Process{}}, false},
		{"one that executes", Life{Boot{"a", "1"}, Process{"h", os.Getppid()}}, false},
		{"the former life in a container", Life{Boot{"b", "1"}, Process{"h", is}}, true},
		{"a later life with the same number", Life{Boot{"b", "3"}, Process{"h", is}}, false},
		{"another node with the same number", Life{Boot{"a", "1"}, Process{"h", is}}, false},
	} {
		var w Witnesses
		_, died := w.Look(own, map[Boot]Sign{c.other.Boot: {Process: c.other.Process}}, false)
		if died != c.dead || w.Dead(c.other.Boot) != c.dead {
			t.Errorf("%s: expected dead %t, found %t", c.what, c.dead, died)
		}
	}
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
