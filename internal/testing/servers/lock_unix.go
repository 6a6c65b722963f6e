//go:build unix

package servers

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// lockFile waits for the lock of a file, which it creates. The holder may remove the file before it releases the lock.
func lockFile(path string) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // its folder was removed by a keeper that ends
			if err := os.MkdirAll(sharedFolder(), 0o700); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close() // another process has removed it, and a third may have made it again
	}
}

// detach makes a command the leader of a session of its own, which outlives the terminal's.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
