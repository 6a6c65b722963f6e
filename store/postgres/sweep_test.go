package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/store"
)

// TestRunsAreSweptTogether: more runs than one act deletes, with tags and items; the one that
// is to be kept, and what belongs to it, stays.
func TestRunsAreSweptTogether(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t).DSN()
	s := open(t, dsn)
	n := takeAll(t, s, "n")
	const runs, kept = 100, 42
	for i := range runs {
		c := claimedStart(fmt.Sprint("r", i))
		c.Start.Tags = []store.Pair{{Key: "k", Value: "v"}, {Key: "i", Value: fmt.Sprint(i)}}
		result, err := s.Commit(t.Context(), n.batch(nil, c, message(c.Start.ID, "m")))
		if err != nil {
			t.Fatal(err)
		}
		run := result.Commands[0].Run
		last := &store.Turn{Run: run.No, Shard: shard, Values: []store.Setting{{Name: "v"}},
			Appends: []store.Append{{Name: "s"}}, Seen: []store.ItemNo{result.Commands[1].Item},
			Update: &store.Update{Status: store.Succeeded}}
		for k := range 10 {
			last.Entries = append(last.Entries, done(fmt.Sprint(k)))
		}
		n.commit(t, last)
	}
	db := application(t, dsn)
	if _, err := db.Exec(t.Context(), "UPDATE stet.runs SET ended=1, expires=CASE WHEN id=$1 THEN -1 END",
		fmt.Sprint("r", kept)); err != nil {
		t.Fatal(err)
	}
	req := store.SweepRequest{Leases: n.leases, Rules: []store.Retention{{Workflow: "w", Status: store.Succeeded}}}
	swept, acts := 0, 0
	for done := false; !done; acts++ {
		got, err := s.Sweep(t.Context(), req)
		if err != nil || got.Rows > store.SweepRows {
			t.Fatalf("got %+v: %v", got, err)
		}
		swept, done, req.From = swept+got.Runs, got.Done, got.Next
	}
	if swept != runs-1 || acts < 2 {
		t.Errorf("expected %d runs in several acts, swept %d in %d", runs-1, swept, acts)
	}
	for table, want := range map[string]int{"runs": 1, "entries": 10, "inbox": 1, "streams": 1, "feeds": 2, "tags": 2} {
		var rows int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM stet."+table).Scan(&rows); err != nil || rows != want {
			t.Errorf("table %s: expected %d rows, found %d: %v", table, want, rows, err)
		}
	}
}
