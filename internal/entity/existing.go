package entity

import "sync"

// existing remembers which entities are known to exist, so that they are not started each
// time they are used. The zero existing knows none. It is safe for concurrent use.
type existing struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

// maxKnown bounds the memory. Entities beyond it are started each time, without effect.
const maxKnown = 100_000

// has reports whether an entity is known to exist.
func (k *existing) has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.ids[id]
	return known
}

// add notes that an entity exists.
func (k *existing) add(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ids == nil {
		k.ids = map[string]struct{}{}
	}
	if len(k.ids) < maxKnown {
		k.ids[id] = struct{}{}
	}
}

// remove notes that an entity does not exist.
func (k *existing) remove(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.ids, id)
}

// clear forgets all.
func (k *existing) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids = nil
}
