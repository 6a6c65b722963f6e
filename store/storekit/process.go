package storekit

import "github.com/stet-run/stet/store"

// Process is where a boot lives.
type Process struct {
	Host string // "": not known
	PID  int
}

// Life is a boot and its process.
type Life struct {
	Boot
	Process
}

// LifeOf returns the life of a node that registers itself.
func LifeOf(n *store.Node) Life { return Life{Boot{n.ID, n.Boot}, Process{n.Host, n.PID}} }

// knowsDead reports whether a life, whose witness is gone, is known to have ended. Either the machine is the same and
// has its process no more, or it is the former life of the node, in a container where each life has the same number.
func (l Life) knowsDead(other Life) bool {
	switch {
	case other.Host == "" || other.Host != l.Host:
		return false
	case other.PID == l.PID:
		return other.Node == l.Node && other.Boot.Boot < l.Boot.Boot
	}
	return !executes(other.PID)
}
