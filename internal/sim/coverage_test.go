package sim

import (
	"slices"
	"testing"
)

// TestUnreached: a situation counts as reached once it was there.
func TestUnreached(t *testing.T) {
	all := map[string]int{}
	if got := Unreached(all); !slices.Equal(got, rare) {
		t.Errorf("of nothing reached: expected all, found %q", got)
	}
	for _, s := range rare {
		if all[s] != 0 {
			t.Errorf("%q stands twice", s)
		}
		all[s] = 1
	}
	all["takeover"] = 0
	if got := Unreached(all); !slices.Equal(got, []string{"takeover"}) {
		t.Errorf("expected the one that was not reached, found %q", got)
	}
}
