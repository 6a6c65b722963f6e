package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// TestStoredNumbers pins the numbers that are stored and the words that users
// see for them.
func TestStoredNumbers(t *testing.T) {
	for _, c := range []struct {
		got  fmt.Stringer
		no   int
		want string
	}{
		{store.Queued, int(store.Queued), "1 queued"},
		{store.Running, int(store.Running), "2 running"},
		{store.Suspended, int(store.Suspended), "3 suspended"},
		{store.Succeeded, int(store.Succeeded), "4 succeeded"},
		{store.Failed, int(store.Failed), "5 failed"},
		{store.Cancelled, int(store.Cancelled), "6 cancelled"},
		{store.Stalled, int(store.Stalled), "7 stalled"},
		{store.Status(0), 0, "0 status(0)"},
		{store.KindStep, int(store.KindStep), "1 step"},
		{store.KindSleep, int(store.KindSleep), "2 sleep"},
		{store.KindReceive, int(store.KindReceive), "3 receive"},
		{store.KindPromise, int(store.KindPromise), "4 promise"},
		{store.KindTimer, int(store.KindTimer), "5 timer"},
		{store.KindCancel, int(store.KindCancel), "6 cancel"},
		{store.KindWait, int(store.KindWait), "7 wait"},
		{store.KindUndo, int(store.KindUndo), "8 undo"},
		{store.KindLoop, int(store.KindLoop), "9 loop"},
		{store.KindChild, int(store.KindChild), "10 child"},
		{store.KindRun, int(store.KindRun), "11 run"},
		{store.KindVersion, int(store.KindVersion), "12 version"},
		{store.KindShown, int(store.KindShown), "13 shown"},
		{store.KindEntity, int(store.KindEntity), "14 record"},
		{store.KindSagaUndo, int(store.KindSagaUndo), "18 saga undo"},
		{store.Kind(99), 99, "99 kind(99)"},
		{store.Open, int(store.Open), "1 open"},
		{store.Done, int(store.Done), "2 done"},
		{store.FailedEntry, int(store.FailedEntry), "3 failed"},
		{store.Withdrawn, int(store.Withdrawn), "4 withdrawn"},
		{store.EntryState(5), 5, "5 state(5)"},
		{store.ItemMessage, int(store.ItemMessage), "1 message"},
		{store.ItemResolution, int(store.ItemResolution), "2 resolution"},
		{store.ItemCancel, int(store.ItemCancel), "3 cancel"},
		{store.ItemTerminate, int(store.ItemTerminate), "4 terminate"},
		{store.ItemResume, int(store.ItemResume), "5 resume"},
		{store.ItemEnd, int(store.ItemEnd), "6 end"},
		{store.ItemWatch, int(store.ItemWatch), "7 watch"},
		{store.ItemUpdate, int(store.ItemUpdate), "8 update"},
		{store.ItemPause, int(store.ItemPause), "10 pause"},
		{store.ItemRetry, int(store.ItemRetry), "11 retry"},
		{store.ItemRewind, int(store.ItemRewind), "12 rewind"},
		{store.ItemEdit, int(store.ItemEdit), "13 edit"},
		{store.ItemNudge, int(store.ItemNudge), "14 nudge"},
		{store.ItemKind(0), 0, "0 item(0)"},
		{store.Committed, int(store.Committed), "1 committed"},
		{store.StillReady, int(store.StillReady), "2 still ready"},
		{store.Fenced, int(store.Fenced), "3 fenced"},
		{store.Refused, int(store.Refused), "4 refused"},
		{store.Verdict(0), 0, "0 no verdict"},
		{store.Paused | store.Undoing, int(store.Paused | store.Undoing), "5 paused,undoing"},
		{store.Shard{Group: "g", Slot: 3}, 0, "0 g/3"},
	} {
		if got := fmt.Sprintf("%d %s", c.no, c.got); got != c.want {
			t.Errorf("got %q; want %q", got, c.want)
		}
	}
	if store.New != 1 || store.Seen != 2 || store.Consumed != 3 || store.Dead != 4 {
		t.Error("the numbers of item states have changed")
	}
}

func TestVerbsAreTheOwnersToAnswer(t *testing.T) {
	for kind, want := range map[store.ItemKind]bool{
		store.ItemMessage: false, store.ItemResolution: false, store.ItemCancel: true, store.ItemTerminate: true,
		store.ItemResume: true,
		store.ItemEnd:    false, store.ItemWatch: true, store.ItemUpdate: false,
		store.ItemPause: true, store.ItemRetry: true, store.ItemRewind: true, store.ItemEdit: true,
		store.ItemNudge: true,
	} {
		if kind.Verb() != want {
			t.Errorf("%s.Verb() = %t", kind, !want)
		}
	}
	for _, s := range store.AllStatuses() {
		if want := s == store.Succeeded || s == store.Failed || s == store.Cancelled; s.Terminal() != want {
			t.Errorf("%s.Terminal() = %t", s, !want)
		}
	}
}

func TestStatusIsItsNameInJSON(t *testing.T) {
	for _, s := range store.AllStatuses() {
		text, err := json.Marshal(s)
		if err != nil || string(text) != `"`+s.String()+`"` {
			t.Errorf("%s in JSON is %s (%v)", s, text, err)
		}
		var back store.Status
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%s from JSON is %s (%v)", text, back, err)
		}
	}
	if text, err := json.Marshal(store.Status(0)); err == nil {
		t.Errorf("no status in JSON is %s", text)
	}
	for _, bad := range []string{`"done"`, `""`, `2`, `"Queued"`} {
		var s store.Status
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s from JSON is %s", bad, s)
		}
	}
}

// TestInvalidNamesTheMatter: what is refused says what was expected and found.
// Which input is refused is asked by storetest, of every store.
func TestInvalidNamesTheMatter(t *testing.T) {
	shard := store.Shard{Group: "g"}
	for _, c := range []struct {
		want string
		err  error
	}{
		{`invalid: run ID: expected 1 to 255 bytes, found 0`, store.CheckRunID("")},
		{`invalid: run ID: expected UTF-8, found "a\xff"`, store.CheckRunID("a\xff")},
		{`invalid: run ID: expected no control characters, found '\n' at byte 1`, store.CheckRunID("a\nb")},
		{`invalid: lease: expected a time of 1 to 9223372036854775 µs, found 0`, storekit.ValidateShards(nil, 0)},
		{`invalid: shard: expected a slot of 0 or more, found -1`,
			storekit.ValidateShards([]store.Shard{{Group: "g", Slot: -1}}, 1)},
		{`invalid: node ID: expected 1 to 255 bytes, found 0`, (&store.Node{Boot: "b"}).Validate()},
		{`invalid: command: expected exactly one of Start and Item`, (&store.Command{}).Validate()},
		{`invalid: item "i": expected either the ID of its run or a number from 1, found "r" and 3`,
			(&store.Command{RunID: "r", RunNo: 3, Item: &store.Item{Kind: store.ItemMessage, ID: "i"}}).Validate()},
		{`invalid: batch: expected a node, a boot and a number from 1, found "", "" and 0`, (&store.Batch{}).Validate()},
		{`invalid: claim: expected a limit of 0 or more, found -1`, (&store.ClaimRequest{Limit: -1}).Validate()},
		{`invalid: leases: expected one of each shard, found two of g/0`,
			(&store.ClaimRequest{Leases: []store.Lease{{Shard: shard}, {Shard: shard}}}).Validate()},
		{`invalid: turn of run number 4: expected a span between two locations of 1 to 4096 bytes, found "b" to "a"`,
			batchOf(shard, &store.Turn{Run: 4, Shard: shard, Prune: []store.Span{{From: "b", To: "a"}}})},
		{`invalid: turn of run number 4: unknown status 9`,
			batchOf(shard, &store.Turn{Run: 4, Shard: shard, Update: &store.Update{Status: 9}})},
		{`invalid: batch: no lease for shard h/0 of run number 4`,
			batchOf(shard, &store.Turn{Run: 4, Shard: store.Shard{Group: "h"}})},
		{`invalid: entry of run number 4: expected a completion number of 0 or more, found -1`,
			batchOf(shard, &store.Turn{Run: 4, Shard: shard, Entries: []store.Entry{{Loc: "l", Kind: 1, State: 1, Seq: -1}}})},
		{`invalid: start of "r": two items have the ID "i"`, (&store.Command{Start: twoItems(shard)}).Validate()},
		{`invalid: start of "r": expected a time of 0 or more and a delay of 0 to 9223372036854775 µs, found -1 and 0`,
			(&store.Command{Start: &store.Start{ID: "r", Shard: shard, Workflow: "w", At: -1}}).Validate()},
	} {
		want, err := c.want, c.err
		if !errors.Is(err, store.ErrInvalid) || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	if err := batchOf(shard, &store.Turn{Run: 4, Shard: shard}); err != nil {
		t.Errorf("a good batch: %v", err)
	}
}

func batchOf(shard store.Shard, turns ...*store.Turn) error {
	return (&store.Batch{Node: "n", Boot: "b", No: 1, Leases: []store.Lease{{Shard: shard}}, Turns: turns}).Validate()
}

func twoItems(shard store.Shard) *store.Start {
	item := store.Item{Kind: store.ItemMessage, ID: "i"}
	return &store.Start{ID: "r", Shard: shard, Workflow: "w", Items: []store.Item{item, item}}
}

func TestBoundsOfAFilter(t *testing.T) {
	for _, c := range []struct {
		f     store.Filter
		limit int
		below store.RunNo
		err   error
	}{
		{store.Filter{}, store.DefaultPage, 0, nil},
		{store.Filter{Limit: 7, Cursor: store.EncodeCursor(12)}, 7, 12, nil},
		{store.Filter{Limit: store.MaxPage}, store.MaxPage, 0, nil},
		{store.Filter{Limit: store.MaxPage + 1}, 0, 0, store.ErrInvalid},
		{store.Filter{Limit: -1}, 0, 0, store.ErrInvalid},
		{store.Filter{Statuses: []store.Status{0}}, 0, 0, store.ErrInvalid},
		{store.Filter{Cursor: "x"}, 0, 0, store.ErrBadCursor},
		{store.Filter{Cursor: store.EncodeCursor(-1)}, 0, 0, store.ErrBadCursor},
		{store.Filter{Cursor: store.EncodeCursor(0)}, 0, 0, store.ErrBadCursor},
	} {
		limit, below, err := c.f.Bounds()
		if limit != c.limit || below != c.below || !errors.Is(err, c.err) {
			t.Errorf("%+v: %d, %d, %v; want %d, %d, %v", c.f, limit, below, err, c.limit, c.below, c.err)
		}
	}
}
