package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
)

// The arguments of the tools that read.
type (
	listRuns struct {
		Query  string `json:"query,omitempty" jsonschema:"filter, as the tool says; empty: all runs"`
		Limit  int    `json:"limit,omitempty" jsonschema:"runs in the answer, up to 100; default 20"`
		Cursor string `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	}

	countRuns struct {
		Query string `json:"query,omitempty" jsonschema:"filter, as of list_runs"`
	}

	oneRun struct {
		Run string `json:"run" jsonschema:"ID of the run"`
	}

	getRun struct {
		Run  string   `json:"run" jsonschema:"ID of the run"`
		Also []string `json:"also,omitempty" jsonschema:"what else: inbox, audit, values, promises, children"`
	}

	getHistory struct {
		Run    string `json:"run" jsonschema:"ID of the run"`
		Limit  int    `json:"limit,omitempty" jsonschema:"entries in the answer, up to 200; default 50"`
		Cursor string `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	}

	getValue struct {
		Run string `json:"run" jsonschema:"ID of the run"`
		At  string `json:"at" jsonschema:"input, output, or the location of an entry of its history"`
	}

	tailStream struct {
		Run    string `json:"run" jsonschema:"ID of the run"`
		Stream string `json:"stream" jsonschema:"name of the stream"`
		After  int64  `json:"after,omitempty" jsonschema:"only items at higher positions"`
		Limit  int    `json:"limit,omitempty" jsonschema:"items in the answer, up to 200; default 50"`
	}

	waitRun struct {
		Run     string `json:"run" jsonschema:"ID of the run"`
		Seconds int    `json:"seconds,omitempty" jsonschema:"how long to wait, up to 50; default 20"`
	}

	getScript struct {
		Name    string `json:"name,omitempty" jsonschema:"of the script; empty: a list of all scripts"`
		Version int    `json:"version,omitempty" jsonschema:"number of the version; default: the current one"`
		File    string `json:"file,omitempty" jsonschema:"of the version's files; default: the first one"`
		Cursor  string `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	}

	list struct {
		Cursor string `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	}

	listLetters struct {
		Run    string `json:"run,omitempty" jsonschema:"only those that were sent to this run"`
		Limit  int    `json:"limit,omitempty" jsonschema:"letters in the answer, up to 100; default 20"`
		Cursor string `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	}
)

// filterTerms says what a query is.
const filterTerms = "A query has terms that must all hold: workflow=a,b status=failed,stalled id=x* mark=paused " +
	"tag.KEY=VALUE created>2026-01-31 ended>2026-01-31. Statuses: queued, running, suspended, succeeded, failed, " +
	"cancelled, stalled."

// addReads adds the tools that change nothing.
func (t *tools) addReads() {
	reading(t, "list_runs",
		"Lists runs, the newest first, with their status, errors and what they wait for. "+filterTerms, runs)
	reading(t, "count_runs", "Counts runs by workflow and status; of each up to 1000.", count)
	reading(t, "get_run", "Shows how a run stands: status, waits, error, input, output.", get)
	reading(t, "explain_run", "Says why a run does not go on, what to do, and which verb helps.", explainRun)
	reading(t, "get_history", "Shows what is recorded of a run's operations: steps with attempts and errors, sleeps, "+
		"messages, children, by location.", history)
	if !t.box.options.NoValues {
		reading(t, "get_value", "Shows one value of a run: up to 2 KiB of it.", value)
	}
	reading(t, "tail_stream", "Shows items of a stream of a run, after a position.", tail)
	reading(t, "wait_run", "Waits until a run has ended or stalled, up to 50 seconds, and shows it.", wait)
	reading(t, "list_workflows", "Lists the workflows that a process has ever registered.", workflows)
	reading(t, "list_queues", "Lists queues with their limits, and how many hold and wait.", queues)
	reading(t, "list_schedules", "Lists schedules, and when each is due.", schedules)
	reading(t, "list_topics", "Lists topics of events.", topics)
	reading(t, "get_script", "Shows a script: its versions, and the source of one, 12 KiB in an answer; or lists all "+
		"scripts.", getScripts)
	reading(t, "list_dead_letters", "Lists messages whose run has ended without taking them, or has refused them.",
		letters)
}

// within returns how many rows a page has.
func within(asked, usual, most int) (int, error) {
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0 || asked > most:
		return 0, invalid("limit: expected 1 to %d, found %d", most, asked)
	}
	return asked, nil
}

func runs(ctx context.Context, c *call, in listRuns) (*reply, error) {
	size, err := within(in.Limit, 20, 100)
	if err != nil {
		return nil, err
	}
	for {
		page, err := c.client.Runs(ctx, in.Query, client.Page{Limit: size, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		for _, run := range page.Runs {
			run.Edit(c.box.editor())
		}
		if room := fit(page.Runs); room < len(page.Runs) && size > 1 {
			size = room // the cursor is that of a page: ask for a smaller one
			continue
		}
		return dataOf(map[string]any{"runs": page.Runs}, page.Next), nil
	}
}

func count(ctx context.Context, c *call, in countRuns) (*reply, error) {
	counts, err := c.client.Count(ctx, in.Query)
	if err != nil {
		return nil, err
	}
	return dataOf(counts, ""), nil
}

// run reads a run for an answer.
func (c *call) run(ctx context.Context, id string) (*api.Run, error) {
	if id == "" {
		return nil, invalid("run: expected the ID of a run, found none")
	}
	c.runs = append(c.runs, id)
	run, err := c.client.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	run.Edit(c.box.editor())
	return run, nil
}

func get(ctx context.Context, c *call, in getRun) (*reply, error) {
	run, err := c.run(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	data := map[string]any{"run": run}
	for _, what := range in.Also {
		if data[what], err = c.also(ctx, in.Run, what); err != nil {
			return nil, err
		}
	}
	return dataOf(data, ""), nil
}

// also reads something of a run beside its row.
func (c *call) also(ctx context.Context, id, what string) (any, error) {
	edit := c.box.editor()
	switch what {
	case "inbox":
		inbox, err := c.client.Inbox(ctx, id)
		if err != nil {
			return nil, err
		}
		for i := range inbox.Items {
			inbox.Items[i].Edit(edit)
		}
		return inbox, nil
	case "audit":
		audit, err := c.client.Audit(ctx, id)
		if err != nil {
			return nil, err
		}
		for i := range audit.Audit {
			audit.Audit[i].Edit(edit)
		}
		return audit.Audit, nil
	case "values":
		shown, err := c.client.Shown(ctx, id)
		if err != nil {
			return nil, err
		}
		for i := range shown.Values {
			shown.Values[i].Edit(edit)
		}
		return shown, nil
	case "promises":
		promises, err := c.client.Promises(ctx, id)
		if err != nil {
			return nil, err
		}
		for i := range promises.Promises {
			promises.Promises[i].Token = "" // resolve takes the location
		}
		return promises, nil
	case "children":
		children, err := c.client.Children(ctx, id, client.Page{Limit: 20})
		if err != nil {
			return nil, err
		}
		for _, child := range children.Runs {
			child.Edit(edit)
		}
		return children.Runs, nil
	}
	return nil, invalid("also: expected inbox, audit, values, promises or children, found %.100q", what)
}

func history(ctx context.Context, c *call, in getHistory) (*reply, error) {
	size, err := within(in.Limit, 50, 200)
	if err != nil {
		return nil, err
	}
	after, err := open(in.Cursor)
	if err != nil {
		return nil, err
	}
	c.runs = append(c.runs, in.Run)
	page, err := c.client.History(ctx, in.Run, after, size)
	if err != nil {
		return nil, err
	}
	for _, entry := range page.Entries {
		entry.Edit(c.box.editor())
	}
	if room := fit(page.Entries); room < len(page.Entries) {
		page.Entries, page.Next = page.Entries[:room], page.Entries[room-1].Location
	}
	return dataOf(map[string]any{"entries": page.Entries}, seal(page.Next)), nil
}

func value(ctx context.Context, c *call, in getValue) (*reply, error) {
	c.runs = append(c.runs, in.Run)
	found, err := c.client.Value(ctx, in.Run, in.At)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		found = json.RawMessage("null")
	}
	return dataOf(map[string]any{"value": c.box.editor().Value(found)}, ""), nil
}

func tail(ctx context.Context, c *call, in tailStream) (*reply, error) {
	size, err := within(in.Limit, 50, 200)
	if err != nil {
		return nil, err
	}
	c.runs = append(c.runs, in.Run)
	found, err := c.client.Items(ctx, in.Run, in.Stream, in.After, size)
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		found.Items[i].Edit(c.box.editor())
	}
	items := found.Items[:fit(found.Items)]
	last := in.After
	if len(items) > 0 {
		last = items[len(items)-1].Position
	}
	r := dataOf(map[string]any{"items": items}, "")
	r.Stet = map[string]int64{"after": last}
	return r, nil
}

// maxWait bounds a call that waits: clients give up after a minute.
const maxWait = 50 * time.Second

func wait(ctx context.Context, c *call, in waitRun) (*reply, error) {
	seconds, err := within(in.Seconds, 20, int(maxWait/time.Second))
	if err != nil {
		return nil, err
	}
	c.runs = append(c.runs, in.Run)
	waiting, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	run, err := c.client.Wait(waiting, in.Run)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		run, err = c.client.Run(ctx, in.Run)
	}
	if err != nil {
		return nil, err
	}
	run.Edit(c.box.editor())
	r := dataOf(map[string]any{"run": run}, "")
	r.Stet = map[string]bool{"over": run.Over()}
	return r, nil
}

// part returns the rows of a list without pages from a cursor on.
func part[T any](name string, rows []T, cursor string) (*reply, error) {
	text, err := open(cursor)
	if err != nil {
		return nil, err
	}
	from := 0
	if text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, invalid("cursor: expected next of an answer of this tool, found %.50q", cursor)
		}
	}
	rows = rows[min(from, len(rows)):]
	next := ""
	if room := fit(rows); room < len(rows) {
		rows, next = rows[:room], strconv.Itoa(from+room)
	}
	return dataOf(map[string]any{name: rows}, seal(next)), nil
}

func workflows(ctx context.Context, c *call, in list) (*reply, error) {
	info, err := c.client.Info(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(info.Workflows)
	return part("workflows", info.Workflows, in.Cursor)
}

func queues(ctx context.Context, c *call, in list) (*reply, error) {
	found, err := c.client.Queues(ctx)
	if err != nil {
		return nil, err
	}
	return part("queues", found.Queues, in.Cursor)
}

func schedules(ctx context.Context, c *call, in list) (*reply, error) {
	found, err := c.client.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range found.Schedules {
		s.Edit(c.box.editor())
	}
	return part("schedules", found.Schedules, in.Cursor)
}

func topics(ctx context.Context, c *call, in list) (*reply, error) {
	found, err := c.client.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return part("topics", found.Topics, in.Cursor)
}

func letters(ctx context.Context, c *call, in listLetters) (*reply, error) {
	size, err := within(in.Limit, 20, 100)
	if err != nil {
		return nil, err
	}
	which := client.Letters{}
	if in.Run != "" {
		which.Runs, c.runs = []string{in.Run}, []string{in.Run}
	}
	for {
		page, err := c.client.DeadLetters(ctx, which, client.Page{Limit: size, Cursor: in.Cursor})
		if err != nil {
			return nil, err
		}
		for i := range page.Letters {
			page.Letters[i].Edit(c.box.editor())
		}
		if room := fit(page.Letters); room < len(page.Letters) && size > 1 {
			size = room
			continue
		}
		return dataOf(map[string]any{"letters": page.Letters}, page.Next), nil
	}
}
