package committer

import "sync"

// Numbers are the numbers of a boot's batches. The zero Numbers has given none. It is safe
// for concurrent use.
type Numbers struct {
	mu           sync.Mutex
	given        int64         // the last one
	acknowledged int64         // the last one whose result is known; 0: the store is not held to any
	void         int64         // the last one before a loss
	dropping     chan struct{} // closed when Lost has called drop; nil: it does not
}

// next returns the number of the next batch, and the last one that was acknowledged.
func (n *Numbers) next() (no, last int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.given++
	return n.given, n.acknowledged
}

// Acknowledged returns the number of the last batch whose result is known; 0: there is
// none that the store is held to.
func (n *Numbers) Acknowledged() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.acknowledged
}

func (n *Numbers) acknowledge(no int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if no > n.void {
		n.acknowledged = max(n.acknowledged, no)
	}
}

// Lost is called when the store does not have a batch that was acknowledged: from now on
// it is held to none before the next. Before that it calls drop, which ends the stay of all
// shards: a turn of before, in a batch that names none, would be written where it does not
// fit what is there. It reports false, without a call, if the loss was known: the batch is of
// before the last one. Of several calls at once the others return when the first has.
func (n *Numbers) Lost(last int64, drop func()) bool {
	n.mu.Lock()
	for n.dropping != nil {
		dropped := n.dropping
		n.mu.Unlock()
		<-dropped
		n.mu.Lock()
	}
	defer n.mu.Unlock()
	if last <= n.void {
		return false
	}
	n.dropping = make(chan struct{})
	n.mu.Unlock()
	drop()
	n.mu.Lock()
	close(n.dropping)
	n.acknowledged, n.void, n.dropping = 0, n.given, nil
	return true
}

// Forget is called when the store has forgotten the boot, as it was asked to, and no shard is
// held.
func (n *Numbers) Forget() { n.Lost(n.Acknowledged(), func() {}) }
