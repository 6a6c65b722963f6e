// Command agent answers a question with a model, tools and a person.
//
//	go run ./examples/agent [--db FILE] QUESTION
//
// Its model is a few rules, so that it needs no account; a real one is another Model. What it
// says is printed as it comes. It asks before it deletes:
//
//	stet --db agent.db show RUN               # the token of the approval, in a value
//	stet --db agent.db resolve TOKEN true
//	stet --db agent.db send RUN interrupt '"rather not"'
//
// Killed at any moment and started again with the same question, it goes on.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() {
	db := flag.String("db", "agent.db", "SQLite `file` that keeps the runs")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: agent [flags] QUESTION")
		flag.PrintDefaults()
		os.Exit(2)
	}
	app.Main("agent", func(ctx context.Context) error { return run(ctx, *db, flag.Arg(0), os.Stdout) })
}

// run answers a question and prints what the model says.
func run(ctx context.Context, db, question string, out io.Writer) error {
	a := &agent{model: rules{}, tools: map[string]Tool{
		"time": {Do: func(context.Context, string) (string, error) { return time.Now().UTC().Format(time.Kitchen), nil }},
		"count": {Do: func(_ context.Context, text string) (string, error) {
			return fmt.Sprint(len(strings.Fields(text))), nil
		}},
		"delete": {Dangerous: true, Do: func(_ context.Context, what string) (string, error) { return "deleted " + what, nil }},
	}}
	ask := stet.Define("ask", a.run, stet.IDFrom(func(q Ask) string { return q.Question }))
	engine, file, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{ask}})
	if err != nil {
		return err
	}
	defer file.Close()
	limits := stet.QueueSettings{Rate: 100_000, Per: time.Minute}
	if err := engine.Queues().Create(ctx, tokensQueue, limits); err != nil {
		return err
	}
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		r, err := ask.Start(ctx, engine, Ask{Question: question, Budget: 20_000})
		if err != nil {
			return err
		}
		for item, err := range Spoken.Tail(ctx, engine, r.ID(), 0) { // until the run has ended
			if err != nil {
				return err
			}
			if item.Again {
				fmt.Fprintln(out, "\n… again:")
				continue
			}
			fmt.Fprint(out, item.Value)
		}
		answer, err := r.Wait(ctx)
		if err == nil {
			fmt.Fprintf(out, "\n%s\n", answer)
		}
		return err
	})
}

// rules is a model that does what the words of the question say.
type rules struct{}

func (rules) Answer(_ context.Context, turns []Turn, say func(string) error) (Reply, error) {
	last := turns[len(turns)-1]
	if last.Role == "tool" {
		var results []string
		for _, t := range turns {
			if t.Role == "tool" {
				results = append(results, t.Text)
			}
		}
		text := "I have found: " + strings.Join(results, ", ") + "."
		return Reply{Text: text, Tokens: len(text)}, speak(text, say)
	}
	var calls []Call
	for i, word := range strings.Fields(last.Text) {
		switch word = strings.Trim(strings.ToLower(word), "?.,"); word {
		case "time", "count", "delete":
			calls = append(calls, Call{ID: fmt.Sprint(len(turns), "-", i), Tool: word, Argument: last.Text})
		}
	}
	text := "Let me see. "
	if len(calls) == 0 {
		text = "I can tell the time, count, and delete."
	}
	return Reply{Text: text, Calls: calls, Tokens: len(text)}, speak(text, say)
}

func speak(text string, say func(string) error) error {
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := say(word); err != nil {
			return err
		}
	}
	return nil
}
