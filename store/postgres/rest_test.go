package postgres_test

import (
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
