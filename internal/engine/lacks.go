package engine

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// lacks are what this process was found to lack to execute records of the store, by run ID. It is safe for concurrent
// use.
type lacks struct {
	mu    sync.Mutex
	found map[string]lackFound
	said  time.Time // when the log said so last
}

// maxNoted is of how many runs it is noted at once; of the others when these are found no more.
const maxNoted = 10 * store.MaxLacks

type lackFound struct {
	text string
	at   time.Time
}

// sayLacks is the least time between two lines of the log about what is lacking.
const sayLacks = time.Minute

// note notes what a run needs and this process lacks. It returns of how many runs that is noted if the log is to say
// so now, otherwise 0.
func (l *lacks) note(runID string, err error) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found == nil {
		l.found = map[string]lackFound{}
	}
	now := time.Now()
	if _, known := l.found[runID]; known || len(l.found) < maxNoted {
		text := runID + ": " + err.Error()
		l.found[runID] = lackFound{strings.ToValidUTF8(text[:min(len(text), store.MaxLack)], ""), now}
	}
	if !l.said.IsZero() && now.Sub(l.said) < sayLacks {
		return 0
	}
	l.said = now
	return len(l.found)
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
