package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// lacks are what this process was found to lack to execute records of the store, by run ID. It is safe for concurrent
// use.
type lacks struct {
	mu    sync.Mutex
	found map[string]lackFound
}

type lackFound struct {
	text string
	at   time.Time
}

// note notes what a run needs and this process lacks.
func (l *lacks) note(runID string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found == nil {
		l.found = map[string]lackFound{}
	}
	text := runID + ": " + err.Error()
	l.found[runID] = lackFound{text[:min(len(text), store.MaxLack)], time.Now()}
}

// list returns what was found lately, sorted, up to store.MaxLacks. What is lacking is found again at each try.
func (l *lacks) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for id, found := range l.found {
		if time.Since(found.at) > 3*unreadable {
			delete(l.found, id)
			continue
		}
		list = append(list, found.text)
	}
	slices.Sort(list)
	return list[:min(len(list), store.MaxLacks)]
}
