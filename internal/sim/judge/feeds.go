package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/sim/plan"
)

// operations returns the operations of a program by name, and whether some are side by side.
func operations(p plan.Program, into map[string]plan.Op) (beside bool) {
	for _, op := range p {
		into[op.Name] = op
		switch op.Kind {
		case plan.Call, plan.Detach, plan.Hand:
			continue // another run
		case plan.Go:
			beside = operations(op.Subs[1], into) || beside
			continue
		}
		for _, sub := range op.Subs {
			beside = operations(sub, into) || beside
		}
		beside = beside || slices.Contains(
			[]string{plan.All, plan.Join, plan.Any, plan.Race, plan.Map, plan.Settle, plan.Select}, op.Kind)
	}
	return beside
}

// feeds judges the values and streams of a run that has succeeded: what its result names is
// there, once, in its order, and so are the items that the accepted executions have emitted.
func (o *oracle) feeds(r plan.Run, d *plan.Dump) {
	ops := map[string]plan.Op{}
	beside := operations(r.Program, ops)
	values, order := map[string]string{}, map[string][]string{}
	for _, line := range d.Lines {
		name, value, _ := strings.Cut(line, "=")
		if strings.Contains(name, ":") {
			continue // of a child
		}
		op := ops[name[strings.LastIndex(name, "/")+1:]]
		switch {
		case op.Kind == plan.Value && value == "set":
			values[op.To] = name
		case op.Kind == plan.Stream && value == "appended":
			order[op.To] = append(order[op.To], name)
		case op.Kind == plan.Step:
			last := -1
			for i := range op.Body.Emits {
				item := fmt.Sprintf("%s %s %d", name, value, i)
				at := slices.Index(d.Streams["emitted"], item)
				switch {
				case at < 0:
					o.violated("4: %s has the result of an execution whose item %q is not in the stream", r.ID, item)
				case at < last:
					o.violated("4: %s: item %q is before the one that was emitted before it", r.ID, item)
				case slices.Contains(d.Streams["emitted"][at+1:], item):
					o.violated("17: %s: item %q is in the stream twice", r.ID, item)
				}
				last = at
			}
		}
	}
	for name, want := range values {
		if have, ok := d.Values[name]; !ok || !beside && have != want {
			o.violated("4: the value %s of %s is %q, expected that of %s", name, r.ID, have, want)
		}
	}
	for name, want := range order {
		last := -1
		for _, item := range want {
			at := slices.Index(d.Streams[name], item)
			switch {
			case at < 0:
				o.violated("4: %s has no item %q in its stream %s", r.ID, item, name)
			case slices.Contains(d.Streams[name][at+1:], item):
				o.violated("17: %s has the item %q twice in its stream %s", r.ID, item, name)
			case !beside && at < last:
				o.violated("4: %s has the item %q too early in its stream %s", r.ID, item, name)
			}
			last = at
		}
	}
}
