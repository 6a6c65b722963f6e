package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// TestASweepKnowsEveryTable: a sweep that deletes a run deletes from every table whose
// rows belong to runs.
func TestASweepKnowsEveryTable(t *testing.T) {
	now := time.Now()
	s := open(t, filepath.Join(t.TempDir(), "stet.db"), Clock(func() time.Time { return now }))
	held := acquire(t, s, testNode)
	c := start("run-1")
	c.Start.Tags = []store.Pair{{Key: "k", Value: "v"}}
	no := apply(t, s, c)[0].Run.No
	claim(t, s, held.Lease)
	b := &batches{lease: held.Lease}
	b.commit(t, s, &store.Turn{Run: no, Shard: testShard, Update: &store.Update{Status: store.Succeeded}})
	now = now.Add(time.Hour)
	statements := trace(t, s.write.c)
	swept, err := s.Sweep(t.Context(), store.SweepRequest{
		Leases: []store.Lease{held.Lease}, Items: true,
		Rules: []store.Retention{{Workflow: c.Start.Workflow, Status: store.Succeeded}},
	})
	if err != nil || swept.Runs != 1 {
		t.Fatalf("expected the run to be swept, got %+v, %v", swept, err)
	}
	deletes := map[string]bool{}
	for _, text := range statements() {
		if table, is := strings.CutPrefix(text, "DELETE FROM "); is {
			deletes[table] = true
		}
	}
	found := 0
	err = s.write.c.each(`SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
		WHERE m.type='table' AND m.name LIKE 'stet_%' AND c.name IN ('run_no', 'tagged')`, nil, func(r *sqlite3.Stmt) error {
		found++
		if table := r.ColumnText(0); !deletes[table] {
			t.Errorf("the rows of %s belong to runs and are not swept with them", table)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 8 {
		t.Errorf("found %d tables", found)
	}
}
