//go:build unix

package torture

import (
	"os"
	"syscall"
)

const canPause = true

// suspend stops a process without its knowledge, and resume lets it go on.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error  { return p.Signal(syscall.SIGCONT) }

// dump has a process of ours print the stacks of its goroutines and end.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
