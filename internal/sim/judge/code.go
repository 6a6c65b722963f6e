package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/sim/plan"
)

// sender returns the run of the plan whose code has sent a value, and the operation that did. r is nil if another
// run has: a child, a fork, or one of a schedule.
func (o *oracle) sender(value string) (r *plan.Run, op plan.Op) {
	from, name, _ := strings.Cut(strings.TrimPrefix(value, "from "), " ")
	i := slices.IndexFunc(o.plan.Runs, func(r plan.Run) bool { return r.ID == from })
	if i < 0 || !strings.HasPrefix(value, "from ") {
		return nil, plan.Op{}
	}
	ops := map[string]plan.Op{}
	operations(o.plan.Runs[i].Program, ops)
	return &o.plan.Runs[i], ops[name[strings.LastIndex(name, "/")+1:]]
}

// steady says whether a run of the plan has sent a value, whose history no operator has changed: it has sent it once.
func (o *oracle) steady(value string) bool {
	r, op := o.sender(value)
	return r != nil && !o.changed[r.ID] && (op.Kind != plan.Ask || !o.acted(r.ID, plan.Fork)) // its forks send the same
}

// fromCode says what is wrong with a value that an operation of a run has received from the code of a run; "":
// nothing.
func (o *oracle) fromCode(run string, by plan.Op, value string) string {
	r, op := o.sender(value)
	if r == nil {
		return ""
	}
	sends, name := plan.Send, op.Key
	switch by.Kind {
	case plan.Event:
		sends, name = plan.Publish, op.To
	case plan.Update:
		sends = plan.Ask
	}
	known := slices.ContainsFunc(o.plan.Runs, func(r plan.Run) bool { return r.ID == run })
	switch {
	case op.Kind != sends || name != by.To:
		return "which no operation of " + r.ID + " has sent there"
	case by.Kind != plan.Event && known && op.To != run && !o.letterSent():
		return fmt.Sprintf("which was sent to %s", op.To)
	}
	o.count("received from code: " + by.Kind)
	return ""
}

// answered takes the line of a request that code has sent to another run.
func (x *expected) answered(op plan.Op, name string) {
	v, ok := x.take(name)
	if !ok || x.edited(v) || v == "refused" || v == "pending" {
		return
	}
	if !strings.HasPrefix(v, "answer to from ") || !strings.HasSuffix(v, " "+name) {
		x.wrong = fmt.Sprintf("%s has the answer %q, which is that of another request to %s", name, v, op.To)
		return
	}
	x.count("request of code answered")
}

// orderOfCode: what the code of one run sends to another under one name, outside of branches and loops, is received
// in its order.
func (o *oracle) orderOfCode(r plan.Run, received []plan.Entry) {
	type mailbox struct{ from, name string }
	last := map[mailbox]int{}
	for _, e := range received {
		from, op := o.sender(e.Value)
		if e.Kind != "receive" || from == nil || o.changed[from.ID] || op.Kind != plan.Send {
			continue
		}
		i := slices.IndexFunc(from.Program, func(of plan.Op) bool { return of.Name == op.Name })
		if i < 0 {
			continue
		}
		box := mailbox{from.ID, op.Key}
		if before, ok := last[box]; ok && i < before {
			o.violated("19: %s has received %q after a later one of the same run", r.ID, e.Value)
		} else if ok {
			o.count("received in the order of code")
		}
		last[box] = i
	}
}
