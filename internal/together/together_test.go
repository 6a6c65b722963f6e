package together

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
)

// slow is a store whose acts take a second, and which notes what each of them has.
type slow struct {
	store.Store

	mu   sync.Mutex
	acts []string
}

var errBad = errors.New("bad")

func (s *slow) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	ids, takes := make([]string, len(commands)), 100*time.Millisecond
	answers := make([]store.Answer, len(commands))
	var err error
	for i, c := range commands {
		ids[i] = c.RunID
		answers[i].Run.ID = c.RunID
		switch {
		case strings.HasPrefix(c.RunID, "bad"):
			err = errBad
		case strings.HasPrefix(c.RunID, "waits"): // for a transaction
			takes = time.Hour
		}
	}
	s.mu.Lock()
	s.acts = append(s.acts, strings.Join(ids, " "))
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	if err != nil {
		return nil, 0, err
	}
	return answers, 7, nil
}

func to(ids ...string) []store.Command {
	commands := make([]store.Command, len(ids))
	for i, id := range ids {
		commands[i] = store.Command{RunID: id, Item: &store.Item{}}
	}
	return commands
}

// TestApply makes calls that come while others are under way, and looks what each gets and which acts there were.
func TestApply(t *testing.T) {
	busy := []string{"w", "x", "y", "z"} // as many as there are workers
	for _, c := range []struct {
		name  string
		calls []string // commands each
		acts  string   // those after the first four
		took  time.Duration
	}{
		{"together", []string{"a", "b b2", "c"}, "a b b2 c", 200 * time.Millisecond},
		{"one alone", []string{"a"}, "a", 200 * time.Millisecond},
		{"many commands go at once, and alone", []string{"1 2 3 4 5 6 7 8 9", "a"}, "1 2 3 4 5 6 7 8 9, a",
			200 * time.Millisecond},
		// Each is tried again by itself, and gets its own error.
		{"one is bad", []string{"a", "bad", "c"}, "a bad c, a, bad, c", 300 * time.Millisecond},
		// The others do not wait with it.
		{"one waits", []string{"a", "waits", "c"}, "a waits c, a, c, waits", time.Hour + 600*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{}
				a := New(s)
				begun := time.Now()
				var calls sync.WaitGroup
				apply := func(ids string) {
					list := strings.Fields(ids)
					calls.Go(func() {
						answers, now, err := a.Apply(t.Context(), to(list...))
						if list[0] == "bad" {
							if !errors.Is(err, errBad) {
								t.Errorf("%s gets %v, expected its own error", ids, err)
							}
							return
						}
						if err != nil || now != 7 || len(answers) != len(list) {
							t.Errorf("%s gets %d answers of %d: %v", ids, len(answers), now, err)
							return
						}
						for i := range answers {
							if answers[i].Run.ID != list[i] {
								t.Errorf("%s gets the answer of %s", list[i], answers[i].Run.ID)
							}
						}
						if took := time.Since(begun); list[0] != "waits" && took > time.Second {
							t.Errorf("%s has waited for %s", ids, took)
						}
					})
				}
				for _, id := range busy {
					apply(id)
					synctest.Wait()
				}
				for _, ids := range c.calls {
					apply(ids)
					synctest.Wait()
				}
				calls.Wait()
				if took := time.Since(begun); took != c.took {
					t.Errorf("all took %s, expected %s", took, c.took)
				}
				acts := s.acts[len(busy):]
				failed := strings.Contains(c.acts, ", a") && len(c.calls) > 2
				begun = time.Now()
				s.acts = nil
				for _, id := range append(busy, "p", "q") { // and afterwards
					apply(id)
					synctest.Wait()
				}
				calls.Wait()
				if alone := len(s.acts) == len(busy)+2; alone != (failed && c.took < time.Hour) {
					t.Errorf("afterwards there were the acts %q", s.acts)
				}
				if got := sorted(acts); got != sorted(strings.Split(c.acts, ", ")) {
					t.Errorf("there were the acts %q, expected %s", acts, c.acts)
				}
			})
		})
	}
}

func sorted(acts []string) string {
	counts := map[string]int{}
	for _, act := range acts {
		counts[act]++
	}
	return fmt.Sprint(counts) // in the order of the keys
}

// TestWaitersDoNotBlockOthers: as many calls as there are workers wait for transactions, each alone, for an hour.
// Others go on after a moment.
func TestWaitersDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(&slow{})
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for i := range workers {
			calls.Go(func() {
				if _, _, err := a.Apply(ctx, to(fmt.Sprint("waits", i))); !errors.Is(err, context.Canceled) {
					t.Errorf("a call that is given up gets %v", err)
				}
			})
			synctest.Wait()
		}
		begun := time.Now()
		if _, _, err := a.Apply(ctx, to("a")); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > limit+100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		cancel()
		calls.Wait()
	})
}

// TestACallThatIsGivenUp while it waits for a worker ends at once; the others are carried out.
func TestACallThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(&slow{})
		var calls sync.WaitGroup
		for i := range workers + 1 {
			calls.Go(func() {
				if _, _, err := a.Apply(t.Context(), to(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		_, _, err := a.Apply(ctx, to("late"))
		if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) || time.Since(begun) != 0 {
			t.Errorf("it ends after %s with %v, expected at once with an unknown outcome", time.Since(begun), err)
		}
		calls.Wait()
	})
}
