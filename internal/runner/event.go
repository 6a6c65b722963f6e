package runner

import (
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/runner/topics"
)

// The words of package topics that are those of an operation's caller too.
type (
	// Event waits for an event of a topic.
	Event = topics.Event
	// Visibility says which events a wait may be given.
	Visibility = topics.Visibility
)

// The visibilities of events.
const (
	SinceRun  = topics.SinceRun
	SinceWait = topics.SinceWait
	Retained  = topics.Retained
)

// Event waits for an event and returns it. With a deadline that wins the error is
// ErrTimeout.
func (b *Branch) Event(spec Event) (*event.Delivery, error) {
	if err := b.Enter(spec.Call); err != nil {
		return nil, err
	}
	return b.run.topics.Event(&b.Branch, spec)
}
