//go:build !windows

package develop

import (
	"os"
	"syscall"
)

// terminate requests a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
