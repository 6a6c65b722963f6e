package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// An agent is a workflow: the conversation is the state of a Loop, a call of the model is a
// step that streams, and tools are steps. There is no framework.

// Turn is one contribution to a conversation.
type Turn struct {
	Role  string // user, model or tool
	Text  string
	Calls []Call `json:",omitempty"` // that the model asks for
	Call  string `json:",omitempty"` // the ID of the call that this is the result of
}

// Call is a use of a tool that the model asks for.
type Call struct{ ID, Tool, Argument string }

// Reply is what the model gives.
type Reply struct {
	Text   string
	Calls  []Call // none: it has answered
	Tokens int
}

// Model answers a conversation. It calls say with each piece of its answer as it comes.
type Model interface {
	Answer(ctx context.Context, turns []Turn, say func(string) error) (Reply, error)
}

// Tool does something for the model. One that is dangerous is executed when a person has
// approved of the call.
type Tool struct {
	Dangerous bool
	Do        func(ctx context.Context, argument string) (string, error)
}

// Ask is the input of a run.
type Ask struct {
	Question string
	Budget   int // of tokens, in all
}

// Spoken is what the model says, as it comes; Interrupt is what a person says meanwhile.
var (
	Spoken    = stet.Stream[string]("spoken")
	Interrupt = stet.Message[string]("interrupt")
)

// Approval is the value of a run that has the token by which a call is approved of.
func Approval(callID string) stet.Value[string] { return stet.Value[string]("approval " + callID) }

const (
	tokensQueue = "tokens" // with a rate: tokens per minute, of all runs and nodes
	typical     = 500      // tokens of a call of the model, until it says how many
	remembered  = 40       // turns
)

var errBudget = errors.New("the budget of tokens is used up")

// agent has what its workflow needs.
type agent struct {
	model Model
	tools map[string]Tool
}

// talk is the state of a conversation.
type talk struct {
	Turns []Turn
	Spent int
}

// run answers a question.
func (a *agent) run(ctx stet.Context, ask Ask) (string, error) {
	type next = stet.Next[talk, string]
	begin := talk{Turns: []Turn{{Role: "user", Text: ask.Question}}}
	return stet.Loop(ctx, "turn", begin, func(ctx stet.Context, t talk) (n next, err error) {
		if t.Spent >= ask.Budget {
			return n, fmt.Errorf("%d of %d: %w", t.Spent, ask.Budget, errBudget)
		}
		reply, said, err := a.answer(ctx, t.Turns)
		switch {
		case err != nil:
			return n, err
		case said != "": // the person goes first, and the model has not answered
			t.Turns = bounded(append(t.Turns, Turn{Role: "user", Text: said}))
			return n.Continue(t), nil
		}
		t.Spent += reply.Tokens
		t.Turns = append(t.Turns, Turn{Role: "model", Text: reply.Text, Calls: reply.Calls})
		if len(reply.Calls) == 0 {
			return n.Break(reply.Text), nil
		}
		results, err := stet.Map(ctx, "tool", reply.Calls, a.use, stet.KeyBy(func(c Call) string { return c.ID }))
		if err != nil {
			return n, err
		}
		t.Turns = bounded(append(t.Turns, results...))
		return n.Continue(t), nil
	})
}

// answer asks the model. What a person says meanwhile cancels that, and is returned instead.
func (a *agent) answer(ctx stet.Context, turns []Turn) (reply Reply, said string, err error) {
	model := stet.Go(ctx, "model", func(ctx stet.Context) (Reply, error) {
		return stet.Step(ctx, "answer", func(ctx context.Context) (Reply, error) {
			reply, err := a.model.Answer(ctx, turns, func(text string) error { return Spoken.Emit(ctx, text) })
			return reply, errors.Join(err, stet.Spent(ctx, reply.Tokens))
		}, stet.Permit{Queue: tokensQueue, Cost: typical}, stet.Retry{Attempts: 5})
	})
	first, err := stet.Select(ctx, model.Case(), Interrupt.Case(&said))
	if err != nil {
		return reply, "", err
	}
	if first == 1 {
		model.Cancel(ctx)
		return reply, said, nil
	}
	reply, err = model.Result()
	return reply, "", err
}

// use executes one call. What a tool fails with is for the model to read.
func (a *agent) use(ctx stet.Context, c Call) (Turn, error) {
	result := Turn{Role: "tool", Call: c.ID}
	tool, known := a.tools[c.Tool]
	if !known {
		result.Text = "there is no tool " + c.Tool
		return result, nil
	}
	if tool.Dangerous {
		approved, err := approve(ctx, c)
		if err != nil {
			return result, err
		}
		if !approved {
			result.Text = "a person has refused this"
			return result, nil
		}
	}
	text, err := stet.Step(ctx, "do", func(ctx context.Context) (string, error) { return tool.Do(ctx, c.Argument) },
		stet.Retry{Attempts: 3, Timeout: time.Minute})
	if errors.Is(err, stet.ErrCancelled) {
		return result, err
	}
	if result.Text = text; err != nil {
		result.Text = "error: " + err.Error()
	}
	return result, nil
}

// approve waits for a person, for a day. stet resolve TOKEN true, or a server's API, decides.
func approve(ctx stet.Context, c Call) (bool, error) {
	decision, err := stet.NewPromise[bool](ctx, "approval")
	if err != nil {
		return false, err
	}
	if err := Approval(c.ID).Set(ctx, decision.Token()); err != nil {
		return false, err
	}
	approved, err := decision.Await(ctx, stet.Within(24*time.Hour))
	if errors.Is(err, stet.ErrTimeout) {
		return false, nil
	}
	return approved, err
}

// bounded keeps the question and the newest turns. A tool's result stays with its call.
func bounded(turns []Turn) []Turn {
	if len(turns) <= remembered {
		return turns
	}
	from := len(turns) - remembered + 1
	for from < len(turns) && turns[from].Role == "tool" {
		from++
	}
	return append([]Turn{turns[0]}, turns[from:]...)
}
