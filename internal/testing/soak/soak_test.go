package soak_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/soak"
)

func TestCasesFollowTheVariable(t *testing.T) {
	for _, c := range []struct {
		value     string
		cases, of int
		on        bool
	}{
		{"", 100, 300, false}, {"", 1, 2, false}, {"1", 300, 300, false}, {"10", 3000, 300, true},
	} {
		t.Setenv("STET_SOAK", c.value)
		if got := soak.Cases(t, c.of); got != c.cases || soak.On() != c.on {
			t.Errorf("STET_SOAK=%q: expected %d of %d cases and %t, found %d and %t",
				c.value, c.cases, c.of, c.on, got, soak.On())
		}
	}
}
