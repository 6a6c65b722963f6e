package notify

import (
	"sync"
	"sync/atomic"

	"github.com/stet-run/stet/store"
)

// listeners are those that want to know of each commit of a run. A process in which nobody does
// pays for one load.
type listeners struct {
	some atomic.Int64 // how many there are

	mu   sync.Mutex
	runs map[store.RunNo]map[chan struct{}]bool
}

// Commits gives a hint after each turn of the run that this process commits, until leave is
// called. A hint is kept until it is taken, and stands for all commits before that.
func (w *Waiters) Commits(run store.RunNo) (hints <-chan struct{}, leave func()) {
	l, ch := &w.commits, make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[store.RunNo]map[chan struct{}]bool{}
	}
	if l.runs[run] == nil {
		l.runs[run] = map[chan struct{}]bool{}
	}
	l.runs[run][ch] = true
	l.some.Add(1)
	return ch, sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.runs[run], ch); len(l.runs[run]) == 0 {
			delete(l.runs, run)
		}
		l.some.Add(-1)
	})
}

// committed gives the hints of a run.
func (l *listeners) committed(run store.RunNo) {
	if l.some.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.runs[run] {
		hint(ch)
	}
}
