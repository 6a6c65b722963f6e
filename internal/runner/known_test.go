package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// TestReceivedMessagesAreForgotten: a run that receives for ever does not remember the
// numbers of what it has received for longer than they may be delivered again.
func TestReceivedMessagesAreForgotten(t *testing.T) {
	received := 0
	h := newHarness(t, func(b *Branch) ([]byte, *stored.Failure) {
		var last string
		for last != "stop" {
			var err error
			if last, err = receive(b, "word", 0); err != nil {
				return result("", err)
			}
			received++
		}
		return text("%d", received)
	})
	h.stale = time.Second // a claim on its way may have been read so long ago
	h.play()
	for i := range 100 {
		h.clock = h.clock.Add(10 * time.Millisecond)
		h.send("word", fmt.Sprint(i))
	}
	if n := h.r.j.Items.Len(); n != 100 {
		t.Fatalf("the run remembers %d items of 100, of which each may be delivered again", n)
	}
	for i := range h.j.items { // by a claim that was read before they were consumed
		it := h.j.items[i]
		it.State = store.New
		h.r.Deliver(it)
	}
	h.play()
	if received != 100 {
		t.Fatalf("the run has received %d messages of 100", received)
	}
	h.clock = h.clock.Add(2 * time.Second)
	h.send("word", "one more")
	if n := h.r.j.Items.Len(); n != 1 {
		t.Errorf("the run remembers %d items, want the last one", n)
	}
	h.clock = h.clock.Add(2 * time.Second)
	h.send("word", "stop")
	h.want(store.Succeeded, "102")
}
