package judge

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/store"
)

// items accounts for all that was accepted for runs: in the end each item was consumed, or is
// in its inbox, or is a dead letter. It sees what the store has answered, so that an answer
// which is lost on its way counts as well.
type items struct {
	*oracle
	accepted map[store.ItemNo]*item
	unseen   map[store.RunNo]map[store.ItemNo]store.ItemKind // what the run has not looked at
	removed  map[store.ItemNo]bool                           // dead letters, by an operator
}

type item struct {
	run   store.RunNo
	id    string
	kind  store.ItemKind
	name  string
	value string
	taken bool
}

// answered takes the store's answers to commands.
func (a *items) answered(commands []store.Command, answers []store.Answer) {
	for i, answer := range answers {
		if i < len(commands) && commands[i].Item != nil && answer.Repeated {
			a.count("item repeated")
		}
		if i >= len(commands) || commands[i].Item == nil || answer.Outcome != store.Applied || answer.Repeated {
			continue
		}
		it := commands[i].Item
		if a.unseen[answer.Run.No] == nil {
			a.unseen[answer.Run.No] = map[store.ItemNo]store.ItemKind{}
		}
		a.unseen[answer.Run.No][answer.Item] = it.Kind
		if !it.Kind.CanBeDead() {
			continue // it is answered, or belongs to an entity
		}
		if was := a.accepted[answer.Item]; was != nil {
			a.violated("17: item %d of run %d was accepted twice", answer.Item, answer.Run.No)
		}
		a.accepted[answer.Item] = &item{run: answer.Run.No, id: it.ID, kind: it.Kind, name: it.Name, value: string(it.Value)}
		if answer.Run.Status.Terminal() {
			a.violated("16: %s has ended, and accepts an item of kind %d, %s", answer.Run.ID, it.Kind, it.Name)
		}
	}
}

// remove takes the removal of a dead letter. A run that had ended when it came has never looked at it.
func (a *items) remove(no store.ItemNo) {
	a.removed[no] = true
	for _, unseen := range a.unseen {
		delete(unseen, no)
	}
}

// examined takes the items that a turn has looked at, or may have.
func (a *items) examined(t *store.Turn, v store.Verdict) {
	unseen := a.unseen[t.Run]
	for _, no := range t.Seen {
		delete(unseen, no)
	}
	for _, c := range t.ConsumedBy(v) {
		delete(unseen, c.Item)
	}
	for _, no := range t.Dead {
		delete(unseen, no)
	}
	for _, r := range t.Refused {
		delete(unseen, r.Item)
	}
}

// looked takes what a turn that was written with a verdict has looked at.
func (a *items) looked(t *store.Turn, id string, v store.Verdict) {
	unseen := a.unseen[t.Run]
	counts := v == store.Committed
	for _, c := range t.Consumed {
		if !counts && string(c.Verdict) == "y" && unseen[c.Item] == store.ItemTerminate {
			a.violated("1: %s goes on, and its terminate was accepted", id)
		}
	}
	a.examined(t, v)
	if t.Update == nil || !counts {
		return
	}
	for no, kind := range unseen {
		switch {
		case t.Update.Status == store.Suspended && t.Update.Marks&(store.Paused|store.Held) == 0:
			a.violated("18: %s is suspended, and has not looked at item %d of kind %d", id, no, kind)
		case t.Update.Status.Terminal() && !a.ends.known(id) && (kind == store.ItemCancel || kind == store.ItemTerminate):
			a.violated("23: %s ends as %s, and has not looked at its cancel", id, t.Update.Status)
		}
	}
	if t.Update.Status.Terminal() || t.Update.Continue != nil { // the store has answered the updates
		maps.DeleteFunc(unseen, func(_ store.ItemNo, kind store.ItemKind) bool { return kind == store.ItemUpdate })
	}
}

// turn takes a turn that was written.
func (a *items) turn(t *store.Turn, v store.Verdict) {
	for _, it := range t.Returned {
		for no, known := range a.accepted {
			// What a rewind makes from the history has the ID of the item, and no number.
			if no == it.No || known.run == t.Run && known.id == it.ID {
				known.taken = false
				a.count("item returned")
			}
		}
	}
	for _, c := range t.ConsumedBy(v) {
		known := a.accepted[c.Item]
		switch {
		case known == nil:
		case known.run != t.Run:
			a.violated("16: run %d has consumed item %d of run %d", t.Run, c.Item, known.run)
		case known.taken:
			a.violated("17: run %d has consumed item %d twice", t.Run, c.Item)
		default:
			known.taken = true
			if known.kind == store.ItemMessage && !slices.ContainsFunc(t.Entries, func(e store.Entry) bool {
				return e.State == store.Done && string(e.Value) == known.value
			}) {
				a.count("message consumed without an entry of its own")
			}
		}
	}
}

// replayed judges the dead letters that an operator has sent again: what was a message is one once more.
func (a *items) replayed() {
	for _, act := range a.plan.Acts {
		out := a.acts[act.No]
		if act.Kind != plan.Replay || out == nil || out.Kind != plan.Done || out.Value == "" {
			continue
		}
		no, err := strconv.ParseInt(out.Value, 10, 64)
		if known := a.accepted[store.ItemNo(no)]; err != nil || known == nil || known.kind != store.ItemMessage {
			continue
		}
		a.count("dead letter sent again")
		sent := false
		for _, it := range a.accepted {
			sent = sent || it.id == "d:"+out.Value
		}
		if !sent {
			a.violated("16: the dead letter %d was sent again, and no run has accepted it", no)
		}
	}
}

// judge compares with what there is at the end.
func (a *items) judge() {
	runs, kept, dead := map[store.RunNo]*plan.Dump{}, map[store.ItemNo]bool{}, map[store.ItemNo]bool{}
	for _, d := range a.dumps {
		runs[store.RunNo(d.No)] = d
		for _, no := range d.Items {
			kept[store.ItemNo(no)] = true
		}
	}
	a.replayed()
	for _, no := range a.letters {
		dead[store.ItemNo(no)] = true
		a.count("dead letter")
	}
	for no, it := range a.accepted {
		d := runs[it.run]
		switch {
		case d == nil: // an entity
		case a.removed[no] && (kept[no] || dead[no]):
			a.violated("16: item %d of %s was removed by an operator, and is there", no, d.ID)
		case a.removed[no] && it.taken:
			a.violated("16: %s has consumed item %d, which was a dead letter and was removed", d.ID, no)
		case a.removed[no]:
		case it.taken && (kept[no] || dead[no]):
			a.violated("16: %s has consumed item %d, and still has it", d.ID, no)
		case kept[no] && dead[no]:
			a.violated("16: item %d of %s is a dead letter, and in its inbox", no, d.ID)
		case !it.taken && !kept[no] && !dead[no]:
			a.violated("16: item %d of %s, %s %q, was accepted, and is nowhere",
				no, d.ID, it.name, strings.ToValidUTF8(it.value, "?"))
		}
	}
}
