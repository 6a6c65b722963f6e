//go:build unix

package bench

import (
	"syscall"
	"time"
)

// used returns what this process has used since it began.
func used() (effort, bool) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return effort{}, false
	}
	processor := time.Duration(r.Utime.Nano() + r.Stime.Nano())
	return effort{processor, int64(r.Nvcsw) + int64(r.Nivcsw)}, true
}
