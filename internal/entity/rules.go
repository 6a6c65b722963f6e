package entity

import (
	"errors"
	"slices"

	"github.com/stet-run/stet/store"
)

// ErrLacks is wrapped by an error whose reason is this process, such as one that lacks a time zone. Nothing of it is
// written: the entity, or the run, waits for a process that lacks nothing.
var ErrLacks = errors.New("this process lacks what a record of the store needs")

// Rules is what one kind of entity does. It is pure: no clock, no store, no
// goroutine, and nothing that is random. What it holds in memory is always what
// its entries say, together with the turn that is being made or committed; if
// that turn is not committed the rules are dropped and made again by Load. The
// methods are called one at a time. A panic stalls the entity, and nothing of
// the turn stands.
type Rules interface {
	// Load gives what stands, in the order of locations and with all values: what
	// Put has written and Delete not deleted. It is called once, before the rest,
	// also when nothing stands. Each entry has Loc, Value and Size. An error says
	// that the entries are damaged: the entity stalls with it. One that wraps ErrLacks
	// says that they are good, and only this process cannot follow them.
	Load(entries []store.Entry) error

	// Take is called for each item of the inbox, in the order of their numbers,
	// once in the life of these rules: an item that was kept, by this Rules or by
	// former ones, comes again after Load, with State Seen. The item must be
	// consumed or kept, now or later in the same turn; otherwise the entity keeps it.
	// Only what others sent to the entity comes here, no verbs. An item to which a record
	// was attached has that in place of Headers. now is the store's time, as a lower bound.
	Take(it *store.Item, now store.Time, w *Writer)

	// Tick is called in every turn after the items, unless the turn is full by
	// then: do what time and the items allow. Work that does not fit (w.Full) is
	// left for the next turn by w.More.
	Tick(now store.Time, w *Writer)

	// Wake returns when Tick is to be called next though no item comes; 0: not at
	// all. After a Tick that has not called More it must be later than the time
	// that Tick was given.
	Wake() store.Time
}

// The bounds of one turn. What one call of Take or Tick adds may exceed them,
// but not by much: look at Full before each piece of work.
const (
	maxRows  = 500
	maxBytes = 4 << 20
)

// Writer gathers what an entity does in one turn. It keeps the values and
// commands that it is given: do not change them afterwards.
type Writer struct {
	entries  []store.Entry
	place    map[string]int      // of a location in entries
	fresh    map[string]struct{} // locations at which nothing stood before the turn
	deleted  map[string]struct{}
	prune    []store.Span
	sends    []store.Command
	consumed []store.Consumption
	settled  map[store.ItemNo]struct{} // consumed or seen in this turn
	seen     []store.ItemNo
	values   []store.Setting
	notes    []Note
	bytes    int
	more     bool
}

// Note is a line for the log of the process that executes an entity.
type Note struct {
	Text  string
	Attrs []any // keys and values
}

// Put writes what stands at a location from this turn on, in place of what is
// there. loc is 1 to store.MaxLocation bytes; it is stored and sorted as it is.
func (w *Writer) Put(loc string, value []byte) {
	e := store.Entry{Loc: loc, Kind: store.KindEntity, State: store.Open, Value: value, Size: len(value)}
	w.bytes += len(loc) + len(value)
	if i, twice := w.place[loc]; twice {
		w.bytes -= len(loc) + len(w.entries[i].Value)
		w.entries[i] = e
		return
	}
	if w.place == nil {
		w.place = map[string]int{}
	}
	w.place[loc] = len(w.entries)
	w.entries = append(w.entries, e)
}

// PutNew is Put at a location at which nothing stands: a Delete in the same turn then leaves
// no trace.
func (w *Writer) PutNew(loc string, value []byte) {
	w.Put(loc, value)
	if w.fresh == nil {
		w.fresh = map[string]struct{}{}
	}
	w.fresh[loc] = struct{}{}
}

// Delete deletes what stands at a location; nothing need be there. Of several
// calls of Put and Delete for one location the last one counts.
func (w *Writer) Delete(loc string) {
	if i, put := w.place[loc]; put {
		w.bytes -= len(loc) + len(w.entries[i].Value)
		last := len(w.entries) - 1
		w.entries[i] = w.entries[last]
		w.place[w.entries[i].Loc] = i
		w.entries[last] = store.Entry{}
		w.entries = w.entries[:last]
		delete(w.place, loc)
	}
	if _, fresh := w.fresh[loc]; fresh {
		return
	}
	if _, twice := w.deleted[loc]; twice {
		return
	}
	if w.deleted == nil {
		w.deleted = map[string]struct{}{}
	}
	w.deleted[loc] = struct{}{}
	w.bytes += len(loc)
	w.prune = append(w.prune, store.Span{From: loc, To: loc + "\x00"})
}

// Send sends a command in the turn's commit: to a run, to another entity, or the
// start of a run, of which the engine fills in the Shard. What is sent needs an
// item ID or seed that is the same whenever the same turn is made again after a
// crash, or that does not matter.
func (w *Writer) Send(c store.Command) {
	w.sends = append(w.sends, c)
	switch {
	case c.Start != nil:
		w.bytes += len(c.Start.Input)
	case c.Item != nil:
		w.bytes += len(c.Item.Value)
	}
}

// Consume is done with an item, of this turn or one that was kept. verdict is the
// answer, if the item is an update; otherwise nil. An item is consumed once.
func (w *Writer) Consume(no store.ItemNo, verdict []byte) {
	w.consumed = append(w.consumed, store.Consumption{Item: no, Verdict: verdict})
	w.bytes += len(verdict)
	if i := slices.Index(w.seen, no); i >= 0 {
		w.seen = slices.Delete(w.seen, i, i+1)
	}
	w.settle(no)
}

// Keep leaves an item in the inbox until a later turn consumes it: it comes again
// after Load, and not before.
func (w *Writer) Keep(it *store.Item) {
	if it.State == store.New {
		w.seen = append(w.seen, it.No)
	}
	w.settle(it.No)
}

func (w *Writer) settle(no store.ItemNo) {
	if w.settled == nil {
		w.settled = map[store.ItemNo]struct{}{}
	}
	w.settled[no] = struct{}{}
}

// Value publishes a named value of the entity, for readers of its feeds. Of
// several of one name in a turn the last counts.
func (w *Writer) Value(name string, value []byte) {
	w.bytes += len(name) + len(value)
	for i := range w.values {
		if w.values[i].Name == name {
			w.values[i].Value = value
			return
		}
	}
	w.values = append(w.values, store.Setting{Name: name, Value: value})
}

// Note adds a warning to the log of the process. It is in the log also if the turn is not
// committed, and then perhaps twice.
func (w *Writer) Note(text string, attrs ...any) {
	w.notes = append(w.notes, Note{text, attrs})
}

// More asks for Tick in another turn, as soon as this one is committed.
func (w *Writer) More() { w.more = true }

// Full reports whether the turn should be committed before more is added.
func (w *Writer) Full() bool {
	return len(w.entries)+len(w.prune)+len(w.sends)+len(w.consumed)+len(w.seen) >= maxRows || w.bytes >= maxBytes
}
