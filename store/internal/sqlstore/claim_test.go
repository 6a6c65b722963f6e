package sqlstore

import (
	"slices"
	"testing"
)

func TestCandidatesAreInOneClassAndInOrder(t *testing.T) {
	got := SortCandidates([]Candidate{{1, 0, 3}, {0, 9, 5}, {2, 0, 1}, {0, 4, 7}, {1, 0, 5}, {0, 4, 6}, {2, 0, 3}})
	if want := []Candidate{{0, 4, 6}, {0, 4, 7}, {0, 9, 5}, {1, 0, 3}, {2, 0, 1}}; !slices.Equal(got, want) {
		t.Errorf("expected %v, got %v", want, got)
	}
}
