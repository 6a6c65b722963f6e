package runner

import "github.com/stet-run/stet/internal/runner/sends"

// The words of package sends that are those of an operation's caller too.
type (
	// Publish publishes an event in the turn.
	Publish = sends.Publish
	// Send sends a message, an update or a resolution to another run in the turn.
	Send = sends.Send
)

// Publish publishes an event and returns its ID.
func (b *Branch) Publish(p Publish) (eventID string, err error) {
	if err := b.Enter(p.Call); err != nil {
		return "", err
	}
	return b.run.sends.Publish(&b.Branch, p)
}

// Send sends a message, an update or a resolution to another run. It returns the key of an
// update.
func (b *Branch) Send(s Send) (key string, err error) {
	if err := b.Enter(s.Call); err != nil {
		return "", err
	}
	return b.run.sends.Send(&b.Branch, s)
}
