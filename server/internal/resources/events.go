package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/live"
)

const (
	maxFollowers = 2000 // an identity has half of them
	maxSubjects  = 20
	// maxLists bounds the different lists that one identity follows: each is read once per second.
	maxLists = 100
	// commentEvery is how often a stream says that it lives, and its credential is looked at.
	commentEvery = 15 * time.Second
	// pageRuns is how many runs of a list are followed.
	pageRuns = 100
)

type follow struct {
	Run    []string `query:"run" doc:"follow these runs: events run, entry, inbox, value and reset"`
	Stream []string `query:"stream" doc:"follow these streams, as ID/NAME: event item"`
	Runs   []string `query:"runs" doc:"follow the first page of these filters: event page"`
	Nodes  bool     `query:"nodes" doc:"follow the nodes: event nodes"`
	Last   string   `header:"Last-Event-ID" doc:"go on after the event with this ID"`
}

// events streams what changes of some subjects, until the client goes away.
func (s *Server) events(ctx context.Context, c *endpoint.Call, in follow) error {
	subjects := live.Subjects{Runs: in.Run, Names: in.Runs, Nodes: in.Nodes}
	for _, text := range in.Stream {
		i := strings.LastIndexByte(text, '/')
		if i <= 0 || i == len(text)-1 {
			return invalid("stream: expected ID/NAME, found %.100q", text)
		}
		subjects.Streams = append(subjects.Streams, live.Stream{Run: text[:i], Name: text[i+1:]})
	}
	if n := len(in.Run) + len(in.Runs) + len(in.Stream); n > maxSubjects || n == 0 && !in.Nodes {
		return invalid("expected 1 to %d runs, lists and streams, or nodes, found %d", maxSubjects, n)
	}
	for _, query := range in.Runs {
		f, err := s.filter(ctx, c, query)
		if err != nil {
			return err
		}
		f.Limit, f.Values = pageRuns, true
		subjects.Lists = append(subjects.Lists, f)
	}
	follower, err := s.Live.Follow(c.View, subjects, in.Last)
	if err != nil {
		return err
	}
	runs := slices.Clone(in.Run)
	for _, s := range subjects.Streams {
		runs = append(runs, s.Run)
	}
	for _, id := range runs {
		if _, err := c.View.Info(ctx, id); err != nil {
			return err
		}
	}
	leave := s.followers.Take(c.Who.Name)
	if leave == nil {
		return &endpoint.Error{Code: api.CodeBusy,
			Detail: "the server has as many followers as it may, in all or of one identity", Wait: 10}
	}
	defer leave()
	unlist := s.lists.Take(c.Who.Name, in.Runs)
	if unlist == nil {
		return &endpoint.Error{Code: api.CodeBusy, Wait: 10,
			Detail: fmt.Sprintf("one identity may follow %d different lists at the same time", maxLists)}
	}
	defer unlist()
	if s.Following != nil {
		s.Following(1)
		defer s.Following(-1)
	}
	s.stream(ctx, c, follower)
	return nil
}

// stream writes events until the client goes away, or may not see them any more.
func (s *Server) stream(ctx context.Context, c *endpoint.Call, f *live.Follower) {
	control := http.NewResponseController(c.Writer)
	write := func(format string, args ...any) error {
		if _, err := fmt.Fprintf(c.Writer, format, args...); err != nil {
			return err
		}
		return control.Flush()
	}
	f.Tell = func(event, id string, data any) error {
		text, err := json.Marshal(data)
		if err != nil {
			return err
		}
		return write("event: %s\nid: %s\ndata: %s\n\n", event, id, text)
	}
	c.Writer.Header().Set("Content-Type", endpoint.Events)
	c.Writer.Header().Set("X-Accel-Buffering", "no") // proxies would keep events back
	if write("retry: 2000\n\n") != nil {
		return
	}
	hints := f.Listen()
	defer f.Close()
	tick := time.NewTicker(live.Every)
	defer tick.Stop()
	for said := time.Now(); ; {
		if err := f.Round(ctx); err != nil {
			if ctx.Err() == nil && api.ErrorOf(err).Code != "not_found" {
				c.Log.Warn("a stream of events has ended", "request", c.RequestID, "error", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-hints:
		}
		if time.Since(said) >= commentEvery {
			said = time.Now()
			if s.Again(c) != nil || write(": \n\n") != nil {
				return
			}
		}
	}
}
