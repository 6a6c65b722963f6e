package entity

import "sync"

// Existing remembers which entities are known to exist, so that they are not started each
// time they are used. The zero Existing knows none. It is safe for concurrent use.
type Existing struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

// maxKnown bounds the memory. Entities beyond it are started each time, without effect.
const maxKnown = 100_000

// Has reports whether an entity is known to exist.
func (k *Existing) Has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.ids[id]
	return known
}

// Add notes that an entity exists.
func (k *Existing) Add(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ids == nil {
		k.ids = map[string]struct{}{}
	}
	if len(k.ids) < maxKnown {
		k.ids[id] = struct{}{}
	}
}

// Remove notes that an entity does not exist.
func (k *Existing) Remove(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ids, id)
}

// Clear forgets all.
func (k *Existing) Clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids = nil
}
