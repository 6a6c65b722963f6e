package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// remote is the server that --server names, in place of a store.
type remote struct{ server, token string }

// remoteForms are the commands that a server carries out, too.
var remoteForms = map[string]bool{
	"start": true, "ls": true, "count": true, "wait": true, "send": true, "update": true, "resolve": true, "reject": true,
	"promises": true,
	"cancel":   true, "terminate": true, "pause": true, "resume": true, "nudge": true, "retry": true, "rewind": true,
	"edit": true, "fork": true, "rm": true, "mcp": true,
	"show": true, "tree": true, "watch": true, "tail": true, "publish": true, "topics": true, "deletions": true, "audit": true,
	"deadletters": true, "schedule": true, "queue": true, "nodes": true, "token": true, "hook": true,
}

// Why a command needs the store itself.
const (
	needsFile = "it works on the store's file or with the database's rights"
	needsCode = "it executes code, or reads all that is stored of runs"
)

// localForms are the commands that a server does not carry out, with the reason; "" is for
// those that need neither.
var localForms = map[string]string{
	"doctor": needsFile, "migrate": needsFile, "backup": needsFile, "confirm-failover": needsFile, "serve": needsFile,
	"databases": needsFile,
	"bench":     needsFile, "torture": needsFile, "check": needsCode, "dev": needsCode, "export": needsCode,
	"script": needsCode, "version": "",
}

// subject returns the name of the command below stet that a command is or belongs to.
func subject(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}

// checkPlace decides between --db and --server: a flag is stronger than the environment.
func (a *app) checkPlace(cmd *cobra.Command) error {
	byServer, byDB := cmd.Flags().Changed("server"), cmd.Flags().Changed("db")
	name := subject(cmd)
	reason, local := localForms[name]
	switch {
	case byServer && byDB:
		return usage(errors.New("expected one of --db and --server, found both"))
	case byServer:
		a.db = ""
	case byDB:
		a.server = ""
	}
	switch {
	case a.server == "" || !local && !remoteForms[name] || local && reason == "":
		return nil
	case local && !byServer && a.db != "":
		a.server = "" // STET_SERVER is for the others
		return nil
	case local:
		return usage(fmt.Errorf("stet %s does not work by a server: %s: expected --db, found --server", name, reason))
	case a.db != "":
		return usage(errors.New("expected one of STET_DB and STET_SERVER, found both: choose with --db or --server"))
	}
	return nil
}

// client returns the client of the server; nil: the command works on a store.
func (a *app) client() (*client.Client, error) {
	if a.server == "" {
		return nil, nil
	}
	c, err := client.New(a.server, client.Options{Token: a.token})
	if err != nil {
		return nil, usage(err)
	}
	return c, nil
}

// hintToken says where a token comes from, if the server has not accepted that of the call.
func (a *app) hintToken(err error) error {
	refused := (*client.Error)(nil)
	if a.server == "" || !errors.As(err, &refused) || refused.Code != api.CodeUnauthenticated {
		return err
	}
	if a.token == "" {
		return hintedError{err, "give an access token in STET_TOKEN or with --token; stet token create makes one"}
	}
	return hintedError{err, "the token of STET_TOKEN or --token is unknown, revoked or has expired; " +
		"stet token create makes another one"}
}

// orBy returns an error, or does what a server is for.
func orBy(err error, fn func() error) error {
	if err != nil {
		return err
	}
	return fn()
}

// remoteFlags adds --server and --token.
func (a *app) remoteFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.server, "server", os.Getenv("STET_SERVER"),
		"in place of --db: the `URL` of what stet serve, or an application, serves; default: $STET_SERVER")
	flags.Lookup("server").DefValue = "" // of the environment; the text says so
	flags.StringVar(&a.token, "token", os.Getenv("STET_TOKEN"),
		"access `token` for --server; other users of this machine may see it here; default: $STET_TOKEN")
	flags.Lookup("token").DefValue = ""
}

// refuseFlags refuses flags that have no meaning for a server.
func refuseFlags(cmd *cobra.Command, why string, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return usage(fmt.Errorf("--%s does not work by a server: %s", name, why))
		}
	}
	return nil
}

// refuseLocal refuses what only the store itself can be asked for.
func refuseLocal(cmd *cobra.Command) error {
	return refuseFlags(cmd, "the server knows who calls", "by")
}

// infoOf returns what the form of a run says of it: all but its values.
func infoOf(r *api.Run) *stet.RunInfo {
	info := &stet.RunInfo{
		ID: r.ID, Number: r.Number, Workflow: r.Workflow, Shard: store.Shard{Group: r.Group, Slot: r.Slot},
		Status: r.Status, Reason: r.Reason, Cause: r.Cause, Incarnation: r.Incarnation, Generation: r.Generation,
		Build: r.Build, Suspect: r.Suspect, Parent: r.Parent, ParentID: r.ParentID, ParentLocation: r.ParentLocation,
		Created: r.Created, Started: r.Started, Ended: r.Ended, Wake: r.WakeAt, Tags: r.Tags, Headers: r.Headers,
		Policy: r.Policy.RunPolicy(), Why: r.Why, WaitsFor: r.WaitsFor, InputSize: r.InputSize, OutputSize: r.OutputSize,
	}
	if q := r.Queue; q != nil {
		place := stet.OnQueue{Name: q.Name, Key: q.Key, Priority: q.Priority}
		info.OnQueue = &stet.QueuePlace{OnQueue: place, Waits: q.Waits, Holds: q.Holds}
	}
	if r.Error != nil {
		info.Err = errors.New(r.Error.Message)
	}
	if f, err := store.ParseFilter("mark=" + r.Marks); err == nil { // of a later server there may be others
		info.Marks = f.Marks
	}
	return info
}

// pageRuns is how many runs are asked for at once.
const pageRuns = 1000

// eachRunBy calls fn for the runs that match, the newest first, until it returns false.
func eachRunBy(ctx context.Context, c *client.Client, q *question, size int, fn func(*api.Run) (bool, error)) (
	next string, err error,
) {
	filter, page := q.Filter, client.Page{Cursor: q.Cursor, Limit: min(size, pageRuns)}
	filter.Limit, filter.Cursor = 0, ""
	for {
		runs, err := c.Runs(ctx, filter.String(), page)
		if err != nil {
			return "", err
		}
		for _, r := range runs.Runs {
			if more, err := fn(r); err != nil || !more {
				return runs.Next, err
			}
		}
		if page.Cursor = runs.Next; page.Cursor == "" {
			return "", nil
		}
	}
}

// chooseBy is choose by a server.
func (a *app) chooseBy(ctx context.Context, c *client.Client, t *target) ([]string, error) {
	if len(t.ids) > 0 {
		ids, err := a.runIDs(t.ids)
		if i := slices.IndexFunc(ids, store.IsEntity); i >= 0 {
			return nil, usage(fmt.Errorf("run %q: expected the ID of a run, found that of an entity of the engine, which is "+
				"a topic, a queue or a schedule and is used by its own commands", ids[i]))
		}
		return ids, err
	}
	q, err := t.question()
	if err != nil {
		return nil, err
	}
	if err := q.resolve(ctx, serverSide{a, c}); err != nil {
		return nil, err
	}
	var ids []string
	_, err = eachRunBy(ctx, c, q, pageRuns, func(r *api.Run) (bool, error) {
		if info := infoOf(r); q.fits(info) && t.fits(info) {
			ids = append(ids, r.ID)
		}
		return true, nil
	})
	if err == nil && len(ids) == 0 {
		err = q.checkWorkflows(ctx, serverSide{a, c})
	}
	if err != nil {
		return nil, err
	}
	if !t.yes {
		return nil, usage(fmt.Errorf("--query finds %d runs: add --yes to %s them", len(ids), t.verb))
	}
	return ids, nil
}

// byServer is how long a server waits for a decision: a minute at most.
func byServer(timeout time.Duration) time.Duration { return min(timeout, time.Minute) }

// doBy makes the request by a server and waits for the decision.
func (v *verb) doBy(ctx context.Context, c *client.Client, id string) error {
	act := api.Act{Reason: v.reason, Children: v.children, AnyBuild: v.anyBuild}
	ask := v.askBy
	if ask == nil {
		ask = func(ctx context.Context, c *client.Client, id string, act api.Act) (bool, error) {
			return c.Act(ctx, v.name, id, act, byServer(v.timeout))
		}
	}
	done, err := ask(ctx, c, id, act)
	if errors.Is(err, stet.ErrNotFound) {
		return fmt.Errorf("%s run %q: %w", v.name, id, stet.ErrNotFound)
	}
	if err == nil && !done {
		return hintedError{fmt.Errorf("%s run %q: nobody has decided within %s", v.name, id, byServer(v.timeout)),
			"the request stands until an application with the code works on the store"}
	}
	return err
}

// startBy starts a run by a server.
func (rc runCommands) startBy(
	ctx context.Context, c *client.Client, workflow string, input json.RawMessage, f *startFlags,
) error {
	if f.force {
		return usage(errors.New("--force does not work by a server: expected --db"))
	}
	if _, err := f.options(); err != nil {
		return err
	}
	policy, err := f.policy.policy()
	if err != nil {
		return err
	}
	s := api.Start{
		Workflow: workflow, Input: input, ID: f.id, AfterMS: f.in.Milliseconds(), Existing: f.existing,
		Tags: f.tags, Headers: f.headers, Policy: api.PolicyOf(policy),
	}
	if f.at != "" {
		if s.At, err = time.Parse(time.RFC3339, f.at); err != nil {
			return err
		}
	}
	if f.queue.Name != "" {
		s.Queue = &api.QueuePlace{Name: f.queue.Name, Key: f.queue.Key, Priority: f.queue.Priority}
	}
	for _, text := range f.messages {
		name, value, _ := strings.Cut(text, "=")
		s.Messages = append(s.Messages, api.FirstMsg{Name: name, Value: json.RawMessage(cmp.Or(value, "null"))})
	}
	id, err := c.Start(ctx, "", s)
	if err != nil {
		return err
	}
	if err := rc.noteUnserved(ctx, serverSide{rc.app, c}, workflow); err != nil {
		return err
	}
	switch {
	case f.wait:
		return rc.waitBy(ctx, c, id)
	case rc.output == formJSON:
		return rc.json(map[string]string{"id": id})
	}
	return rc.id(id)
}

// waitBy waits for the end of a run by a server, and prints its result.
func (rc runCommands) waitBy(ctx context.Context, c *client.Client, id string) error {
	run, err := c.Wait(ctx, id)
	if err != nil {
		return inTime(err, fmt.Sprintf("run %q has not ended in time", id))
	}
	switch {
	case rc.output == formJSON:
		err = rc.json(run)
	case rc.output == formIDs:
		err = rc.id(run.ID)
	case run.Status == store.Succeeded:
		result := run.Output
		if result == nil {
			result = []byte("null")
		}
		err = rc.printer.value(result)
	}
	if err == nil && run.Status != store.Succeeded {
		failed := &stet.RunError{RunID: run.ID, Status: run.Status, Reason: run.Reason, Owed: run.Owed}
		if run.Error != nil {
			failed.Err = errors.New(run.Error.Message)
		}
		err = unsuccessfulError{failed}
	}
	return err
}

// updateBy sends an update by a server and prints the answer. The server waits a minute at
// most: with a key of its own the update is repeated until ctx ends.
func (mc messageCommands) updateBy(
	ctx context.Context, c *client.Client, args []string, key string, value json.RawMessage,
) error {
	if key == "" {
		key = rand.Text()
	}
	for {
		answer, pending, err := c.Update(ctx, args[0], args[1], key, api.Send{Value: value}, 30*time.Second)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("nobody has answered in time; update %q of run %q stands", args[1], args[0])
		case errors.Is(err, stet.ErrUnanswered):
			return unsuccessfulError{err}
		case err != nil:
			return err
		case pending:
			continue
		case answer == nil:
			answer = json.RawMessage("null")
		}
		if mc.output == formJSON {
			return mc.json(answer)
		}
		return mc.printer.value(answer)
	}
}

// countBy prints how many runs match, by a server.
func (rc runCommands) countBy(ctx context.Context, c *client.Client, q *question) error {
	if err := q.resolve(ctx, serverSide{rc.app, c}); err != nil {
		return err
	}
	counts, err := c.Count(ctx, q.String())
	if err != nil {
		return err
	}
	if len(counts.Counts) == 0 {
		if err := q.checkWorkflows(ctx, serverSide{rc.app, c}); err != nil {
			return err
		}
	}
	tallies := make([]store.Tally, len(counts.Counts))
	for i, t := range counts.Counts {
		tallies[i] = store.Tally{Workflow: t.Workflow, Runs: t.Runs}
		if err := tallies[i].Status.UnmarshalText([]byte(t.Status)); err != nil {
			return err
		}
	}
	return rc.tallies(tallies)
}
