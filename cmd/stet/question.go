package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// question is a filter with a term that is resolved here.
type question struct {
	store.Filter
	waits string // what kind of thing the runs wait for: topic, message or queue; "": whatever
	name  string // of that
}

// waitsTerm finds the term of a filter's text that is resolved here.
var waitsTerm = regexp.MustCompile(`(?:^|\s)waits=("[^"]*"|[^\s"]*)`)

// parseQuestion reads a filter from arguments and a flag.
func parseQuestion(args []string, query string) (*question, error) {
	text := strings.Join(append(slices.Clone(args), query), " ")
	q := &question{}
	for _, term := range waitsTerm.FindAllStringSubmatch(text, -1) {
		value := strings.Trim(term[1], `"`)
		if value == "" || q.waits != "" {
			return nil, usage(fmt.Errorf("query term %q: expected one value, once", strings.TrimSpace(term[0])))
		}
		q.waits, q.name, _ = strings.Cut(value, ":")
		if !slices.Contains([]string{"topic", "message", "queue"}, q.waits) || q.name == "" {
			return nil, usage(fmt.Errorf("query term %q: expected topic:NAME, message:NAME or queue:NAME",
				strings.TrimSpace(term[0])))
		}
	}
	var err error
	q.Filter, err = store.ParseFilter(waitsTerm.ReplaceAllString(text, " "))
	return q, err
}

// resolve completes the filter.
func (q *question) resolve(ctx context.Context, from side) error {
	if q.waits != "" && len(q.Statuses) == 0 {
		q.Statuses = []store.Status{store.Suspended}
	}
	if q.waits != "topic" {
		return nil
	}
	waiting, known, err := from.waiting(ctx, q.name)
	if err != nil && !errors.Is(err, stet.ErrNotFound) {
		return err
	}
	if q.Nos = waiting; known && len(waiting) == 0 {
		q.Nos = []store.RunNo{math.MaxInt64} // no run has this number
	}
	return nil
}

// fits reports whether a run waits for what was asked for. It needs values.
func (q *question) fits(info *stet.RunInfo) bool {
	return q.waits == "" || slices.ContainsFunc(info.WaitsFor, func(w stet.WaitInfo) bool {
		switch q.waits {
		case "topic":
			return w.Topic == q.name
		case "queue":
			return w.Queue == q.name
		}
		return slices.Contains(w.Names, q.name)
	})
}
