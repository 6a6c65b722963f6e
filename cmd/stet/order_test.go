package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stet-run/stet/api"
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
	for i, place := range rand.New(rand.NewPCG(1, 2)).Perm(len(want)) {
		operations[i].Location = want[place]
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
		at("reserve", 0), at("pack/[2]/pick", 1), at("pack/[2]/wrap", 4),
		at("pack/[10]/pick", 1), at("zip", 1),
		at("poll", 5), at("poll/~9/fetch", 7), at("poll/~10/fetch", 8),
		at("book carrier", 9), at("book carrier/undo", 12), at("late", 9),
	}
	got := make([]operation, len(want))
	for i, place := range rand.New(rand.NewPCG(1, 2)).Perm(len(want)) {
		got[i] = want[place]
	}
	byTime(got)
	for i := range got {
		if got[i].Location != want[i].Location {
			t.Fatalf("place %d: expected %s, found %s", i, want[i].Location, got[i].Location)
		}
	}
}

func TestOperationsAsRecorded(t *testing.T) {
	operations := []operation{at("open", 0), completed("b", 10), completed("a", 9)}
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

// at is an operation at a location, that was asked for after the completion with the number.
func at(location string, born int64) operation {
	return operation{Entry: api.Entry{Location: location, Born: born}}
}

// completed is an operation with its completion number.
func completed(location string, number int64) operation {
	return operation{Entry: api.Entry{Location: location, Number: number}}
}
