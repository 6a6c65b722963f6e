// Package sends holds what the code of a run sends to others: events that it publishes, and
// messages. Both take effect in the turn in which they are called.
package sends

import (
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/store"
)

// Sends is what a run sends. Its methods are called by the goroutine that has the baton.
type Sends struct {
	j          *journal.Journal
	admit      func(runID string, it *store.Item) (full, err error) // nil: every inbox has room
	completing journal.Lane                                         // messages whose sending is a completion
}

// New returns what a run sends. admit returns an error full if the inbox of another run is full.
func New(j *journal.Journal, admit func(runID string, it *store.Item) (full, err error)) *Sends {
	return &Sends{j: j, admit: admit}
}

// Next hands over the first completion. It reports whether there was one.
func (s *Sends) Next() bool { return s.completing.Next() }

// Arrived returns how many messages are to be looked at.
func (s *Sends) Arrived() int { return len(s.completing) }
