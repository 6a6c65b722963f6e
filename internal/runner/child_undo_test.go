package runner

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// undoable starts a child that carries a compensation.
func (s *saga) undoable(b *Branch, name string) (*RunFuture, error) {
	return b.StartChild(Child{Call: at(name), Workflow: "w", Undo: &Undo{Policy: once,
		Func: func(_ context.Context, body *Body, value []byte) BodyResult {
			if len(value) > 20 {
				value = value[:20]
			}
			s.undone = append(s.undone, fmt.Sprintf("%s of %s", body.Location, value))
			return BodyResult{}
		}}})
}

// childAt returns the ID of the child that was started at a location.
func (s *saga) childAt(place string) string {
	s.t.Helper()
	for id, start := range s.j.out.started {
		if place == location.Loc(start.ParentLoc).String() {
			return id
		}
	}
	s.t.Fatalf("no child was started at %s", place)
	return ""
}

func (s *saga) succeed(place, output string) {
	s.t.Helper()
	id := s.childAt(place)
	s.tell(id, stored.End{RunID: id, Status: store.Succeeded, Output: []byte(output)})
}

// A child that has succeeded is undone in the order with the steps, with its result, also
// one that the run does not keep in memory.
func TestUndoOfAChild(t *testing.T) {
	large := strings.Repeat("x", store.LargeValue)
	s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
		for _, name := range []string{"small", "large", "bad"} {
			if _, err := s.do(b, "before "+name); err != nil {
				return result("", err)
			}
			o, err := s.undoable(b, name)
			if err != nil {
				return result("", err)
			}
			if _, err := await(b, o); err != nil {
				return result("", errSaga)
			}
		}
		return text("not reached")
	})
	s.play()
	s.end("before small", "a")
	if e, _ := s.j.at("small"); !e.Owes || e.State != store.Open {
		t.Errorf("the entry of the open child is %+v", e)
	}
	s.succeed("small", "s")
	s.end("before large", "b")
	s.succeed("large", large)
	s.end("before bad", "c")
	s.crash()
	s.play()
	id := s.childAt("bad")
	s.tell(id, stored.End{RunID: id, Status: store.Cancelled, Reason: "by itself"})
	s.finish()
	s.want(store.Failed, errSaga.Error())
	s.wantUndone("before bad/undo of c", "large/undo of "+large[:20], "before large/undo of b", "small/undo of s",
		"before small/undo of a")
	s.undone = nil
	s.replays()
	s.wantUndone()
}

// A scope that ends cancels a child that nobody has awaited, waits for its end, and undoes
// it if it has succeeded all the same: the scope of a saga, of a cancelled run, of a run that
// was ended from within.
func TestUndoOfAChildThatNobodyAwaits(t *testing.T) {
	for _, end := range []string{"saga", "cancel", "misuse", "success"} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(end, ", crash ", crash), func(t *testing.T) {
				s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
					code := func() error {
						if _, err := s.undoable(b, "kid"); err != nil {
							return err
						}
						if _, err := step(b, "work"); err != nil || end == "success" {
							return err
						}
						if end == "misuse" {
							_, _ = step(b, "")
						}
						return errSaga
					}
					if end == "saga" {
						return text("%v", scoped(b, "book", code))
					}
					return result("done", code())
				})
				s.play()
				place, work := "kid", "work"
				if end == "saga" {
					place, work = "book/kid", "book/work"
				}
				id := s.childAt(place)
				if s.wantCancelled(); end == "cancel" {
					s.cancel()
				} else {
					s.end(work, "w")
				}
				if end != "misuse" {
					s.wantCancelled(id)
				}
				if s.r.Over() != nil {
					t.Fatal("the run does not wait for the child")
				}
				if crash {
					s.crash()
					s.play()
				}
				s.succeed(place, "s")
				s.finish()
				switch end {
				case "saga":
					s.want(store.Succeeded, errSaga.Error())
				case "cancel":
					s.want(store.Cancelled, "")
				case "misuse":
					s.want(store.Failed, stored.CodeMisuse)
				case "success":
					s.want(store.Succeeded, "done")
				}
				if want := []string{place + "/undo of s"}; end == "success" {
					s.wantUndone()
				} else {
					s.wantUndone(want...)
				}
				s.replays()
			})
		}
	}
}

// A terminate lists a child that is not known to have ended, in a replay as well.
func TestTerminateListsAnOpenChild(t *testing.T) {
	for _, crash := range []bool{false, true} {
		s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			if err := s.steps(b, "one"); err != nil {
				return result("", err)
			}
			o, err := s.undoable(b, "kid")
			if err != nil {
				return result("", err)
			}
			return result(await(b, o))
		})
		s.play()
		s.end("one", "a")
		if crash {
			s.leave()
			s.activate()
		}
		s.wantOwed("kid", "one")
	}
}
