package sqlite

import "github.com/stet-run/stet/store"

// cache holds the leases, claimed runs and the node's row as the last batch read or wrote
// them, so that the next one need not read them again. It is emptied when
//
//   - the pager of the connection sees that another connection has written, by the check
//     inside the transaction on which SQLite's own page cache relies;
//   - a transaction is taken back;
//   - an act of this Store touches leases or nodes.
type cache struct {
	epochs map[store.Shard]int64 // of current leases
	runs   map[store.RunNo]cachedRun
	last   batchNo // the last batch that was written, committed or not
	// applied are the last batches that were committed. They are kept: no other Store
	// writes batches of a boot.
	applied map[boot]int64
}

// boot is one life of a node.
type boot struct{ node, boot string }

func bootOf(b *store.Batch) boot { return boot{b.Node, b.Boot} }

// batchNo identifies a batch; the zero one is none.
type batchNo struct {
	boot boot
	no   int64
	life int64 // of the node's row
}

// cachedRun is what a turn must know of its run.
type cachedRun struct {
	shard       store.Shard
	incarnation int
	status      store.Status
	claimed     bool
}

// maxCached bounds how many runs are kept.
const maxCached = 20_000

func (m *cache) forget() { *m = cache{applied: m.applied} }

// committed notes that the last batch stands.
func (m *cache) committed() {
	if m.last.no == 0 {
		return
	}
	if m.applied == nil {
		m.applied = map[boot]int64{}
	}
	m.applied[m.last.boot] = m.last.no
}

// holds notes whether a batch's lease is current. Another epoch than before empties the
// cache.
func (m *cache) holds(shard store.Shard, epoch int64, current bool) {
	if former, ok := m.epochs[shard]; ok && (former != epoch || !current) {
		m.forget()
	}
	if !current {
		return
	}
	if m.epochs == nil {
		m.epochs = map[store.Shard]int64{}
	}
	m.epochs[shard] = epoch
}

func (m *cache) put(no store.RunNo, state cachedRun) {
	if m.runs == nil || len(m.runs) >= maxCached {
		m.runs = map[store.RunNo]cachedRun{}
	}
	m.runs[no] = state
}

// set notes a committed update of a run that stays claimed.
func (m *cache) set(no store.RunNo, u *store.Update) {
	state := m.runs[no]
	state.status = u.Status
	if u.Continue != nil {
		state.incarnation++
	}
	m.runs[no] = state
}

// drop notes that a run is no longer claimed.
func (m *cache) drop(no store.RunNo) { delete(m.runs, no) }
