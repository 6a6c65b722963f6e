package runner

import (
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Answer consumes an item in the next turn, with the owner's answer if it is a verb.
func (r *Interpreter) Answer(no store.ItemNo, verdict []byte) {
	r.j.Answer(no, verdict)
}

// Decide answers a verb that asks nothing of the code, while the code is executing: a nudge
// wants no more than that; the others are for runs at rest, and are refused.
func (r *Interpreter) Decide(it store.Item) {
	switch ruling := verbs.Judge(&store.Run{Status: store.Running}, it.Kind); {
	case !r.j.Items.Know(it.No):
	case ruling.Refused != "":
		r.Answer(it.No, verbs.No(ruling.Refused))
	default:
		r.Answer(it.No, verbs.Yes())
		if it.Name != "" { // otherwise no operator has asked for it
			r.audit(&it)
		}
	}
}

// Deliver adds items to the inbox. Items that were delivered before are ignored, and so
// are verbs other than Cancel, which are not the runner's.
func (r *Interpreter) Deliver(items ...store.Item) {
	for i := range items {
		it := &items[i]
		if it.Kind.Verb() && it.Kind != store.ItemCancel && it.Kind != store.ItemWatch || !r.j.Items.Know(it.No) {
			continue
		}
		if r.deliver(it) {
			r.j.Log.See(it)
		}
	}
}

// deliver gives an item to what waits for its kind. It reports whether the item is to
// be marked as seen; otherwise that, or its consumption, is done.
func (r *Interpreter) deliver(it *store.Item) (see bool) {
	switch it.Kind {
	case store.ItemMessage:
		r.mail.Deliver(it.Name, *it)
	case store.ItemUpdate:
		if it.State == store.Consumed {
			r.updates.received(it.No)
			return false
		}
		r.mail.Deliver(UpdateBox(it.Name), *it)
	case store.ItemResolution:
		return r.promises.deliver(it)
	case store.ItemEnd:
		r.runs.Deliver(*it)
		return false
	case store.ItemDelivery:
		r.topics.Deliver(*it)
		return false
	case store.ItemGrant:
		if permit.OfStep(it) {
			r.steps.DeliverGrant(*it)
			return false
		}
	case store.ItemWatch:
		r.watches = append(r.watches, *it)
	case store.ItemCancel:
		return r.deliverCancel(it)
	}
	return true
}

// Watches returns the requests to be notified of the run's end. They stay in its inbox.
func (r *Interpreter) Watches() []store.Item { return r.watches }

// cancel is the cancel of the whole run.
type cancel struct {
	item       *store.Item // requested and not handed over
	handedOver bool
	reason     string
}

// deliverCancel looks at a request for a cancel. It reports whether the item is to be
// marked as seen, as deliver does; otherwise it is answered or kept.
func (r *Interpreter) deliverCancel(it *store.Item) bool {
	switch {
	case stored.ByAnother(it, r.j.Run):
		r.Answer(it.No, verbs.No(verbs.NotItsParent))
	case it.Name == "" && (r.undo.begun || r.cancel.handedOver || r.j.Cancelled() != nil):
		// A parent cancels its child with the scope and at its own end, by one item,
		// which this run may have consumed in an earlier activation.
		return true
	case r.undo.begun:
		r.Answer(it.No, verbs.No(verbs.Undoing))
	case r.cancel.item != nil || r.cancel.handedOver || r.j.Cancelled() != nil:
		r.Answer(it.No, verbs.No(verbs.AlreadyCancelling))
	case r.undo.turnTaken:
		r.undo.late = append(r.undo.late, *it)
	case r.undo.outcome != nil || r.over != nil && r.over.Status != store.Stalled:
		r.lateCancel(it)
	default:
		r.cancel.item = it
		return true
	}
	return false
}
