package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/sim/plan"
)

// forks judges the runs that operators have forked: each ends as the program of its origin can. It is cancelled if the
// cancel of its origin stands before the place of the fork.
func (o *oracle) forks() {
	for _, a := range o.plan.Acts {
		out := o.acts[a.No]
		if a.Kind != plan.Fork || out == nil || out.Kind != plan.Done {
			continue
		}
		d := o.dumps[out.Value]
		if d == nil {
			o.ends.missing(out.Value, false)
			continue
		}
		r := o.plan.Runs[slices.IndexFunc(o.plan.Runs, func(r plan.Run) bool { return r.ID == a.Run })]
		r.ID = out.Value
		o.changed[r.ID] = true // its history is that of another run
		if d.Status != "cancelled" || !o.acted(a.Run, plan.Cancel, plan.Terminate) {
			o.ended(r, d)
		}
		o.count("fork " + d.Status)
	}
}

// granted judges what became of the cancels and terminates that were answered with yes: the run ends as cancelled,
// if no operator has taken it up, or started another one in its place.
func (o *oracle) granted() {
	for _, a := range o.plan.Acts {
		out, d := o.acts[a.No], o.dumps[a.Run]
		if a.Kind != plan.Cancel && a.Kind != plan.Terminate || out == nil || out.Kind != plan.Done || out.Value != "true" {
			continue
		}
		o.count("granted " + a.Kind)
		if d != nil && d.Status != "cancelled" && !o.acted(a.Run, plan.Retry, plan.Rewind, plan.Edit, plan.Delete) &&
			o.plan.Sweep == 0 {
			o.violated("23: act %d, a %s of %s, was answered with yes, and the run is %s", a.No, a.Kind, a.Run, d.Status)
		}
	}
}

// events accounts for what was published: an event that one run gets is that of a run, or is kept by its topic. One for
// all is kept. Nothing here lasts as long as a topic keeps what nobody wants.
func (o *oracle) events() {
	if o.plan.Sealed {
		return // what runs have got is not seen
	}
	for _, a := range o.plan.Acts {
		out := o.acts[a.No]
		if a.Kind != plan.Publish || out == nil || out.Kind != plan.Done {
			continue
		}
		value := fmt.Sprintf("act %d", a.No)
		switch kept := slices.Contains(o.kept[a.Name], value); {
		case o.unread("stet.topic/" + a.Name):
		case !kept && !(strings.HasPrefix(a.Name, "once") && o.got[value]):
			o.violated("16: the event %s of %s was accepted, and is nowhere", value, a.Name)
		case kept:
			o.count("event kept by its topic")
		}
	}
}

// unread says whether an entity has not looked at all that was sent to it. No run waits for that.
func (o *oracle) unread(entity string) bool {
	for no, items := range o.items.unseen {
		if r := o.lates.runs[no]; r != nil && r.ID == entity && len(items) > 0 {
			return true
		}
	}
	return false
}

// letterSent says whether an operator may have sent a dead letter again.
func (o *oracle) letterSent() bool {
	return slices.ContainsFunc(o.plan.Acts, func(a plan.Act) bool { return a.Kind == plan.Replay && o.acts[a.No] != nil })
}
