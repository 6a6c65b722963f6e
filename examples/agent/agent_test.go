package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// scripted is a model that says what stands in a list, by the number of turns that the model
// has had.
type scripted struct {
	replies []Reply
	slow    time.Duration // that the first answer takes
}

func (m scripted) Answer(ctx context.Context, turns []Turn, say func(string) error) (Reply, error) {
	n := 0
	for _, t := range turns {
		if t.Role == "model" {
			n++
		}
	}
	if n == 0 && m.slow > 0 && len(turns) == 1 {
		select {
		case <-time.After(m.slow):
		case <-ctx.Done():
			return Reply{}, context.Cause(ctx)
		}
	}
	r := m.replies[min(n, len(m.replies)-1)]
	for word := range strings.SplitAfterSeq(r.Text, " ") {
		if err := say(word); err != nil {
			return r, err
		}
	}
	return r, nil
}

func tools() map[string]Tool {
	echo := func(_ context.Context, text string) (string, error) { return text, nil }
	return map[string]Tool{
		"look": {Do: echo}, "delete": {Dangerous: true, Do: echo},
		"fail": {Do: func(context.Context, string) (string, error) { return "", stet.Permanent(errors.New("broken")) }},
	}
}

var both = []Reply{
	{Text: "let me see ", Tokens: 10, Calls: []Call{
		{"1", "look", "a"}, {"2", "delete", "b"}, {"3", "fail", ""}, {"4", "none", ""},
	}},
	{Text: "it is done", Tokens: 10},
}

// decide decides about a call as soon as it waits for a person.
func decide(ctx context.Context, e *stet.Engine, id, call string, approved bool) error {
	for {
		token, ok, err := Approval(call).Get(ctx, e, id)
		if err != nil {
			return err
		}
		if ok {
			err := e.Resolve(ctx, token, approved)
			if errors.Is(err, stet.ErrAlreadyResolved) {
				err = nil
			}
			return err
		}
		if info, err := e.Runs().Info(ctx, id); err != nil || info.Status.Terminal() {
			return err
		}
		time.Sleep(time.Second)
	}
}

// TestCrashEverywhere: tools in parallel, an approval, a failing tool and the stream survive
// each crash: all is said at least once, in its order, and what is said again follows a mark.
func TestCrashEverywhere(t *testing.T) {
	w := stet.Define("ask", (&agent{scripted{replies: both}, tools()}).run)
	answer, err := stettest.CrashEverywhere(t, w, Ask{"what?", 1000},
		stettest.Queues(map[string]stet.QueueSettings{tokensQueue: {Rate: 100_000, Per: time.Minute}}),
		stettest.Driving(func(ctx context.Context, e *stet.Engine, id string) error {
			return decide(ctx, e, id, "2", true)
		}),
		stettest.Checking(func(ctx context.Context, e *stet.Engine, id string) error {
			items, err := Spoken.Items(ctx, e, id, 0, 0)
			if err != nil {
				return err
			}
			var said strings.Builder // by the last execution of each call
			at := 0                  // of the begin of the call
			where := ""
			text := ""
			for _, item := range items {
				if item.Location != where {
					where, at = item.Location, len(text)
				}
				if item.Again {
					text = text[:at]
					continue
				}
				text += item.Value
			}
			said.WriteString(text)
			if said.String() != "let me see it is done" {
				return fmt.Errorf("what was said is %q: %+v", said.String(), items)
			}
			return nil
		}))
	if err != nil || answer != "it is done" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
}

func start(t *testing.T, env *stettest.Env, w *stet.Workflow[Ask, string], ask Ask) *stet.Run[string] {
	t.Helper()
	settings := stet.QueueSettings{Rate: 100_000, Per: time.Minute}
	if err := env.Engine.Queues().Create(t.Context(), tokensQueue, settings); err != nil {
		t.Fatal(err)
	}
	r, err := w.Start(t.Context(), env.Engine, ask)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAPersonDecides: what is refused, or about which nobody decides for a day, is not done, and
// the model reads that.
func TestAPersonDecides(t *testing.T) {
	for _, refused := range []bool{true, false} {
		var read []Turn
		model := listening{scripted{replies: both}, &read}
		w := stet.Define("ask", (&agent{model, tools()}).run)
		stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
			r := start(t, env, w, Ask{"what?", 1000})
			if refused {
				if err := decide(t.Context(), env.Engine, r.ID(), "2", false); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if late := env.Elapsed() >= 24*time.Hour; late == refused {
				t.Errorf("refused: %v, and it took %s", refused, env.Elapsed())
			}
		})
		texts := fmt.Sprint(read)
		for _, want := range []string{"a person has refused this", "broken", "there is no tool none"} {
			if !strings.Contains(texts, want) {
				t.Errorf("the model has not read %q: %s", want, texts)
			}
		}
	}
}

// listening keeps what the model has read last.
type listening struct {
	scripted
	read *[]Turn
}

func (m listening) Answer(ctx context.Context, turns []Turn, say func(string) error) (Reply, error) {
	*m.read = turns
	return m.scripted.Answer(ctx, turns, say)
}

// TestAPersonInterrupts: what a person says while the model answers cancels that, and is read.
func TestAPersonInterrupts(t *testing.T) {
	var read []Turn
	model := scripted{replies: []Reply{{Text: "yes", Tokens: 1}}, slow: time.Hour}
	w := stet.Define("ask", (&agent{listening{model, &read}, nil}).run)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
		r := start(t, env, w, Ask{"what?", 1000})
		env.Settle()
		if err := Interrupt.Send(t.Context(), env.Engine, r.ID(), "rather that"); err != nil {
			t.Fatal(err)
		}
		if answer, err := r.Wait(t.Context()); err != nil || answer != "yes" || env.Elapsed() >= time.Hour {
			t.Errorf("the answer is %q, %v, after %s", answer, err, env.Elapsed())
		}
	})
	if len(read) != 2 || read[1].Text != "rather that" {
		t.Errorf("the model has read %+v", read)
	}
}

// TestTheBudgetEnds: an agent that never answers stops at its budget, with a bounded history.
func TestTheBudgetEnds(t *testing.T) {
	var read []Turn
	again := []Reply{{Text: "once more", Tokens: 10, Calls: []Call{{"1", "look", "a"}}}}
	w := stet.Define("ask", (&agent{listening{scripted{replies: again}, &read}, tools()}).run)
	known := []stet.ErrorCode{stet.Sentinel("out of tokens", errBudget)}
	cfg := stet.Config{Workflows: []stet.Definition{w}, Errors: known}
	stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
		r := start(t, env, w, Ask{"what?", 1000})
		if _, err := r.Wait(t.Context()); !errors.Is(err, errBudget) {
			t.Errorf("expected the end of the budget, got %v", err)
		}
	})
	if len(read) > remembered || read[0].Text != "what?" || read[1].Role == "tool" {
		t.Errorf("the model has read %d turns, from %+v on", len(read), read[:2])
	}
}

// TestProgram runs the command on a file, with its rules.
func TestProgram(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), filepath.Join(t.TempDir(), "agent.db"), "count this", &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "I have found: 2.") {
		t.Errorf("the program prints %q", out.String())
	}
}
