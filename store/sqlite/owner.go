package sqlite

import (
	"os"
	"sync"
)

// ownerLock is the lock of the operating system that says that the owner of the
// file is alive. The zero ownerLock with a path is not held.
type ownerLock struct {
	path string
	mu   sync.Mutex
	file *os.File // nil: not held
}

// acquire tries to get the lock. fresh says that it was got by this call: then
// whoever had it is dead or has given it up.
func (l *ownerLock) acquire() (fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return false, nil
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, err
	}
	ok, err := lockFile(f)
	if !ok || err != nil {
		f.Close()
		return false, err
	}
	l.file = f
	return true, nil
}

func (l *ownerLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}

// release gives the lock up.
func (l *ownerLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
