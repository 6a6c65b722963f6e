package main

import (
	"context"
	"time"

	"github.com/stet-run/stet"
)

// Entry is one entry of a feed. Cursors sort in the order of the entries.
type Entry struct {
	Cursor string `json:"cursor"`
	Title  string `json:"title"`
}

// Position is where a poller stands.
type Position struct {
	Cursor string `json:"cursor"`
	Seen   int    `json:"seen"`
}

// feed is the source that is polled.
type feed interface {
	// After returns the entries behind a cursor, oldest first, at most some, and
	// whether the feed is closed: no more will come.
	After(ctx context.Context, cursor string) (entries []Entry, closed bool, err error)
}

// A run shows these to readers while it goes on, and after its end.
var (
	Found    = stet.Stream[Entry]("found")        // every entry, once
	Progress = stet.Value[Position]("position")   // the newest position
	PollNow  = stet.Message[struct{}]("poll-now") // do not wait any longer
)

// pause is the time between two polls.
const pause = 10 * time.Minute

// poller has the workflow with what its steps use.
type poller struct{ feed feed }

// page is the result of one poll.
type page struct {
	Entries []Entry `json:"entries"`
	Closed  bool    `json:"closed"`
}

// follow polls a feed until it is closed and returns how many entries there were. It may go on for years: the loop
// keeps the last iterations, and the stream keeps all entries found.
func (p *poller) follow(ctx stet.Context, from string) (int, error) {
	return stet.Loop(ctx, "poll", Position{Cursor: from},
		func(ctx stet.Context, at Position) (next stet.Next[Position, int], err error) {
			got, err := stet.Step(ctx, "fetch", func(ctx context.Context) (page, error) {
				entries, closed, err := p.feed.After(ctx, at.Cursor)
				return page{entries, closed}, err
			})
			if err != nil {
				return next, err
			}
			for _, entry := range got.Entries {
				if err := Found.Append(ctx, entry); err != nil {
					return next, err
				}
				at = Position{entry.Cursor, at.Seen + 1}
			}
			if err := Progress.Set(ctx, at); err != nil {
				return next, err
			}
			switch {
			case got.Closed:
				return next.Break(at.Seen), nil
			case len(got.Entries) > 0:
				return next.Continue(at), nil
			}
			var now struct{}
			if _, err := stet.Select(ctx, stet.AfterDelay("pause", pause), PollNow.Case(&now)); err != nil {
				return next, err
			}
			return next.Continue(at), nil
		})
}
