package sqlstore

import (
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

func TestTheRunOfAStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		st    store.Start
		ready int64
		wake  store.Time
		marks store.Marks
	}{
		{"now", store.Start{}, words.Ready, 0, 0},
		{"at a time that is over", store.Start{At: now - 1}, words.Ready, 0, 0},
		{"at the time it is", store.Start{At: now}, words.Ready, 0, 0},
		{"later", store.Start{At: now + 1}, words.Idle, now + 1, 0},
		{"after a while", store.Start{After: 5}, words.Idle, now + 5, 0},
		{"the later of two times", store.Start{At: now + 9, After: 5}, words.Idle, now + 9, 0},
		{"in a queue", store.Start{Queue: &store.QueueEntry{}}, words.Ready, 0, store.Held},
	} {
		run, ready := newRun(&c.st, now)
		if ready != c.ready || run.WakeAt != c.wake || run.Marks != c.marks || run.Status != store.Queued ||
			run.Created != now {
			t.Errorf("%s: got %d, %+v", c.name, ready, run)
		}
	}
}

func TestARunThatHasEndedTakesVerbsAlone(t *testing.T) {
	message, cancel := &store.Item{Kind: store.ItemMessage}, &store.Item{Kind: store.ItemCancel}
	for _, c := range []struct {
		run  store.Run
		it   *store.Item
		want bool
	}{
		{store.Run{Status: store.Running}, message, true},
		{store.Run{Status: store.Stalled}, message, true},
		{store.Run{Status: store.Failed}, message, false},
		{store.Run{Status: store.Failed}, cancel, true},
		{store.Run{Status: store.Failed, Marks: store.Expiring}, cancel, false},
		{store.Run{Status: store.Running, Marks: store.Expiring}, cancel, true},
	} {
		if got := takes(&c.run, c.it); got != c.want {
			t.Errorf("%s, marks %d, %s: got %v", c.run.Status, c.run.Marks, c.it.Kind, got)
		}
	}
}
