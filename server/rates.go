package server

import (
	"sync"
	"time"
)

// rates bounds how often something happens per name: burst at once, and then perSecond.
type rates struct {
	perSecond, burst float64 // perSecond below 0: without limit

	mu    sync.Mutex
	names map[string]*level
	swept time.Time
}

// level is how much of a name's burst is left.
type level struct {
	left float64
	at   time.Time
}

func newRates(perSecond, burst float64) *rates {
	return &rates{perSecond: perSecond, burst: burst, names: map[string]*level{}}
}

// maxNames bounds the names that are kept, whose number a client may choose.
const maxNames = 10_000

// allow counts once more for the name, and reports whether that is within the bound.
func (r *rates) allow(name string) bool {
	if r.perSecond < 0 {
		return true
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	l := r.names[name]
	if l == nil {
		for other := range r.names {
			if len(r.names) < maxNames {
				break
			}
			delete(r.names, other) // any one
		}
		l = &level{r.burst, now}
		r.names[name] = l
	}
	l.left = min(r.burst, l.left+r.perSecond*now.Sub(l.at).Seconds())
	l.at = now
	if l.left < 1 {
		return false
	}
	l.left--
	return true
}

// sweep forgets names of which all is left, so that foreign ones do not fill the memory.
func (r *rates) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Minute {
		return
	}
	r.swept = now
	for name, l := range r.names {
		if l.left+r.perSecond*now.Sub(l.at).Seconds() >= r.burst {
			delete(r.names, name)
		}
	}
}
