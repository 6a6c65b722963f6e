package permit_test

import (
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

func onQueue(status store.Status, ticket string) *store.Run {
	p := permit.Place{Queue: "q", Ticket: ticket}
	return &store.Run{No: 1, ID: "r", Status: status, Queue: p.Encode()}
}

// TestRequestWaitsWithANewTicket: and says so in the row, in the same turn.
func TestRequestWaitsWithANewTicket(t *testing.T) {
	for _, c := range []struct {
		run  *store.Run
		asks bool
	}{
		{onQueue(store.Failed, "old"), true},
		{onQueue(store.Stalled, "old"), false}, // it has kept its permit
		{&store.Run{Status: store.Failed}, false},
	} {
		var u store.Update
		if err := permit.RequestAgain(&u, c.run); err != nil {
			t.Fatal(err)
		}
		if asks := len(u.Sends) == 1; asks != c.asks || asks != (u.Marks&store.Held != 0) || asks != (u.Queue != nil) {
			t.Fatalf("%+v: got %+v", c.run, u)
		}
		if !c.asks {
			continue
		}
		p, _, err := permit.DecodePlace(u.Queue)
		if err != nil || p.Ticket == "" || p.Ticket == "old" || permit.Ticket(u.Sends[0].Item) != p.Ticket {
			t.Errorf("it stands with %+v (%v) and asks with %+v", p, err, u.Sends[0].Item)
		}
	}
	if err := permit.RequestAgain(&store.Update{}, &store.Run{Status: store.Failed, Queue: []byte{0xff}}); err == nil {
		t.Error("a place that cannot be read is no error")
	}
}

// TestReleaseGivesBackOnce: of a run that is only suspended the row says that it has none.
func TestReleaseGivesBackOnce(t *testing.T) {
	for _, status := range []store.Status{store.Succeeded, store.Suspended} {
		u := store.Update{Status: status}
		permit.Release(&u, onQueue(store.Running, "t"))
		if len(u.Sends) != 1 || permit.Ticket(u.Sends[0].Item) != "t" || (u.Queue != nil) != (status == store.Suspended) {
			t.Errorf("%s: got %+v", status, u)
		}
		u = store.Update{Status: status}
		permit.Release(&u, onQueue(store.Running, ""))
		permit.Release(&u, &store.Run{Queue: []byte{0xff}})
		permit.Release(&u, &store.Run{})
		if len(u.Sends) != 0 || u.Queue != nil {
			t.Errorf("%s without a permit: got %+v", status, u)
		}
	}
}

// TestReleaseGrants: those of steps that no turn has taken; the run's own is not an item
// to give back.
func TestReleaseGrants(t *testing.T) {
	step := store.Item{No: 2, Kind: store.ItemGrant, Name: "q", Origin: "t2", Loc: "s"}
	taken := store.Item{No: 3, Kind: store.ItemGrant, State: store.Consumed, Name: "q", Origin: "t3", Loc: "s"}
	turn := store.Turn{Seen: []store.ItemNo{1, 2}}
	permit.ReleaseGrants(&turn, []store.Item{{No: 1, Kind: store.ItemGrant, Origin: "t1"}, step, taken})
	if !slices.Equal(turn.Seen, []store.ItemNo{1}) || len(turn.Consumed) != 1 || turn.Consumed[0].Item != 2 ||
		len(turn.Sends) != 1 || permit.Ticket(turn.Sends[0].Item) != "t2" {
		t.Errorf("got %+v", turn)
	}
}
