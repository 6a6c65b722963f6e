package runner

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

func TestComposites(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		ends   []string // in this order; a leading ! fails
		over   int      // after how many of them it is decided
		winner int
	}{
		{Join, []string{"b", "!a", "c"}, 3, -1},
		{All, []string{"c", "b", "a"}, 3, -1},
		{All, []string{"c", "!a"}, 2, 0},
		{Any, []string{"!c", "b"}, 2, 1},
		{Any, []string{"!c", "!b", "!a"}, 3, -1},
		{Race, []string{"c"}, 1, 2},
		{Race, []string{"!b"}, 1, 1},
	} {
		t.Run(fmt.Sprint(c.mode, c.ends), func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				futures := []*Future{spawn(b, "a", "s"), spawn(b, "b", "s"), spawn(b, "c", "s")}
				winner, err := b.Compose(at("composite"), c.mode, futures)
				return result(fmt.Sprint(winner), err)
			})
			h.play()
			for i, end := range c.ends {
				if h.r.Over() != nil {
					t.Fatalf("it is decided after %d ends, want %d", i, c.over)
				}
				if end[0] == '!' {
					h.fail(end[1:]+"/s", "no")
				} else {
					h.end(end+"/s", "v")
				}
			}
			h.want(store.Succeeded, fmt.Sprint(c.winner))
			h.replays()
		})
	}
}

func TestCompositesOfNothing(t *testing.T) {
	for mode, want := range map[Mode]error{Join: nil, All: nil, Any: ErrEmpty, Race: ErrEmpty} {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			if winner, err := b.Compose(at("composite"), mode, nil); winner != -1 || !errors.Is(err, want) {
				return text("%d %v", winner, err)
			}
			if futures, winner, err := b.Map(at("map"), 0, 1, nil, nil); len(futures) != 0 || winner != -1 || err != nil {
				return text("map: %v %d %v", futures, winner, err)
			}
			return nil, nil
		})
		h.play()
		h.want(store.Succeeded, "")
	}
}

// What has settled before the call decides in the order of arguments.
func TestCompositeOfSettledBranches(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		settled := func(name string, err error) *Future {
			f := b.Go(at(name), func(*Branch) (any, error) { return name, err })
			_, _ = b.Await(at(name), f)
			return f
		}
		good, bad := settled("good", nil), settled("bad", errProgram)
		var got []int
		for _, c := range []struct {
			mode    Mode
			futures []*Future
		}{{Race, []*Future{bad, good}}, {Any, []*Future{bad, good}}, {All, []*Future{good, bad}}, {Join,
			[]*Future{bad, bad}}} {
			winner, err := b.Compose(at("composite"), c.mode, c.futures)
			if err != nil {
				return result("", err)
			}
			got = append(got, winner)
		}
		return text("%v", got)
	})
	h.play()
	h.want(store.Succeeded, "[0 1 1 -1]")
}

func TestMapKeepsItsLimitAndOrder(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		futures, failed, err := b.Map(at("m"), 5, 2, func(i int) string { return fmt.Sprint("k", i/4) },
			func(b *Branch, i int) (any, error) {
				v, err := step(b, "s")
				return fmt.Sprint(i, v), err
			})
		if err != nil || failed >= 0 {
			return text("%d %v", failed, err)
		}
		var got []any
		for _, f := range futures {
			v, _ := f.Result()
			got = append(got, v)
		}
		return text("%v", got)
	})
	h.play()
	h.wantFlight("m/[k0]/s", "m/[k0]#2/s")
	h.end("m/[k0]#2/s", "b")
	h.wantFlight("m/[k0]/s", "m/[k0]#3/s")
	h.end("m/[k0]#3/s", "c")
	h.end("m/[k0]/s", "a")
	h.wantFlight("m/[k0]#4/s", "m/[k1]/s")
	h.crash()
	h.play()
	h.end("m/[k1]/s", "e")
	h.end("m/[k0]#4/s", "d")
	h.want(store.Succeeded, "[0a 1b 2c 3d 4e]")
	h.replays()
}

func TestMapStopsAtTheFirstFailure(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		futures, failed, err := b.Map(at("m"), 9, 3, func(i int) string { return fmt.Sprint(i) },
			func(b *Branch, i int) (any, error) { return step(b, "s") })
		return result(fmt.Sprint(len(futures), failed), err)
	})
	h.play()
	h.fail("m/[1]/s", "no")
	h.want(store.Succeeded, "3 1")
	if len(h.cancelled) != 2 || len(h.notes) != 0 {
		t.Errorf("%d bodies are told to stop, want 2; the log is told %v", len(h.cancelled), h.notes)
	}
	h.replays()
}

func TestSelectOfSeveralKinds(t *testing.T) {
	for _, c := range []struct {
		what  string
		want  string
		event func(h *harness)
	}{
		{"future", "0", func(h *harness) { h.end("x/s", "v") }},
		{"promise", "1 p", func(h *harness) {
			h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Value: []byte("p")})
		}},
		{"message", "2 m", func(h *harness) { h.send("mail", "m") }},
		{"timer", "3", func(h *harness) { h.pass(time.Hour) }},
		{"rejected promise", "1 no", func(h *harness) {
			h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Failed: true,
				Value: stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "no"})})
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				p, _ := b.NewPromise(at("p"), nil)
				x := spawn(b, "x", "s")
				s, err := b.Select(at("select"), []Case{
					{Future: x}, {Promise: p}, {Receive: &Receive{Call: at("mail"), Names: []string{"mail"}, Max: 1}},
					{Timer: &Timer{Call: at("timer"), At: birth.Add(time.Hour)}}, {Promise: p}, {Future: x},
				})
				if err != nil {
					return result("", err)
				}
				got := fmt.Sprint(s.Index)
				switch {
				case s.Failure != nil:
					got += " " + s.Failure.Message
				case s.Value != nil:
					got += " " + string(s.Value)
				case s.Messages != nil:
					got += " " + string(s.Messages[0].Value)
				}
				// What did not win is not lost.
				if s.Index != 2 {
					if v, err := receive(b, "late", 0); err != nil || v != "still there" {
						return text("%q %v", v, err)
					}
				}
				return text("%s", got)
			})
			h.play()
			c.event(h)
			if c.what != "message" {
				h.crash()
				h.send("late", "still there")
			}
			h.want(store.Succeeded, c.want)
			h.replays()
		})
	}
}

// A branch begun under WithoutCancel, and what it begins, is reached by no cancel
// and waited for to its end.
func TestShieldedBranches(t *testing.T) {
	work := func(b *Branch) (any, error) {
		inner := spawn(b, "inner", "s")
		if err := b.Sleep(at("nap"), time.Hour); err != nil {
			return nil, err
		}
		return b.Await(at("inner"), inner)
	}
	for _, c := range []struct {
		name string
		code func(b *Branch) (any, error)
		stop func(h *harness)
		end  store.Status
	}{
		{"the run", func(b *Branch) (any, error) {
			f := b.Go(shielded("safe"), work)
			_, err := step(b, "s")
			v, err2 := b.Await(shielded("safe"), f)
			return fmt.Sprint(v, err, err2), nil
		}, func(h *harness) { h.cancel() }, store.Cancelled},
		{"the scope's end", func(b *Branch) (any, error) {
			b.Go(shielded("safe"), work)
			return "v", nil
		}, func(*harness) {}, store.Succeeded},
		{"a race that is lost", func(b *Branch) (any, error) {
			_, err := b.Compose(at("race"), Race, []*Future{b.Go(shielded("safe"), work), spawn(b, "stop", "s")})
			return "v", err
		}, func(h *harness) { h.end("stop/s", "") }, store.Succeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				v, err := c.code(b)
				return result(fmt.Sprint(v), err)
			})
			h.play()
			c.stop(h)
			h.crash()
			h.play()
			if !slices.Contains(h.flying(), "safe/inner/s") {
				t.Fatalf("in flight are %v", h.flying())
			}
			h.end("safe/inner/s", "v")
			if h.r.Over() != nil {
				t.Fatal("the shielded branch is not waited for")
			}
			h.pass(time.Hour)
			if over := h.r.Over(); over == nil || over.Status != c.end {
				t.Fatalf("the run ends %+v", over)
			}
			if _, ok := h.j.at("safe/nap"); !ok {
				t.Error("the shielded sleep has no record")
			}
			if e, _ := h.j.at("safe/inner/s"); e.Seq == 0 {
				t.Error("the shielded step has not been handed over")
			}
			h.replays()
		})
	}
}

// A cancelled composite waits for the code of its own branches, and not for that
// of others'.
func TestCancelOfACompositeOverOthersBranches(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own ", own), func(t *testing.T) {
			var trace []string
			h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
				trace = nil
				work := func(b *Branch) (any, error) {
					_, err := step(b, "s")
					_, _ = b.Step(Step{Call: shielded("clean"), Policy: once})
					trace = append(trace, "work ends")
					return nil, err
				}
				var others *Future
				if !own {
					others = b.Go(at("side"), work)
				}
				waits := b.Go(at("waits"), func(b *Branch) (any, error) {
					f := others
					if own {
						f = b.Go(at("side"), work)
					}
					_, err := b.Compose(at("all"), All, []*Future{f})
					trace = append(trace, fmt.Sprint("composite: ", err))
					return nil, err
				})
				_, err := b.Compose(at("race"), Race, []*Future{waits, spawn(b, "stop", "s")})
				trace = append(trace, "race ends")
				return result("", err)
			})
			h.play()
			h.end("stop/s", "")
			want := []string{"composite: cancelled", "race ends"}
			place := "side/clean"
			if own {
				want, place = nil, "waits/side/clean"
			}
			if !slices.Equal(trace, want) {
				t.Fatalf("at the cancel: %q, want %q", trace, want)
			}
			h.end(place, "")
			want = append(want, "work ends")
			if own {
				want = append(want, "composite: cancelled", "race ends")
			}
			if !slices.Equal(trace, want) {
				t.Fatalf("at the end: %q, want %q", trace, want)
			}
			h.want(store.Succeeded, "")
			h.replays()
		})
	}
}

// The log is told of errors that nobody has looked at, and of no other.
func TestErrorsThatAreLogged(t *testing.T) {
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		bad := func(name string) *Future {
			return b.Go(at(name), func(*Branch) (any, error) { return nil, errProgram })
		}
		awaited, composed := bad("awaited"), bad("composed")
		bad("dropped")
		b.Go(at("cancelled"), func(b *Branch) (any, error) { return step(b, "s") })
		_, _ = b.Await(at("awaited"), awaited)
		_, err := b.Compose(at("all"), All, []*Future{composed})
		return result("", err)
	})
	h.play()
	h.want(store.Succeeded, "")
	if len(h.notes) != 1 || h.notes[0].Location.String() != "dropped" || h.notes[0].Err != errProgram {
		t.Errorf("the log is told %+v", h.notes)
	}
}

// What OnExit was given is called at the end of the branch, the last one first,
// and its panic is logged.
func TestOnExit(t *testing.T) {
	var trace []string
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		b.OnExit(func() { trace = append(trace, "first") })
		b.OnExit(func() { panic("closing") })
		b.OnExit(func() { trace = append(trace, "last") })
		return text("")
	})
	h.play()
	h.want(store.Succeeded, "")
	if want := []string{"last", "first"}; !slices.Equal(trace, want) || len(h.notes) != 1 {
		t.Errorf("called %q, want %q; the log is told %v", trace, want, h.notes)
	}
}

// What a cancel does not reach: an operation under WithoutCancel, a scope's wait
// for its code, and a promise, which others may await.
func TestWhatACancelDoesNotReach(t *testing.T) {
	t.Run("an operation under WithoutCancel", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			v, err := b.Step(Step{Call: shielded("s"), Policy: once})
			if err != nil || string(v) != "v" {
				t.Errorf("the step gives %q, %v", v, err)
			}
			return nil, nil
		})
		h.play()
		h.cancel()
		h.wantFlight("s")
		h.end("s", "v")
		if over := h.r.Over(); over == nil || over.Status != store.Cancelled {
			t.Fatalf("the run ends %+v", over)
		}
		h.replays()
	})
	t.Run("the code that a scope waits for", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			x := b.Go(at("x"), func(b *Branch) (any, error) {
				b.Go(at("tidy"), func(b *Branch) (any, error) {
					_, err := b.Step(Step{Call: shielded("s"), Policy: once})
					return nil, err
				})
				return nil, nil // and waits for the code of tidy
			})
			_, err := b.Compose(at("race"), Race, []*Future{x, spawn(b, "stop", "s")})
			return result("", err)
		})
		h.play()
		h.end("stop/s", "")
		if h.r.Over() != nil {
			t.Fatal("x has ended before the code in its scope")
		}
		h.end("x/tidy/s", "")
		h.want(store.Succeeded, "")
		h.replays()
	})
	t.Run("a promise", func(t *testing.T) {
		h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
			p, _ := b.NewPromise(at("p"), nil)
			await := func(name string) *Future {
				return b.Go(at(name), func(b *Branch) (any, error) {
					v, err := b.AwaitPromise(at("p"), p)
					return string(v), err
				})
			}
			loser, other := await("loser"), await("other")
			if _, err := b.Compose(at("race"), Race, []*Future{loser, spawn(b, "stop", "s")}); err != nil {
				return result("", err)
			}
			v, err := b.Await(at("other"), other)
			return result(fmt.Sprint(v), err)
		})
		h.play()
		h.end("stop/s", "")
		h.deliver(store.Item{Kind: store.ItemResolution, Loc: string(path("p")), Value: []byte("v")})
		h.want(store.Succeeded, "v")
		h.replays()
	})
}
