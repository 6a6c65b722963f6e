package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// ended returns the error of code in a scope that has returned err: that of a child which
// has failed the scope.
func ended(b *Branch, err error) error {
	if failure := b.ScopeFailure(); failure != nil {
		return failure
	}
	return err
}

// tied starts a child that fails the scope in which it is started.
func tied(b *Branch, name string) (*RunFuture, error) {
	return b.StartChild(Child{Call: at(name), Workflow: "w", Fails: true})
}

// breaks ends the child at a location with a failure.
func (s *saga) breaks(place string) {
	s.t.Helper()
	id := s.childAt(place)
	s.tell(id, stored.End{RunID: id, Status: store.Failed,
		Output: stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "broken"})})
}

// wantInFlight fails the test unless exactly these bodies are in flight.
func (s *saga) wantInFlight(places []string) {
	s.t.Helper()
	if got, want := slices.Sorted(slices.Values(s.flying())), slices.Sorted(slices.Values(places)); s.r.Over() == nil &&
		!slices.Equal(got, want) {
		s.t.Errorf("in flight are %q, want %q", got, want)
	}
}

// cleaning is the body of what is shielded.
func cleaning(context.Context, *Body) BodyResult { return BodyResult{} }

// outcome is the result of a run in whose scope err was returned.
func outcome(b *Branch, text string, err error) ([]byte, *stored.Failure) {
	return result(text, ended(b, err))
}

// A child that fails cancels the scope that has started it, and nothing else: its failure is
// the error of the scope whatever the code returns, and the code around goes on. So it is
// after a crash at any point.
func TestChildFailsItsScope(t *testing.T) {
	work := func(b *Branch) error { _, err := step(b, "work"); return err }
	for name, c := range map[string]struct {
		code   func(s *saga, b *Branch) ([]byte, *stored.Failure)
		child  string   // where it is
		before []string // in flight, before it fails
		after  []string // … and behind that
		status store.Status
		want   string
		undone []string
	}{
		"the function": {func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			if _, err := tied(b, "kid"); err != nil {
				return result("", err)
			}
			other := spawn(b, "x", "other")
			err := work(b)
			_, again := b.Await(at("x"), other)
			_, _ = b.Step(Step{Call: shielded("cleanup"), Func: cleaning, Policy: once})
			return outcome(b, fmt.Sprint(err, again), nil)
		}, "kid", []string{"work", "x/other"}, []string{"cleanup"}, store.Failed, "failed: broken", nil},
		"a saga": {func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			beside := spawn(b, "x", "other")
			err := scoped(b, "book", func() error {
				if err := s.steps(b, "one"); err != nil {
					return err
				}
				if _, err := tied(b, "kid"); err != nil {
					return err
				}
				if _, err := b.Compose(at("all"), All, []*Future{beside, spawn(b, "y", "mine")}); err != ErrCancelled {
					return fmt.Errorf("the composite returns %w", err)
				}
				if err := scoped(b, "inner", func() error { return nil }); err != ErrCancelled {
					return fmt.Errorf("a saga inside returns %w", err)
				}
				return ended(b, nil)
			})
			after, _ := step(b, "after")
			value, _ := b.Await(at("x"), beside)
			return text("%v; %v %v", err, after, value)
		}, "book/kid", []string{"x/other", "book/y/mine"}, []string{"x/other", "book/one/undo"}, store.Succeeded,
			"failed: broken; of after of x/other", []string{"book/one/undo of v"}},
		"an iteration": {func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			err := b.Loop(Loop{Call: at("l"), Every: 1, Keep: 1, Body: func(n int64, _ []byte) ([]byte, bool, error) {
				if n == 1 {
					if _, err := tied(b, "kid"); err != nil {
						return nil, false, err
					}
				}
				return nil, true, ended(b, work(b))
			}})
			after, _ := step(b, "after")
			return text("%v; %v", err, after)
		}, "l/~1/kid", []string{"l/~1/work"}, []string{"after"}, store.Succeeded, "failed: broken; of after", nil},
		"a branch": {func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			f := b.Go(at("x"), func(b *Branch) (any, error) {
				if _, err := tied(b, "kid"); err != nil {
					return nil, err
				}
				_, _, err := b.Map(at("map"), 2, 2, func(i int) string { return fmt.Sprint(i) },
					func(b *Branch, i int) (any, error) { return nil, work(b) })
				return "kept", ended(b, err)
			})
			other := spawn(b, "y", "other")
			_, err := b.Await(at("x"), f)
			value, _ := b.Await(at("y"), other)
			return text("%v; %v", err, value)
		}, "x/kid", []string{"x/map/[0]/work", "x/map/[1]/work", "y/other"}, []string{"y/other"}, store.Succeeded,
			"failed: broken; of y/other", nil},
		"an awaited one": {func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			f := b.Go(at("x"), func(b *Branch) (any, error) {
				o, err := tied(b, "kid")
				if err != nil {
					return nil, err
				}
				_, err = await(b, o)
				refused := work(b)
				return nil, fmt.Errorf("%w, then %w, in the end %w", err, refused, b.ScopeFailure())
			})
			_, err := b.Await(at("x"), f)
			return text("%v", err)
		}, "x/kid", nil, nil, store.Succeeded, "broken, then cancelled, in the end run", nil},
		"a scope that is over": {func(s *saga, b *Branch) ([]byte, *stored.Failure) {
			err := scoped(b, "book", func() error {
				_, err := b.StartChild(Child{Call: at("kid"), Workflow: "w", Fails: true, Leave: true})
				return err
			})
			if err == nil {
				err = work(b)
			}
			return outcome(b, "done", err)
		}, "book/kid", []string{"work"}, []string{"work"}, store.Succeeded, "done", nil},
	} {
		for crash := range 3 {
			t.Run(fmt.Sprint(name, ", crash ", crash), func(t *testing.T) {
				s := newSaga(t, c.code)
				s.play()
				for _, place := range []string{"book/one", "l/~0/work"} {
					if slices.Contains(s.flying(), place) {
						s.end(place, "v")
					}
				}
				s.wantInFlight(c.before)
				if crash == 1 {
					s.crash()
					s.play()
					s.wantInFlight(c.before)
				}
				s.breaks(c.child)
				if crash == 2 {
					s.crash()
					s.play() // what was cancelled is not begun again
					s.wantInFlight(c.after)
				}
				over := s.finish()
				if over.Status != c.status || over.Stall != nil || !strings.Contains(string(over.Output), c.want) {
					t.Errorf("it ends %s with %q, want %s with %q; %v", over.Status, over.Output, c.status, c.want, over.Stall)
				}
				s.wantUndone(c.undone...)
				s.undone = nil
				s.replays()
			})
		}
	}
}

// The end of a child that has succeeded, or that fails when its scope is cancelled already,
// fails nothing. One that was cancelled by somebody else has failed.
func TestChildThatFailsNoScope(t *testing.T) {
	for name, c := range map[string]struct {
		end    stored.End
		status store.Status
		want   string
	}{
		"succeeded": {stored.End{Status: store.Succeeded, Output: []byte("v")}, store.Succeeded, "done"},
		"cancelled": {stored.End{Status: store.Cancelled, Reason: "by somebody"}, store.Failed, "by somebody"},
		"late":      {stored.End{Status: store.Failed, Output: []byte("?")}, store.Cancelled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSaga(t, func(s *saga, b *Branch) ([]byte, *stored.Failure) {
				_, err := b.StartChild(Child{Call: at("kid"), Workflow: "w", Fails: true, Leave: name == "late"})
				if err == nil {
					_, err = step(b, "work")
				}
				if name == "late" {
					_, _ = b.Step(Step{Call: shielded("cleanup"), Func: cleaning, Policy: once})
				}
				return outcome(b, "done", err)
			})
			s.play()
			if name == "late" {
				s.cancel()
				s.wantFlight("work", "cleanup")
			}
			c.end.RunID = s.childAt("kid")
			s.tell(c.end.RunID, c.end)
			s.crash()
			s.play()
			s.finish()
			s.want(c.status, c.want)
			s.replays()
		})
	}
}
