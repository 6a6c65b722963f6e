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

// stalls is the table of the guide: why a run stalled, and what to do.
var stalls = map[stet.Cause]explanation{
	stet.CauseMismatch: {Because: "the code does not fit the history",
		Do: "mark the change in the code and deploy, or roll back; then resume", Verbs: []string{"resume"},
		See: []string{codePage}},
	stet.CauseDecode: {Because: "a recorded value is none of the type that the code has now",
		Do: "bring the type back and deploy, or correct the value with edit; then resume", Verbs: []string{"resume", "edit"},
		See: []string{codePage}},
	stet.CausePanic:    bug("the workflow's code has panicked; error has the stack"),
	stet.CauseMisuse:   bug("the code calls an operation where none is allowed, or one name at two places"),
	stet.CauseDeadlock: bug("every branch of the code waits for another one"),
	stet.CauseEncode:   bug("the result of the workflow does not encode"),
	stet.CauseFailure: {Because: "the run would have failed, and its workflow stalls instead",
		Do: "fix the cause that error names, then resume; or cancel", Verbs: []string{"resume", "cancel"}},
	stet.CauseUndo: {Because: "a compensation has failed for good", Do: "fix its cause, then resume: it is tried again",
		Verbs: []string{"resume"}},
	stet.CausePoison: {Because: "its process died again and again while the run was executed",
		Do: "fix the code and deploy, then resume", Verbs: []string{"resume", "cancel"}},
	stet.CauseDamaged: {Because: "what is stored of the run cannot be read",
		Do:    "a person runs stet doctor on the store, corrects it or restores a backup; then resume",
		Verbs: []string{"resume"}},
	stet.CauseRefused:   report("the store has refused what the run was to write"),
	stet.CauseInvariant: report("the engine itself has a fault"),
}

func bug(because string) explanation {
	return explanation{Because: because, Do: "fix the code and deploy, then resume", Verbs: []string{"resume"}}
}

func report(because string) explanation {
	return explanation{Because: because,
		Do:    "a person reports it, with the file that stet export writes; resume tries again",
		Verbs: []string{"resume"}}
}

// explain says why a run does not go on.
func explain(run *api.Run) explanation {
	marks := strings.Split(run.Marks, ",")
	e := explainStatus(run, marks)
	switch {
	case run.Over():
	case slices.Contains(marks, "paused"):
		e.Goes = false
		e.Because = "it is paused by a person, or because a step has failed as often in a row as its workflow says: " +
			"reason says which. Without that: " + e.Because
		e.Do, e.Verbs = "fix the cause, then resume", append([]string{"resume"}, e.Verbs...)
	case run.Lacks != "":
		e.Goes = false
		e.Because = "no process that lives can execute it: lacks says what is missing. Without that: " + e.Because
		e.Do = "a person starts a process with its workflow, of its build or a later one"
		e.Verbs = []string{"cancel", "terminate"}
	}
	if !e.Goes && !slices.Contains(e.See, repairPage) && run.Status != store.Succeeded {
		e.See = append(e.See, repairPage)
	}
	slices.Sort(e.Verbs[min(1, len(e.Verbs)):])
	e.Verbs = slices.Compact(e.Verbs)
	return e
}

func explainStatus(run *api.Run, marks []string) explanation {
	switch run.Status {
	case store.Succeeded:
		return explanation{Because: "it has ended with a result", Do: "nothing; if the result is wrong, rewind or edit it",
			Verbs: []string{"rewind", "edit", "fork"}}
	case store.Cancelled:
		return explanation{Because: "it was cancelled; owed lists what was not undone",
			Do: "start another run if the work is still wanted", Verbs: []string{"start", "fork"}}
	case store.Failed:
		return explanation{Because: "it has failed with error: a step ran out of attempts, or the code returned an error",
			Do:    "fix the cause, deploy if it was the code, then retry: what is recorded stays, the rest is executed again",
			Verbs: []string{"retry", "edit", "fork", "rewind"}}
	case store.Stalled:
		if e, ok := stalls[run.Cause]; ok {
			return e
		}
		return explanation{Because: "it needs a person: reason says why", Do: "fix the cause, then resume",
			Verbs: []string{"resume"}}
	case store.Queued:
		switch {
		case slices.Contains(marks, "held") || run.Queue != nil && run.Queue.Waits:
			return explanation{Goes: true, Because: "it waits for a permit of the queue in queue",
				Do: "look at the queue with list_queues: it may be paused, full, or not exist", See: []string{limitsPage}}
		case !run.WakeAt.IsZero():
			return explanation{Goes: true, Because: "it begins at the time in wake_at"}
		}
		return explanation{Goes: true, Because: "it is to begin as soon as a process has room for it"}
	case store.Suspended:
		return explainWaits(run)
	}
	e := explanation{Goes: true, Because: "a process executes it now, or will at once",
		Do:  "get_history shows which operations are open; executing says since when a step's body runs",
		See: []string{observePage}}
	if slices.Contains(marks, "cancelling") {
		e.Because = "it is being cancelled: a process executes its clean-up now, or will at once"
	}
	return e
}

// explainWaits says who can end what a suspended run waits for.
func explainWaits(run *api.Run) explanation {
	if len(run.WaitsFor) == 0 {
		return explanation{Goes: !run.WakeAt.IsZero(), Because: "it is suspended, and says no more than wake_at",
			Do: "nudge executes its code again (stet nudge)"}
	}
	e := explanation{Goes: true, Because: "it waits for one of waits_for:"}
	because := func(text string, verb, page string) {
		if !strings.Contains(e.Because, text) {
			e.Because += " " + text
		}
		if verb != "" {
			e.Verbs = append(e.Verbs, verb)
		}
		if page != "" && !slices.Contains(e.See, page) {
			e.See = append(e.See, page)
		}
	}
	for i := range run.WaitsFor {
		w := &run.WaitsFor[i]
		if w.Until.IsZero() && w.Queue == "" {
			e.Goes = false
		}
		switch {
		case w.Queue != "":
			because("a permit of a queue, which list_queues shows;", "", limitsPage)
		case len(w.Names) > 0:
			because("a message of one of the names, which callers and operators may send;", "send", messagesPage)
		case w.Topic != "":
			because("an event of a topic, which anybody may publish who may call;", "publish", "stet://guide/events")
		case w.Run != "":
			because("the end of another run: explain_run says how that stands;", "", "stet://guide/children")
		case w.Kind == "promise":
			because("the assignment of a promise by its token;", "resolve", messagesPage)
		case w.Kind == "update":
			because("an update, which callers may send;", "update", "stet://guide/progress")
		case w.Kind == "sleep":
			because("a time, in until;", "", "")
		case w.Kind == "step":
			because("the next attempt of a step, in until: get_history shows its errors;", "", "stet://guide/errors")
		default:
			because("what kind says;", "", "")
		}
	}
	e.Because = strings.TrimSuffix(e.Because, ";") + "."
	if !e.Goes {
		e.Do = "have the one who owes it act; or use a verb"
	}
	e.Verbs = append(e.Verbs, "cancel")
	return e
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
	Waits    []stet.WaitInfo `json:"waits_for,omitempty"`
	Owed     []string        `json:"owed,omitempty"`
	Queue    *api.QueuePlace `json:"queue,omitempty"`
	Run      times           `json:"times"`
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
		Lacks: run.Lacks, Error: run.Error, Waits: run.WaitsFor, Owed: run.Owed, Queue: run.Queue,
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
