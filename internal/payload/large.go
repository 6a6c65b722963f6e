package payload

import (
	"log/slog"
	"sync"
)

// Large logs values that are large, once for each place. Its fields are set before its use;
// it is safe for concurrent use then.
type Large struct {
	From int // from this length on a value is large; 0: none is
	Log  *slog.Logger

	mu   sync.Mutex
	seen map[largePlace]bool
}

type largePlace struct{ workflow, what string }

// maxLarge bounds the places; later ones are not logged.
const maxLarge = 1000

// Is reports whether a value of a length is large.
func (l *Large) Is(length int) bool { return l.From > 0 && length >= l.From }

// Saw logs a value, if it is large and the first one of its place.
func (l *Large) Saw(workflow, what string, length int) {
	if !l.Is(length) {
		return
	}
	at := largePlace{workflow, what}
	l.mu.Lock()
	first := !l.seen[at] && len(l.seen) < maxLarge
	if first {
		if l.seen == nil {
			l.seen = map[largePlace]bool{}
		}
		l.seen[at] = true
	}
	l.mu.Unlock()
	if first {
		l.Log.Warn("a value is large; at the limit it will be refused",
			"workflow", workflow, "location", what, "bytes", length)
	}
}
