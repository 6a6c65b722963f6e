package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// TestASweepKnowsEveryTable: a table whose rows belong to runs must be named in
// belongings, or be deleted with the run's row.
func TestASweepKnowsEveryTable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "stet.db"))
	text := "DELETE FROM stet_runs DELETE FROM stet_payloads DELETE FROM stet_tags "
	for _, b := range belongings {
		text += b.text + " "
	}
	found := 0
	err := s.write.c.each(`SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
		WHERE m.type='table' AND m.name LIKE 'stet_%' AND c.name IN ('run_no', 'tagged')`, nil, func(r *sqlite3.Stmt) error {
		found++
		if table := r.ColumnText(0); !strings.Contains(text, "DELETE FROM "+table+" ") {
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
