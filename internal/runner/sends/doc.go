// Package sends holds what the code of a run sends to others: events that it publishes, and
// messages, updates and resolutions. All take effect in the turn in which they are called.
package sends

import (
	"context"

	"github.com/stet-run/stet/internal/runner/journal"
)

// Sends is what a run sends. Its methods are called by the goroutine that has the baton.
type Sends struct {
	j          *journal.Journal
	look       Look         // nil: nothing is looked for
	completing journal.Lane // messages whose sending is a completion
}

// Look calls look with a context in which the store can be read.
type Look = func(look func(context.Context) error) error

// New returns what a run sends.
func New(j *journal.Journal, look Look) *Sends { return &Sends{j: j, look: look} }

// Next hands over the first completion. It reports whether there was one.
func (s *Sends) Next() bool { return s.completing.Next() }

// Arrived returns how many messages are to be looked at.
func (s *Sends) Arrived() int { return len(s.completing) }
