package judge

import (
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// ends knows which runs have ended, and when, by what the store has answered.
type ends struct {
	*oracle
	at       map[string]time.Duration
	children map[store.RunNo][]string // that end with their parent
	spared   map[string]bool          // children that were asked to end
}

// known says whether a run has ended.
func (e *ends) known(id string) bool { _, ok := e.at[id]; return ok }

// started takes the start of a run by another one.
func (e *ends) started(by store.RunNo, c *store.Start, answer store.Answer) {
	// A detached child has no place in its parent.
	if c.Parent == by && by != 0 && c.ParentLoc != "" && !strings.Contains(c.ParentLoc, "leave") &&
		answer.Outcome == store.Applied && !answer.Repeated {
		e.children[by] = append(e.children[by], c.ID)
	}
}

// sent takes what a run has sent.
func (e *ends) sent(c *store.Command, ids map[store.RunNo]string) {
	if c.Item != nil && (c.Item.Kind == store.ItemCancel || c.Item.Kind == store.ItemTerminate) {
		if c.RunNo != 0 {
			e.spared[ids[c.RunNo]] = true
		}
		e.spared[c.RunID] = true
	}
}

// turn takes a turn that was written, after what it has sent. changed: an operator has changed the
// run's history.
func (e *ends) turn(t *store.Turn, id string, changed bool) {
	if t.Update == nil {
		return
	}
	if !t.Update.Status.Terminal() {
		if e.known(id) && !rewrites(t) {
			e.violated("22: %s has ended, and is %s again without an act of an operator", id, t.Update.Status)
		}
		delete(e.at, id)
		return
	}
	if !e.known(id) {
		e.story.Tell("%s ends as %s", id, t.Update.Status)
		e.at[id] = e.now() // an ended run answers those that ask for its end later
	}
	for _, child := range e.children[t.Run] {
		switch {
		case e.known(child):
		case e.spared[child]:
			e.count("child cancelled at the end of its parent")
		case !changed:
			e.violated("24: %s has ended as %s, and its child %s goes on", id, t.Update.Status, child)
		}
	}
}

// keeps is how long an ended run is kept at least.
const keeps = time.Minute

// missing judges a run that was started and is not there at the end.
func (e *ends) missing(id string, deleted bool) {
	at, ended := e.at[id]
	switch {
	case deleted && ended:
		e.count("run deleted")
	case e.plan.Sweep > 0 && ended && e.now() >= at+keeps:
		e.count("run swept")
	case e.plan.Sweep > 0 && !ended:
		e.violated("29: %s is not there, and has not ended", id)
	case e.plan.Sweep > 0:
		e.violated("29: %s is not there at %s, and has ended at %s", id, e.now(), at)
	default:
		e.violated("1: the start of %s was acknowledged, and there is no such run", id)
	}
}
