package sqlite

import "github.com/stet-run/stet/store"

// hand remembers runs that were claimed when a turn of theirs was last written,
// so that the next turn need not read the row. Nobody else can change such a row
// while the lease is current: turns are fenced, and commands adopt only through a
// batch. It is kept per epoch, and forgotten whenever a transaction is taken back
// or another act may have touched claimed runs.
type hand struct {
	epochs map[store.Shard]int64
	runs   map[store.RunNo]inHand
	// node, boot and batch are those of the last batch that was written here; no
	// other process writes a boot's number.
	node, boot string
	batch      int64
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

func (h *hand) forget() { *h = hand{} }

// holds notes what a batch's lease is; another epoch than before forgets all.
func (h *hand) holds(shard store.Shard, epoch int64, current bool) {
	if former, ok := h.epochs[shard]; ok && (former != epoch || !current) {
		h.forget()
	}
	if !current {
		return
	}
	if h.epochs == nil {
		h.epochs, h.runs = map[store.Shard]int64{}, map[store.RunNo]inHand{}
	}
	h.epochs[shard] = epoch
}

func (h *hand) put(no store.RunNo, state inHand) {
	if len(h.runs) >= maxHand {
		clear(h.runs)
	}
	h.runs[no] = state
}

// set notes a committed update.
func (h *hand) set(no store.RunNo, status store.Status) {
	state := h.runs[no]
	if status != store.Running {
		delete(h.runs, no)
		return
	}
	state.status = status
	h.runs[no] = state
}
