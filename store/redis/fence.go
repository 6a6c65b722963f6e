package redis

import (
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
)

// fences are the known leases of boots. An act that names the fence of its boot names no
// leases, and the server reads none: an act that takes a lease from the boot, or raises its
// epoch, removes the fence. The next fence is another one.
//
// Only a store of one part has them: with several, a part has the leases of one slot.
type fences struct {
	mu sync.Mutex
	of map[[2]string]*fence // by node and boot
}

// fence is a fence and the leases that were read with it, which the boot has as long as the
// fence stands.
type fence struct {
	text   string
	epochs map[store.Shard]int64
	claims []store.Lease // those of the last claim
	places []string      // … as claim.lua wants them
}

// know returns the fence if the boot has the leases at the given places, or "".
func (f *fences) know(node, boot string, leases []store.Lease, which []int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.of[[2]string{node, boot}]
	if known == nil || !known.has(leases, which) {
		return ""
	}
	return known.text
}

func (k *fence) has(leases []store.Lease, which []int) bool {
	for _, i := range which {
		if epoch, ok := k.epochs[leases[i].Shard]; !ok || epoch != leases[i].Epoch {
			return false
		}
	}
	return true
}

// knowAll is know for all the leases of a claim. It also returns their groups with the
// slots of each.
func (f *fences) knowAll(node, boot string, leases []store.Lease) (text string, places []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.of[[2]string{node, boot}]
	if known == nil {
		return "", nil
	}
	same := func(a, b store.Lease) bool { return a.Shard == b.Shard && a.Epoch == b.Epoch }
	if !slices.EqualFunc(known.claims, leases, same) {
		all := make([]int, len(leases))
		for i := range all {
			all[i] = i
		}
		if !known.has(leases, all) {
			return "", nil
		}
		known.claims, known.places = slices.Clone(leases), placesOf(leases)
	}
	return known.text, known.places
}

// placesOf returns the groups of leases, and of each the slots, a bit for each.
func placesOf(leases []store.Lease) (places []string) {
	var groups []string
	bits := map[string][]byte{}
	for i := range leases {
		shard := leases[i].Shard
		b, ok := bits[shard.Group]
		if !ok {
			groups = append(groups, shard.Group)
		}
		for len(b) <= shard.Slot/8 {
			b = append(b, 0)
		}
		b[shard.Slot/8] |= 1 << (shard.Slot % 8)
		bits[shard.Group] = b
	}
	for _, group := range groups {
		places = append(places, group, string(bits[group]))
	}
	return places
}

// learn notes that the boot has the leases at the given places.
func (f *fences) learn(node, boot, text string, leases []store.Lease, which []int) {
	if text == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [2]string{node, boot}
	known := f.of[key]
	if known == nil || known.text != text {
		known = &fence{text: text, epochs: map[store.Shard]int64{}}
		f.of[key] = known
	}
	for _, i := range which {
		known.epochs[leases[i].Shard] = leases[i].Epoch
	}
}

// forget forgets the leases of a boot that has another fence now, or has ended.
func (f *fences) forget(node, boot string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, [2]string{node, boot})
}
