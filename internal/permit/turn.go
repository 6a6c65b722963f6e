package permit

import (
	"slices"

	"github.com/stet-run/stet/store"
)

// Request adds to the update of a run that is to wait for a permit an ask with a new
// ticket, unless it waits in its row. p is the run's place in the queue.
func Request(u *store.Update, run *store.Run, p Place) {
	if p.InLine {
		u.Marks |= store.Held
		return
	}
	p.Ticket = NewTicket()
	u.Marks |= store.Held
	u.Queue = p.Encode()
	u.Sends = append(u.Sends, p.AskFor(Ask{RunID: run.ID}))
}

// RequestAgain is Request for a run that goes on after it rested, if it is on a queue.
// A run that had ended has given its permit back; any other still has its own.
func RequestAgain(u *store.Update, run *store.Run) error {
	if !run.Status.Terminal() {
		return nil
	}
	p, ok, err := DecodePlace(run.Queue)
	if err == nil && ok {
		Request(u, run, p)
	}
	return err
}

// Release adds to the update by which a run ends or is suspended the command that gives
// back the permit that it holds or waits for.
func Release(u *store.Update, run *store.Run) {
	p, ok, err := DecodePlace(run.Queue)
	if err == nil && p.InLine {
		u.Yield = u.Status == store.Suspended // the end gives it back by itself
		return
	}
	if err != nil || !ok || p.Ticket == "" {
		return // a run whose place cannot be read has never executed
	}
	u.Sends = append(u.Sends, p.GiveBack())
	if u.Status == store.Suspended {
		p.Ticket = ""
		u.Queue = p.Encode()
	}
}

// ReleaseGrants adds to the turn that ends a run the commands that give back the permits
// of its steps that are still in its inbox.
func ReleaseGrants(turn *store.Turn, items []store.Item) {
	for i := range items {
		it := &items[i]
		if !OfStep(it) || it.State == store.Consumed {
			continue
		}
		turn.Seen = slices.DeleteFunc(turn.Seen, func(no store.ItemNo) bool { return no == it.No })
		turn.Consumed = append(turn.Consumed, store.Consumption{Item: it.No})
		if !Adds(it) {
			turn.Sends = append(turn.Sends, Return(it))
		}
	}
}

// Releases reports whether a run holds no permit while it is suspended.
func Releases(run *store.Run) bool {
	p, _, err := DecodePlace(run.Queue)
	return err == nil && p.Release
}
