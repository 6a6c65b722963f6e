package cluster

import (
	"errors"
	"fmt"

	"github.com/stet-run/stet/store"
)

// ErrReplaced says that a later process has the name of this node, and that these replace each other.
var ErrReplaced = errors.New("replaced by a later process of the same node")

// later knows which processes of a node are later than this one. Their order is that of their boots, which follow the
// clocks of machines; but one that was there before this process, by a clock that is ahead, is not later.
type later struct {
	former map[string]bool // boots behind this process's that were there before it; nil: it has not looked yet
}

// saw takes the leases that this process finds. Those that it finds first were there before it.
func (l *later) saw(n *store.Node, leases ...store.Lease) {
	if l.former != nil {
		return
	}
	l.former = map[string]bool{}
	for i := range leases {
		if leases[i].Node == n.ID && leases[i].Boot > n.Boot {
			l.former[leases[i].Boot] = true
		}
	}
}

// replaced returns an error that wraps ErrReplaced if one of the leases is that of a process that replaces the node's.
func (l *later) replaced(n *store.Node, leases ...store.Lease) error {
	if !n.Replaces {
		return nil
	}
	for i := range leases {
		if by := &leases[i]; by.Node == n.ID && by.Boot > n.Boot && !l.former[by.Boot] {
			return fmt.Errorf("%w: %s; if both are to work, give each process a name of its own", ErrReplaced, n.ID)
		}
	}
	return nil
}
