package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/stet-run/stet/store"
)

// Event is something that has changed.
type Event struct {
	ID   string          // for Subjects.Last, when the stream is opened again
	Name string          // run, entry, reset, page, nodes, …; ignore those that you do not know
	Data json.RawMessage // as the API's document says
}

// maxEvent bounds an event, in bytes.
const maxEvent = 64 << 20

// Follow calls each with what changes, until ctx ends, each returns an error, which Follow
// returns, or the server ends the stream. That wraps store.ErrUnavailable: call it again with
// the last event's ID.
func (c *Client) Follow(ctx context.Context, s Subjects, each func(Event) error) error {
	answer, err := c.send(ctx, call{method: http.MethodGet, path: "events", query: s.query(), last: s.Last})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxEvent)
	var e Event
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && e.Name != "":
			if err := each(e); err != nil {
				return err
			}
			e = Event{}
		case name == "event":
			e.Name = value
		case name == "id":
			e.ID = value
		case name == "data":
			e.Data = json.RawMessage(value)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("events: the stream has ended: %w", store.ErrUnavailable)
}
