package sqlstore

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/store"
)

// fewRuns is a database in which the runs below 10 are claimed, and a boot whose last
// batch is known. It implements the acts of BatchRows that a batch of empty turns takes.
type fewRuns struct {
	BatchRows
	last     int64
	verdicts []byte
	recorded []store.TurnResult
}

func (f *fewRuns) LastBatch() (int64, []byte, error) { return f.last, f.verdicts, nil }

func (f *fewRuns) CurrentLeases() (map[store.Shard]bool, error) {
	return map[store.Shard]bool{ours: true}, nil
}

func (f *fewRuns) RecordBatch(turns []store.TurnResult) error {
	f.recorded = turns
	return nil
}

func (f *fewRuns) RunState(turn *store.Turn) (RunState, bool, error) {
	return RunState{Shard: turn.Shard, Status: store.Running, Claimed: true}, turn.Run < 10, nil
}

func TestEachTurnOfABatchHasAVerdict(t *testing.T) {
	lost := store.Shard{Group: "lost"}
	batch := store.Batch{No: 5, Turns: []*store.Turn{{Run: 1, Shard: ours}, {Run: 2, Shard: lost}, {Run: 3, Shard: ours}}}
	db := &fewRuns{last: 4}
	b := Batch{Rows: db, Now: now, Batch: &batch, Refused: map[int]string{2: "why"}}
	got, err := b.Commit()
	want := []store.TurnResult{{Verdict: store.Committed}, {Verdict: store.Fenced},
		{Verdict: store.Refused, Reason: "why"}}
	if diff := cmp.Diff(want, got.Turns); diff != "" || err != nil || got.Now != now {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(want, db.recorded); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

func TestATurnThatBreaksALawIsNamed(t *testing.T) {
	batch := store.Batch{No: 5, Turns: []*store.Turn{{Run: 1, Shard: ours}, {Run: 77, Shard: ours}}}
	b := Batch{Rows: &fewRuns{}, Now: now, Batch: &batch}
	_, err := b.Commit()
	var r *Refusal
	if !errors.As(err, &r) || r.Turn != 1 || r.Reason != "there is no run number 77" {
		t.Errorf("got %v", err)
	}
}

func TestATurnWhoseRowsAreHeldIsBusy(t *testing.T) {
	batch := store.Batch{No: 5, Turns: []*store.Turn{{Run: 1, Shard: ours}, {Run: 2, Shard: ours}}}
	b := Batch{Rows: &fewRuns{}, Now: now, Batch: &batch}
	acts := 0
	b.Guard = func(act func() error) (bool, error) {
		acts++
		return acts == 1, act()
	}
	got, err := b.Commit()
	want := []store.TurnResult{{Verdict: store.Busy}, {Verdict: store.Committed}}
	if diff := cmp.Diff(want, got.Turns); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestARepeatedBatchHasItsFormerVerdicts(t *testing.T) {
	former := []store.TurnResult{{Verdict: store.Refused, Reason: "why"}, {Verdict: store.Committed}}
	batch := store.Batch{No: 5, Turns: []*store.Turn{{Run: 1, Shard: ours}, {Run: 77, Shard: ours}}}
	db := &fewRuns{last: 5, verdicts: EncodeVerdicts(former)}
	b := Batch{Rows: db, Now: now, Batch: &batch}
	got, err := b.Commit()
	if diff := cmp.Diff(former, got.Turns); diff != "" || err != nil || db.recorded != nil {
		t.Errorf("%v, recorded %v (-want +got):\n%s", err, db.recorded, diff)
	}
	db.last = 6
	if _, err := b.Commit(); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("expected a batch before the last one to be refused, got %v", err)
	}
}
