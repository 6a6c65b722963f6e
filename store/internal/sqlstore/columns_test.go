package sqlstore

import (
	"errors"
	"slices"
	"testing"

	"github.com/stet-run/stet/store"
)

func FuzzDecodeTags(f *testing.F) {
	for _, seed := range []string{"", `["k","v"]`, `["k"]`, "[", `{"k":"v"}`, `["ö","a\u0000b"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tags, err := DecodeTags(data)
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		again, err := DecodeTags(EncodeTags(tags))
		if err != nil || !slices.Equal(again, tags) && len(tags) > 0 {
			t.Errorf("%q: %v comes back as %v, %v", data, tags, again, err)
		}
	})
}

func TestAnOriginSurvivesItsStoredForm(t *testing.T) {
	for _, o := range []store.Origin{{}, {Seed: store.Seed{1}, Workflow: "w"}, {Seed: store.Seed{1}, Input: [32]byte{2}}} {
		if got := DecodeOrigin(EncodeOrigin(&o)); got != o {
			t.Errorf("expected %v, got %v", o, got)
		}
	}
	if got := DecodeOrigin(nil); got != (store.Origin{}) {
		t.Errorf("expected the zero origin of NULL, got %v", got)
	}
}
