// Package mail keeps the messages of a run that were not received, and the order in
// which its code waits for them: of one name, the oldest message goes to the receiver
// that has waited longest, and of several names that match at once the oldest message
// goes first. It knows nothing of operations, deadlines or turns: a [Receiver] says
// what it takes.
package mail

import (
	"slices"

	"github.com/stet-run/stet/store"
)

// Receiver waits for messages of some names.
type Receiver interface {
	// Waits reports whether it still waits.
	Waits() bool
	// Names returns the names of the messages.
	Names() []string
	// Needs returns how many messages end the wait.
	Needs() int
	// Takes reports whether a message counts. One that was sent later than it does not
	// count either.
	Takes(it *store.Item) bool
	// Refuses reports whether the receiver has no use for a message that it takes: it is
	// gone then. It is asked once for each message, before that counts.
	Refuses(it *store.Item) bool
}

// Boxes are the mailboxes of a run, by name. The zero value is empty. They are not safe
// for concurrent use.
type Boxes struct {
	boxes   map[string]*box
	changed []*box // since they were last looked at: they may have a match
	count   int    // messages
	bytes   int    // of their texts and values
}

// box holds the messages of one name and what waits for them.
type box struct {
	of        *Boxes
	items     []letter   // in the order of their numbers
	receivers []Receiver // in the order of waiting; those that wait no more are skipped
	changed   bool       // listed in Boxes.changed
	crowd     int        // see weed
}

// letter is a message and the receiver that has last looked at it; nil: none has.
type letter struct {
	store.Item
	read Receiver
}

// accepts reports whether a receiver has a use for a message that it takes. Otherwise the
// message is gone.
func (x *box) accepts(r Receiver, i int) bool {
	l := &x.items[i]
	if l.read == r {
		return true
	}
	if r.Refuses(&l.Item) {
		x.of.holds(-1, &l.Item)
		x.items = slices.Delete(x.items, i, i+1)
		return false
	}
	l.read = r
	return true
}

func (b *Boxes) box(name string) *box {
	x := b.boxes[name]
	if x == nil {
		if b.boxes == nil {
			b.boxes = map[string]*box{}
		}
		x = &box{of: b}
		b.boxes[name] = x
	}
	return x
}

func (b *Boxes) touch(x *box) {
	if !x.changed {
		x.changed = true
		b.changed = append(b.changed, x)
	}
}

// Deliver puts a message into the box of a name.
func (b *Boxes) Deliver(name string, it store.Item) {
	x := b.box(name)
	at := len(x.items)
	for at > 0 && x.items[at-1].No > it.No {
		at--
	}
	x.items = slices.Insert(x.items, at, letter{Item: it})
	b.holds(1, &it)
	b.touch(x)
}

// Add lets a receiver wait behind those of the same names.
func (b *Boxes) Add(r Receiver) {
	for _, name := range r.Names() {
		x := b.box(name)
		x.weed()
		x.receivers = append(x.receivers, r)
		b.touch(x)
	}
}

// Left notes that a receiver waits no more: the one behind it may have a match.
func (b *Boxes) Left(r Receiver) {
	for _, name := range r.Names() {
		if x := b.box(name); len(x.items) > 0 {
			b.touch(x)
		}
	}
}

// weed removes receivers that wait no more, now and then, like heap.Min.Weed: many may
// have waited in vain behind one that still does.
func (x *box) weed() {
	if len(x.receivers) >= x.crowd {
		x.receivers = slices.DeleteFunc(x.receivers, func(r Receiver) bool { return !r.Waits() })
		x.crowd = 2*len(x.receivers) + 64
	}
}

// first returns the receiver that has waited longest, or nil.
func (x *box) first() Receiver {
	for len(x.receivers) > 0 {
		if r := x.receivers[0]; r.Waits() {
			return r
		}
		x.receivers = x.receivers[1:]
	}
	return nil
}

// Match returns the receiver whose wait ends with the oldest message, or nil.
func (b *Boxes) Match() Receiver {
	var best Receiver
	var oldest store.ItemNo
	keep := b.changed[:0]
	for _, x := range b.changed {
		r := x.first()
		if r == nil || len(x.items) == 0 || !b.enough(r) {
			x.changed = false
			continue
		}
		keep = append(keep, x)
		if best == nil || x.items[0].No < oldest {
			best, oldest = r, x.items[0].No
		}
	}
	clear(b.changed[len(keep):])
	b.changed = keep
	return best
}

// enough reports whether a receiver need not wait for more messages.
func (b *Boxes) enough(r Receiver) bool {
	need := r.Needs()
	for _, name := range r.Names() {
		x := b.box(name)
		for i := 0; i < len(x.items) && r.Takes(&x.items[i].Item); {
			if !x.accepts(r, i) {
				continue
			}
			i++
			if need--; need == 0 {
				return true
			}
		}
	}
	return false
}

// Take removes and returns what a receiver takes, the oldest first: at most so many
// messages, and after the first one at most so many bytes.
func (b *Boxes) Take(r Receiver, most, bytes int) []store.Item {
	var taken []store.Item
	for size := 0; len(taken) < most; {
		var from *box
		for _, name := range r.Names() {
			x := b.box(name)
			for len(x.items) > 0 && r.Takes(&x.items[0].Item) && !x.accepts(r, 0) {
				continue // it is gone
			}
			if len(x.items) > 0 && r.Takes(&x.items[0].Item) && (from == nil || x.items[0].No < from.items[0].No) {
				from = x
			}
		}
		if from == nil {
			break
		}
		it := from.items[0].Item
		if size += len(it.Value); taken != nil && size > bytes {
			break
		}
		b.holds(-1, &it)
		from.items[0] = letter{}
		from.items = from.items[1:]
		taken = append(taken, it)
	}
	return taken
}

// holds counts a message that has come (1), or that has left (-1).
func (b *Boxes) holds(n int, it *store.Item) {
	b.count += n
	b.bytes += n * (len(it.ID) + len(it.Name) + len(it.Headers) + len(it.Value))
}

// Size returns how many messages were not received, and the bytes of their texts and values.
func (b *Boxes) Size() (messages, bytes int) { return b.count, b.bytes }

// Unlooked returns how many boxes have changed since Match looked at them, or have a
// match.
func (b *Boxes) Unlooked() int { return len(b.changed) }

// Waiting returns how many receivers are kept for a name.
func (b *Boxes) Waiting(name string) int { return len(b.box(name).receivers) }
