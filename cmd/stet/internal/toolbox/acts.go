package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
)

// Why is what each tool that acts takes.
type Why struct {
	Reason string `json:"reason" jsonschema:"why this is done; it stands in the audit of the run"`
	Token  string `json:"confirm_token,omitempty" jsonschema:"of the answer that has shown this very call, if it had one"`
}

func (w *Why) why() *Why { return w }

// The arguments of the tools that act.
type (
	actRuns struct {
		Why
		Runs     []string `json:"runs" jsonschema:"IDs of the runs"`
		Children bool     `json:"children,omitempty" jsonschema:"of pause and resume: the children too, and theirs"`
	}

	start struct {
		Why
		Workflow string            `json:"workflow" jsonschema:"name of the workflow"`
		Input    json.RawMessage   `json:"input,omitempty" jsonschema:"JSON; default null"`
		ID       string            `json:"id,omitempty" jsonschema:"of the run; default: one that is made up"`
		Tags     map[string]string `json:"tags,omitempty"`
		AfterMS  int64             `json:"after_ms,omitempty" jsonschema:"begin no earlier than after so many milliseconds"`
	}

	send struct {
		Why
		Run   string          `json:"run" jsonschema:"ID of the run"`
		Name  string          `json:"name" jsonschema:"of the message or update"`
		Value json.RawMessage `json:"value,omitempty" jsonschema:"JSON; default null"`
	}

	publish struct {
		Why
		Topic string          `json:"topic"`
		Value json.RawMessage `json:"value,omitempty" jsonschema:"JSON; default null"`
	}

	resolve struct {
		Why
		Run      string          `json:"run,omitempty" jsonschema:"ID of the run that has made the promise"`
		Location string          `json:"location,omitempty" jsonschema:"of the promise, as get_run with promises shows it"`
		Token    string          `json:"token,omitempty" jsonschema:"of the promise, in place of run and location"`
		Value    json.RawMessage `json:"value,omitempty" jsonschema:"JSON that is assigned; default null"`
		Error    string          `json:"error,omitempty" jsonschema:"message of a failure, in place of a value"`
	}

	rewind struct {
		Why
		Run    string `json:"run" jsonschema:"ID of the run"`
		Before string `json:"before" jsonschema:"location from which on everything is executed again; / is the beginning"`
	}

	fork struct {
		Why
		Run    string `json:"run" jsonschema:"ID of the run"`
		Before string `json:"before" jsonschema:"location from which on the new run has no history; / is the beginning"`
		ID     string `json:"id,omitempty" jsonschema:"of the new run; default: one that is made up"`
	}

	edit struct {
		Why
		Run    string          `json:"run" jsonschema:"ID of the run"`
		Step   string          `json:"step" jsonschema:"location of the step"`
		Result json.RawMessage `json:"result,omitempty" jsonschema:"JSON in place of what the step has recorded"`
		Error  string          `json:"error,omitempty" jsonschema:"message of a failure, in place of a result"`
	}
)

// act is a tool that acts: its hints, and how it is added.
type act struct {
	name, about       string
	destroys, repeats bool
	add               func(t *tools, a *act)
}

// planner returns what a call would do.
type planner[In any] func(ctx context.Context, c *call, in *In) (*plan, error)

// because is a pointer to arguments that say why.
type because[In any] interface {
	*In
	why() *Why
}

// acting returns how a tool that acts is added.
func acting[In any, P because[In]](prepare planner[In]) func(*tools, *act) {
	return func(t *tools, a *act) {
		add(t, a.name, a.about, hints(false, a.destroys, a.repeats),
			func(ctx context.Context, c *call, in In) (*mcp.CallToolResult, error) {
				w := P(&in).why()
				why := *w
				if strings.TrimSpace(why.Reason) == "" {
					return nil, invalid("reason: expected why this is done, found none")
				}
				w.Token = "" // it binds the other arguments
				p, err := prepare(ctx, c, &in)
				if err != nil {
					return nil, err
				}
				if err := p.mark(a.name, t.who, in, t.box.now().Add(confirmWithin)); err != nil {
					return nil, err
				}
				return c.propose(ctx, p, why)
			})
	}
}

// acts are the tools that act, in the order of Verbs. It is a function because the tools
// refer to it.
func acts() []act {
	return []act{
		{"start", "Starts a run of a workflow.", false, false, acting(planStart)},
		{"send", "Sends a message to a run.", false, false, acting(planSend)},
		{"publish", "Publishes an event to a topic: all runs that wait for it go on.", false, false, acting(planPublish)},
		{"update", "Sends an update to a run and waits for its answer.", false, false, acting(planUpdate)},
		{"resolve", "Assigns a value or a failure to a promise that a run waits for.", false, true, acting(planResolve)},
		{"pause", "Pauses runs until they are resumed.", false, true, acting(planVerb(client.Pause,
			"its code is executed no further until it is resumed; steps under way end"))},
		{"resume", "Resumes runs that are paused or stalled.", false, true, acting(planVerb(client.Resume, "it goes on"))},
		{"cancel", "Cancels runs: their code cleans up, and what was done is undone where the workflow says so.", true, true,
			acting(planVerb(client.Cancel,
				"its code cleans up, compensations are executed where the workflow has them, and it ends"))},
		{"retry", "Repeats the failed operations of failed runs.", true, false, acting(planVerb(client.Retry,
			"its failed operations are executed again, with fresh attempts"))},
		{"rewind", "Lets a run go on from before a location: what comes after is executed again.", true, false,
			acting(planRewind)},
		{"fork", "Starts a run from a copy of another's history before a location.", false, false, acting(planFork)},
		{"edit", "Replaces the recorded outcome of a step.", true, false, acting(planEdit)},
		{"terminate", "Ends runs at once, without clean-up: nothing is undone.", true, true, acting(planVerb(client.Terminate,
			"it ends at once: no clean-up, nothing is undone"))},
		{"deploy_script", "Makes a source the current version of a script: runs that begin from then on execute it.", true,
			true, acting(planDeploy)},
	}
}

// Verbs returns the names of the tools that act.
func Verbs() []string {
	var names []string
	for _, a := range acts() {
		names = append(names, a.name)
	}
	return names
}

// addActs adds the tools that were allowed.
func (t *tools) addActs() {
	for _, a := range acts() {
		if slices.Contains(t.box.options.Allow, a.name) {
			a.add(t, &a)
		}
	}
}

// outcome is what became of one run.
type outcome struct {
	Run    string `json:"run"`
	Done   bool   `json:"done"`
	Stands bool   `json:"stands,omitempty"` // the request; nobody has decided yet
	Code   string `json:"code,omitempty"`   // of the error
	Detail string `json:"detail,omitempty"`
}

// decideWithin is how long a call waits for the owner of a run.
const decideWithin = 20 * time.Second

// planVerb is for the verbs that take runs alone.
func planVerb(verb, does string) planner[actRuns] {
	return func(ctx context.Context, c *call, in *actRuns) (*plan, error) {
		most := c.box.options.Bulk
		if len(in.Runs) == 0 || len(in.Runs) > most {
			return nil, invalid("runs: expected 1 to %d IDs, found %d; --bulk sets the limit", most, len(in.Runs))
		}
		p := &plan{what: fmt.Sprintf("each of %d runs: %s", len(in.Runs), does)}
		var previews []*api.Preview
		for i, id := range in.Runs {
			if slices.Contains(in.Runs[:i], id) {
				return nil, invalid("runs: %.100q is there twice", id)
			}
			now, _, err := c.stand(ctx, id)
			if err != nil {
				return nil, err
			}
			p.runs = append(p.runs, now)
			if verb == client.Retry {
				preview, err := c.client.Preview(ctx, id, verb, "")
				if err != nil {
					return nil, err
				}
				previews = append(previews, preview)
			}
		}
		if previews != nil {
			p.preview = previews
		}
		p.do = func(ctx context.Context, _ string) (any, error) {
			outcomes, failed := make([]outcome, len(in.Runs)), error(nil)
			for i, id := range in.Runs {
				done, err := c.client.Act(ctx, verb, id, api.Act{Reason: in.Reason, Children: in.Children}, decideWithin)
				outcomes[i] = outcome{Run: id, Done: done, Stands: err == nil && !done}
				if err != nil {
					outcomes[i].Code, outcomes[i].Detail = codeOf(err), begin(err.Error(), maxValue)
					failed = err
				}
			}
			if len(outcomes) == 1 && failed != nil {
				return nil, failed
			}
			return outcomes, nil
		}
		return p, nil
	}
}

// decided returns the outcome of a request about one run.
func decided(id string, done bool, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return outcome{Run: id, Done: done, Stands: !done}, nil
}

func planStart(ctx context.Context, c *call, in *start) (*plan, error) {
	p := &plan{what: "starts one run of the workflow named below", preview: map[string]any{
		"workflow": in.Workflow, "id": in.ID, "input_bytes": len(in.Input),
	}}
	if in.ID != "" {
		now, _, err := c.stand(ctx, in.ID)
		switch {
		case errors.Is(err, stet.ErrNotFound):
			now = standing{Run: in.ID, Status: "none"}
		case err != nil:
			return nil, err
		}
		p.runs = append(p.runs, now)
	}
	p.do = func(ctx context.Context, key string) (any, error) {
		id, err := c.client.Start(ctx, key, api.Start{
			Workflow: in.Workflow, Input: in.Input, ID: in.ID, Tags: in.Tags, AfterMS: in.AfterMS,
			Headers: map[string]string{"reason": in.Reason},
		})
		if err != nil {
			return nil, err
		}
		c.runs = []string{id}
		return outcome{Run: id, Done: true}, nil
	}
	return p, nil
}

func planSend(ctx context.Context, c *call, in *send) (*plan, error) {
	now, _, err := c.stand(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	return &plan{
		what: "sends a message, which the run receives when its code asks for it", runs: []standing{now},
		preview: map[string]any{"message": in.Name, "value_bytes": len(in.Value)},
		do: func(ctx context.Context, key string) (any, error) {
			err := c.client.Send(ctx, in.Run, in.Name, key, api.Send{Value: in.Value, Headers: reasonOf(in.Why)})
			return decided(in.Run, true, err)
		},
	}, nil
}

func reasonOf(w Why) map[string]string { return map[string]string{"reason": w.Reason} }

func planUpdate(ctx context.Context, c *call, in *send) (*plan, error) {
	now, _, err := c.stand(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	return &plan{
		what: "sends an update, which the run's code answers", runs: []standing{now},
		preview: map[string]any{"update": in.Name, "value_bytes": len(in.Value)},
		do: func(ctx context.Context, key string) (any, error) {
			answer, pending, err := c.client.Update(ctx, in.Run, in.Name, key,
				api.Send{Value: in.Value, Headers: reasonOf(in.Why)}, decideWithin)
			if err != nil {
				return nil, err
			}
			out := map[string]any{"run": in.Run, "done": !pending, "stands": pending}
			if answer != nil {
				out["answer"] = c.box.editor().Value(answer)
			}
			return out, nil
		},
	}, nil
}

func planPublish(_ context.Context, c *call, in *publish) (*plan, error) {
	if in.Topic == "" {
		return nil, invalid("topic: expected a name, found none")
	}
	return &plan{
		what:    "publishes one event to the topic named below: runs that wait for it go on",
		preview: map[string]any{"topic": in.Topic, "value_bytes": len(in.Value)},
		do: func(ctx context.Context, key string) (any, error) {
			event := api.Publish{Send: api.Send{Value: in.Value, Headers: reasonOf(in.Why)}}
			id, err := c.client.Publish(ctx, in.Topic, key, event)
			if err != nil {
				return nil, err
			}
			return map[string]string{"event": id}, nil
		},
	}, nil
}

func planResolve(ctx context.Context, c *call, in *resolve) (*plan, error) {
	if (in.Token == "") == (in.Run == "" || in.Location == "") {
		return nil, invalid("expected run and location, or token")
	}
	if in.Error != "" && in.Value != nil {
		return nil, invalid("expected one of value and error, found both")
	}
	p := &plan{
		what: "assigns a value to a promise, once and for all", preview: map[string]any{"value_bytes": len(in.Value)},
	}
	if in.Error != "" {
		p.what = "assigns a failure to a promise, once and for all"
	}
	token := in.Token
	if in.Token == "" {
		now, _, err := c.stand(ctx, in.Run)
		if err != nil {
			return nil, err
		}
		found, err := c.client.Promises(ctx, in.Run)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(found.Promises, func(x api.Promise) bool { return x.Location == in.Location })
		switch {
		case i < 0:
			return nil, fmt.Errorf("run %q has no promise at %q: %w", in.Run, in.Location, stet.ErrNotFound)
		case found.Promises[i].Token == "":
			return nil, invalid("this identity does not see the tokens of promises: give the token itself")
		}
		token, p.runs = found.Promises[i].Token, []standing{now}
		p.preview = map[string]any{"location": in.Location, "is": found.Promises[i].State, "value_bytes": len(in.Value)}
	}
	p.do = func(ctx context.Context, _ string) (any, error) {
		if in.Error != "" {
			return decided(in.Run, true, c.client.Reject(ctx, api.Reject{Token: token, Message: in.Error, Reason: in.Reason}))
		}
		return decided(in.Run, true, c.client.Resolve(ctx, api.Resolve{Token: token, Value: in.Value, Reason: in.Reason}))
	}
	return p, nil
}

func planRewind(ctx context.Context, c *call, in *rewind) (*plan, error) {
	now, _, err := c.stand(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	preview, err := c.client.Preview(ctx, in.Run, "rewind", in.Before)
	if err != nil {
		return nil, err
	}
	return &plan{
		what: fmt.Sprintf("takes %d completions back, cancels %d children, gives %d messages back; from there on all is "+
			"executed again", len(preview.TakenBack), len(preview.Cancelled), preview.Messages),
		preview: preview, runs: []standing{now},
		do: func(ctx context.Context, _ string) (any, error) {
			done, err := c.client.Rewind(ctx, in.Run,
				api.Rewind{Act: api.Act{Reason: in.Reason}, Before: in.Before}, decideWithin)
			return decided(in.Run, done, err)
		},
	}, nil
}

func planFork(ctx context.Context, c *call, in *fork) (*plan, error) {
	now, _, err := c.stand(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	return &plan{
		what: "starts a new run with a copy of the history before the location; this run stays as it is",
		runs: []standing{now}, preview: map[string]string{"before": in.Before, "id": in.ID},
		do: func(ctx context.Context, key string) (any, error) {
			id, err := c.client.Fork(ctx, in.Run, key, api.Fork{Reason: in.Reason, Before: in.Before, ID: in.ID})
			if err != nil {
				return nil, err
			}
			c.runs = append(c.runs, id)
			return outcome{Run: id, Done: true}, nil
		},
	}, nil
}

func planEdit(ctx context.Context, c *call, in *edit) (*plan, error) {
	if (in.Result == nil) == (in.Error == "") {
		return nil, invalid("expected one of result and error")
	}
	now, _, err := c.stand(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	preview, err := c.client.Preview(ctx, in.Run, "edit", in.Step)
	if err != nil {
		return nil, err
	}
	change := api.Edit{Act: api.Act{Reason: in.Reason}, Step: in.Step, Result: in.Result}
	if in.Error != "" {
		change.Error = &in.Error
	}
	return &plan{
		what: fmt.Sprintf("replaces what the step has recorded, takes %d completions back, cancels %d children; what comes "+
			"after is executed again", len(preview.TakenBack), len(preview.Cancelled)),
		preview: preview, runs: []standing{now},
		do: func(ctx context.Context, _ string) (any, error) {
			done, err := c.client.Edit(ctx, in.Run, change, decideWithin)
			return decided(in.Run, done, err)
		},
	}, nil
}
