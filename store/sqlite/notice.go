//go:build !windows

package sqlite

import (
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notices requests the system's notices of writes to the file, and returns nil where they cannot
// be had: on some file systems, and where too many files are watched.
func notices(path string) *fsnotify.Watcher {
	if path == "" || timeIsVirtual() {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil
	}
	if err := w.Add(path); err != nil {
		_ = w.Close() // nothing is watched
		return nil
	}
	return w
}

// timeIsVirtual reports whether time.Now is not the machine's, as in a bubble of testing/synctest.
// Its time stands still while a goroutine waits for the system.
func timeIsVirtual() bool {
	var machine syscall.Timeval
	if err := syscall.Gettimeofday(&machine); err != nil {
		return true
	}
	return time.Since(time.Unix(machine.Unix())).Abs() > time.Hour
}
