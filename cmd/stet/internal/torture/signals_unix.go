//go:build unix

package torture

import (
	"os"
	"syscall"
)

const canPause = true

// machineTime returns the machine's clock, in microseconds since the epoch. It asks the system itself: a test builds
// workers whose time package has another wall time.
func machineTime() int64 {
	var t syscall.Timeval
	if err := syscall.Gettimeofday(&t); err != nil {
		panic(err) // it cannot fail for a good pointer
	}
	return t.Nano() / 1000
}

// suspend stops a process without its knowledge, and resume continues it.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error  { return p.Signal(syscall.SIGCONT) }

// dump makes a process of ours print the stacks of its goroutines and end.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
