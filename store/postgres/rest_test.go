package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/store/storetest"
)

// looked returns how many rows of tables a plan has looked at.
func (p *planned) looked() (rows int) {
	if p.Table != "" && strings.HasSuffix(p.Type, "Scan") {
		rows = int(p.Loops * max(1, p.Rows+p.Removed+p.Checked))
	}
	for i := range p.Plans {
		rows += p.Plans[i].looked()
	}
	return rows
}

// TestClaimDoesNotReadWhatRests: a claim costs the same beside ten times as much that no node
// may take up.
func TestClaimDoesNotReadWhatRests(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.analyze()
	w.open()
	b := storetest.Backlog{Store: w.n.s, Node: w.n.node, Leases: w.n.leases}
	b.Check(t, 50, 1050, w.reading)
}

// reading returns how many rows of tables an act looks at.
func (w *watched) reading(act func()) (rows int) {
	w.mu.Lock()
	w.plans = nil
	w.mu.Unlock()
	act()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.plans {
		rows += w.plans[i].Plan.looked()
	}
	return rows
}

// TestListsDoNotReadTheStore: what the dashboard asks for again and again costs the same in a
// store with ten times as many runs.
func TestListsDoNotReadTheStore(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.analyze()
	w.open()
	l := storetest.Listing{Store: w.n.s, Node: w.n.node, Lease: w.n.leases[0]}
	l.Check(t, 2000, 18000, storetest.Questions(), w.reading)
}

// TestListsNeedNoStatistics: they read as little of a table that was analyzed and not vacuumed, and walk along the
// index that has them in their order. A vacuum would let the server choose it.
func TestListsNeedNoStatistics(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.open()
	l := storetest.Listing{Store: w.n.s, Node: w.n.node, Lease: w.n.leases[0]}
	l.Fill(t, 30_000)
	w.exec("ANALYZE stet.runs")
	for _, q := range storetest.Questions() {
		const workflows, page, counted = 7, 51, 1001
		if q.Filter.Limit = page - 1; q.Filter.Most > 0 {
			q.Filter.Most = counted - 1
		}
		rows := w.reading(func() {
			if err := l.Ask(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		})
		statuses := max(1, len(q.Filter.Statuses))
		most := page + 1 + workflows*(1+statuses*page)
		switch {
		case q.Filter.Most > 0:
			most = workflows * (1 + counted)
		case q.Filter.ByEnded: // two indexes, and then the runs in their common order
			most += workflows * (2 + statuses*page)
		}
		if rows > most {
			t.Errorf("%s: %d rows were read, expected at most %d", q.Name, rows, most)
		}
		for i := range w.plans {
			if kind := w.plans[i].Plan.other(); kind != "" {
				t.Errorf("%s: expected scans of an index in its order, found a %s", q.Name, kind)
			}
		}
	}
}

// TestFiltersReadWhatTheySelect: a filter finds a few of many runs by an index, whichever side is the rare one, and
// without statistics; and with them.
func TestFiltersReadWhatTheySelect(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.exec("ALTER TABLE stet.tags SET (autovacuum_enabled=off)")
	w.exec(fmt.Sprintf(`INSERT INTO stet.runs (id, grp, slot, workflow, status, marks, ready, created, ended, seed)
		SELECT CASE WHEN i>20 THEN 'run-' ELSE 'old-' END||i, 'default', 0, 'w'||(i%%5),
			CASE WHEN i%%1000>0 THEN 4 ELSE 5 END, (i=1000)::integer, 0, %[1]d+i*1000000::bigint,
			%[1]d+(i+1)*1000000::bigint, '\x00'
		FROM generate_series(1, %[2]d) AS i`, storetest.SelectedFrom, storetest.SelectedRuns))
	w.exec(`INSERT INTO stet.tags (key, value, tagged)
		SELECT 'env', 'prod', run_no FROM stet.runs
		UNION ALL SELECT 'side', CASE run_no%2 WHEN 0 THEN 'a' ELSE 'b' END, run_no FROM stet.runs
		UNION ALL SELECT 'zone', 'rare', run_no FROM stet.runs WHERE run_no<=10`)
	w.open()
	storetest.CheckSelections(t, w.n.s, 25_000, w.reading)
	w.exec("ANALYZE stet.runs")
	w.exec("ANALYZE stet.tags")
	storetest.CheckSelections(t, w.n.s, 25_000, w.reading)
}

// other returns how a plan reads a table otherwise than along an index; "": it does not.
func (p *planned) other() string {
	if p.Table != "" && strings.HasSuffix(p.Type, "Scan") && !strings.HasPrefix(p.Type, "Index") {
		return p.Type + " of " + p.Table
	}
	for i := range p.Plans {
		if kind := p.Plans[i].other(); kind != "" {
			return kind
		}
	}
	return ""
}
