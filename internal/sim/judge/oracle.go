package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/sim/story"
	"github.com/stet-run/stet/store"
)

// oracle knows what was promised, and judges what has happened. The numbers in its
// accusations are those of the invariants in docs/simulation.md.
type oracle struct {
	plan       plan.Plan
	now        func() time.Duration
	violations []string
	reached    map[string]int
	story      *story.Story

	bodies   map[string]*body            // by execution
	begun    map[body]int                // how often an attempt began
	durable  map[operation]time.Duration // since when the result is recorded
	perhaps  map[operation]bool          // was in a commit whose answer a power cut has ended
	changed  map[string]bool             // runs whose history an operator has changed
	keys     map[string]operation        // of idempotency
	keyOf    map[operation]string
	killed   map[operation]int // nodes
	inARow   map[operation]int // processes; -1: the run was stalled
	undone   map[operation]int
	acts     map[int]*plan.Note   // what became of them; the zero Note: nothing yet
	started  map[string]plan.Note // by run: what became of its start
	resolved map[operation]plan.Note
	dumps    map[string]*plan.Dump
	settled  bool
	letters  []int64
	kept     map[string][]string // events that a topic has at the end
	got      map[string]bool     // values of events that runs have got
	dropped  map[string]bool     // runs that were not there when code sent them something
	atRest   map[string]bool     // runs that were paused or stalled when they ended
	misled   map[string]bool     // runs that an edit has led astray
	items    *items
	limits   *limits
	ends     *ends
	tasks    *tasks
	plans    *schedules
	spins    *spins
	lates    *lates
	lives    lives
	when     map[int]span             // of acts
	asked    map[string]time.Duration // when the start of a run was
	waits    map[string]time.Duration // when a run began to wait for an event, the last time
}

// span is when something began and ended.
type span struct{ begun, ended time.Duration }

// operation is an operation of a run, with its iterations.
type operation struct{ run, op string }

// body is an attempt, or an execution of one.
type body struct {
	operation
	attempt int
	node    string
	ended   bool
	err     string
}

func newOracle(p plan.Plan, now func() time.Duration) *oracle {
	o := &oracle{
		plan: p, now: now, reached: map[string]int{}, bodies: map[string]*body{}, begun: map[body]int{},
		durable: map[operation]time.Duration{}, changed: map[string]bool{}, keys: map[string]operation{},
		keyOf:  map[operation]string{},
		killed: map[operation]int{}, inARow: map[operation]int{}, undone: map[operation]int{}, acts: map[int]*plan.Note{},
		started: map[string]plan.Note{}, resolved: map[operation]plan.Note{}, dumps: map[string]*plan.Dump{},
	}
	o.perhaps = map[operation]bool{}
	o.kept, o.got, o.dropped = map[string][]string{}, map[string]bool{}, map[string]bool{}
	o.story, o.lives = &story.Story{Now: now}, lives{}
	o.atRest, o.misled = map[string]bool{}, map[string]bool{}
	o.items = &items{
		o, map[store.ItemNo]*item{}, map[store.RunNo]map[store.ItemNo]store.ItemKind{}, map[store.ItemNo]bool{},
	}
	o.when, o.asked, o.waits = map[int]span{}, map[string]time.Duration{}, map[string]time.Duration{}
	o.limits = newLimits(o)
	o.ends = &ends{o, map[string]time.Duration{}, map[store.RunNo][]string{}, map[string]bool{}}
	o.tasks = newTasks(o)
	o.spins = newSpins(o)
	o.lates = newLates(o)
	o.plans = &schedules{
		o, o.ends, map[string]time.Duration{}, map[string]time.Duration{}, map[string]time.Duration{},
		map[string][]string{}, map[string]*plan.Planned{},
	}
	return o
}

// count counts that a situation was reached.
func (o *oracle) count(situation string) { o.reached[situation]++ }

// violated says that a promise was broken.
func (o *oracle) violated(format string, args ...any) {
	if v := fmt.Sprintf("%.2000s", fmt.Sprintf(format, args...)); !slices.Contains(o.violations, v) {
		o.violations = append(o.violations, v)
		o.story.Tell("BROKEN %s", v)
	}
}

// note takes what a machine says, and whether that is to die.
func (o *oracle) note(n plan.Note) (die bool) {
	at := operation{n.Run, n.Op}
	o.story.Note(n)
	o.lives.seen(n.Node)
	switch n.Kind {
	case plan.BodyBegins:
		if o.lives.replaced(n.Node) {
			o.count("body of a process that was replaced")
		} else if since, ok := o.durable[at]; ok && !o.changed[n.Run] {
			o.violated("2: %s of %s begins again on %s; its result is recorded since %s", n.Op, n.Run, n.Node, since)
		}
		o.bodies[n.Exec] = &body{operation: at, attempt: n.Attempt, node: n.Node}
		o.limits.begins(n)
		attempt := body{operation: at, attempt: n.Attempt}
		o.begun[attempt]++
		o.spins.begins(o.begun[attempt], n)
		if o.begun[attempt] > 1 {
			o.count("body executed again")
			if o.calm() && !o.changed[n.Run] {
				o.violated("13: attempt %d of %s of %s begins again, without a fault", n.Attempt, n.Op, n.Run)
			}
		}
		o.keyed(at, n.Attempt, n.Key)
		o.barrier(n)
		if n.Kills > o.killed[at] && o.inARow[at] >= 0 {
			o.killed[at]++
			o.count("body killed its node")
			if o.inARow[at]++; o.inARow[at] > patience*(1+o.operated(n.Run)) {
				o.violated("14: %s of %s has killed its process %d times, and is not stalled", n.Op, n.Run, o.inARow[at])
			}
			return true
		}
	case plan.BodyEnds:
		if strings.Contains(n.Err, "for good") {
			o.count("body failed for good")
		}
		o.bodies[n.Exec].ended, o.bodies[n.Exec].err = true, n.Err
		o.limits.over(n.Exec)
	case plan.Asks, plan.Leased, plan.Answers, plan.Accepted, plan.NotWanted:
		o.tasks.note(n)
	case plan.Due:
		o.count("wait ended by its time")
		due, err := strconv.ParseInt(n.Value, 10, 64)
		if now := Begin(o.plan).Add(o.now() + o.ahead()).UnixMicro(); err != nil || now < due {
			o.violated("20: %s of %s is over %d us early, at %s", n.Op, n.Run, due-now, o.now())
		}
	case plan.BodyFreed:
		o.limits.over(n.Exec)
	case plan.Executes:
		o.begins(n.Run)
		o.limits.executes(n.Run)
	case plan.Decided:
		o.plans.decided[n.Op] = n.Planned
	case plan.Kept:
		o.kept[n.Op] = n.Texts
	case plan.Letters:
		o.letters = n.Items
	case plan.UndoEnds:
		o.undone[at]++
		o.count("undone")
		if n.Queue != "" {
			o.count("undone with a permit")
		}
	case plan.Called:
		switch {
		case n.Act > 0:
			o.acts[n.Act] = &plan.Note{}
			o.when[n.Act] = span{begun: o.now()}
		case n.Run == "":
			o.plans.note(n)
		case n.Op == plan.Restart:
			o.limits.asked()
			o.asked[n.Run] = o.now()
		}
	case plan.Done, plan.Refused, plan.Unknown:
		o.count("act " + n.Op + " " + n.Kind)
		switch {
		case n.Act > 0:
			o.acts[n.Act] = &n
			o.when[n.Act] = span{o.when[n.Act].begun, o.now()}
		case n.Run == "":
			o.plans.note(n)
		case n.Op == plan.Promise:
			o.resolved[operation{n.Run, n.Value}] = n
		default:
			o.started[n.Run] = n
		}
	case plan.Found:
		o.dumps[n.Run] = n.Dump
		o.count("run " + n.Dump.Status)
	case plan.Stalled:
		o.count("run stalled: " + n.Value)
		kills := false
		for at := range o.killed {
			if at.run == n.Run {
				kills, o.inARow[at] = true, -1
			}
		}
		switch {
		case n.Value == mismatch && o.acted(n.Run, plan.Edit):
			o.misled[n.Run] = true
			o.count("history edited so that the code cannot go on")
		case n.Value != poison:
			o.violated("27: %s is stalled, %s: %s", n.Run, n.Value, n.Err)
		case !kills && !o.deadly():
			o.violated("14: %s is stalled, and has killed no process", n.Run)
		}
	case plan.Settled:
		o.settled = true
	case plan.Stuck:
		o.violated("27: these have not ended: %s", n.Value)
	}
	return false
}

// keyed takes the idempotency key of an attempt.
func (o *oracle) keyed(at operation, attempt int, key string) {
	if was, ok := o.keys[key]; ok && was != at {
		o.violated("15: the key of %s of %s is that of %s of %s", at.op, at.run, was.op, was.run)
	}
	o.keys[key] = at
	if was, ok := o.keyOf[at]; ok && was != key && !o.changed[at.run] {
		o.violated("15: attempt %d of %s of %s has another key than one before it", attempt, at.op, at.run)
	}
	o.keyOf[at] = key
}

// ahead is how far nodes may be ahead now.
func (o *oracle) ahead() time.Duration { return o.plan.Ahead(o.now()) }

// gotFurther takes a record of a run, which clears it of the suspicion that it does nothing but end its process: other
// branches may go on each time.
func (o *oracle) gotFurther(run string) {
	for at := range o.inARow {
		if at.run == run {
			o.inARow[at] = min(o.inARow[at], 0)
		}
	}
}

// patience is how often a run may kill its process before it is stalled: twice with others, then
// while it is looked for among them, and three times alone.
const patience = 15

// operated returns how often an operator has asked for something of a run. What lets it go on lets it
// be counted anew how often it has killed its process.
func (o *oracle) operated(run string) (n int) {
	for _, a := range o.plan.Acts {
		if a.Run == run && o.operator(a.Kind) && o.acts[a.No] != nil {
			n++
		}
	}
	return n
}

// deadly says whether processes die in this world of another cause than their runs.
func (o *oracle) deadly() bool {
	return o.moves() || slices.ContainsFunc(o.plan.Faults, func(f plan.Fault) bool {
		return !slices.Contains([]string{plan.Hints, plan.Jump, plan.Lose, plan.Unheard, plan.Refuse}, f.Kind)
	})
}

// Causes of stalled runs: their process died too often, or their code asks for something else than is
// recorded, as after an edit of a step behind which it has undone others.
const (
	poison   = "poison"
	mismatch = "mismatch"
)

// died takes the death of a machine.
func (o *oracle) died(node string) {
	o.count("node died")
	o.story.Tell("%s has ended", node)
	o.lates.unrest = o.now()
	o.limits.died(node)
}

// recorded takes the commit of the result of an execution.
func (o *oracle) recorded(exec string) {
	b := o.bodies[exec]
	if b == nil {
		o.violated("2: a result is recorded of an execution that never began: %q", exec)
		return
	}
	if _, ok := o.durable[b.operation]; !ok {
		o.durable[b.operation] = o.now()
	}
}

// rewound takes a change of a run's history.
func (o *oracle) rewound(run string) { o.changed[run] = true }

// calm says whether nothing goes wrong in this world, and no operator acts.
func (o *oracle) calm() bool {
	if len(o.plan.Faults) > 0 || len(o.killed) > 0 || o.moves() {
		return false
	}
	return !slices.ContainsFunc(o.plan.Acts, func(a plan.Act) bool { return o.operator(a.Kind) })
}

func (o *oracle) operator(kind string) bool {
	return kind != plan.Send && kind != plan.Publish && kind != plan.Update
}

// moves says whether nodes join later, or leave.
func (o *oracle) moves() bool {
	return slices.ContainsFunc(o.plan.Nodes, func(n plan.Node) bool { return n.From > 0 || n.Until > 0 })
}

// acted says whether somebody has asked for one of these things of a run, or may have.
func (o *oracle) acted(run string, kinds ...string) bool {
	return slices.ContainsFunc(o.plan.Acts, func(a plan.Act) bool {
		return a.Run == run && slices.Contains(kinds, a.Kind) && o.acts[a.No] != nil
	})
}

// judge looks at how everything has ended.
func (o *oracle) judge() {
	if !o.settled {
		return // the world is stuck, or has not ended: that is said already
	}
	for _, r := range o.plan.Runs {
		start := o.started[r.ID]
		d := o.dumps[r.ID]
		switch {
		case start.Kind == plan.Done && d == nil:
			o.ends.missing(r.ID, o.acted(r.ID, plan.Delete))
		case start.Kind != plan.Done && start.Kind != plan.Unknown:
			o.violated("27: the start of %s: %s %s", r.ID, start.Kind, start.Err)
		}
		if d != nil {
			o.ended(r, d)
		}
	}
	o.forks()
	o.granted()
	o.plans.judge()
	o.together()
	o.messages()
	o.items.judge()
	o.updates()
	o.scene()
}

// begins takes the begin of a run's code. One whose end an operator has asked for may begin before its time: who takes
// it for that does not execute it, but who takes it from there does, because only the code tells what may have had an
// effect.
func (o *oracle) begins(run string) {
	i := slices.IndexFunc(o.plan.Runs, func(r plan.Run) bool { return r.ID == run })
	if i < 0 || o.plan.Runs[i].After == 0 {
		return
	}
	if due := o.asked[run] + o.plan.Runs[i].After; o.now()+o.ahead() < due && !o.acted(run, plan.Cancel, plan.Terminate) {
		o.violated("20: %s begins at %s, and is to begin at %s", run, o.now(), due)
	}
	o.count("begin of a run that was delayed")
}

// barrier: a body begins when the results of the steps before it are recorded. It looks at the steps
// that are not in branches, loops or scopes.
func (o *oracle) barrier(n plan.Note) {
	i := slices.IndexFunc(o.plan.Runs, func(r plan.Run) bool { return r.ID == n.Run })
	if i < 0 || o.plan.Sealed || o.changed[n.Run] {
		return
	}
	p := o.plan.Runs[i].Program
	p = p[:max(0, slices.IndexFunc(p, func(op plan.Op) bool { return op.Name == n.Op }))]
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Kind == plan.Continue {
			p = p[i:] // results of the former incarnation are in the input of this one
			break
		}
	}
	for _, op := range p {
		at := operation{n.Run, op.Name}
		if _, ok := o.durable[at]; op.Kind == plan.Step && !ok && !o.perhaps[at] {
			o.violated("2: %s of %s begins, and the result of %s is not recorded", n.Op, n.Run, op.Name)
		}
	}
}

// together: an act that starts several runs starts all or none.
func (o *oracle) together() {
	for _, r := range o.plan.Runs {
		for _, other := range o.plan.Runs {
			if r.With > 0 && r.With == other.With && (o.dumps[r.ID] == nil) != (o.dumps[other.ID] == nil) &&
				!o.ends.known(r.ID) && !o.ends.known(other.ID) {
				o.violated("4: of the runs of one start there is one of %s and %s", r.ID, other.ID)
			}
		}
	}
}

// ended judges the end of a run of the plan.
func (o *oracle) ended(r plan.Run, d *plan.Dump) {
	switch d.Status {
	case "succeeded":
		x := &expected{oracle: o, run: r.ID, lines: d.Lines}
		x.program(r.Program, "")
		if len(x.lines) > 0 && x.wrong == "" {
			x.wrong = fmt.Sprintf("more lines than expected: %q", x.lines)
		}
		if !o.changed[r.ID] {
			o.feeds(r, d)
		}
		if x.wrong != "" {
			o.violated("27: the result of %s is wrong: %s, in %q", r.ID, x.wrong, d.Lines)
		}
	case "failed":
		if !mayFail(r.Program) && !o.bereft(&r, d) {
			o.violated("27: %s has failed: %s", r.ID, d.Error)
		}
	case "cancelled":
		_, _, scheduled := o.plans.byName(r.ID)
		if !scheduled && r.MaxRun == 0 && r.MaxWait == 0 && !o.misled[r.ID] && !o.acted(r.ID, plan.Cancel, plan.Terminate) {
			o.violated("27: %s is cancelled, and nobody has cancelled it: %s", r.ID, d.Error)
		}
	default:
		o.violated("27: %s has ended as %s", r.ID, d.Status)
	}
	if d.Status == "failed" || d.Status == "cancelled" && r.Undoes && !o.misled[r.ID] && !o.acted(r.ID, plan.Terminate) {
		for _, e := range d.Entries {
			if e.Owes && !e.Undone && o.atRest[r.ID] &&
				strings.Contains(d.Error, "not undone: ") && strings.Contains(d.Error, e.At) {
				// A cancel ends a paused or stalled run without its code. Its error says what it owes.
				o.count("cancelled at rest, owing")
				continue
			}
			if e.Owes && !e.Undone {
				o.violated("22: %s is %s, and %s is not undone", r.ID, d.Status, e.At)
			}
		}
	}
}

// bereft says whether a run has failed because its child was cancelled, and has ended itself before: an operator
// has then taken it up, and a child that was cancelled with it does not go on. A fork awaits the children of its
// origin, which may have cancelled them.
func (o *oracle) bereft(r *plan.Run, d *plan.Dump) bool {
	if strings.Contains(r.ID, "-fork-") {
		return strings.Contains(d.Error, "cancelled: its parent")
	}
	ended := r.MaxRun > 0 || r.MaxWait > 0 || o.acted(r.ID, plan.Cancel, plan.Terminate)
	return ended && o.acted(r.ID, plan.Edit, plan.Rewind) && strings.Contains(d.Error, "cancelled: its parent has ended")
}

// messages accounts for what was sent to runs.
func (o *oracle) messages() {
	for _, r := range o.plan.Runs {
		d := o.dumps[r.ID]
		if d == nil {
			continue
		}
		received := map[string]int{}
		for _, line := range d.Lines {
			// Lines with a colon are those of children, whose results are in this one.
			op, value, _ := strings.Cut(line, "=")
			if strings.Contains(op, ":") {
				continue
			}
			if strings.HasPrefix(value, "act ") || strings.HasPrefix(value, "first of ") || o.steady(value) {
				received[value]++
			}
		}
		for value, n := range received {
			if n > 1 && !o.acted(r.ID, plan.Edit, plan.Replay) && !o.letterSent() {
				o.violated("17: %s has received %s %d times", r.ID, value, n)
			}
		}
		for _, a := range o.plan.Acts {
			if a.Kind != plan.Send || a.Run != r.ID || o.acts[a.No] == nil || o.acts[a.No].Kind != plan.Done {
				continue
			}
			value := fmt.Sprintf("act %d", a.No)
			kept := slices.ContainsFunc(d.Inbox, func(i string) bool { return strings.Contains(i, `\"`+value+`\"`) })
			if received[value] > 0 && kept && !o.changed[r.ID] {
				o.violated("16: %s has received %s, and still has it", r.ID, value)
			}
		}
		o.order(r, d)
	}
	o.inVain()
	o.events()
	// A consumed event goes to one run.
	had := map[string]string{}
	for _, r := range o.plan.Runs {
		if d := o.dumps[r.ID]; d != nil && !o.changed[r.ID] {
			for _, e := range d.Entries {
				if e.Kind == "event" && e.Value != "" && o.isOnce(e.Value) {
					if other, ok := had[e.Value]; ok && other != r.ID {
						o.violated("16: the event %s went to %s and to %s", e.Value, other, r.ID)
					}
					had[e.Value] = r.ID
				}
			}
		}
	}
}

// inVain judges the scene of that name: the event that was published went to one of those that
// waited for it, if not to the one that has ceased to wait.
func (o *oracle) inVain() {
	i := slices.IndexFunc(o.plan.Acts, func(a plan.Act) bool { return a.Kind == plan.Publish && a.Name == plan.InVain })
	if i < 0 || o.acts[o.plan.Acts[i].No] == nil || o.acts[o.plan.Acts[i].No].Kind != plan.Done {
		return
	}
	timedOut := 0
	for _, r := range o.plan.Runs {
		d := o.dumps[r.ID]
		if op := r.Program[0]; op.Kind != plan.Event || op.To != plan.InVain {
			continue
		} else if d == nil || d.Status != "succeeded" || o.changed[r.ID] {
			return
		} else if o.when[o.plan.Acts[i].No].begun < o.waits[r.ID] {
			return // it was published before the run came to wait
		} else if slices.Contains(d.Lines, plan.Line(op.Name, plan.TimedOut)) {
			timedOut++
		}
	}
	if timedOut == 2 {
		o.violated("16: nobody has got the event that a run has waited for during %s", plan.VeryLong)
	}
	o.count("event after a wait in vain")
}

// isOnce says whether the value is one of an event that one run only gets.
func (o *oracle) isOnce(value string) bool {
	return slices.ContainsFunc(o.plan.Acts, func(a plan.Act) bool {
		return a.Kind == plan.Publish && a.Name == "once" && value == fmt.Sprintf("act %d", a.No)
	})
}

// order: what one sender sends to a run under one name is received in its order.
func (o *oracle) order(r plan.Run, d *plan.Dump) {
	if o.changed[r.ID] {
		return
	}
	type mailbox struct {
		from int
		name string
	}
	got := slices.Clone(d.Entries)
	slices.SortFunc(got, func(a, b plan.Entry) int { return int(a.Order - b.Order) })
	o.orderOfCode(r, got)
	last := map[mailbox]int{}
	for _, e := range got {
		for i, a := range o.plan.Acts {
			if e.Kind != "receive" || a.Kind != plan.Send || a.Run != r.ID || e.Value != fmt.Sprintf("act %d", a.No) {
				continue
			}
			box := mailbox{a.From, a.Name}
			if i < last[box] {
				o.violated("19: %s has received %s after a later one of the same sender", r.ID, e.Value)
			}
			last[box] = i
		}
	}
}

// updates: an answer is the answer of a run that has it in its history.
func (o *oracle) updates() {
	for _, a := range o.plan.Acts {
		if out := o.acts[a.No]; a.Kind == plan.Update && out != nil && out.Kind == plan.Done {
			if want := fmt.Sprintf("answer to act %d", a.No); out.Value != want {
				o.violated("17: update %d was answered with %q; expected %q", a.No, out.Value, want)
			}
		}
	}
}
