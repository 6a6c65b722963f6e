package planner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet/internal/entity/planner"
	"github.com/stet-run/stet/store"
)

// desk is a client that is asked about schedules.
type desk struct {
	known   bool
	told    string // ID and name of the last item
	verdict []byte
	err     error
}

func (d *desk) Get(context.Context, string) (store.Run, bool, error) {
	return store.Run{}, d.known, d.err
}

func (d *desk) Tell(_ context.Context, id string, it store.Item) (store.Answer, error) {
	d.told = id + " " + it.Name
	return store.Answer{}, d.err
}

func (d *desk) Verdict(context.Context, store.RunNo, store.ItemNo, string) ([]byte, error) {
	return d.verdict, nil
}

// TestAskMakesNoSchedule: only one that is set is made.
func TestAskMakesNoSchedule(t *testing.T) {
	d := &desk{verdict: planner.Encode(&planner.Answer{OK: true, RunID: "r"})}
	if a, err := planner.Ask(t.Context(), d, "n", planner.ItemPause, nil, nil); err != nil || !a.Missing || d.told != "" {
		t.Errorf("got %+v, %v; told %q", a, err, d.told)
	}
	if a, err := planner.Ask(t.Context(), d, "n", planner.ItemSet, nil, nil); err != nil || !a.OK ||
		d.told != "stet.schedule/n "+planner.ItemSet {
		t.Errorf("got %+v, %v; told %q", a, err, d.told)
	}
	d.known = true
	if a, err := planner.Ask(t.Context(), d, "n", planner.ItemTrigger, nil, nil); err != nil || a.RunID != "r" {
		t.Errorf("got %+v, %v", a, err)
	}
	d.verdict = []byte{0xff}
	if _, err := planner.Ask(t.Context(), d, "n", planner.ItemTrigger, nil, nil); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a damaged answer: %v", err)
	}
	d.err = errors.New("away")
	if _, err := planner.Ask(t.Context(), d, "n", planner.ItemTrigger, nil, nil); !errors.Is(err, d.err) {
		t.Errorf("a store that is away: %v", err)
	}
}
