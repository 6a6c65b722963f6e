package parking_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/parking"
)

func TestWhatHasRestedForTheLimitExpires(t *testing.T) {
	now := time.Now()
	lot := parking.New[string](10, time.Minute)
	if _, some := lot.Next(now); some || len(lot.Expired(now)) > 0 {
		t.Error("something expires in an empty lot")
	}
	lot.Park("a", 1, now)
	lot.Park("b", 1, now.Add(10*time.Second))
	lot.Park("c", 1, now.Add(20*time.Second))
	lot.Park("a", 1, now.Add(30*time.Second)) // again: its time begins anew
	lot.Remove("c")
	lot.Remove("unknown")
	if lot.Len() != 2 || !lot.Has("a") || lot.Has("c") {
		t.Errorf("%d rest; want a and b", lot.Len())
	}
	if d, some := lot.Next(now.Add(time.Minute)); !some || d != 10*time.Second {
		t.Errorf("the next one expires in %s, %t; want 10s", d, some)
	}
	if out := lot.Expired(now.Add(70 * time.Second)); !slices.Equal(out, []string{"b"}) {
		t.Errorf("expired are %v; want b", out)
	}
	if out := lot.Expired(now.Add(time.Hour)); !slices.Equal(out, []string{"a"}) || lot.Len() != 0 {
		t.Errorf("expired are %v; want a", out)
	}
}

// Of too many the cheapest goes, but only of those that have rested longest.
func TestTheCheapestOfTheOldestMakesRoom(t *testing.T) {
	now := time.Now()
	lot := parking.New[int](20, time.Minute)
	for i := range 20 {
		cost := 100
		switch i {
		case 5:
			cost = 7
		case 18:
			cost = 1 // too young to be compared
		}
		if _, full := lot.Park(i, cost, now); full {
			t.Fatalf("of 20 the one with number %d is too much", i)
		}
	}
	for i, want := range []int{5, 0, 1, 18} { // which is among the oldest by then
		if out, full := lot.Park(100+i, 100, now); !full || out != want {
			t.Errorf("out goes %d, %t; want %d", out, full, want)
		}
	}
	if lot.Len() != 20 {
		t.Errorf("%d rest; want 20", lot.Len())
	}
}

func TestALotWithoutRoomKeepsNothing(t *testing.T) {
	lot := parking.New[string](0, time.Minute)
	if out, full := lot.Park("a", 1, time.Now()); !full || out != "a" || lot.Len() != 0 {
		t.Errorf("out goes %q, %t; want a", out, full)
	}
}
