package toolbox

import (
	"context"
	"slices"
	"strings"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// explanation says why a run does not go on. It is in words of our own alone, and points
// into the data for what the run says.
type explanation struct {
	Goes    bool   `json:"goes_on_by_itself"`
	Because string `json:"because"`
	Do      string `json:"do,omitempty"`
	// Verbs are the tools that help, the likeliest first. They may not be allowed here.
	Verbs []string `json:"verbs,omitempty"`
	See   []string `json:"see,omitempty"` // resources
}

const (
	repairPage   = "stet://guide/repair"
	codePage     = "stet://guide/changing-code"
	messagesPage = "stet://guide/messages"
	observePage  = "stet://guide/observing"
	limitsPage   = "stet://guide/limits"
)

// pages are the pages of the guide that help, by the code of a Why.
var pages = map[string]string{
	"message": messagesPage, "promise": messagesPage, "update": "stet://guide/progress", "event": "stet://guide/events",
	"child": "stet://guide/children", "run": "stet://guide/children", "retry": "stet://guide/errors",
	"permit": limitsPage, "queue": limitsPage, "offered": "stet://guide/workers", "worker": "stet://guide/workers",
	"executing": observePage, "running": observePage, "stalled-mismatch": codePage, "stalled-decode": codePage,
	"build": codePage,
}

// explain says why a run does not go on, by what the server says of it.
func explain(run *api.Run) explanation {
	var e explanation
	blocked := len(run.Why) > 0 && blocks(run.Why[0].Code)
	e.Goes = len(run.Why) > 0 && !run.Over() && !blocked
	var because, do []string
	note := func(list []string, text string) []string {
		if text == "" || slices.Contains(list, text) {
			return list
		}
		return append(list, text)
	}
	for i := range run.Why {
		w := &run.Why[i]
		because = note(because, w.Code+": "+w.Means())
		if page := pages[w.Code]; page != "" && !slices.Contains(e.See, page) {
			e.See = append(e.See, page)
		}
		if blocked && i > 0 {
			continue // first things first
		}
		e.Goes = e.Goes && w.GoesOn()
		do = note(do, w.Help)
		for _, verb := range w.Verbs() {
			if !slices.Contains(e.Verbs, verb) {
				e.Verbs = append(e.Verbs, verb)
			}
		}
	}
	if len(run.Why) == 0 { // of an earlier server, or read without values
		because, do = []string{"status says how it stands, and no more is known"}, []string{"look at its history"}
	}
	e.Because, e.Do = strings.Join(because, "; "), strings.Join(do, "; ")
	if !e.Goes && run.Status != store.Succeeded {
		e.See = append(e.See, repairPage)
	}
	if run.RewindBefore != "" && run.Refused["retry"] != "" {
		e.Do = "fix the cause, then rewind it to before rewind_before: a retry is refused, because its steps were undone"
		e.Verbs = slices.Insert(slices.DeleteFunc(e.Verbs, func(verb string) bool { return verb == "rewind" }), 0, "rewind")
	}
	slices.Sort(e.Verbs[min(1, len(e.Verbs)):])
	e.Verbs = slices.Compact(slices.DeleteFunc(e.Verbs, func(verb string) bool { return run.Refused[verb] != "" }))
	return e
}

// blocks reports whether the first Why of a run keeps it from going on whatever else comes.
func blocks(code string) bool {
	switch code {
	case "paused", "code", "group", "build":
		return true
	}
	return false
}

// about is what an explanation shows of a run: not its input and output.
type about struct {
	ID       string          `json:"id"`
	Workflow string          `json:"workflow"`
	Status   store.Status    `json:"status"`
	Marks    string          `json:"marks,omitempty"`
	Cause    stet.Cause      `json:"cause,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Lacks    string          `json:"lacks,omitempty"`
	Error    *api.Failure    `json:"error,omitempty"`
	Why      []stet.Why      `json:"why,omitempty"`
	Waits    []stet.WaitInfo `json:"waits_for,omitempty"`
	Owed     []string        `json:"owed,omitempty"`
	Queue    *api.QueuePlace `json:"queue,omitempty"`
	// Refused says why verbs are refused now, and Before to where a run is rewound that has undone its steps.
	Refused map[string]string `json:"refused,omitempty"`
	Before  string            `json:"rewind_before,omitempty"`
	Run     times             `json:"times"`
}

type times struct {
	Created string `json:"created"`
	Ended   string `json:"ended,omitempty"`
	WakeAt  string `json:"wake_at,omitempty"`
}

// explainRun reads the store for one run only, and once.
func explainRun(ctx context.Context, c *call, in oneRun) (*reply, error) {
	run, err := c.run(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	a := about{
		ID: run.ID, Workflow: run.Workflow, Status: run.Status, Marks: run.Marks, Cause: run.Cause, Reason: run.Reason,
		Lacks: run.Lacks, Error: run.Error, Why: run.Why, Waits: run.WaitsFor, Owed: run.Owed, Queue: run.Queue,
		Refused: run.Refused, Before: run.RewindBefore,
	}
	const form = "2006-01-02T15:04:05Z07:00"
	a.Run.Created = run.Created.UTC().Format(form)
	if !run.Ended.IsZero() {
		a.Run.Ended = run.Ended.UTC().Format(form)
	}
	if !run.WakeAt.IsZero() {
		a.Run.WakeAt = run.WakeAt.UTC().Format(form)
	}
	return &reply{Stet: explain(run), Data: a}, nil
}
