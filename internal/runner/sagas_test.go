package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// scoped is code in a saga that is undone if it fails.
func scoped(b *Branch, name string, fn func() error) error {
	var failed error
	err := b.Saga(Saga{Call: at(name), Func: func() bool {
		failed = fn()
		return failed != nil
	}})
	if err != nil {
		return err
	}
	return failed
}

// What has completed in a saga is undone before the code goes on, with what inner sagas and
// branches have left; what stands around it is not. The run owes the rest.
func TestSagaUndoesItsScope(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		if err := s.steps(b, "before"); err != nil {
			return result("", err)
		}
		err := scoped(b, "book", func() error {
			if err := s.steps(b, "one"); err != nil {
				return err
			}
			if err := scoped(b, "inner", func() error { return s.steps(b, "two") }); err != nil {
				return err
			}
			if err := scoped(b, "lost", func() error {
				if err := s.steps(b, "three"); err != nil {
					return err
				}
				return errSaga
			}); err != errSaga {
				return fmt.Errorf("the inner saga returns %w", err)
			}
			f := b.Go(at("x"), func(b *Branch) (any, error) { return nil, s.steps(b, "four", "five") })
			if _, err := b.Await(at("x"), f); err != nil {
				return err
			}
			_, err := step(b, "fails")
			return err
		})
		if err == nil {
			return text("not reached")
		}
		if err := s.steps(b, "after"); err != nil {
			return result("", err)
		}
		return result("", errSaga)
	})
	s.play()
	for _, place := range []string{"before", "book/one", "book/inner/two", "book/lost/three"} {
		s.end(place, "v")
	}
	s.wantFlight("book/lost/three/undo")
	s.wantMarks(0)
	s.crash()
	s.play()
	s.wantFlight("book/lost/three/undo")
	s.end("book/lost/three/undo", "")
	s.end("book/x/four", "v")
	s.end("book/x/five", "v")
	s.fail("book/fails", "no")
	s.wantFlight("book/x/five/undo")
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.wantUndone("book/x/five/undo of v", "book/x/four/undo of v", "book/inner/two/undo of v", "book/one/undo of v",
		"after/undo of of after", "before/undo of v") // the test itself ended that of three
	s.wantOrder("before", "book/one", "book/inner/two", "book/lost/three", "book/lost/three/undo", "book/x/four",
		"book/x/five", "book/fails", "book/x/five/undo", "book/x/four/undo", "book/inner/two/undo", "book/one/undo",
		"after", "after/undo", "before/undo")
	for place, kind := range map[string]store.Kind{"book/one/undo": store.KindSagaUndo, "after/undo": store.KindUndo} {
		if e, _ := s.j.at(place); e.Kind != kind || e.State != store.Done {
			t.Errorf("the record of %s is %+v", place, e)
		}
	}
	s.undone = nil
	s.replays()
	s.wantUndone()
}

// A cancel does not reach the undoing of a saga; the code sees it behind that. Neither does
// the end of a race that the saga's branch has lost, which waits for it.
func TestSagaIsShielded(t *testing.T) {
	for _, cancel := range []bool{true, false} {
		t.Run(fmt.Sprint("cancel ", cancel), func(t *testing.T) {
			s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
				f := b.Go(at("slow"), func(b *Branch) (any, error) {
					return nil, scoped(b, "book", func() error {
						if err := s.steps(b, "one"); err != nil {
							return err
						}
						_, err := step(b, "two")
						return err
					})
				})
				g := b.Go(at("fast"), func(b *Branch) (any, error) { return step(b, "three") })
				winner, err := b.Compose(at("race"), Race, []*Future{f, g})
				if err != nil {
					return result("", err)
				}
				_, err = step(b, "last")
				return text("%d %v", winner, err)
			})
			s.play()
			s.end("slow/book/one", "a")
			if cancel {
				s.fail("slow/book/two", "no")
				s.wantFlight("fast/three", "slow/book/one/undo")
				s.cancel()
				s.wantFlight("fast/three", "slow/book/one/undo")
			} else {
				s.end("fast/three", "c")
				s.wantFlight("slow/book/two", "slow/book/one/undo")
			}
			s.crash()
			s.play()
			s.finish()
			if s.wantUndone("slow/book/one/undo of a"); cancel {
				s.want(store.Cancelled, "")
			} else {
				s.want(store.Succeeded, "1 <nil>")
			}
			s.replays()
		})
	}
}

// A saga in a cancelled branch is undone by its code's own decision, also when nothing of it
// was handed over since.
func TestSagaOfACancelledRun(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		err := scoped(b, "book", func() error {
			if err := s.steps(b, "one"); err != nil {
				return err
			}
			_, err := step(b, "two")
			return err
		})
		if !b.Cancelled() {
			t.Error("the branch is not cancelled")
		}
		return result("", err)
	})
	s.cfg.UndoCancelled = false
	s.play()
	s.end("book/one", "a")
	s.cancel()
	s.wantFlight("book/two", "book/one/undo")
	s.finish()
	s.want(store.Cancelled, "")
	s.wantUndone("book/one/undo of a")
	s.replays()
}

// A compensation of a saga that fails for good stalls the run, without the mark of undoing.
// Resumed it has all its attempts again, and the code goes on.
func TestSagaThatCannotBeUndone(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		err := scoped(b, "book", func() error {
			if err := s.steps(b, "one", "two"); err != nil {
				return err
			}
			return errSaga
		})
		_, _ = step(b, "other")
		return text("%v", err)
	})
	s.play()
	s.end("book/one", "a")
	s.end("book/two", "b")
	s.end("book/two/undo", "")
	s.fail("book/one/undo", "first")
	if over := s.r.Over(); over == nil || over.Status != store.Stalled ||
		!strings.HasPrefix(over.Reason, "undo: book/one/undo failed: first") {
		t.Fatalf("the run ends %+v", over)
	}
	s.wantMarks(0)
	entries, _ := s.j.snapshot()
	if got := history.Owed(entries); !slices.Equal(got, []string{"book/one"}) {
		t.Errorf("owed are %q", got)
	}
	s.j.run.Status = store.Running
	s.crash()
	s.play()
	s.wantFlight("book/one/undo")
	s.finish()
	s.want(store.Succeeded, errSaga.Error())
	s.wantUndone("book/one/undo of a")
	s.replays()
}

// What a saga has undone is not listed by a terminate, whether the run is live or replays.
func TestTerminateWithinASaga(t *testing.T) {
	for _, crash := range []bool{false, true} {
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			return result("", scoped(b, "book", func() error {
				if err := s.steps(b, "one", "two", "three"); err != nil {
					return err
				}
				return errSaga
			}))
		})
		s.play()
		for _, place := range []string{"book/one", "book/two", "book/three", "book/three/undo"} {
			s.end(place, "v")
		}
		if crash {
			s.leave()
			s.activate()
		}
		s.wantOwed("book/two", "book/one")
	}
}

// When the run is ended from within while a saga is undone, what it has not undone is undone
// at the end of the run, after what was under way.
func TestSagaOfARunThatEndsAbruptly(t *testing.T) {
	for _, crash := range []string{"", "while one is undone", "behind it", "at the end"} {
		t.Run(crash, func(t *testing.T) {
			goesOn := false
			s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
				b.Go(at("x"), func(b *Branch) (any, error) {
					err := scoped(b, "book", func() error {
						if err := s.steps(b, "one", "two"); err != nil {
							return err
						}
						return errSaga
					})
					goesOn = true
					return nil, err
				})
				if _, err := step(b, "end"); err != nil {
					return result("", err)
				}
				_, err := step(b, "")
				return result("not reached", err)
			})
			s.play()
			s.end("x/book/one", "a")
			s.end("x/book/two", "b")
			s.wantFlight("end", "x/book/two/undo")
			s.end("end", "")
			s.wantMarks(store.Undoing)
			s.wantFlight("x/book/two/undo")
			if crash == "while one is undone" {
				s.crash()
				s.play()
				s.wantFlight("x/book/two/undo")
			}
			s.end("x/book/two/undo", "")
			s.wantFlight("x/book/one/undo")
			if crash == "behind it" {
				s.crash()
				s.play()
				s.wantFlight("x/book/one/undo")
			}
			s.finish()
			s.want(store.Failed, stored.CodeMisuse)
			s.wantUndone("x/book/one/undo of a")
			if goesOn {
				t.Error("dropped code went on")
			}
			if e, _ := s.j.at("x/book/one/undo"); e.Kind != store.KindUndo {
				t.Errorf("the rest was undone by %+v", e)
			}
			if crash == "at the end" {
				s.replays()
			}
		})
	}
}

// A loop forgets iterations whose sagas have undone all that they owed.
func TestSagaInALoopIsPruned(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		err := b.Loop(Loop{Call: at("loop"), Every: 1, Keep: 1, State: []byte("0"),
			Body: func(n int64, state []byte) ([]byte, bool, error) {
				err := scoped(b, "book", func() error {
					if err := s.steps(b, "one"); err != nil {
						return err
					}
					return errSaga
				})
				if err != errSaga {
					return nil, false, err
				}
				return state, n < 20, b.Sleep(at("nap"), time.Minute)
			}})
		return result("done", err)
	})
	for s.play(); s.r.Over() == nil; s.pass(time.Minute) {
		if len(s.flight) > 0 {
			s.end(s.flight[0].Location.String(), "v")
		}
		if len(s.j.entries) > 15 || s.r.undo.effects.Len() > 5 {
			t.Fatalf("after %d completions %d entries are kept, and %d that were owed", s.j.seq(), len(s.j.entries),
				s.r.undo.effects.Len())
		}
		if s.j.seq()%10 == 0 {
			s.crash()
			s.play()
		}
	}
	s.want(store.Succeeded, "done")
	if s.j.prunings == 0 {
		t.Error("nothing was pruned")
	}
}

// A saga that is removed with all that it did owes nothing. One that is not undone any more,
// or whose step has lost its compensation before that was executed, stalls the run.
func TestSagaOfChangedCode(t *testing.T) {
	begin := func(t *testing.T, now *string) *saga {
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			if *now == "removed" {
				b.Removed(at("book"))
			} else {
				err := scoped(b, "book", func() error {
					if *now == "plain" {
						_, _ = step(b, "one")
					} else if err := s.steps(b, "one"); err != nil {
						return err
					}
					if *now == "succeeds" {
						return nil
					}
					return errSaga
				})
				if err != nil && err != errSaga {
					return result("", err)
				}
			}
			_, _ = step(b, "last")
			return result("", errSaga)
		})
		s.play()
		s.end("book/one", "a")
		return s
	}
	for _, c := range []struct {
		now    string
		undone bool
		stall  []string
	}{
		{"removed", true, nil},
		{"plain", true, nil},
		{"plain", false, []string{"book/one", "owed its undoing", "without a compensation", "restore the step's Undo"}},
		{"succeeds", true, []string{"book/one/undo", "saga undo", "step last", "restore the Saga that has undone it"}},
	} {
		t.Run(fmt.Sprint(c.now, ", undone ", c.undone), func(t *testing.T) {
			now := ""
			s := begin(t, &now)
			if c.undone {
				s.end("book/one/undo", "")
			}
			now = c.now
			s.crash()
			s.play()
			if c.stall != nil {
				s.wantStall(c.stall[0], c.stall[1], c.stall[2])
				if remedy := s.r.Over().Stall.Remedy; !strings.Contains(remedy, c.stall[3]) {
					t.Errorf("the remedy is %q", remedy)
				}
				return
			}
			s.finish()
			s.want(store.Failed, errSaga.Error())
			s.wantUndone()
			s.wantOrder("book/one", "book/one/undo", "last")
		})
	}
}

// A key makes a saga another scope than the one of its name.
func TestSagaWithAKey(t *testing.T) {
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		keyed := at("book")
		keyed.Key = "k"
		err := b.Saga(Saga{Call: keyed, Func: func() bool { return s.steps(b, "one") != nil }})
		if err != nil {
			return result("", err)
		}
		return text("%v", scoped(b, "book", func() error { return errSaga }))
	})
	s.play()
	s.end("book/[k]/one", "a")
	s.want(store.Succeeded, errSaga.Error())
	s.wantUndone()
	if !location.Loc("").Name("book", 1).Contains(location.Loc("").Name("book", 1).Key("k", 1)) {
		t.Error("the locations tell them apart by themselves")
	}
}

// TestWhatMayHaveUsedItsPermit: bodies whose permits had come, by one grant, may have had
// their effect before the process died. A terminate lists them, and a cancel sees to their
// ends.
func TestWhatMayHaveUsedItsPermit(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			var branches []*Future
			for _, name := range []string{"x", "y"} {
				branches = append(branches, b.Go(at(name), func(b *Branch) (any, error) {
					undo := &Undo{Policy: once, Func: func(_ context.Context, body *Body, _ []byte) BodyResult {
						s.undone = append(s.undone, body.Location.String())
						return BodyResult{}
					}}
					return b.Step(Step{Call: at("one"), Policy: once, Undo: undo, Permit: &permit.Place{Queue: "q"}})
				}))
			}
			_, err := b.Compose(at("all"), Join, branches)
			return result("done", err)
		})
		s.play()
		var grants []permit.StepGrant
		for ticket, a := range s.j.queues.asked {
			a.granted = 1
			grants = append(grants, permit.StepGrant{Ticket: ticket, Loc: a.loc})
		}
		slices.SortFunc(grants, func(a, b permit.StepGrant) int { return strings.Compare(a.Loc, b.Loc) })
		s.deliver(*permit.GrantSteps("q", s.j.run.ID, grants).Item)
		if s.wantFlight("x/one", "y/one"); len(s.flight) == 0 {
			t.Fatal("no body has begun")
		}
		if cancel {
			s.crash()
			s.cancel()
			s.wantFlight("x/one", "y/one")
			s.end("x/one", "a")
			s.end("y/one", "b")
			s.finish()
			s.want(store.Cancelled, "")
			s.wantUndone("y/one/undo", "x/one/undo")
			continue
		}
		s.leave()
		s.activate()
		s.r.Terminate(s.j.send(store.Item{Kind: store.ItemTerminate, Sent: s.clock}))
		s.j.claim()
		s.r.Resumed()
		s.advance()
		for s.take() {
			s.commit()
		}
		end, err := stored.DecodeEnding(s.j.run.Output)
		slices.Sort(end.Owed)
		if want := []string{"x/one", "y/one"}; err != nil || !slices.Equal(end.Owed, want) {
			t.Errorf("owed are %q, %v; want %q", end.Owed, err, want)
		}
	}
}
