package sqlstore

import (
	"slices"
	"testing"
)

func TestCandidatesAreInOneClassAndByTurns(t *testing.T) {
	got := SortCandidates([]Candidate{{1, 0, "", 3}, {0, 9, "w", 5}, {2, 0, "w", 1}, {0, 4, "w", 7}, {1, 0, "", 5},
		{0, 4, "w", 6}, {2, 0, "w", 3}, {2, 0, "w", 4}, {2, 0, "x", 8}, {2, 0, "w", 2}})
	want := []Candidate{{0, 4, "w", 6}, {1, 0, "", 3}, {2, 0, "w", 1}, {2, 0, "x", 8},
		{0, 4, "w", 7}, {2, 0, "w", 2}, {0, 9, "w", 5}, {2, 0, "w", 4}}
	if !slices.Equal(got, want) {
		t.Errorf("expected %v, got %v", want, got)
	}
}
