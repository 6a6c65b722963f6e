package sqlite

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
	"github.com/stet-run/stet/store/memory"
)

// TestListingsThroughManyWindows compares listings of a store that looks at three
// run numbers at a time, and sorts none or a few, with those of store/memory.
func TestListingsThroughManyWindows(t *testing.T) {
	clock := newTestClock()
	s, oracle := open(t, testPath(t), Clock(clock.now)), memory.New(memory.Clock(clock.now))
	s.cfg.window = 3
	for i := range 40 {
		c := start(fmt.Sprintf("%s-%d", []string{"a", "b", "ab", "\U0010ffff"}[i%4], i))
		c.Start.Workflow = []string{"w", "x", "long name", "é"}[i%5%4]
		c.Start.Parent = store.RunNo(i % 7)
		c.Start.Tags = []store.Pair{{Key: "half", Value: fmt.Sprint(i % 2)}, {Key: "most", Value: fmt.Sprint(i % 9 / 8)}}
		if i < 4 {
			c.Start.Tags = append(c.Start.Tags, store.Pair{Key: "zero", Value: "old"})
		}
		for _, target := range []store.Store{s, oracle} {
			if _, _, err := target.Apply(t.Context(), []store.Command{c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, target := range []store.Store{s, oracle} {
		held, _, err := target.Acquire(t.Context(), testNode, []store.Shard{testShard}, testTTL)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := target.Claim(t.Context(), store.ClaimRequest{
			Node: testNode.ID, Boot: testNode.Boot, Leases: []store.Lease{held[0].Lease}, Workflows: []string{"w", "x"},
			Limit: 15,
		})
		if err != nil {
			t.Fatal(err)
		}
		b := &batches{lease: held[0].Lease}
		var turns []*store.Turn
		for i, c := range claims.Runs {
			turns = append(turns, &store.Turn{Run: c.Run.No, Shard: testShard, Update: &store.Update{
				Status: []store.Status{store.Running, store.Succeeded, store.Failed}[i%3], Marks: store.Marks(i % 8),
			}})
		}
		if _, err := target.Commit(t.Context(), b.next(turns...)); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	some := func() bool { return rng.IntN(3) == 0 }
	ends := []store.Time{0, store.TimeOf(clock.now()).Add(-time.Second), store.TimeOf(clock.now()).Add(time.Second)}
	for range soak.Cases(t, 600) {
		s.cfg.sorted = []int{0, 5, 1000}[rng.IntN(3)]
		f := store.Filter{Limit: rng.IntN(6), ByEnded: rng.IntN(4) == 0}
		if some() {
			f.Tags = append(f.Tags, store.Pair{Key: "half", Value: "1"})
		}
		if some() {
			f.Tags = append(f.Tags, store.Pair{Key: "most", Value: "0"}, store.Pair{Key: "most", Value: "1"})
		}
		if some() {
			f.Tags = append(f.Tags, store.Pair{Key: "zero", Value: []string{"old", "none"}[rng.IntN(2)]})
		}
		if some() {
			f.EndedFrom = ends[rng.IntN(3)]
		}
		if some() {
			f.EndedBefore = ends[rng.IntN(3)]
		}
		if some() {
			f.Workflows = []string{"x", "none", "é"}[rng.IntN(2):]
		}
		if some() {
			f.Statuses = store.AllStatuses()[rng.IntN(3) : 3+rng.IntN(4)]
		}
		if some() {
			f.IDPrefix = []string{"a", "a-", "b-1", "\U0010ffff", "zz"}[rng.IntN(5)]
		}
		if some() {
			f.Parent = store.RunNo(rng.IntN(8))
		}
		if some() {
			f.Marks = store.Marks(rng.IntN(4))
		}
		if rng.IntN(6) == 0 {
			f.Nos = []store.RunNo{1, 9, 40, 41}
		}
		if rng.IntN(6) == 0 {
			f.IDs = []string{"a-0", "ab-2", "nobody"}
		}
		var got, want []store.Page
		for target, pages := range map[store.Store]*[]store.Page{s: &got, oracle: &want} {
			for f := f; ; {
				page, err := target.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				*pages = append(*pages, page)
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("list %+v (-memory +sqlite):\n%s", f, diff)
		}
		f.ByEnded = false
		count, err := s.Count(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		wantCount, err := oracle.Count(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantCount, count); diff != "" {
			t.Fatalf("count %+v (-memory +sqlite):\n%s", f, diff)
		}
	}
}

func TestAfterPrefix(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "\xff\xff": "", "az": "a{"} {
		if got := afterPrefix(prefix); got != want {
			t.Errorf("after %q: expected %q, got %q", prefix, want, got)
		}
	}
}

// small are the things that a query may read from their beginning: lists that it was given or
// has made, and an index that holds only items that are new.
var small = regexp.MustCompile(`json_each|VIRTUAL TABLE|^(l|w|built|\(subquery-\d+\))$|CONSTANT ROW|stet_inbox_new$`)

// TestPlans pins that no query of the engine's daily work reads a whole table.
func TestPlans(t *testing.T) {
	s := open(t, testPath(t))
	failed, err := newSearch(&store.Filter{Statuses: []store.Status{store.Failed}}, false, s.cfg.window, lead{})
	if err != nil {
		t.Fatal(err)
	}
	children, err := newSearch(&store.Filter{Parent: 1}, false, s.cfg.window, lead{})
	if err != nil {
		t.Fatal(err)
	}
	byID, err := newSearch(&store.Filter{IDs: []string{"a"}}, false, s.cfg.window, lead{})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := newSearch(&store.Filter{Claimed: []store.Shard{{Group: "g"}}}, false, s.cfg.window, lead{})
	if err != nil {
		t.Fatal(err)
	}
	list := func(q *search) string {
		return "SELECT " + runColumns + " FROM " + q.from + " WHERE " + q.text.String() + " ORDER BY run_no DESC LIMIT ?"
	}
	queries := append([]string{dueRuns, calledRuns, markedRuns, nextWake, unfitDue, unfitMarked, unfitCalled,
		restingItems, putToRest, anything}, list(failed), list(children), list(byID), list(claimed),
		"UPDATE stet_runs SET ready=1 WHERE ready=2 AND grp=? AND slot=?",
		"SELECT 1 FROM stet_inbox WHERE state=1 AND state<3 AND run_no=? LIMIT 1",
		"SELECT "+itemColumns+" FROM stet_inbox i WHERE state IN (1,2) AND state<3 AND run_no=? ORDER BY item_no",
		"SELECT "+entryColumns+", val FROM stet_entries WHERE run_no=? AND incarnation=? ORDER BY loc",
	)
	for _, query := range queries {
		rows, _, err := s.write.c.Prepare("EXPLAIN QUERY PLAN " + words.SQL(query))
		if err != nil {
			t.Fatal(err)
		}
		for rows.Step() {
			plan := rows.ColumnText(3)
			if reads := strings.TrimPrefix(plan, "SCAN "); reads != plan && !small.MatchString(reads) {
				t.Errorf("%s\n\t%s", query, plan)
			}
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
}
