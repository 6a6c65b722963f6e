package mail_test

import (
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/runner/mail"
	"github.com/stet-run/stet/store"
)

// receiver waits until it is done, for messages that were sent by its deadline.
type receiver struct {
	names    []string
	needs    int
	deadline store.Time // 0: none
	done     bool
	bad      store.ItemNo // is refused
	looks    int          // at messages
}

func (r *receiver) Refuses(it *store.Item) bool {
	r.looks++
	return it.No == r.bad
}

func (r *receiver) Waits() bool     { return !r.done }
func (r *receiver) Names() []string { return r.names }
func (r *receiver) Needs() int      { return r.needs }
func (r *receiver) Takes(it *store.Item) bool {
	return r.deadline == 0 || it.Sent <= r.deadline
}

func waiting(boxes *mail.Boxes, needs int, names ...string) *receiver {
	r := &receiver{names: names, needs: needs}
	boxes.Add(r)
	return r
}

func item(no store.ItemNo) store.Item {
	return store.Item{No: no, Sent: store.Time(no), Value: []byte("12345")}
}

func numbers(items []store.Item) []store.ItemNo {
	var all []store.ItemNo
	for _, it := range items {
		all = append(all, it.No)
	}
	return all
}

// TestOrder: of one name the receiver that has waited longest is first; of several the
// oldest message, whatever the order of delivery.
func TestOrder(t *testing.T) {
	var boxes mail.Boxes
	if boxes.Match() != nil {
		t.Fatal("an empty inbox has a match")
	}
	first, second, other := waiting(&boxes, 1, "a"), waiting(&boxes, 1, "a"), waiting(&boxes, 1, "b")
	boxes.Deliver("a", item(3))
	boxes.Deliver("b", item(2))
	boxes.Deliver("a", item(1))
	for i, want := range []struct {
		r  *receiver
		no store.ItemNo
	}{{first, 1}, {other, 2}, {second, 3}} {
		r, _ := boxes.Match().(*receiver)
		if r != want.r {
			t.Fatalf("match %d is of the wrong receiver", i)
		}
		if got := numbers(boxes.Take(r, 1, 100)); !slices.Equal(got, []store.ItemNo{want.no}) {
			t.Fatalf("match %d takes %v, want %d", i, got, want.no)
		}
		r.done = true
		boxes.Left(r)
	}
	if boxes.Match() != nil || boxes.Unlooked() != 0 {
		t.Error("something is left to match")
	}
}

// TestTake: messages of several names are taken by age, up to a number and a size; the
// first one is taken whatever its size.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		most, bytes int
		want        []store.ItemNo
	}{{2, 100, []store.ItemNo{1, 2}}, {9, 100, []store.ItemNo{1, 2, 3}}, {9, 10, []store.ItemNo{1, 2}}, {9, 1,
		[]store.ItemNo{1}}} {
		var boxes mail.Boxes
		boxes.Deliver("b", item(2))
		boxes.Deliver("a", item(1))
		boxes.Deliver("a", item(3))
		r := waiting(&boxes, 1, "a", "b")
		if got := numbers(boxes.Take(r, c.most, c.bytes)); !slices.Equal(got, c.want) {
			t.Errorf("at most %d with %d bytes are %v, want %v", c.most, c.bytes, got, c.want)
		}
	}
}

// TestNeeds: a receiver that needs several has no match before they are there, and one
// that was sent too late does not count.
func TestNeeds(t *testing.T) {
	var boxes mail.Boxes
	r := waiting(&boxes, 2, "a", "b")
	r.deadline = 5
	boxes.Deliver("a", item(1))
	boxes.Deliver("b", item(6))
	if boxes.Match() != nil {
		t.Fatal("a message that was sent too late ends the wait")
	}
	boxes.Deliver("b", item(5))
	if boxes.Match() == nil {
		t.Fatal("there is no match with enough messages")
	}
	if got := numbers(boxes.Take(r, 9, 100)); !slices.Equal(got, []store.ItemNo{1, 5}) {
		t.Errorf("%v are taken", got)
	}
}

// TestRefused: a message that its receiver refuses is gone and does not count; each is
// looked at once.
func TestRefused(t *testing.T) {
	var boxes mail.Boxes
	r := waiting(&boxes, 2, "a")
	r.bad, r.deadline = 2, 9
	for _, no := range []store.ItemNo{1, 2} {
		boxes.Deliver("a", item(no))
		if boxes.Match() != nil {
			t.Fatalf("message %d ends the wait for two", no)
		}
	}
	boxes.Deliver("a", item(3))
	if boxes.Match() != r {
		t.Fatal("two messages do not end the wait")
	}
	if got := numbers(boxes.Take(r, 9, 100)); !slices.Equal(got, []store.ItemNo{1, 3}) || r.looks != 3 {
		t.Errorf("%v are taken, after %d looks", got, r.looks)
	}
	boxes.Deliver("a", item(2)) // the deadline is over, and nothing has looked for a match
	if got := boxes.Take(r, 9, 100); got != nil {
		t.Errorf("%v are taken", numbers(got))
	}
}

// TestReceiversAreForgotten: those that have waited in vain behind one that still waits
// do not pile up.
func TestReceiversAreForgotten(t *testing.T) {
	var boxes mail.Boxes
	waiting(&boxes, 1, "a")
	for range 10_000 {
		waiting(&boxes, 1, "a").done = true
	}
	if n := boxes.Waiting("a"); n > 200 {
		t.Errorf("%d receivers are kept", n)
	}
}
