package committer

import "sync"

// Numbers are the numbers of a boot's batches. The zero Numbers has given none. It is safe
// for concurrent use.
type Numbers struct {
	mu           sync.Mutex
	given        int64 // the last one
	acknowledged int64 // the last one whose result is known; 0: the store is not held to any
	void         int64 // the last one before a loss
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
// it is held to none before the next. It reports false if that was known: the batch is of
// before the last loss.
func (n *Numbers) Lost(last int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last <= n.void {
		return false
	}
	n.acknowledged, n.void = 0, n.given
	return true
}

// Forget is called when the store has forgotten the boot, as it was asked to.
func (n *Numbers) Forget() { n.Lost(n.Acknowledged()) }
