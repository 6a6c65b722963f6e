package runner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// A run that is ended from within is undone as well, when the steps with
// compensations that are under way have ended; nothing else of its code goes on.
func TestUndoAbruptEnd(t *testing.T) {
	for _, c := range []struct {
		name, code string
		cause      func(s *saga, b *Branch)
	}{
		{"misuse", stored.CodeMisuse, func(s *saga, b *Branch) { _, _ = step(b, "") }},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", crash ", crash), func(t *testing.T) {
				goesOn := false
				s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
					if err := s.steps(b, "one"); err != nil {
						return result("", err)
					}
					b.Go(at("x"), func(b *Branch) (any, error) {
						_, err := s.do(b, "two")
						if err == nil && s.r.j.Live() {
							goesOn = true
						}
						return nil, err
					})
					b.Go(at("y"), func(b *Branch) (any, error) {
						err := b.Sleep(at("nap"), time.Hour)
						goesOn = true
						return nil, err
					})
					if _, err := step(b, "end"); err != nil {
						return result("", err)
					}
					c.cause(s, b)
					return text("not reached")
				})
				s.play()
				s.end("one", "a")
				s.end("end", "")
				s.wantMarks(store.Undoing)
				s.wantFlight("x/two")
				if crash {
					s.crash()
					s.play()
					s.wantFlight("x/two")
				}
				s.end("x/two", "b")
				s.wantFlight("x/two/undo")
				if crash {
					s.crash()
				}
				s.finish()
				s.want(store.Failed, c.code)
				s.wantUndone("x/two/undo of b", "one/undo of a")
				if goesOn {
					t.Error("dropped code went on")
				}
			})
		}
	}
	t.Run("deadlock", func(t *testing.T) {
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			var self *Future
			self = b.Go(at("x"), func(b *Branch) (any, error) {
				if err := s.steps(b, "one"); err != nil {
					return nil, err
				}
				return b.Await(at("self"), self)
			})
			_, err := b.Await(at("x"), self)
			return result("", err)
		})
		s.play()
		s.end("x/one", "a")
		s.crash()
		s.finish()
		s.want(store.Failed, stored.CodeDeadlock)
		s.wantUndone("x/one/undo of a")
		s.replays()
	})
}

// A step with a compensation that is known by its record alone is not undone
// silently by nothing: the run stalls before it begins, and goes on when the code
// has the compensation again.
func TestUndoThatTheCodeLacks(t *testing.T) {
	lacks := false
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if lacks {
			if _, err := step(b, "one"); err != nil {
				return result("", err)
			}
		} else if err := s.steps(b, "one"); err != nil {
			return result("", err)
		}
		if _, err := step(b, "two"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	s.end("one", "a")
	lacks = true
	s.crash()
	s.play()
	s.end("two", "b")
	s.wantStall("one", "owed its undoing", "without a compensation")
	s.wantMarks(0)
	lacks = false
	s.j.run.Status = store.Running
	s.crash()
	s.finish()
	s.wantUndone("one/undo of a")
	s.want(store.Failed, errSaga.Error())
}

// A step whose record owes nothing is not undone, although the code has a
// compensation by now: what is owed is decided when a step completes.
func TestUndoThatCameLater(t *testing.T) {
	has := false
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if has {
			if err := s.steps(b, "one"); err != nil {
				return result("", err)
			}
		} else if _, err := step(b, "one"); err != nil {
			return result("", err)
		}
		if err := s.steps(b, "two"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	s.end("one", "a")
	has = true
	s.crash()
	s.finish()
	s.wantUndone("two/undo of of two")
}

// The code of a run whose undoing has begun must end: what it asks for beyond is a
// divergence and does not begin.
func TestUndoOfChangedCode(t *testing.T) {
	more := false
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "one"); err != nil {
			return result("", err)
		}
		if more {
			if _, err := step(b, "more"); err != nil {
				return result("", err)
			}
		}
		return result("", errSaga)
	})
	s.play()
	s.end("one", "a")
	s.wantFlight("one/undo")
	more = true
	s.crash()
	s.play()
	s.wantStall("more", "the end of the workflow's function, after which undoing has begun", "step more")
	s.wantMarks(store.Undoing)
	more = false
	s.j.run.Status = store.Running
	s.crash()
	s.finish()
	s.want(store.Failed, errSaga.Error())
}

// What Removed accepts is owed all the same: nothing begins, and terminate lists it.
func TestUndoOfRemoved(t *testing.T) {
	for _, branch := range []bool{false, true} {
		removed := false
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			switch {
			case removed:
				b.Removed(at("x"))
			case branch:
				f := b.Go(at("x"), func(b *Branch) (any, error) { return nil, s.steps(b, "one") })
				if _, err := b.Await(at("x"), f); err != nil {
					return result("", err)
				}
			default:
				if err := s.steps(b, "x"); err != nil {
					return result("", err)
				}
			}
			if _, err := step(b, "last"); err != nil {
				return result("", err)
			}
			return result("", errSaga)
		})
		place := "x"
		if branch {
			place = "x/one"
		}
		s.play()
		s.end(place, "a")
		removed = true
		s.crash()
		s.play()
		s.end("last", "b")
		s.wantStall(place, "owed its undoing", "without a compensation")
		if got := history.Owed(slices.Collect(maps.Values(s.j.entries))); !slices.Equal(got, []string{place}) {
			t.Errorf("owed are %q", got)
		}
	}
}

// A loop keeps the iterations in which something is owed, and all of it is undone;
// with ForgetUndo what is pruned is owed no more. Both are the same after a crash.
func TestUndoOfLoop(t *testing.T) {
	for _, forget := range []bool{false, true} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint("forget ", forget, ", crash ", crash), func(t *testing.T) {
				s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
					err := b.Loop(Loop{Call: at("poll"), Every: 1, Keep: 1, ForgetUndo: forget, State: []byte("s"),
						Body: func(n int64, state []byte) ([]byte, bool, error) {
							if _, err := step(b, "plain"); err != nil {
								return nil, false, err
							}
							return state, n < 4, s.steps(b, "one")
						}})
					if err != nil {
						return result("", err)
					}
					if _, err := step(b, "last"); err != nil {
						return result("", err)
					}
					return result("", errSaga)
				})
				s.play()
				for n := range 5 {
					s.end(fmt.Sprintf("poll/~%d/plain", n), "")
					s.end(fmt.Sprintf("poll/~%d/one", n), fmt.Sprint("v", n))
				}
				if crash {
					s.crash()
				}
				s.finish()
				want := []string{
					"poll/~4/one/undo of v4", "poll/~3/one/undo of v3", "poll/~2/one/undo of v2", "poll/~1/one/undo of v1", "poll/~0/one/undo of v0",
				}
				if forget {
					want = want[:2] // the last iteration, and the one that is kept before its commit
				}
				s.wantUndone(want...)
				s.want(store.Failed, errSaga.Error())
				s.replays()
			})
		}
	}
}

// pause pauses the run; who resumes it begins a new activation.
func (s *saga) pause() {
	s.t.Helper()
	s.r.Pause(s.j.send(store.Item{Kind: store.ItemPause, Sent: s.clock}))
	s.play()
}

func (s *saga) resume() {
	s.t.Helper()
	if s.j.run.Marks&store.Paused == 0 {
		s.t.Fatalf("the run is not paused: it is %s, %s", s.j.run.Status, s.j.run.Marks)
	}
	s.j.run.Marks &^= store.Paused
	s.crash()
	s.play()
}

// What ends while a run is being paused is recorded without a number, and is owed,
// or paid, all the same.
func TestUndoAndPause(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "one", "two"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	s.end("one", "a")
	s.pause()
	s.end("two", "b")
	if e, _ := s.j.at("two"); e.State != store.Done || e.Seq != 0 || !e.Owes {
		t.Fatalf("the shelved record is %+v", e)
	}
	if got := history.Owed(slices.Collect(maps.Values(s.j.entries))); !slices.Equal(got, []string{"two", "one"}) {
		t.Errorf("owed are %q", got)
	}
	s.resume()
	s.wantFlight("two/undo")
	s.pause()
	s.end("two/undo", "")
	if e, _ := s.j.at("two/undo"); e.State != store.Done || e.Seq != 0 {
		t.Fatalf("the shelved record is %+v", e)
	}
	if s.j.run.Marks != store.Paused|store.Undoing {
		t.Errorf("the run is %s", s.j.run.Marks)
	}
	s.resume()
	s.wantFlight("one/undo")
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.wantOrder("one", "two", "two/undo", "one/undo")
	s.replays()
}

// A person may say that a failed step has succeeded, or that it has not, or that a
// compensation is not to be tried any more.
func TestUndoOfWhatWasEdited(t *testing.T) {
	edit := func(s *saga, place string, q stored.Request) {
		t.Helper()
		q.Location = string(path(strings.Split(place, "/")...))
		entries, _ := s.j.snapshot()
		e, _, err := history.Edit(entries, &q, s.clock)
		if err != nil {
			t.Fatal(err)
		}
		s.j.entries[e.Loc] = e
		s.j.run.Status = store.Running
		s.crash()
		s.play()
	}
	code := func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		for _, name := range []string{"one", "two"} {
			_, _ = s.do(b, name) // whatever becomes of it
		}
		if _, err := step(b, "last"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	}
	s := newSaga(t, code)
	s.play()
	s.fail("one", "no")
	s.end("two", "b")
	edit(s, "one", stored.Request{Value: []byte("by hand")})
	edit(s, "two", stored.Request{Failed: true,
		Value: stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "it has not"})})
	s.end("last", "")
	s.finish()
	s.wantUndone("one/undo of by hand")
	s.wantOrder("one", "two", "last", "one/undo")

	s = newSaga(t, code)
	s.play()
	s.end("one", "a")
	s.end("two", "b")
	s.end("last", "")
	s.fail("two/undo", "no")
	if s.j.run.Status != store.Stalled {
		t.Fatalf("the run is %s", s.j.run.Status)
	}
	entries, _ := s.j.snapshot()
	for place, q := range map[string]stored.Request{"two": {Value: []byte("x")},
		"two/undo": {Failed: true, Value: stored.EncodeFailure(&stored.Failure{Code: stored.CodeError})}} {
		q.Location = string(path(strings.Split(place, "/")...))
		if _, _, err := history.Edit(entries, &q, s.clock); err == nil {
			t.Errorf("the edit of %s is not refused", place)
		}
	}
	edit(s, "two/undo", stored.Request{Value: []byte("skip")})
	s.wantFlight("one/undo")
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.wantUndone("one/undo of a")
	s.wantOrder("one", "two", "last", "two/undo", "one/undo")
	s.replays()
}
