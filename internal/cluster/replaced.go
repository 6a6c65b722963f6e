package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// ErrReplaced says that a later process has the name of this node, and that these replace each other.
var ErrReplaced = errors.New("replaced by a later process of the same node")

// replaced returns an error that wraps ErrReplaced if one of the leases is that of a process that replaces the node's.
func replaced(n *store.Node, leases ...store.Lease) error {
	if !n.Replaces || !slices.ContainsFunc(leases, func(l store.Lease) bool { return l.Node == n.ID && l.Boot > n.Boot }) {
		return nil
	}
	return fmt.Errorf("%w: %s; if both are to work, give each process a name of its own", ErrReplaced, n.ID)
}
