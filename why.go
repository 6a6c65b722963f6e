package stet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/shape"
	"github.com/stet-run/stet/store"
)

// Why says why a run stands as it does: what it waits for, what stops it, or how it has ended. The command
// line, the HTTP API, the dashboard and MCP show it as it is here.
type Why struct {
	// Code says it for programs: message, timer, permit, offered, paused, stalled-panic, … The guide lists
	// all of them, in "Repair a stuck run".
	Code string `json:"code"`
	Text string `json:"text"` // for a person, with the names of what it is about
	// Location is where the operation stands that the run waits for or executes; "": it is about none.
	Location string `json:"location,omitempty"`
	// Quote is of an error or a reason, and may hold what only those may see who may read values.
	Quote string `json:"quote,omitempty"`
	// Since is when it began. Zero: not known. A list of several runs does not know it of paused and stalled ones.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"` // when it ends by itself at the latest; zero: it does not, or nobody knows
	Help  string    `json:"help,omitempty"` // what a person can do about it
}

// whyRow is what is known of a code.
type whyRow struct {
	code  string
	means string // in words of stet alone
	help  string
	verbs []string   // that may help, the likeliest first
	goes  bool       // it ends without anybody's doing
	term  shape.Term // what the time is spent on meanwhile; "": it has ended
}

const (
	fixCode  = "fix the code and deploy, then resume"
	reportIt = "report it, with the file that stet export writes; resume tries again"
)

// stalledBy is the code of a stall is this and its Cause.
const stalledBy = "stalled-"

func stalledFor(cause Cause, means, help string, verbs ...string) whyRow {
	return whyRow{stalledBy + string(cause), means, help, append([]string{"resume"}, verbs...), false, shape.Stalled}
}

// whyRows are all codes.
var whyRows = []whyRow{
	{"succeeded", "it has ended with a result", "nothing; if the result is wrong, rewind or edit it",
		[]string{"rewind", "edit", "fork"}, false, ""},
	{"failed", "a step ran out of attempts, or the code has returned an error",
		"fix the cause, deploy if it was the code, then retry: what is recorded stays, the rest is executed again",
		[]string{"retry", "edit", "fork", "rewind"}, false, ""},
	{"cancelled", "it was cancelled or terminated; owed lists what was not undone",
		"start another run if the work is still wanted", []string{"start", "fork"}, false, ""},
	{"expiring", "its retention is over, and its history is being deleted", "", nil, true, ""},

	stalledFor(CauseMismatch, "the code does not fit the history",
		"mark the change in the code and deploy, or roll back; then resume"),
	stalledFor(CauseDecode, "a recorded value is none of the type that the code has now",
		"bring the type back and deploy, or correct the value with edit; then resume", "edit"),
	stalledFor(CausePanic, "the workflow's code has panicked; its error has the stack", fixCode),
	stalledFor(CauseMisuse, "the code calls an operation where none is allowed, or one name at two places", fixCode),
	stalledFor(CauseDeadlock, "every branch of the code waits for another one", fixCode),
	stalledFor(CauseCode, "the code has asked for it, or a script has a fault or exceeds a limit: the reason says which",
		"do what the reason says, then resume"),
	stalledFor(CauseEncode, "a value of the workflow's code, or the result of a step, does not encode or is too large",
		fixCode),
	stalledFor(CauseBudget, "a bound of the engine is reached, as the size of a run's history",
		"raise Config.MaxEntries or Config.MaxBytes, or deploy code that needs less; then resume"),
	stalledFor(CauseFailure, "the run would have failed, and its workflow stalls instead",
		"fix the cause that the error names, then resume; or cancel", "cancel"),
	stalledFor(CauseUndo, "a compensation has failed for good", "fix its cause, then resume: it is tried again"),
	stalledFor(CausePoison, "its process died again and again while the run was executed", fixCode, "cancel"),
	stalledFor(CauseDamaged, "what is stored of the run cannot be read",
		"run stet doctor on the store, correct it or restore a backup; then resume"),
	stalledFor(CauseRefused, "the store has refused what the run was to write", reportIt),
	stalledFor(CauseInvariant, "the engine itself has a fault", reportIt),
	{"stalled", "it needs a person: the reason says why", "fix the cause, then resume", []string{"resume"}, false,
		shape.Stalled},

	{"paused", "it was paused by a person, or because a step has failed as often in a row as its workflow says",
		"fix the cause, then resume", []string{"resume"}, false, shape.Paused},
	{"code", "no process that lives has its workflow", "start a process with its workflow",
		[]string{"cancel", "terminate"}, false, shape.Unable},
	{"group", "no process with its workflow works for its group of shards", "start one with Config.Groups",
		[]string{"cancel", "terminate"}, false, shape.Unable},
	{"build", "all processes with its workflow are of an earlier build than the one that has worked on it",
		"deploy that build or a later one; after a rollback pause the run, and resume it for any build",
		[]string{"pause", "cancel"}, false, shape.Unable},
	{"lacks", "its process lacks what is needed to read it, such as a key, a codec or a time zone",
		"give the process what it lacks, or start one that has it", nil, false, shape.Unable},
	{"lost", "the process that executes it is silent; another one takes the run over when its lease ends",
		"nothing; if it lasts, look at that process and at its way to the store", nil, true, shape.Running},
	{"undoing", "it executes its compensations; how it ends is certain", "", nil, true, shape.Running},
	{"cancelling", "it was cancelled, and its code cleans up", "", []string{"terminate"}, true, shape.Running},
	{"executing", "a process executes the body of a step",
		"if it takes too long, look at what the step calls; a Timeout of its Retry ends the attempt", nil, true,
		shape.Running},
	{"running", "a process executes it now, or will at once", "", nil, true, shape.Running},
	{"begin", "its start time has not come", "", []string{"cancel"}, true, shape.Begins},
	{"claim", "it is to begin as soon as a process has room for it", "", []string{"cancel"}, true, shape.Begins},
	{"queue", "it waits for a permit of its queue", "look at the queue: it may be paused, full, or not exist",
		[]string{"cancel"}, true, shape.Permits},

	{"locked", "it waits for a permit of a queue, and runs hold all of them that only wait for it, or for runs like it",
		"set ReleaseWhileSuspended of the queue, raise its limit, or give the children another queue; or cancel one of the " +
			"holders", []string{"cancel"}, false, shape.Permits},

	{"message", "a message of one of the names, which callers and operators may send", "send it", []string{"send",
		"cancel"}, false, shape.Waits},
	{"update", "an update, which callers may send", "send it", []string{"update", "cancel"}, false, shape.Waits},
	{"event", "an event of a topic, which anybody may publish who may call", "publish it", []string{"publish", "cancel"},
		false, shape.Waits},
	{"promise", "the assignment of a promise by its token", "assign it", []string{"resolve", "cancel"}, false,
		shape.Waits},
	{"child", "the end of a run that it has started", "see why that one stands as it does", []string{"cancel"}, false,
		shape.Waits},
	{"run", "the end of another run", "see why that one stands as it does", []string{"cancel"}, false, shape.Waits},
	{"timer", "a time", "", []string{"cancel"}, true, shape.Waits},
	{"retry", "the next attempt of a step whose attempts have all failed so far",
		"fix what the step calls, or pause the run", []string{"pause", "cancel"}, true, shape.Pauses},
	{"permit", "a permit of a queue for a step", "look at the queue: it may be paused, full, or not exist",
		[]string{"cancel"}, true, shape.Permits},
	{"offered", "a worker that asks for the task", "see that a worker with this name works", []string{"cancel"}, false,
		shape.Offered},
	{"worker", "the worker that executes its task; if its lease ends another one gets the task", "", []string{"cancel"},
		true, shape.Workers},
	{"lost-wake", "it waits until a time, and no time is set at which it wakes: its row was changed by hand",
		"nudge it, which executes its code again", []string{"nudge"}, false, shape.Waits},
	{"wait", "an operation of the code", "", []string{"nudge", "cancel"}, false, shape.Waits},
}

// row returns what is known of the code.
func (w *Why) row() *whyRow {
	if i := slices.IndexFunc(whyRows, func(r whyRow) bool { return r.code == w.Code }); i >= 0 {
		return &whyRows[i]
	}
	return &whyRow{code: w.Code}
}

// Means says what the code means, in words of stet alone: without names and errors of the run.
func (w *Why) Means() string { return w.row().means }

// Verbs returns what may help, by the names of the command line, the likeliest first. The caller owns it.
func (w *Why) Verbs() []string { return slices.Clone(w.row().verbs) }

// GoesOn reports whether it ends without anybody's doing.
func (w *Why) GoesOn() bool { return w.row().goes || !w.Until.IsZero() }

// whys collects why a run stands as it does.
type whys []Why

func (l *whys) add(code, format string, args ...any) *Why {
	w := Why{Code: code, Text: fmt.Sprintf(format, args...)}
	w.Help = w.row().help
	*l = append(*l, w)
	return &(*l)[len(*l)-1]
}

// whyOf says why a run stands as it does, the most important first. nodes are nil where they are not known.
func whyOf(i *RunInfo, nodes *NodesInfo) []Why {
	var l whys
	reason := func(prefixes ...string) string {
		text := i.Reason
		for _, p := range prefixes {
			text = strings.TrimPrefix(strings.TrimPrefix(text, p), ": ")
		}
		return text
	}
	switch {
	case i.Marks&store.Expiring != 0:
		l.add("expiring", "is being deleted")
	case i.Status == store.Succeeded:
		l.add("succeeded", "succeeded").Since = i.Ended
	case i.Status == store.Cancelled:
		text := "cancelled"
		if strings.HasPrefix(i.Reason, "terminated") {
			text = "terminated"
		}
		w := l.add("cancelled", "%s", text)
		w.Since, w.Quote = i.Ended, reason(text)
	case i.Status == store.Failed:
		w := l.add("failed", "failed")
		w.Since, w.Quote = i.Ended, messageOf(i.Err)
	case i.Status == store.Stalled && i.Cause == "":
		l.add("stalled", "stalled").Quote = reason()
	case i.Status == store.Stalled:
		l.add(stalledBy+string(i.Cause), "stalled: %s", i.Cause).Quote = reason(string(i.Cause))
	default:
		l.live(i, nodes, reason)
	}
	return l
}

// messageOf returns the message of the failure of a run that has failed.
func messageOf(err error) string {
	if record := (*FailureRecord)(nil); errors.As(err, &record) {
		return record.Message
	}
	if e := (*RunError)(nil); errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return ""
}

// live says why a run stands as it does that has not ended.
func (l *whys) live(i *RunInfo, nodes *NodesInfo, reason func(...string) string) {
	if i.Marks&store.Paused != 0 {
		l.add("paused", "paused").Quote = reason("paused")
	}
	if lack := (*UnservedError)(nil); errors.As(i.Unserved, &lack) {
		code := "code"
		switch {
		case lack.Build != "":
			code = "build"
		case lack.Group != "":
			code = "group"
		case lack.Lacks != "":
			code = "lacks"
		}
		l.add(code, "%s", lack)
	}
	switch {
	case i.Marks&store.Held != 0 || i.Status == store.Queued && i.OnQueue != nil && i.OnQueue.Waits:
		l.onQueue(i).Since = i.Created
		if i.Status != store.Queued {
			(*l)[len(*l)-1].Since = time.Time{} // of the suspension before it, perhaps
		}
	case i.Status == store.Queued && !i.Wake.IsZero():
		w := l.add("begin", "begins")
		w.Since, w.Until = i.Created, i.Wake
	case i.Status == store.Queued && len(*l) == 0:
		l.add("claim", "is to begin").Since = i.Created
	case i.Status == store.Running && i.Marks&store.Paused == 0 && i.Unserved == nil:
		l.running(i, nodes)
	case i.Status == store.Suspended:
		l.waits(i)
	}
}

// onQueue says that a run waits for a permit of its queue.
func (l *whys) onQueue(i *RunInfo) *Why {
	switch {
	case i.lock != nil:
		return l.add("locked", "%s", i.lock.text(""))
	case i.OnQueue != nil:
		return l.add("queue", "waits for a permit of queue %s", i.OnQueue.Name)
	}
	return l.add("queue", "waits for a permit")
}

// running says what a running run does.
func (l *whys) running(i *RunInfo, nodes *NodesInfo) {
	var node *store.Node
	if nodes != nil {
		_, node = nodes.Owner(i.Shard)
	}
	if node != nil && !nodes.Alive(node) {
		state := "silent"
		if nodes.Lost(node) {
			state = "lost, not heard of"
		}
		l.add("lost", "its process is %s (node %s, process %d on %s)", state, node.ID, node.PID, node.Host).Since =
			node.SeenAt.Time()
		return
	}
	switch {
	case i.Marks&store.Undoing != 0:
		l.add("undoing", "undoes its steps")
	case i.Marks&store.Cancelling != 0:
		l.add("cancelling", "is being cancelled")
	}
	if nodes != nil {
		for k := range nodes.Nodes {
			n := &nodes.Nodes[k]
			for _, b := range n.Bodies { // the oldest first
				if b.RunID == i.ID && nodes.Alive(n) {
					w := l.add("executing", "executing step %s on %s", b.Location, n.ID)
					w.Since, w.Location = b.Since.Time(), b.Location
					return
				}
			}
		}
	}
	if len(*l) == 0 {
		l.add("running", "a process executes it, or will at once")
	}
}

// waits says what a suspended run waits for. What fails comes first.
func (l *whys) waits(i *RunInfo) {
	if i.LostWake() {
		l.add("lost-wake", "waits until a time, and no time is set at which it wakes")
	}
	list := slices.Clone(i.WaitsFor)
	slices.SortStableFunc(list, func(a, b WaitInfo) int { return b.Failed - a.Failed })
	for k := range list {
		l.wait(&list[k], i.lock)
	}
}

// wait says what one operation waits for. of says that ancestors of the run hold the permits of a queue; nil: none do.
func (l *whys) wait(w *WaitInfo, of *lock) {
	failed := ""
	if w.Failed > 0 {
		times := fmt.Sprintf("%d times", w.Failed)
		if w.Failed == 1 {
			times = "once"
		}
		failed = fmt.Sprintf("%s %s has failed %s", w.Kind, w.Location, times)
	}
	since, then := w.Since, ""
	if failed != "" {
		then = failed + "; "
	}
	var why *Why
	switch at := "for " + w.Kind + " " + w.Location; {
	case w.Task != "" && w.LeaseUntil.IsZero():
		text := fmt.Sprintf("task %s %s is offered to workers of queue %s", w.Task, at, w.Queue)
		if w.TaskUnasked {
			text += "; no worker has asked for " + w.Task
		}
		why = l.add("offered", "%s%s", then, text)
		if !w.TaskSince.IsZero() {
			since = w.TaskSince
		}
		why.Until = w.Until
	case w.Task != "":
		worker := w.Worker
		if worker == "" {
			worker = "a worker"
		}
		why = l.add("worker", "%stask %s %s is executed by %s", then, w.Task, at, worker)
		since, why.Until = w.TaskSince, w.LeaseUntil
	case of != nil && w.Queue == of.queue:
		why = l.add("locked", "%s%s", then, of.text(" "+at))
		why.Until = w.Until
	case w.Queue != "":
		why = l.add("permit", "%swaits for a permit of queue %s %s", then, w.Queue, at)
		why.Until = w.Until
	case failed != "":
		why = l.add("retry", "%s", failed)
		why.Until = w.Until
	default:
		why = l.add(waitCode(w), "waits %s%s", at, w.about())
		why.Until = w.Until
	}
	why.Since, why.Quote, why.Location = since, w.Error, w.Location
}

// waitCode returns the code of a wait by its kind.
func waitCode(w *WaitInfo) string {
	switch w.Kind {
	case store.KindReceive.String():
		if w.Update {
			return "update"
		}
		return "message"
	case store.KindEvent.String(), store.KindPromise.String(), store.KindChild.String(), store.KindRun.String():
		return w.Kind
	case store.KindSleep.String(), store.KindTimer.String():
		return "timer"
	case store.KindStep.String():
		return "retry"
	}
	return "wait"
}

// about returns what a wait is about, in brackets, unless its location says it.
func (w *WaitInfo) about() (text string) {
	if len(w.Names) > 1 || len(w.Names) == 1 && w.Names[0] != w.Location {
		text += " (" + strings.Join(w.Names, ", ") + ")"
	}
	if w.Run != "" {
		text += " (run " + w.Run + ")"
	}
	if w.Topic != "" && w.Topic != w.Location {
		text += " (topic " + w.Topic + ")"
	}
	return text
}
