package journal

import (
	"fmt"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Items knows which items were delivered, so that one that is delivered again is
// ignored. A run may receive messages for ever: what cannot come again is forgotten.
type Items struct {
	known  map[store.ItemNo]struct{} // delivered and may be again
	taking []store.ItemNo            // those that the turn under way consumes
	done   []doneItems               // those whose consumption is durable
}

// doneItems are items that no inbox that is read from a time on holds any more.
type doneItems struct {
	from store.Time // 0: not known yet; the present is not earlier
	nos  []store.ItemNo
}

// Know notes that an item has been delivered. It reports false if it was noted before.
func (i *Items) Know(no store.ItemNo) bool {
	_, known := i.known[no]
	i.known[no] = struct{}{}
	return !known
}

// Take notes the items that the turn consumes.
func (i *Items) Take(turn *store.Turn) {
	i.taking = i.taking[:0:0]
	for _, c := range turn.Consumed {
		i.taking = append(i.taking, c.Item)
	}
	i.taking = append(i.taking, turn.Dead...)
	for _, x := range turn.Refused {
		i.taking = append(i.taking, x.Item)
	}
}

// Committed notes that the turn is durable.
func (i *Items) Committed() {
	if len(i.taking) > 0 {
		i.done = append(i.done, doneItems{nos: i.taking})
		i.taking = nil
	}
}

// Forget drops the numbers of items that cannot be delivered again: their consumption
// was durable at the time from, the inbox was read later, and what was read in between
// or before has been delivered by now.
func (i *Items) Forget(now, inboxAt store.Time) {
	for k := range i.done {
		if d := &i.done[k]; d.from == 0 {
			d.from = now
		}
	}
	for len(i.done) > 0 && i.done[0].from < inboxAt {
		for _, no := range i.done[0].nos {
			delete(i.known, no)
		}
		i.done = i.done[1:]
	}
}

// Lose forgets that an item was delivered: it is to be delivered again.
func (i *Items) Lose(no store.ItemNo) { delete(i.known, no) }

// Len returns how many items are kept.
func (i *Items) Len() int { return len(i.known) }

// Answer consumes an item in the turn that fills, with the answer if it asks for one.
func (j *Journal) Answer(no store.ItemNo, answer []byte) {
	j.Items.Know(no)
	j.Log.Consume(no, answer)
}

// A Check says why the code has no use for a value that has arrived: it does not decode
// into its type. A nil Check takes any.
type Check func(value []byte) error

// Refuses makes a dead letter of an item for which an operation has no use, so that the
// operation waits for the next one. It reports whether it does. The history says nothing of
// it: a replay does not find the item any more, or refuses it again.
func (o *Op) Refuses(it *store.Item, value []byte, check Check) bool {
	if check == nil {
		return false
	}
	err := check(value)
	if err == nil {
		return false
	}
	o.J.Log.Refuse(it.No, stored.Cut(o.Loc.String()+": "+err.Error(), maxRefusal))
	o.J.Owner.Note(o.Loc, "a "+it.Kind.String()+" is of no use to the code: it is a dead letter now",
		fmt.Errorf("dead letter %d: %w", it.No, err))
	return true
}

// maxRefusal bounds the reason of a dead letter.
const maxRefusal = 2 << 10
