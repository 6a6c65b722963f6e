package sqlite

import (
	"context"
	"errors"
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
		Workflows: []string{"w"}}, false, s.cfg.window)
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

// Tags that cannot be read are reported by every act that reads the run.
func TestDamagedTags(t *testing.T) {
	path := testPath(t)
	s := open(t, path)
	c := start("run-1")
	c.Start.Tags = []store.Pair{{Key: "k", Value: "v"}}
	no := apply(t, s, c)[0].Run.No
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, path, `UPDATE stet_runs SET tags='["k"]'`)
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	_, listErr := s.List(t.Context(), store.Filter{})
	_, loadErr := s.Load(t.Context(), []store.RunNo{no})
	_, _, applyErr := s.Apply(t.Context(), []store.Command{send("run-1", "m", nil)})
	for what, err := range map[string]error{"List": listErr, "Load": loadErr, "Apply": applyErr} {
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v; want %v", what, err, store.ErrDamaged)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
