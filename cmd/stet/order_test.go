package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOperationsAreInOrder: indices, occurrences and iterations count by their value, and
// what stands below a branch stays below it.
func TestOperationsAreInOrder(t *testing.T) {
	want := []string{
		"charge", "charge/undo", "charge#2", "charge#10", "pack/[0]/pick", "pack/[1]/pick", "pack/[2]/pick",
		"pack/[10]/pick", "pack/[100]/pick", "pack-2", "pack-10", "poll", "poll/~9", "poll/~9/fetch", "poll/~10",
		"v08", "v8", "v9",
	}
	operations := make([]operation, len(want))
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(want)) {
		operations[i].Location = want[at]
	}
	byName(operations)
	for i := range operations {
		if operations[i].Location != want[i] {
			t.Fatalf("place %d: expected %s, found %s", i, want[i], operations[i].Location)
		}
	}
}

// TestOperationsByTime: in the order in which the code asked for them; those of one moment
// by their places, and those of a branch together.
func TestOperationsByTime(t *testing.T) {
	want := []operation{
		{Location: "reserve"}, {Location: "pack/[2]/pick", born: 1}, {Location: "pack/[2]/wrap", born: 4},
		{Location: "pack/[10]/pick", born: 1}, {Location: "zip", born: 1},
		{Location: "poll", born: 5}, {Location: "poll/~9/fetch", born: 7}, {Location: "poll/~10/fetch", born: 8},
		{Location: "book carrier", born: 9}, {Location: "book carrier/undo", born: 12}, {Location: "late", born: 9},
	}
	got := make([]operation, len(want))
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(want)) {
		got[i] = want[at]
	}
	byTime(got)
	for i := range got {
		if got[i].Location != want[i].Location {
			t.Fatalf("place %d: expected %s, found %s", i, want[i].Location, got[i].Location)
		}
	}
}

func TestOperationsAsRecorded(t *testing.T) {
	operations := []operation{{Location: "open"}, {Location: "b", Number: 10}, {Location: "a", Number: 9}}
	asRecorded(operations)
	order := make([]string, len(operations))
	for i := range operations {
		order[i] = operations[i].Location
	}
	if want := []string{"a", "b", "open"}; !slices.Equal(order, want) {
		t.Errorf("expected %v, found %v", want, order)
	}
}

// FuzzCompareNatural: the order is one.
func FuzzCompareNatural(f *testing.F) {
	f.Add("a9", "a10", "a09")
	f.Add("", "0", "00")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if compareNatural(a, b) != -compareNatural(b, a) {
			t.Errorf("%q and %q", a, b)
		}
		if (compareNatural(a, b) == 0) != (a == b) {
			t.Errorf("%q is %q", a, b)
		}
		if compareNatural(a, b) < 0 && compareNatural(b, c) < 0 && compareNatural(a, c) >= 0 {
			t.Errorf("%q < %q < %q, and not the first before the last", a, b, c)
		}
	})
}
