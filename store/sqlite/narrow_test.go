package sqlite

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/store/internal/words"
	"github.com/stet-run/stet/store/storetest"
)

// TestFiltersReadWhatTheySelect: a filter finds a few of many runs by an index, whichever side is the rare one, and
// without statistics.
func TestFiltersReadWhatTheySelect(t *testing.T) {
	s := open(t, testPath(t), AllowLoss())
	err := s.write.c.Exec(words.SQL(fmt.Sprintf(`
		INSERT INTO stet_runs (id, grp, slot, workflow, status, marks, ready, created, started, ended, input_size, seed, tags)
		SELECT CASE WHEN value>20 THEN 'run-' ELSE 'old-' END||value, 'default', 0, 'w'||(value%%5),
			CASE WHEN value%%1000 THEN 4 ELSE 5 END, value=1000, 0, %[1]d+value*1000000, 0, %[1]d+(value+1)*1000000, 0,
			zeroblob(16), CASE WHEN value>10 THEN json_array('env', 'prod', 'side', CASE value%%2 WHEN 0 THEN 'a' ELSE 'b' END)
				ELSE json_array('env', 'prod', 'side', CASE value%%2 WHEN 0 THEN 'a' ELSE 'b' END, 'zone', 'rare') END
		FROM (WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value+1 FROM n WHERE value<%[2]d) SELECT value FROM n);
		INSERT INTO stet_tags (key, value, tagged) SELECT 'env', 'prod', run_no FROM stet_runs;
		INSERT INTO stet_tags (key, value, tagged) SELECT 'side', CASE run_no%%2 WHEN 0 THEN 'a' ELSE 'b' END, run_no
			FROM stet_runs;
		INSERT INTO stet_tags (key, value, tagged) SELECT 'zone', 'rare', run_no FROM stet_runs WHERE run_no<=10`,
		storetest.SelectedFrom, storetest.SelectedRuns)))
	if err != nil {
		t.Fatal(err)
	}
	storetest.CheckSelections(t, s, storetest.SelectedRuns, func(act func()) int {
		steps(s)
		act()
		return steps(s)
	})
}
