package sqlite

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

const (
	lockExclusive      = 2
	lockFailAtOnce     = 1
	errorLockViolation = syscall.Errno(33)
)

// lockFile tries to get an exclusive lock, which ends with the file.
func lockFile(f *os.File) (bool, error) {
	var overlapped syscall.Overlapped
	ok, _, err := lockFileEx.Call(f.Fd(), lockExclusive|lockFailAtOnce, 0, 1, 0, uintptr(unsafe.Pointer(&overlapped)))
	if ok != 0 {
		return true, nil
	}
	if errors.Is(err, errorLockViolation) {
		return false, nil
	}
	return false, err
}
