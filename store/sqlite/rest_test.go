package sqlite

import (
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storetest"
)

// steps returns how many steps SQLite has carried out in all statements of a store, and
// begins to count again.
func steps(s *Store) (n int) {
	for _, c := range append(s.read.free, s.write.c) {
		for _, stmt := range c.stmts {
			n += stmt.Status(sqlite3.STMTSTATUS_VM_STEP, true)
		}
	}
	return n
}

// TestClaimDoesNotReadWhatRests: a claim costs the same beside ten times as much that no node
// may take up.
func TestClaimDoesNotReadWhatRests(t *testing.T) {
	s := open(t, testPath(t), AllowLoss())
	held := acquire(t, s, testNode)
	b := storetest.Backlog{Store: s, Node: testNode, Leases: []store.Lease{held.Lease}}
	b.Check(t, 200, 200, func(claim func()) int {
		steps(s)
		claim()
		return steps(s)
	})
}

// BenchmarkClaimBesideBacklog claims beside nothing, and beside much that no node may take up.
func BenchmarkClaimBesideBacklog(b *testing.B) {
	s := open(b, testPath(b), AllowLoss())
	held := acquire(b, s, testNode)
	backlog := storetest.Backlog{Store: s, Node: testNode, Leases: []store.Lease{held.Lease}}
	backlog.Bench(b)
}

// TestListsReadFewRows: what the dashboard asks for again and again costs the same in a store with ten times as many
// runs. A page of its list, and the counts beside it, read there at most half as many rows as there are runs: as many
// entries of indexes as the counts go to, and the page.
func TestListsReadFewRows(t *testing.T) {
	s := open(t, testPath(t), AllowLoss())
	held := acquire(t, s, testNode)
	l := storetest.Listing{Store: s, Node: testNode, Lease: held.Lease}
	l.Check(t, 2000, 18000, storetest.Questions(), func(ask func()) int {
		steps(s)
		ask()
		return steps(s)
	})
	counts := storetest.Question{Name: "counts", Filter: store.Filter{Most: 1000}}
	steps(s)
	if err := l.Ask(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
	counted := steps(s)
	for _, q := range storetest.Questions() {
		if q.Filter.Most > 0 {
			continue
		}
		q.Filter.Limit = 50
		steps(s)
		if err := l.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		const perRow = 11 // SQLite's own steps for an entry of an index that is counted; one of a page takes more
		if rows := (counted + steps(s)) / perRow; rows > 10_000 {
			t.Errorf("%s and the counts read about %d rows, expected at most 10,000", q.Name, rows)
		} else {
			t.Logf("%s: %d steps of SQLite, about %d rows", q.Name, rows*perRow, rows)
		}
	}
}
