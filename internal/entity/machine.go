package entity

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Config is what a Machine is made from. All fields are needed.
type Config struct {
	Run     store.Run
	Rules   Rules
	Entries []store.Entry // as in a snapshot: in the order of locations, large values left out
	// Fetch returns the value of an entry that the snapshot left out. An error
	// breaks the machine, not the entity.
	Fetch func(loc string) ([]byte, error)
	// FetchItem returns the value of an item that was left out. An error breaks the
	// machine as well.
	FetchItem func(it *store.Item) ([]byte, error)
}

// Machine is one activation of an entity. Its driver passes in the time and the items
// of the inbox, and takes turns to commit from it, one at a time:
//
//	m := entity.New(config)
//	m.Deliver(items...)
//	m.Advance(now, inboxReadAt)
//	turn := m.Take()   // nil: nothing to write
//	… commit …
//	m.Committed()      // or m.StillReady(), or drop the machine
//
// After a turn that suspends the entity it stands still until Resumed or
// StillReady. After one that stalls it, and once it is broken, it does nothing.
// Its methods are for one goroutine at a time.
type Machine struct {
	cfg   Config
	sizes map[string]int // of the open entries, in bytes of locations and values
	bytes int            // all of them

	items   []store.Item              // delivered and not given to the rules, by number
	known   map[store.ItemNo]struct{} // delivered, as far as they may be delivered again
	settled []settled                 // of these, those that no claim reports any more, in order of time
	leaving []store.ItemNo            // consumed or seen by the turn under way

	w         *Writer
	notes     []Note     // of turns that were taken
	ticked    bool       // since the last item was given
	bound     store.Time // lower bound of the store's time
	read      store.Time // the inbox was read then or later, as of the last Advance
	underWay  bool
	done      bool // the turn under way is committed and no Advance came since
	suspended bool
	closed    bool
	stall     string // reason; "": it is well
	broken    error
}

// settled is an item that is consumed or seen in the store.
type settled struct {
	no store.ItemNo
	at store.Time
}

// New returns a machine that has loaded what stands.
func New(cfg Config) *Machine {
	m := &Machine{
		cfg: cfg, sizes: make(map[string]int, len(cfg.Entries)), known: map[store.ItemNo]struct{}{}, w: &Writer{},
	}
	entries := slices.Clone(cfg.Entries)
	for i := range entries {
		e := &entries[i]
		if e.Value == nil && e.Size > 0 {
			if e.Value, m.broken = cfg.Fetch(e.Loc); m.broken != nil {
				return m
			}
		}
		m.stands(e)
	}
	m.cfg.Entries = nil
	m.guard(func() {
		switch err := cfg.Rules.Load(entries); {
		case errors.Is(err, ErrLacks):
			m.broken = err
		case err != nil:
			m.stall = fmt.Sprintf("damaged: what stands in the record cannot be read: %v", err)
		}
	})
	return m
}

// guard turns a panic of the rules into a stall.
func (m *Machine) guard(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			m.stall = fmt.Sprintf("broken invariant: %v\n%s", p, debug.Stack())
		}
	}()
	fn()
}

// Know notes that an item has been delivered. It reports false if it was noted
// before.
func (m *Machine) Know(no store.ItemNo) bool {
	_, known := m.known[no]
	m.known[no] = struct{}{}
	return !known
}

// Deliver adds items of the inbox. Those that were delivered before are ignored.
func (m *Machine) Deliver(items ...store.Item) {
	for i := range items {
		it := items[i]
		if it.Kind.Verb() && it.Kind != store.ItemWatch {
			m.Answer(it.No, verbs.No(verbs.OfEntity(it.Kind)))
			continue
		}
		if it.State == store.Consumed || !m.Know(it.No) {
			continue // an update that was answered or will never be
		}
		if it.Value == nil && it.Size > 0 {
			if it.Value, m.broken = m.cfg.FetchItem(&it); m.broken != nil {
				return
			}
		}
		at, _ := slices.BinarySearchFunc(m.items, it.No,
			func(it store.Item, no store.ItemNo) int { return cmp.Compare(it.No, no) })
		m.items = slices.Insert(m.items, at, it)
	}
}

// Answer consumes a verb in the next turn, unless it was delivered before.
func (m *Machine) Answer(no store.ItemNo, verdict []byte) {
	if m.Know(no) {
		m.w.Consume(no, verdict)
	}
}

// Advance does what the items and the time allow, as far as one turn goes. now is
// a lower bound of the store's time; inboxAt is a store time at or after which
// the inbox was read completely, and delivered or posted. Neither may go back.
func (m *Machine) Advance(now, inboxAt store.Time) {
	m.bound = max(m.bound, now)
	m.forget(inboxAt)
	if m.underWay || m.suspended || m.closed || m.broken != nil || m.looks() {
		return
	}
	for len(m.items) > 0 && m.stall == "" && !m.w.Full() {
		it := m.items[0]
		m.items = m.items[1:]
		m.ticked = false
		if it.Kind == store.ItemWatch {
			m.w.Keep(&it) // an entity has no end
			continue
		}
		Detach(&it)
		m.guard(func() { m.cfg.Rules.Take(&it, m.bound, m.w) })
		if _, ok := m.w.settled[it.No]; !ok {
			m.w.Keep(&it)
		}
	}
	if len(m.items) == 0 && m.stall == "" && !m.w.Full() && (!m.ticked || m.due()) {
		m.ticked = true
		m.w.more = false
		m.guard(func() {
			m.cfg.Rules.Tick(m.bound, m.w)
			if !m.w.more && m.due() {
				panic(fmt.Sprintf("at %s the rules ask to be woken at %s", m.bound, m.cfg.Rules.Wake()))
			}
		})
	}
}

// due reports whether the rules have asked to be woken by now.
func (m *Machine) due() bool {
	at := m.cfg.Rules.Wake()
	return at != 0 && at <= m.bound
}

// claimSlack is more than what the store's times of a claim and of a commit may
// be apart although the claim did not see the commit.
const claimSlack = store.Time(time.Second / time.Microsecond)

// forget forgets items that cannot be delivered again. No claim that begins after the
// commit reports an item that the commit has consumed or seen. The items of an earlier
// claim were posted before the time of that claim was passed to an Advance, so they
// were delivered before the Advance that follows.
func (m *Machine) forget(inboxAt store.Time) {
	if m.done {
		m.done = false
		for _, no := range m.leaving {
			m.settled = append(m.settled, settled{no, m.bound})
		}
		m.leaving = nil
	}
	n := 0
	for n < len(m.settled) && m.settled[n].at+claimSlack < m.read {
		delete(m.known, m.settled[n].no)
		n++
	}
	m.settled = m.settled[n:]
	if len(m.settled) == 0 {
		m.settled = nil
	}
	m.read = max(m.read, inboxAt)
}

// shortWait is the time below which an entity is not suspended for a wake time.
const shortWait = store.Time(time.Second / time.Microsecond)

// Take returns the turn to commit, or nil if there is none. A turn after which
// there is nothing to do suspends the entity. Shard and Build are the caller's to
// fill in.
func (m *Machine) Take() *store.Turn {
	if m.underWay || m.suspended || m.closed || m.broken != nil {
		return nil
	}
	w := m.w
	w.more = w.more && !w.empty()
	turn := &store.Turn{Run: m.cfg.Run.No, Shard: m.cfg.Run.Shard, Incarnation: m.cfg.Run.Incarnation}
	if m.stall != "" {
		m.underWay, m.closed = true, true
		turn.Update = &store.Update{Status: store.Stalled, Reason: m.stall}
		return turn
	}
	turn.Prune, turn.Entries, turn.Values = w.prune, w.entries, w.values
	turn.Seen, turn.Consumed, turn.Sends = w.seen, w.consumed, w.sends
	wake := m.cfg.Rules.Wake()
	switch {
	case len(m.items) == 0 && m.ticked && !w.more && (wake == 0 || wake >= m.bound+shortWait) && !m.stays():
		turn.Update = &store.Update{Status: store.Suspended, WakeAt: stored.WakeAt(wake)}
		m.suspended = true
	case w.empty():
		return nil
	}
	m.underWay = true
	m.ticked = m.ticked && !w.more
	for i := range w.prune {
		m.gone(w.prune[i].From)
	}
	for i := range w.entries {
		m.stands(&w.entries[i])
	}
	for no := range w.settled {
		m.leaving = append(m.leaving, no)
	}
	m.notes = append(m.notes, w.notes...)
	m.w = &Writer{}
	return turn
}

// empty reports whether nothing is to be written.
func (w *Writer) empty() bool {
	return len(w.entries)+len(w.prune)+len(w.sends)+len(w.consumed)+len(w.seen)+len(w.values) == 0
}

// Committed notes that the turn taken last is durable.
func (m *Machine) Committed() { m.underWay, m.done = false, true }

// StillReady notes that the turn taken last is durable, but that the entity was
// not suspended because something is new in its inbox.
func (m *Machine) StillReady() {
	m.Committed()
	m.suspended = false
}

// Resumed notes that the entity was claimed again after its suspension.
func (m *Machine) Resumed() { m.suspended, m.ticked = false, false }

// Suspended reports whether the last turn taken suspends the entity and nothing
// has happened since.
func (m *Machine) Suspended() bool { return m.suspended }

// Notes returns what the rules have to say in the log. Each is returned once.
func (m *Machine) Notes() []Note {
	notes := append(m.notes, m.w.notes...)
	m.notes, m.w.notes = nil, nil
	return notes
}

// Broken returns why this activation cannot go on, or nil. The entity is not
// harmed: load it again.
func (m *Machine) Broken() error { return m.broken }

// NextTimer returns the time at which Advance has something to do even if nothing
// arrives, or 0. Nothing is to be read before. An entity that waits until its line is known has no timer.
func (m *Machine) NextTimer() (at store.Time, needsInbox bool) {
	if m.closed || m.broken != nil || m.stall != "" || m.looks() {
		return 0, false
	}
	return m.cfg.Rules.Wake(), false
}

// stands notes the size of the entry that is open at a location from now on.
func (m *Machine) stands(e *store.Entry) {
	m.gone(e.Loc)
	size := len(e.Loc) + len(e.Value)
	m.sizes[e.Loc] = size
	m.bytes += size
}

// gone notes that no entry is open at a location any more.
func (m *Machine) gone(loc string) {
	m.bytes -= m.sizes[loc]
	delete(m.sizes, loc)
}

const (
	machineBytes = 4 << 10 // a machine with rules that know nothing yet
	recordBytes  = 200     // of an open entry, without its location and value
	itemBytes    = 400     // an item, without its texts and value
)

// Bytes returns about how many bytes of memory the machine takes: what stands is in it twice, as it was read or
// written and as its rules know it.
func (m *Machine) Bytes() int {
	n := machineBytes + len(m.sizes)*recordBytes + 2*m.bytes
	for i := range m.items {
		n += itemBytes + len(m.items[i].Value) + len(m.items[i].Headers)
	}
	return n
}

// Unwind ends the activation. A machine has nothing to end.
func (m *Machine) Unwind() {}
