package sqlstore

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stet-run/stet/store"
)

func TestVerdictsSurviveTheirStoredForm(t *testing.T) {
	for _, turns := range [][]store.TurnResult{
		{},
		{{Verdict: store.Committed}},
		{
			{Verdict: store.Committed}, {Verdict: store.Refused, Reason: "no"}, {Verdict: store.StillReady},
			{Verdict: store.Committed}, {Verdict: store.Fenced}, {Verdict: store.Busy},
		},
	} {
		got, err := DecodeVerdicts(EncodeVerdicts(turns))
		if err != nil || !cmp.Equal(got, turns) {
			t.Errorf("expected %v, got %v, %v", turns, got, err)
		}
	}
}

func FuzzDecodeVerdicts(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0})
	f.Add(EncodeVerdicts([]store.TurnResult{{Verdict: store.Refused, Reason: "no"}, {Verdict: store.Fenced}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		turns, err := DecodeVerdicts(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%v; want %v", err, store.ErrDamaged)
			}
			return
		}
		again, err := DecodeVerdicts(EncodeVerdicts(turns))
		if err != nil || !cmp.Equal(again, turns) {
			t.Errorf("expected %v, got %v, %v", turns, again, err)
		}
	})
}
