package turnlog

import (
	"slices"

	"github.com/stet-run/stet/store"
)

// checkpoint is how a turn stood at some point, as far as it is not in the turn itself:
// what was added since stands behind, and undo has what was changed in place.
type checkpoint struct {
	undo []func()

	prune, entries, consumed, sends, dead, refused, audit int // lengths
	bytes                                                 int
	marked, replaces                                      bool

	values, appends, answers int
	tags                     []store.Pair
	size                     int
}

// Checkpoint notes how the turn stands, for Restore. What the run's code does is cut into
// pieces by it: each lasts from a hand-over until every branch is blocked.
func (l *Log) Checkpoint() {
	undo := l.before.undo
	clear(undo)
	l.before = checkpoint{
		undo: undo[:0], prune: len(l.prune), entries: len(l.entries), consumed: len(l.consumed), sends: len(l.sends),
		dead: len(l.dead), refused: len(l.refused), audit: len(l.audit),
		bytes: l.bytes, marked: l.marked, replaces: l.replaces,
		values: len(l.values), appends: len(l.appends), answers: len(l.answers), tags: l.tags, size: l.size,
	}
}

// Restore takes back what was gathered since the checkpoint. Without one that is all of
// the turn. Items that were examined since stay so.
func (l *Log) Restore() {
	for _, undo := range slices.Backward(l.before.undo) {
		undo()
	}
	b := &l.before
	l.prune, l.entries, l.consumed = l.prune[:b.prune], l.entries[:b.entries], l.consumed[:b.consumed]
	l.sends, l.dead, l.refused = l.sends[:b.sends], l.dead[:b.dead], l.refused[:b.refused]
	l.audit = l.audit[:b.audit]
	l.bytes, l.marked, l.replaces = b.bytes, b.marked, b.replaces
	l.values, l.appends, l.answers = l.values[:b.values], l.appends[:b.appends], l.answers[:b.answers]
	l.tags, l.size = b.tags, b.size
	b.undo = nil
}

// onRestore registers what takes a change in place back.
func (l *Log) onRestore(undo func()) { l.before.undo = append(l.before.undo, undo) }
