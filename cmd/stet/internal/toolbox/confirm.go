package toolbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stet-run/stet/api"
)

const (
	// confirmWithin is how long a token, or a question to a person, counts.
	confirmWithin = 5 * time.Minute
	// maxWaiting bounds the acts that wait for a confirmation; the oldest is forgotten.
	maxWaiting = 1000
	// question names what a person is asked.
	question = "confirm"
)

// errChanged says that what was confirmed is no more what would happen.
var errChanged = errors.New("changed")

// standing is how a run stood when its act was shown.
type standing struct {
	Run         string `json:"run"`
	Workflow    string `json:"workflow,omitempty"`
	Status      string `json:"status"` // "none": there is no such run
	Marks       string `json:"marks,omitempty"`
	Incarnation int    `json:"incarnation,omitempty"`
	Generation  int    `json:"generation,omitempty"`
}

// plan is an act that is not confirmed yet.
type plan struct {
	// What the act does, in words of our own, and what it would do to each run, as data.
	what    string
	preview any
	runs    []standing
	// do acts; key is the same at each repetition of the same act.
	do func(ctx context.Context, key string) (any, error)

	tool, who string
	args      [sha256.Size]byte
	until     time.Time
}

// mark binds a plan to a call.
func (p *plan) mark(tool, who string, args any, until time.Time) error {
	data, err := json.Marshal(args)
	if err != nil {
		return err
	}
	p.tool, p.who, p.args, p.until = tool, who, sha256.Sum256(data), until
	return nil
}

// keep returns the token of a plan.
func (b *Box) keep(p *plan) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	oldest := ""
	for token, other := range b.waiting {
		if !b.now().Before(other.until) {
			delete(b.waiting, token)
		} else if oldest == "" || other.until.Before(b.waiting[oldest].until) {
			oldest = token
		}
	}
	if len(b.waiting) >= maxWaiting {
		delete(b.waiting, oldest)
	}
	token := rand.Text()
	b.waiting[token] = p
	return token
}

// take returns the plan of a token, once.
func (b *Box) take(token string) *plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.waiting[token]
	delete(b.waiting, token)
	if p != nil && !b.now().Before(p.until) {
		return nil
	}
	return p
}

// confirmed acts if the token is of a plan for the very same call, and the runs stand as
// they stood when it was shown.
func (c *call) confirmed(ctx context.Context, token string, p *plan) (*reply, error) {
	shown := c.box.take(token)
	if shown == nil {
		return nil, invalid("this confirmation is unknown, used already, or older than %s: begin again", confirmWithin)
	}
	if shown.tool != p.tool || shown.who != p.who || shown.args != p.args {
		return nil, invalid("this confirmation is for another call: begin again with these arguments")
	}
	if !slices.Equal(shown.runs, p.runs) {
		return nil, fmt.Errorf("a run stands otherwise than when its act was shown (%s, then %s): begin again: %w",
			tell(shown.runs), tell(p.runs), errChanged)
	}
	return c.act(ctx, token, p)
}

func (c *call) act(ctx context.Context, key string, p *plan) (*reply, error) {
	c.verdict = "failed"
	done, err := p.do(ctx, "mcp-"+key)
	if err != nil {
		c.verdict = "failed: " + codeOf(err)
		return nil, err
	}
	c.verdict = "done"
	return &reply{Stet: map[string]any{"done": true}, Data: done}, nil
}

// tell returns how runs stand, for people.
func tell(runs []standing) string {
	texts := make([]string, len(runs))
	for i, r := range runs {
		texts[i] = fmt.Sprintf("%q is %s", r.Run, r.Status)
		if r.Generation > 0 {
			texts[i] += fmt.Sprintf(" in generation %d", r.Generation)
		}
		if r.Marks != "" {
			texts[i] += ", " + r.Marks
		}
	}
	return strings.Join(texts, "; ")
}

// asks reports whether the client can ask its person.
func asks(r *mcp.CallToolRequest) bool {
	if r.Session == nil {
		return false
	}
	params := r.Session.InitializeParams()
	return params != nil && params.Capabilities != nil && params.Capabilities.Elicitation != nil &&
		(params.Capabilities.Elicitation.Form != nil || params.Capabilities.Elicitation.URL == nil)
}

// propose shows an act, or carries it out if it is confirmed.
func (c *call) propose(ctx context.Context, p *plan, why Why) (*mcp.CallToolResult, error) {
	result := func(r *reply, err error) (*mcp.CallToolResult, error) {
		if err != nil {
			return nil, err
		}
		return r.result()
	}
	answers, state := c.request.Params.InputResponses, c.request.Params.RequestState
	switch c.box.options.Confirm {
	case Unasked:
		return result(c.act(ctx, rand.Text(), p))
	case Token:
		if why.Token != "" {
			return result(c.confirmed(ctx, why.Token, p))
		}
		c.verdict = "shown"
		return (&reply{Stet: map[string]any{
			"done": false, "would": p.what, "confirm_token": c.box.keep(p),
			"how": "nothing has happened; the same call with confirm_token acts, once, within 5 minutes",
		}, Data: map[string]any{"runs": p.runs, "preview": p.preview}}).result()
	}
	if state != "" {
		answer, ok := answers[question].(*mcp.ElicitResult)
		if !ok || answer.Action != "accept" {
			c.box.take(state)
			c.verdict = "declined"
			return nil, invalid("the person has not confirmed: nothing has happened")
		}
		return result(c.confirmed(ctx, state, p))
	}
	if !asks(c.request) {
		return nil, invalid("this client cannot ask a person (elicitation), so nothing is changed; " +
			"a person may start stet mcp with --confirm token")
	}
	c.verdict = "asked"
	return &mcp.CallToolResult{
		RequestState: c.box.keep(p),
		InputRequests: mcp.InputRequestMap{question: &mcp.ElicitParams{
			Mode: "form", Message: c.message(p, why),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
		}},
	}, nil
}

// message is what a person reads. What runs and agents have written is quoted.
func (c *call) message(p *plan, why Why) string {
	text := fmt.Sprintf("stet %s: %s", p.tool, p.what)
	if len(p.runs) > 0 {
		text += "\nNow: " + tell(p.runs)
	}
	if p.preview != nil {
		text += "\nPreview: " + begin(mustEncode(p.preview), maxValue)
	}
	return begin(text, 2*maxValue) + fmt.Sprintf("\nReason that the agent gives: %q", begin(why.Reason, 500))
}

// stand reads how a run stands, for a plan.
func (c *call) stand(ctx context.Context, id string) (standing, *api.Run, error) {
	run, err := c.run(ctx, id)
	if err != nil {
		return standing{}, nil, err
	}
	return standing{run.ID, run.Workflow, run.Status.String(), run.Marks, run.Incarnation, run.Generation}, run, nil
}
