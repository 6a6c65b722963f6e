//go:build unix

package storekit

import (
	"errors"
	"syscall"
)

// executes reports whether the machine has a process.
func executes(pid int) bool { return pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
