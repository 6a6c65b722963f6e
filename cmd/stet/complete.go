package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

const (
	// completeWithin bounds the wait for a store or server when a shell asks.
	completeWithin = 3 * time.Second
	// completeRuns is how many runs a shell is offered, the newest.
	completeRuns = 100
)

// choice is what a shell may offer in some place: words that are always the same, or what a store has.
type choice struct {
	words []string
	read  func(ctx context.Context, from side, begin string) ([]string, error) // nil: words
}

func words(all ...string) choice { return choice{words: all} }

// The choices that a store has.
var (
	runIDs        = choice{read: readRunIDs}
	workflowNames = choice{read: func(ctx context.Context, from side, _ string) ([]string, error) {
		names, _, err := from.workflows(ctx)
		return names, err
	}}
	topicNames = choice{read: func(ctx context.Context, from side, _ string) ([]string, error) {
		list, err := from.topics(ctx)
		return textsOf(list, func(t *api.Topic) string { return t.Name }), err
	}}
	queueNames = choice{read: func(ctx context.Context, from side, _ string) ([]string, error) {
		list, err := from.queues(ctx)
		return textsOf(list, func(q stet.QueueInfo) string { return q.Name }), err
	}}
	scheduleNames = choice{read: func(ctx context.Context, from side, _ string) ([]string, error) {
		list, err := from.schedules(ctx)
		return textsOf(list, func(s *api.Schedule) string { return s.Name }), err
	}}
	tokenIDs = choice{read: func(ctx context.Context, from side, _ string) ([]string, error) {
		list, err := from.tokens(ctx)
		return textsOf(list, func(t api.Token) string { return t.ID }), err
	}}
	hookNames = choice{read: func(ctx context.Context, from side, _ string) ([]string, error) {
		list, err := from.hooks(ctx)
		return textsOf(list, func(h api.Hook) string { return h.Name }), err
	}}
	filterTerms = choice{read: readTerms}
)

// textsOf returns a text of each element.
func textsOf[T any](list []T, text func(T) string) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = text(list[i])
	}
	return all
}

// statusNames are the names of all statuses.
func statusNames() []string { return textsOf(store.AllStatuses(), store.Status.String) }

// placeholders are the choices for the arguments as the usage of a command names them.
var placeholders = map[string]choice{
	"RUN": runIDs, "WORKFLOW": workflowNames, "TOPIC": topicNames, "FILTER": filterTerms,
}

// named are the choices for the argument NAME, or ID, of commands by the command that they belong to.
var named = map[string]choice{"queue": queueNames, "schedule": scheduleNames, "token": tokenIDs, "hook": hookNames}

// flagValues are the choices for flags by their names.
var flagValues = map[string]choice{
	"query": filterTerms, "queue": queueNames, "workflow": workflowNames,
	"output": words(formTable, formJSON, formIDs), "until": words(append(statusNames(), store.Paused.String())...),
	"mode": words("broadcast", "consumed"), "existing": words("use", "refuse", "replace-failed", "replace-ended"),
	"role": words("viewer", "caller", "operator", "admin", "worker"), "confirm": words("ask", "token", "none"),
	"values": words("all", "none"),
}

// complete gives each command what a shell may offer in place of its arguments and flags.
func (a *app) complete(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		a.complete(child)
	}
	for name, list := range flagValues {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, a.offer(list)) // fails if it is there twice
		}
	}
	arguments := strings.Fields(cmd.Use)[1:]
	if len(arguments) == 0 {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		i := min(len(args), len(arguments)-1)
		if len(args) > i && !strings.Contains(arguments[i], "...") && arguments[i] != "[FILTER]" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		place := strings.TrimSuffix(strings.Trim(arguments[i], "[]"), "...")
		offered, known := placeholders[place]
		if !known && (place == "NAME" || place == "ID") && cmd.Name() != "create" {
			offered, known = named[cmd.Parent().Name()]
		}
		if !known {
			if slices.Contains([]string{"FILE", "DIR", "PROGRAM", "PACKAGE|DIR"}, place) {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.offer(offered)(cmd, args, begin)
	}
}

// offer returns what cobra calls for a choice. What cannot be read is not offered: a shell has no place for an error.
func (a *app) offer(c choice) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		all := c.words
		if c.read != nil {
			ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
			defer cancel()
			err := a.checkPlace(cmd)
			if err == nil {
				err = a.reading(ctx, func(from side) (err error) {
					all, err = c.read(ctx, from, begin)
					return err
				})
			}
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		var offered []string
		for _, word := range all {
			if strings.HasPrefix(word, begin) && !slices.Contains(args, word) && word == printable(word) &&
				!strings.ContainsAny(word, "\t\n") {
				offered = append(offered, word)
			}
		}
		slices.Sort(offered)
		offered = slices.Compact(offered)
		if len(offered) > 0 && !slices.ContainsFunc(offered, func(w string) bool { return !strings.HasSuffix(w, "=") }) {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return offered, directive
	}
}

func readRunIDs(ctx context.Context, from side, begin string) ([]string, error) {
	runs, _, err := from.list(ctx, store.Filter{IDPrefix: begin, Limit: completeRuns})
	return textsOf(runs, func(r *aRun) string { return r.ID }), err
}

// readTerms returns the terms with which a filter may go on.
func readTerms(ctx context.Context, from side, begin string) ([]string, error) {
	field, value, ok := strings.Cut(begin, "=")
	if !ok {
		return []string{"id=", "workflow=", "status=", "mark=", "tag.", "parent=", "waits=", "created>", "created<", "ended>",
			"ended<"}, nil
	}
	var values []string
	var err error
	switch field {
	case "workflow":
		values, _, err = from.workflows(ctx)
	case "status":
		values = statusNames()
	case "mark":
		values = []string{"paused", "cancelling", "undoing"}
	case "id", "parent":
		values, err = readRunIDs(ctx, from, value)
	}
	return textsOf(values, func(v string) string { return field + "=" + v }), err
}
