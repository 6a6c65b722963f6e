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
