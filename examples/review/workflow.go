package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
)

// Brief is the subject of a text.
type Brief struct {
	Topic  string   `json:"topic"`
	Points []string `json:"points"`
}

// Decision is the reviewer's. The holder of the token gives it, from any process:
//
//	stet --db review.db resolve TOKEN '{"approved":true}'
type Decision struct {
	Approved bool   `json:"approved"`
	Comment  string `json:"comment,omitempty"`
}

// Outcome is the result of a brief.
type Outcome struct {
	Published bool   `json:"published"`
	Text      string `json:"text,omitempty"`
	Comment   string `json:"comment,omitempty"`
}

// patience is how long a reviewer may take.
const patience = 7 * 24 * time.Hour

// desk is where texts are written and published, and where reviewers are asked.
// Its methods are the outside world: each is called in a step.
type desk interface {
	Draft(ctx context.Context, b Brief) (string, error)
	Refine(ctx context.Context, text string) (string, error)
	Notify(ctx context.Context, token, text string) error
	Publish(ctx context.Context, text, key string) error
}

// pipeline is the workflow with what its steps use.
type pipeline struct{ desk desk }

// review drafts and refines a text, asks a person, and publishes it or not. The run waits for the person without a
// process: it may be killed meanwhile, and texts from before the decision are not written again after it.
func (p *pipeline) review(ctx stet.Context, b Brief) (Outcome, error) {
	text, err := stet.Step(ctx, "draft", func(ctx context.Context) (string, error) { return p.desk.Draft(ctx, b) })
	if err != nil {
		return Outcome{}, err
	}
	draft := text
	if text, err = stet.Step(ctx, "refine",
		func(ctx context.Context) (string, error) { return p.desk.Refine(ctx, draft) }); err != nil {
		return Outcome{}, err
	}

	decision, err := stet.NewPromise[Decision](ctx, "decision")
	if err != nil {
		return Outcome{}, err
	}
	err = stet.Do(ctx, "notify", func(ctx context.Context) error { return p.desk.Notify(ctx, decision.Token(), text) })
	if err != nil {
		return Outcome{}, err
	}
	d, err := decision.Await(ctx, stet.Within(patience))
	switch {
	case errors.Is(err, stet.ErrTimeout):
		return Outcome{Comment: fmt.Sprintf("nobody has decided within %s", patience)}, nil
	case err != nil:
		return Outcome{}, err
	case !d.Approved:
		return Outcome{Comment: d.Comment}, nil
	}

	err = stet.Do(ctx, "publish", func(ctx context.Context) error {
		return p.desk.Publish(ctx, text, stet.IdempotencyKey(ctx))
	})
	return Outcome{Published: err == nil, Text: text, Comment: d.Comment}, err
}

// refined makes sentences of a draft.
func refined(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" && !strings.HasSuffix(line, ".") {
			lines[i] = strings.ToUpper(line[:1]) + line[1:] + "."
		}
	}
	return strings.Join(lines, "\n")
}
