package postgres

import (
	"net"
	"time"
)

// A connection may fall silent without being cut: a machine has lost its power, or a firewall has
// forgotten the connection. Commits and claims notice that by themselves (see pulse). For all
// others the operating system is asked to give the connection up: when the server has not
// confirmed for silentLimit what was sent (on Linux), or does not answer its probes while nothing
// is sent.

const (
	silentLimit = 10 * time.Second
	probeAfter  = 5 * time.Second // that nothing was heard
	probeEvery  = 2 * time.Second
	probes      = 3
)

// dialer returns how connections to the server are made.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeEvery, Count: probes},
		Control:         limitSilence,
	}
}
