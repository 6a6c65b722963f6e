package engine

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/activations"
	"github.com/stet-run/stet/store"
)

// Of an item that came after the end of its run, in the same batch, the activation knows only that it is there. It
// leaves with that, and asks for the claim that finds the item.
func TestWhoLeavesAsksForWhatItHasNotRead(t *testing.T) {
	claimed, item := &runClaimed{Claimed: &store.Claimed{}}, &itemArrived{}
	for _, c := range []struct {
		name string
		rest []event
		asks bool
	}{
		{"nothing", nil, false},
		{"time", []event{timeReached{}}, false},
		{"item", []event{item}, true},
		{"item that was not read", []event{timeReached{}, inboxUncertain{}}, true},
		{"claim of before", []event{claimed}, true},
		{"unanswered claim", []event{claimUncertain{}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newWaiting(t, &waits{}, time.Now())
			a.r, a.x.memory = nil, activations.New(activations.Config[*activation]{})
			a.leave(c.rest)
			select {
			case <-a.dispatcher().wake:
				if !c.asks {
					t.Error("it asks for a claim")
				}
			default:
				if c.asks {
					t.Error("it asks for no claim")
				}
			}
		})
	}
}
