//go:build unix && !solaris && !aix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lockFile tries to get an exclusive lock, which ends with the file.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
