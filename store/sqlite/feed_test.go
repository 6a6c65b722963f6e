package sqlite

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// A turn that shows something writes the row of each feed, and the items.
func TestStatementsOfATurnThatShows(t *testing.T) {
	s, run, b := one(t)
	b.commit(t, s, done(run, 1, nil))
	statements := trace(t, s.write.c)
	b.commit(t, s, &store.Turn{
		Run: run, Shard: testShard, Entries: []store.Entry{doneEntry(2, nil)},
		Values: []store.Setting{{Name: "v"}}, Appends: []store.Append{{Name: "s"}, {Name: "s"}},
	})
	want := []string{"INSERT INTO stet_entries", "INSERT INTO stet_feeds", "INSERT INTO stet_feeds",
		"INSERT INTO stet_streams", "INSERT INTO stet_streams"}
	got := slices.DeleteFunc(statements(), func(text string) bool {
		return !strings.Contains(text, "stet_") || strings.Contains(text, "stet_nodes")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// No query of a reader, and none for the end of a run, reads a whole table.
func TestPlansOfFeeds(t *testing.T) {
	s := open(t, testPath(t))
	tagged, err := newSearch(&store.Filter{Tags: []store.Pair{{Key: "a", Value: "b"}, {Key: "c", Value: "d"}},
		Workflows: []string{"w"}}, false, s.cfg.window, lead{})
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT " + runColumns + " FROM " + tagged.from + " WHERE " + tagged.text.String() + " ORDER BY run_no DESC LIMIT ?",
		"SELECT name FROM stet_feeds WHERE run_no IN (SELECT value FROM json_each(?)) ORDER BY run_no, stream, name",
		"SELECT name FROM stet_feeds WHERE run_no IN (SELECT value FROM json_each(?)) AND stream IN (0,1) AND name=? ORDER " +
			"BY run_no, stream, name",
		"SELECT pos, at, rewound, val, length(val) FROM stet_streams WHERE run_no=? AND name=? AND pos>? ORDER BY pos LIMIT ?",
		"UPDATE stet_inbox INDEXED BY stet_inbox_unanswered SET state=3, verdict=? WHERE run_no=? AND kind=8 AND verdict IS NULL",
	} {
		err := s.write.c.each("EXPLAIN QUERY PLAN "+query, nil, func(r *sqlite3.Stmt) error {
			if plan := r.ColumnText(3); strings.HasPrefix(plan, "SCAN") && !strings.Contains(plan, "json_each") {
				t.Errorf("%s\n\t%s", query, plan)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Tags that cannot be read are damage of their run alone: other runs are claimed, listed and
// swept, and the doctor goes on behind it.
func TestDamagedTags(t *testing.T) {
	path := testPath(t)
	s := open(t, path)
	damaged, whole := start("damaged"), start("whole")
	damaged.Start.Tags = []store.Pair{{Key: "k", Value: "v"}}
	runs := apply(t, s, damaged, whole)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, tags := range []string{`["k"]`, `{"k`, "\xff"} {
		tamper(t, path, "UPDATE stet_runs SET tags=CAST(x'"+hex.EncodeToString([]byte(tags))+"' AS TEXT) WHERE id='damaged'")
		s, err := Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.List(t.Context(), store.Filter{})
		if err != nil || len(page.Runs) != 2 || page.Runs[1].Damage == "" || page.Runs[0].Damage != "" {
			t.Errorf("List: %+v, %v", page.Runs, err)
		}
		snaps, _, err := s.Load(t.Context(), []store.RunNo{runs[0].Run.No, runs[1].Run.No})
		if err != nil || len(snaps) != 2 {
			t.Errorf("Load: %+v, %v", snaps, err)
		}
		if answer := apply(t, s, send("damaged", fmt.Sprint("m", i), nil))[0]; answer.Run.Damage == "" {
			t.Errorf("Apply: %+v", answer)
		}
		findings, err := s.Doctor(t.Context())
		bad := 0
		for _, f := range findings {
			if !f.OK {
				bad++
			}
		}
		if err != nil || bad != 1 || len(findings) < len(checks) {
			t.Errorf("Doctor: %+v, %v", findings, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}

	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held := acquire(t, s, testNode)
	claims := claim(t, s, held.Lease).Runs
	if len(claims) != 2 || claims[0].Run.Damage == "" {
		t.Errorf("Claim: %+v", claims)
	}
	b := &batches{lease: held.Lease}
	no := runs[0].Run.No
	if v := b.commit(t, s, &store.Turn{Run: no, Shard: testShard,
		Tags: []store.Pair{{Key: "x", Value: "y"}}})[0]; v.Verdict != store.Refused {
		t.Errorf("a turn that sets tags: %+v", v)
	}
}
