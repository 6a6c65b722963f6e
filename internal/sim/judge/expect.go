package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/internal/sim/plan"
)

// mayFail says whether a program may end with an error of its own.
func mayFail(p plan.Program) bool {
	for _, op := range p {
		switch op.Kind {
		case plan.Fail:
			return true
		case plan.Step, plan.Task:
			if op.Body.Final {
				return true
			}
		case plan.Detach, plan.Await, plan.Hand:
		case plan.Try, plan.Saga:
			// What fails inside does not fail the outside, unless it is the child of a scope around.
			if op.Kind == plan.Try && failsScope(op.Subs[0]) || timesOut(op.Subs[0]) {
				return true
			}
		case plan.Go:
			if mayFail(op.Subs[1]) || (op.Fails || op.Count > 0) && mayFail(op.Subs[0]) {
				return true
			}
		default:
			for _, sub := range op.Subs {
				if mayFail(sub) {
					return true
				}
			}
		}
	}
	return false
}

// timesOut says whether a step in a program may fail for good by its timeout, which is no failure that the code around
// it expects.
func timesOut(p plan.Program) bool {
	return slices.ContainsFunc(p, func(op plan.Op) bool {
		return op.Body != nil && op.Body.Final && op.Body.Hangs || slices.ContainsFunc(op.Subs, timesOut)
	})
}

// failsScope says whether a child in a program may fail the scope that the program is in.
func failsScope(p plan.Program) bool {
	for _, op := range p {
		switch op.Kind {
		case plan.Saga, plan.Detach, plan.Call, plan.Hand:
		case plan.Go:
			if op.Fails && mayFail(op.Subs[0]) || failsScope(op.Subs[1]) {
				return true
			}
		default:
			if slices.ContainsFunc(op.Subs, failsScope) {
				return true
			}
		}
	}
	return false
}

// edited says whether a value is one that an operator has put in the place of a step's result.
func (x *expected) edited(value string) bool {
	return slices.ContainsFunc(x.plan.Acts, func(a plan.Act) bool {
		return a.Kind == plan.Edit && x.acts[a.No] != nil && value == fmt.Sprintf("act %d", a.No)
	})
}

// expected reads the lines of a result along the program that has made them.
type expected struct {
	*oracle
	run   string
	lines []string
	wrong string // the first thing that is
}

// take takes the line of an operation.
func (x *expected) take(op string) (value string, ok bool) {
	if x.wrong != "" {
		return "", false
	}
	if len(x.lines) == 0 {
		x.wrong = "no line of " + op
		return "", false
	}
	name, value, _ := strings.Cut(x.lines[0], "=")
	if name != op {
		x.wrong = fmt.Sprintf("expected a line of %s, found %q", op, x.lines[0])
		return "", false
	}
	x.lines = x.lines[1:]
	return value, true
}

// is says whether the next line is of the operation.
func (x *expected) is(op string) bool {
	return x.wrong == "" && len(x.lines) > 0 && strings.HasPrefix(x.lines[0], op+"=")
}

func (x *expected) program(p plan.Program, prefix string) {
	for _, op := range p {
		x.op(op, prefix)
	}
}

func (x *expected) op(op plan.Op, prefix string) {
	name := prefix + op.Name
	switch op.Kind {
	case plan.Step:
		by, ok := x.take(name)
		if !ok {
			return
		}
		b := x.bodies[by]
		switch {
		case op.Body.Final && !x.edited(by):
			x.wrong = fmt.Sprintf("%s has the result %q, and fails for good", name, by)
		case x.edited(by):
			x.count("result edited")
		case b == nil:
			x.wrong = fmt.Sprintf("%s is the result of an execution that never began: %q", name, by)
		case b.op != name:
			x.wrong = fmt.Sprintf("%s has the result of %s of %s", name, b.op, b.run)
		case !b.ended || b.err != "":
			x.wrong = fmt.Sprintf("%s has the result of an execution that has not succeeded: %s", name, by)
		case b.attempt <= op.Body.Fails:
			x.wrong = fmt.Sprintf("%s has succeeded in attempt %d, and fails %d times", name, b.attempt, op.Body.Fails)
		}
	case plan.Task:
		if by, ok := x.take(name); ok && x.edited(by) {
			x.count("result edited")
		} else if ok {
			x.wrong = x.tasks.result(by, x.run, name, op)
		}
	case plan.Sleep:
		if v, ok := x.take(name); ok && v != plan.Woke {
			x.wrong = name + " has ended early"
		}
	case plan.All, plan.Join, plan.Map:
		for _, sub := range op.Subs {
			x.program(sub, prefix)
		}
	case plan.Any, plan.Race:
		v, ok := x.take(name)
		if !ok {
			return
		}
		i, err := strconv.Atoi(v)
		if err != nil || i < 0 || i >= len(op.Subs) {
			x.wrong = fmt.Sprintf("%s has no branch %s", name, v)
			return
		}
		x.count("branch won")
		x.program(op.Subs[i], prefix)
	case plan.Settle:
		left := map[string]plan.Program{}
		for i, sub := range op.Subs {
			left[strconv.Itoa(i)] = sub
		}
		for range op.Subs {
			i, ok := x.take(name)
			if !ok {
				return
			}
			sub, ok := left[i]
			if !ok {
				x.wrong = fmt.Sprintf("%s: branch %q has ended twice, or is none", name, i)
				return
			}
			delete(left, i)
			x.program(sub, prefix)
		}
	case plan.Select:
		won, ok := x.take(name)
		switch {
		case !ok:
		case won == "0":
			x.program(op.Subs[0], prefix)
		case won == "1":
			x.count("message selected")
			x.received(op, name)
		case won != "2":
			x.wrong = fmt.Sprintf("%s has no case %s", name, won)
		}
	case plan.Loop:
		for i := range op.Count {
			x.program(op.Subs[0], fmt.Sprintf("%s[%d]/", name, i))
		}
	case plan.Call:
		x.program(op.Subs[0], name+":")
	case plan.Go:
		x.program(op.Subs[1], prefix)
		if op.Count == 0 {
			x.oneOf(name, "left")
		} else {
			x.program(op.Subs[0], name+":")
		}
	case plan.Await:
		x.oneOf(name, "ended", "failed", "not found", plan.TimedOut)
	case plan.Detach:
		if id, ok := x.take(name); ok {
			x.detached(op, name, id)
		}
	case plan.Continue:
		x.take(name)
	case plan.Receive, plan.Event, plan.Update:
		x.received(op, name)
	case plan.Promise:
		if v, ok := x.take(name); ok && v != plan.TimedOut && v != "resolved "+name {
			x.wrong = fmt.Sprintf("%s is %q", name, v)
		}
	case plan.Ask:
		x.answered(op, name)
	case plan.Hand:
		if x.is(name) && x.lines[0] != plan.Line(name, plan.TimedOut) {
			x.count("promise assigned by another run")
		}
		if op.Fails {
			x.oneOf(name, "rejected", plan.TimedOut)
		} else {
			x.oneOf(name, "resolved "+name, plan.TimedOut)
		}
	case plan.Send:
		x.oneOf(name, "sent", "refused")
	case plan.Publish:
		x.oneOf(name, "published")
	case plan.Value:
		x.oneOf(name, "set")
	case plan.Stream:
		x.oneOf(name, "appended")
	case plan.Version:
		if v, ok := x.take(name); ok && v != "0" && v != "1" {
			x.count("later version")
			x.program(op.Subs[0], prefix)
		}
	case plan.Try, plan.Saga:
		if mayFail(op.Subs[0]) && x.is(name) {
			x.oneOf(name, "failed")
			return
		}
		x.program(op.Subs[0], prefix)
		x.oneOf(name, "ok")
	case plan.Fail:
		if x.wrong == "" {
			x.wrong = name + " has not failed"
		}
	}
}

// detached judges the child that a run has let go. What has deleted it says its end.
func (x *expected) detached(op plan.Op, name, id string) {
	d := x.dumps[id]
	switch {
	case d == nil:
		x.ends.missing(id, false)
	case d.Status == "succeeded":
		child := &expected{oracle: x.oracle, run: id, lines: d.Lines}
		if child.program(op.Subs[0], name+":"); child.wrong == "" && len(child.lines) > 0 {
			child.wrong = fmt.Sprintf("more lines than expected: %q", child.lines)
		}
		if child.wrong != "" {
			x.violated("27: the result of %s, which %s has let go, is wrong: %s, in %q", id, x.run, child.wrong, d.Lines)
		}
		x.count("result of a detached child")
	case d.Status != "failed" || !mayFail(op.Subs[0]):
		x.violated("27: %s, which %s has let go, is %s: %s", id, x.run, d.Status, d.Error)
	}
}

func (x *expected) oneOf(name string, values ...string) {
	v, ok := x.take(name)
	for _, want := range values {
		if v == want {
			return
		}
	}
	if ok {
		x.wrong = fmt.Sprintf("%s is %q, expected one of %q", name, v, values)
	}
}

// received looks whether what an operation has got was sent there.
func (x *expected) received(op plan.Op, name string) {
	v, ok := x.take(name)
	if !ok || v == plan.TimedOut {
		return
	}
	origin, _, _ := strings.Cut(x.run, "-fork-")
	if v == "first of "+origin || strings.HasPrefix(v, "first of ") && x.letterSent() {
		return // a fork has what its origin has received before; a dead letter may be sent to another run
	}
	if strings.HasPrefix(v, "from ") {
		if wrong := x.fromCode(x.run, op, v); wrong != "" {
			x.wrong = fmt.Sprintf("%s has got %q, %s", name, v, wrong)
		}
		return
	}
	no, err := strconv.Atoi(strings.TrimPrefix(v, "act "))
	if err != nil || !slices.ContainsFunc(x.plan.Acts, func(a plan.Act) bool { return a.No == no }) {
		x.wrong = fmt.Sprintf("%s has got %q, which nobody has sent", name, v)
		return
	}
	for _, a := range x.plan.Acts {
		if a.No != no {
			continue
		}
		if a.Name != op.To || x.acts[no] == nil {
			x.wrong = fmt.Sprintf("%s has got %q, which was sent elsewhere, or was not sent yet", name, v)
		}
		if x.acts[no] != nil && x.acts[no].Kind == plan.Refused {
			x.wrong = fmt.Sprintf("%s has got %q, whose sender was refused: %s", name, v, x.acts[no].Err)
		}
	}
}
