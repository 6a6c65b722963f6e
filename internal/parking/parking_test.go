package parking_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/parking"
)

// TestTheOldestMakeRoom: as many items leave as it takes, the longest parked first.
func TestTheOldestMakeRoom(t *testing.T) {
	now := time.Now()
	lot := parking.New[string](100, time.Hour)
	for _, step := range []struct {
		item  string
		bytes int
		out   []string
		used  int
	}{
		{"a", 40, nil, 40},
		{"b", 30, nil, 70},
		{"c", 30, nil, 100},
		{"a", 35, nil, 95}, // rests again: for the shortest time, and with another size
		{"d", 5, nil, 100},
		{"e", 31, []string{"b", "c"}, 71},
		{"huge", 101, []string{"huge"}, 71}, // for which no other leaves
		{"f", 100, []string{"a", "d", "e"}, 100},
	} {
		if out := lot.Park(step.item, step.bytes, now); !slices.Equal(out, step.out) || lot.Bytes() != step.used {
			t.Fatalf("%s with %d bytes: %q leave, and %d bytes stay; want %q, %d", step.item, step.bytes, out, lot.Bytes(),
				step.out, step.used)
		}
	}
	if lot.Len() != 1 || !lot.Has("f") || lot.Has("e") {
		t.Errorf("%d rest; want f alone", lot.Len())
	}
	lot.Remove("f")
	lot.Remove("f")
	lot.Remove("unknown")
	if lot.Len() != 0 || lot.Bytes() != 0 {
		t.Errorf("%d rest with %d bytes; want none", lot.Len(), lot.Bytes())
	}
}

func TestALotWithoutRoomKeepsNothing(t *testing.T) {
	lot := parking.New[string](0, time.Hour)
	if out := lot.Park("a", 1, time.Now()); !slices.Equal(out, []string{"a"}) || lot.Len() != 0 || lot.Bytes() != 0 {
		t.Errorf("out goes %q; want a", out)
	}
}

func TestWhatHasRestedForTheLimitExpires(t *testing.T) {
	now := time.Now()
	lot := parking.New[string](10, time.Minute)
	if _, some := lot.Next(now); some || len(lot.Expired(now)) > 0 {
		t.Error("something expires in an empty lot")
	}
	lot.Park("a", 1, now)
	lot.Park("b", 1, now.Add(10*time.Second))
	lot.Park("c", 1, now.Add(20*time.Second))
	lot.Park("a", 1, now.Add(30*time.Second)) // again: its time begins again
	lot.Remove("c")
	if d, some := lot.Next(now.Add(time.Minute)); !some || d != 10*time.Second {
		t.Errorf("the next one expires in %s, %t; want 10s", d, some)
	}
	if out := lot.Expired(now.Add(70 * time.Second)); !slices.Equal(out, []string{"b"}) {
		t.Errorf("expired are %v; want b", out)
	}
	if out := lot.Expired(now.Add(time.Hour)); !slices.Equal(out, []string{"a"}) || lot.Len() != 0 || lot.Bytes() != 0 {
		t.Errorf("expired are %v; want a", out)
	}
}
