package e2e_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestReservedNames: the engine's own names are refused at the edge.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	greet := stet.Message[string]("greet")
	w := stet.Define("w", func(ctx stet.Context, watch string) (string, error) {
		if watch != "" {
			_, err := stet.Await[string](ctx, "other", watch)
			if !errors.Is(err, stet.ErrInvalid) {
				return "", err
			}
			return "refused", nil
		}
		return greet.Receive(ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := t.Context()
	own := stet.Define("stet.mine", func(stet.Context, int) (int, error) { return 0, nil })
	_, err := stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{own}})
	errs := map[string]error{"define": err}
	_, errs["start"] = w.Start(ctx, e, "", stet.ID("stet.schedule/s"))
	errs["send"] = greet.Send(ctx, e, "stet.schedule/s", "x")
	_, errs["cancel"] = e.Runs().Cancel(ctx, "stet.schedule/s", stet.Act{})
	_, errs["fork"] = e.Runs().Fork(ctx, "stet.schedule/s", "/", stet.Act{})
	for name, err := range errs {
		if !errors.Is(err, stet.ErrInvalid) && !(name == "cancel" && errors.Is(err, stet.ErrNotFound)) {
			t.Errorf("%s: expected ErrInvalid, got %v", name, err)
		}
	}
	if err := w.Schedule(ctx, e, "s", "", stet.Schedule{Every: time.Hour}, stet.RefuseExisting); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Runs().Cancel(ctx, "stet.schedule/s", stet.Act{}); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("expected the verbs of runs to be refused, got %v", err)
	}
	run, err := w.Start(ctx, e, "stet.schedule/s")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Wait(ctx); err != nil || got != "refused" {
		t.Errorf("expected a record not to be awaited, got %q (%v)", got, err)
	}
	tallies, err := e.Runs().Count(ctx, store.Filter{})
	if err != nil || len(tallies) != 1 || tallies[0].Workflow != "w" {
		t.Errorf("expected records not to be counted, got %v (%v)", tallies, err)
	}
}

// TestReservedCodes: a code of stet's own is refused with what to do, and a code that is given twice.
func TestReservedCodes(t *testing.T) {
	t.Parallel()
	one, other := errors.New("one"), errors.New("other")
	for name, row := range map[string]struct {
		codes []stet.ErrorCode
		says  []string
	}{
		"stet's own": {[]stet.ErrorCode{stet.Sentinel("budget", one)},
			[]string{`code "budget" is one of stet's own`, "budget, cancelled, ", "timeout"}},
		"twice": {[]stet.ErrorCode{stet.Sentinel("x", one), stet.Sentinel("x", other)},
			[]string{`code "x" is in Config.Errors twice`}},
	} {
		_, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Errors: row.codes})
		if !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, text := range row.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not say %q", name, err, text)
			}
		}
	}
}
