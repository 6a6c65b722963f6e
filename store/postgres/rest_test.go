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
	b.Check(t, 50, 1050, func(claim func()) (rows int) {
		w.mu.Lock()
		w.plans = nil
		w.mu.Unlock()
		claim()
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.plans {
			rows += w.plans[i].Plan.looked()
		}
		return rows
	})
}
