package engine

import (
	"sync"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// large remembers which large values were logged.
type large struct {
	mu   sync.Mutex
	seen map[largePlace]bool
}

type largePlace struct{ workflow, what string }

// maxLarge bounds the places; later ones are not logged.
const maxLarge = 1000

// Large logs a large value, once per place.
func (e *Engine) Large(workflow, what string, size int) {
	if e.cfg.WarnValue == 0 || size < e.cfg.WarnValue {
		return
	}
	at := largePlace{workflow, what}
	e.large.mu.Lock()
	first := !e.large.seen[at] && len(e.large.seen) < maxLarge
	if first {
		if e.large.seen == nil {
			e.large.seen = map[largePlace]bool{}
		}
		e.large.seen[at] = true
	}
	e.large.mu.Unlock()
	if first {
		e.cfg.Log.Warn("a value is large; at the limit it will be refused",
			"workflow", workflow, "location", what, "bytes", size)
	}
}

// warn logs the large values of a turn.
func (a *activation) warn(turn *store.Turn) {
	for i := range turn.Entries {
		if n := len(turn.Entries[i].Value); a.x.e.cfg.WarnValue > 0 && n >= a.x.e.cfg.WarnValue {
			a.x.e.Large(a.run.Workflow, location.Loc(turn.Entries[i].Loc).String(), n)
		}
	}
}
