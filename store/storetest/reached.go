package storetest

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
)

// situations are those that random operations must reach to be worth anything.
var situations = []string{
	"a turn committed", "a turn still ready", "a turn fenced", "a turn refused", "a batch repeated", "a batch with a former number",
	"a run claimed by a command", "a run replaced", "a start that exists", "an item that is a duplicate",
	"an item for an ended run", "an item for nobody",
	"a run claimed", "a run claimed for an item", "a claim cut short", "a claim fenced", "a wake time to come",
	"a shard taken", "a shard refused", "suspects", "strikes", "a lease renewed", "a lease not renewed",
	"a run claimed at rest", "an entry pruned", "a run that has continued as new",
	"an entry rewritten", "an item returned", "an act noted", "a fork", "a generation raised",
	"a value left out", "several pages", "a bad cursor", "a value of a consumed item gone",
	"a terminal run running again", "a clock that went back",
	"an update answered", "an update abandoned", "a value set again", "a stream with items", "a mark in a stream",
	"a tag removed", "a run found by its tag",
	"a dead letter", "an item refused", "a dead letter new again", "a dead letter discarded",
	"a run swept", "rows swept alone", "a sweep fenced", "a run held", "a run granted",
	"an item consumed with an update", "an item kept by an update that is held back",
}

// lineSituations occur only in a store with lines.
var lineSituations = []string{"a run admitted", "a run claimed that was admitted"}

// count notes the situations that an operation has reached.
func (w *world) count(o op, a answer) {
	reached := func(what string, is bool) {
		if is {
			w.reached[what]++
		}
	}
	reached("a bad cursor", a.Error == store.ErrBadCursor.Error())
	switch v := a.Value.(type) {
	case store.BatchResult:
		_, repeat := o.(*repeatOp)
		reached("a batch repeated", repeat)
		for _, t := range v.Turns {
			reached("a turn "+t.Verdict.String(), true)
		}
		w.countAnswers(v.Commands)
	case store.Claims:
		reached("a claim cut short", v.More)
		reached("a claim fenced", len(v.Fenced) > 0)
		reached("a wake time to come", v.NextWake != 0)
		for _, c := range v.Runs {
			reached("a run claimed", c.New)
			reached("a run claimed for an item", c.New && len(c.Items) > 0)
			reached("strikes", c.Run.Strikes > 0)
			reached("a run claimed at rest", c.Run.Status == store.Queued || c.Run.Status == store.Suspended)
		}
	case acquired:
		_, renewal := o.(*renewOp)
		for _, shard := range v.Shards {
			reached("a shard taken", shard.Held && !renewal)
			reached("a shard refused", !shard.Held && !renewal)
			reached("a lease renewed", shard.Held && renewal)
			reached("a lease not renewed", !shard.Held && renewal)
			reached("suspects", shard.Suspects > 0)
		}
	case []store.Snapshot:
		for _, snap := range v {
			for _, e := range snap.Entries {
				reached("a value left out", e.Value == nil && e.Size >= store.LargeValue)
			}
		}
	case [][]store.Run:
		reached("several pages", len(v) > 1)
	}
	switch o := o.(type) {
	case *applyOp:
		if v, ok := a.Value.(struct {
			Answers []store.Answer
			Now     store.Time
		}); ok {
			w.countAnswers(v.Answers)
		}
	case *commitOp:
		reached("a batch with a former number", o.Former && a.Error != "")
		reached("an entry pruned", w.spec.check.pruned > 0)
		w.countTurns(o)
		if v, ok := a.Value.(store.BatchResult); ok {
			w.countTakenBack(o, v.Turns)
		}
	case *clockOp:
		reached("a clock that went back", o.By < 0)
	}
	if v, ok := a.Value.(swept); ok {
		reached("a run swept", v.Runs > 0)
		reached("rows swept alone", v.Rows > 0 && v.Runs == 0)
		reached("a sweep fenced", len(v.Fenced) > 0)
	}
	if _, ok := o.(*discardOp); ok {
		were, _ := a.Value.([]bool)
		reached("a dead letter discarded", slices.Contains(were, true))
	}
	for _, r := range w.spec.now.Runs {
		reached("a run that has continued as new", r.Incarnation > 0)
		reached("a fork", r.Random != store.Seed{} && r.Status != store.Queued)
		for _, it := range w.spec.now.Items[r.No] {
			reached("a dead letter", it.State == store.Dead)
			reached("an item refused", it.State == store.Dead && it.Verdict != nil)
			reached("a dead letter new again", it.State == store.New && w.buried[it.No])
			if it.State == store.Dead {
				w.buried[it.No] = true
			}
		}
		reached("a run held", r.Marks&store.Held != 0)
		reached("a run admitted", r.Marks&store.Admitted != 0)
		reached("a run claimed that was admitted", r.Claimed && r.Marks&store.Admitted != 0)
		reached("a run granted", r.Claimed && r.Queue != nil && r.Marks&store.Held == 0)
		reached("a run replaced", strings.Contains(r.ID, "@"))
	}
	w.countFeeds(o, a)
}

func (w *world) countAnswers(answers []store.Answer) {
	names := map[store.Outcome]string{store.Exists: "a start that exists", store.Duplicate: "an item that is a duplicate",
		store.Ended: "an item for an ended run", store.NotFound: "an item for nobody"}
	for _, a := range answers {
		if name := names[a.Outcome]; name != "" {
			w.reached[name]++
		}
		if a.Claimed {
			w.reached["a run claimed by a command"]++
		}
	}
}

// countTurns notes the situations that the turns of a batch have reached.
func (w *world) countTurns(o *commitOp) {
	for i := range o.Turns {
		t := &o.Turns[i]
		for _, it := range w.spec.now.Items[t.Run] {
			for _, c := range t.Consumed {
				if c.Item == it.No && it.State == store.Consumed {
					w.reached["a value of a consumed item gone"]++
				}
			}
		}
		if t.Update == nil || t.Update.Status != store.Running {
			continue
		}
		for _, r := range w.spec.now.Runs {
			if r.No == t.Run && r.Claimed && r.Output != nil {
				w.reached["a terminal run running again"]++
			}
		}
	}
}

// countTakenBack notes the situations of committed turns that revert.
func (w *world) countTakenBack(o *commitOp, results []store.TurnResult) {
	for i := range o.Turns {
		t := &o.Turns[i]
		if i < len(results) && results[i].Verdict == store.StillReady && len(t.Update.Consumed) > 0 {
			w.reached["an item kept by an update that is held back"]++
		}
		if i >= len(results) || results[i].Verdict != store.Committed {
			continue
		}
		for what, is := range map[string]bool{
			"an entry rewritten": len(t.Rewrites) > 0, "an item returned": len(t.Returned) > 0,
			"an item consumed with an update": t.Update != nil && len(t.Update.Consumed) > 0,
			"an act noted":                    len(t.Audit) > 0, "a generation raised": t.Update != nil && t.Update.Generation > 0,
		} {
			if is {
				w.reached[what]++
			}
		}
	}
}
