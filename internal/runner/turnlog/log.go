// Package turnlog gathers the turn of a run that fills: the entries that are written
// and deleted, what becomes of inbox items, what is sent to others, and what is shown
// to readers. It decides nothing: it keeps the parts of a turn consistent with one
// another, so that an entry stands in it once and an item is either examined or
// consumed.
package turnlog

import (
	"slices"

	"github.com/stet-run/stet/store"
)

// Log is a turn that fills. Its zero value is empty. It is not safe for concurrent
// use.
type Log struct {
	number   int      // of the turn, from 0
	first    *oneTurn // nil: the turn has no entry
	prune    []store.Span
	entries  []store.Entry
	bytes    int
	seen     []store.ItemNo
	consumed []store.Consumption
	sends    []store.Command
	dead     []store.ItemNo
	refused  []store.Refusal
	audit    []store.Audit
	marked   bool // a mark of the run has changed
	replaces bool // an entry may stand where one of entries is to be written

	shown
	before checkpoint
}

// oneTurn is a turn with the room for an entry, in one piece of memory: most turns have one.
type oneTurn struct {
	turn  store.Turn
	entry [1]store.Entry
}

// Slot says where the entry of an operation stands. Its zero value is of an operation
// that has none.
type Slot struct {
	turn    int // the number of the turn that has it, plus 1; 0: it was found in the history
	place   int // in the entries of that turn
	size    int // of its value
	written bool
}

// Recorded is the slot of an operation whose entry is in the history, with a value of
// so many bytes.
func Recorded(size int) Slot { return Slot{size: size, written: true} }

// Size returns the size of the entry's value.
func (s *Slot) Size() int { return s.size }

// Written reports whether an entry is in the history or in a turn.
func (s *Slot) Written() bool { return s.written }

// New reports whether the entry was written by this activation.
func (s *Slot) New() bool { return s.turn > 0 }

// Full reports whether the turn holds as much as one should.
func (l *Log) Full(entries, bytes int) bool {
	return len(l.entries)+l.shown.rows() >= entries || l.bytes+l.shown.size >= bytes
}

// See marks an item as examined.
func (l *Log) See(it *store.Item) {
	if it.State != store.Seen {
		l.seen = append(l.seen, it.No)
	}
}

// Consume consumes an item, with the answer if it asks for one.
func (l *Log) Consume(no store.ItemNo, answer []byte) {
	l.consumed = append(l.consumed, store.Consumption{Item: no, Verdict: answer})
	l.forget(no)
}

// DeadLetter makes a dead letter of an item.
func (l *Log) DeadLetter(no store.ItemNo) {
	l.dead = append(l.dead, no)
	l.forget(no)
}

// Refuse makes a dead letter of an item that the code has no use for, with the reason.
func (l *Log) Refuse(no store.ItemNo, reason string) {
	l.refused = append(l.refused, store.Refusal{Item: no, Reason: []byte(reason)})
	l.forget(no)
}

// forget takes an item from those that are examined only.
func (l *Log) forget(no store.ItemNo) {
	if i := slices.Index(l.seen, no); i >= 0 {
		l.seen = slices.Delete(l.seen, i, i+1)
		l.onRestore(func() { l.seen = append(l.seen, no) })
	}
}

// Send adds a command.
func (l *Log) Send(c store.Command) {
	l.sends = append(l.sends, c)
	if c.Start != nil {
		l.bytes += len(c.Start.Input)
	}
}

// SendLarge adds a command that holds so many bytes besides.
func (l *Log) SendLarge(c store.Command, bytes int) {
	l.Send(c)
	l.bytes += bytes
}

// Unsend takes back the command with an item that matches. It reports whether there
// was one.
func (l *Log) Unsend(match func(it *store.Item) bool) bool {
	for i := len(l.sends) - 1; i >= 0; i-- {
		if it := l.sends[i].Item; it != nil && match(it) {
			c := l.sends[i]
			l.sends = slices.Delete(l.sends, i, i+1)
			l.onRestore(func() { l.sends = slices.Insert(l.sends, i, c) })
			return true
		}
	}
	return false
}

// Add adds an entry where another one may stand.
func (l *Log) Add(e store.Entry) {
	l.replaces = true
	l.append(e)
}

// Put adds an operation's entry, in place of the one that it has in this turn. It
// returns by how many bytes the operation's value has grown.
func (l *Log) Put(s *Slot, e store.Entry) (grown int) {
	grown = len(e.Value) - s.size
	s.size = len(e.Value)
	if s.turn == l.number+1 {
		l.bytes += grown
		place, former := s.place, l.entries[s.place]
		l.onRestore(func() { l.entries[place] = former })
		l.entries[s.place] = e
		return grown
	}
	l.replaces = l.replaces || s.written
	s.turn, s.place, s.written = l.number+1, len(l.entries), true
	l.append(e)
	return grown
}

func (l *Log) append(e store.Entry) {
	if l.entries == nil {
		l.first = new(oneTurn)
		l.entries = l.first.entry[:0]
	}
	l.entries = append(l.entries, e)
	l.bytes += len(e.Value) + len(e.Loc)
}

// Cut deletes a span of the history, with what the turn has in it. A later span that
// begins at the same location contains the earlier one.
func (l *Log) Cut(span store.Span) {
	for i := range l.prune {
		if former := l.prune[i]; former.From == span.From {
			l.onRestore(func() { l.prune[i] = former })
			l.prune[i] = span
			return
		}
	}
	l.prune = append(l.prune, span)
}

// kept returns the entries that are not in a span that the turn deletes: they were
// written before it was cut.
func (l *Log) kept() []store.Entry {
	if len(l.prune) == 0 {
		return l.entries
	}
	l.before = checkpoint{} // there is no way back from the turn that has them
	return slices.DeleteFunc(l.entries, func(e store.Entry) bool {
		return slices.ContainsFunc(l.prune, func(s store.Span) bool { return s.Contains(e.Loc) })
	})
}

// Audit notes the act of an operator that the turn carries out.
func (l *Log) Audit(a store.Audit) { l.audit = append(l.audit, a) }

// Mark notes that a mark of the run has changed.
func (l *Log) Mark() { l.marked = true }

// Marked reports whether a mark of the run has changed.
func (l *Log) Marked() bool { return l.marked }

// Entries returns the entries so far.
func (l *Log) Entries() []store.Entry { return l.entries }

// Sends returns the commands so far.
func (l *Log) Sends() []store.Command { return l.sends }

// Empty reports whether there is nothing to commit.
func (l *Log) Empty() bool {
	return len(l.entries) == 0 && len(l.seen) == 0 && len(l.consumed) == 0 && len(l.dead) == 0 &&
		len(l.refused) == 0 && len(l.prune) == 0 && len(l.sends) == 0 && l.shown.rows() == 0
}

// Turn returns what is gathered as a turn of the run, without an update.
func (l *Log) Turn(run *store.Run) *store.Turn {
	if l.first == nil {
		l.first = new(oneTurn)
	}
	l.first.turn = store.Turn{
		Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation,
		Prune: l.prune, Entries: l.kept(), Insert: !l.replaces,
		Seen: l.seen, Consumed: l.consumed, Dead: l.dead, Refused: l.refused, Sends: l.sends, Audit: l.audit,
		Values: l.values, Appends: l.appends, Tags: l.tags, Answers: l.answers,
	}
	return &l.first.turn
}

// Next begins the next turn, empty.
func (l *Log) Next() { *l = Log{number: l.number + 1} }
