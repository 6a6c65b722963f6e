package sqlite

import "github.com/stet-run/stet/store"

// hand remembers what the last batch has read and written of leases, claimed runs
// and the node's row, so that the next one need not read it again. It is
// forgotten when the pager of the connection sees that somebody else has written
// (the check that SQLite's own page cache relies on, inside the transaction), when
// a transaction is taken back, and when an act of this Store touches leases or
// nodes.
type hand struct {
	epochs map[store.Shard]int64 // of current leases
	runs   map[store.RunNo]inHand
	last   batchNo // the last batch that was written, committed or not
	// applied are the last batches that were committed. They are not forgotten:
	// nobody else writes batches of a boot.
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

// inHand is what a turn must know of its run.
type inHand struct {
	shard       store.Shard
	incarnation int
	status      store.Status
	claimed     bool
}

// maxHand bounds the memory.
const maxHand = 20_000

func (h *hand) forget() { *h = hand{applied: h.applied} }

// committed tells that what was written stands.
func (h *hand) committed() {
	if h.last.no == 0 {
		return
	}
	if h.applied == nil {
		h.applied = map[boot]int64{}
	}
	h.applied[h.last.boot] = h.last.no
}

// holds notes what a batch's lease is; another epoch than before forgets all.
func (h *hand) holds(shard store.Shard, epoch int64, current bool) {
	if former, ok := h.epochs[shard]; ok && (former != epoch || !current) {
		h.forget()
	}
	if !current {
		return
	}
	if h.epochs == nil {
		h.epochs = map[store.Shard]int64{}
	}
	h.epochs[shard] = epoch
}

func (h *hand) put(no store.RunNo, state inHand) {
	if h.runs == nil || len(h.runs) >= maxHand {
		h.runs = map[store.RunNo]inHand{}
	}
	h.runs[no] = state
}

// set notes a committed update of a run that stays claimed.
func (h *hand) set(no store.RunNo, u *store.Update) {
	state := h.runs[no]
	state.status = u.Status
	if u.Continue != nil {
		state.incarnation++
	}
	h.runs[no] = state
}

// drop notes that a run is claimed no more.
func (h *hand) drop(no store.RunNo) { delete(h.runs, no) }
