package sqlite

import (
	"os"
	"strings"
	"sync"

	"github.com/stet-run/stet/store"
)

// ownerLock is the lock of the operating system that shows that the owner of the file is
// alive. It is held while leases are held, and while an act tries to get one.
type ownerLock struct {
	path string

	mu     sync.Mutex
	file   *os.File              // nil: the lock is not held
	users  int                   // acts under way
	leases map[store.Shard]int64 // epochs of the leases that were taken through this Store
}

// enter begins an act on leases and tries to get the lock. It reports whether the
// lock is held until leave.
func (l *ownerLock) enter() (locked bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	if l.file != nil {
		return true, nil
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, private)
	if err != nil {
		return false, err
	}
	shareMode(strings.TrimSuffix(l.path, "-owner"), l.path)
	locked, err = lockFile(f)
	if !locked || err != nil {
		_ = f.Close() // nothing was written
		return false, err
	}
	l.file = f
	return true, nil
}

// leave ends an act: the lock is given up if no lease is held.
func (l *ownerLock) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 && len(l.leases) == 0 {
		l.unlock()
	}
}

// owns reports whether the lease with this epoch was taken through this Store.
func (l *ownerLock) owns(shard store.Shard, epoch int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held, ok := l.leases[shard]
	return ok && held == epoch
}

// took notes a lease that was taken or renewed.
func (l *ownerLock) took(shard store.Shard, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases == nil {
		l.leases = map[store.Shard]int64{}
	}
	l.leases[shard] = max(l.leases[shard], epoch)
}

// lost notes a lease that was given back or that another has taken.
func (l *ownerLock) lost(shard store.Shard, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases[shard] == epoch {
		delete(l.leases, shard)
	}
}

func (l *ownerLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}

// close gives the lock up with all leases.
func (l *ownerLock) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases = nil
	l.unlock()
}

func (l *ownerLock) unlock() {
	if l.file != nil {
		_ = l.file.Close() // nothing was written
		l.file = nil
	}
}
