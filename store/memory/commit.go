package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return store.BatchResult{}, err
	}
	if err := b.Validate(); err != nil {
		return store.BatchResult{}, err
	}
	if err := s.behind(boot{b.Node, b.Boot}, b.Last); err != nil {
		return store.BatchResult{}, err
	}
	n := s.node(b.Node, b.Boot)
	if b.No < n.batch {
		return store.BatchResult{}, fmt.Errorf("%w: batch: expected a number from %d, found %d", store.ErrInvalid,
			n.batch, b.No)
	}
	repeat := b.No == n.batch
	result := store.BatchResult{Turns: slices.Clone(n.verdicts), Now: now}
	if !repeat {
		result.Turns = make([]store.TurnResult, len(b.Turns))
		n.batch, n.verdicts = b.No, make([]store.TurnResult, len(b.Turns))
	}
	for i, t := range b.Turns[:min(len(b.Turns), len(result.Turns))] {
		if !repeat {
			n.verdicts[i] = s.commit(t, b.LeaseOf(t.Shard), now)
			result.Turns[i] = n.verdicts[i]
		}
		for _, sends := range t.Sent(result.Turns[i].Verdict) {
			for k := range sends {
				result.Turns[i].Sends = append(result.Turns[i].Sends, s.send(t, &sends[k], now, b.Leases, repeat))
			}
		}
	}
	for i := range b.Commands {
		result.Commands = append(result.Commands, s.apply(&b.Commands[i], now, b.Leases, repeat))
	}
	s.changed(s)
	return result, nil
}

// commit writes one turn.
func (d *data) commit(t *store.Turn, l *store.Lease, now store.Time) store.TurnResult {
	if d.current(l) == nil {
		return store.TurnResult{Verdict: store.Fenced}
	}
	r := d.runs[t.Run]
	if reason := d.refuses(r, t); reason != "" {
		return store.TurnResult{Verdict: store.Refused, Reason: reason}
	}
	r.prune(t)
	for _, list := range [][]store.Entry{t.Rewrites, t.Entries} {
		for i := range list {
			e := cloneEntry(&list[i])
			e.Size = len(e.Value)
			r.entries[entryKey{t.Incarnation, e.Loc}] = &e
		}
	}
	for _, no := range t.Seen {
		if it := r.item(no); it.State == store.New {
			it.State = store.Seen
		}
	}
	for _, c := range t.Consumed {
		r.consume(&c)
	}
	for _, c := range t.Answers {
		r.item(c.Item).Verdict = bytes.Clone(c.Verdict)
	}
	for i := range t.Returned {
		d.giveAgain(r, &t.Returned[i], now)
	}
	r.publish(t, now)
	for _, no := range t.Dead {
		r.item(no).State = store.Dead
	}
	for _, x := range t.Refused {
		r.refuse(r.item(x.Item), x.Reason)
	}
	r.examine(d)
	r.note(t.Audit, now)
	verdict := store.Committed
	if t.Update != nil {
		verdict = d.update(r, t.Update, now)
	}
	if len(t.Returned) > 0 && r.Status.Terminal() {
		r.bury(false, nil)
	}
	r.examine(d)
	return store.TurnResult{Verdict: verdict}
}

// prune deletes the spans of the history that a turn drops.
func (r *run) prune(t *store.Turn) {
	if len(t.Prune) == 0 {
		return
	}
	maps.DeleteFunc(r.entries, func(k entryKey, _ *store.Entry) bool { return prunes(t, k.incarnation, k.loc) })
}

// prunes reports whether a turn deletes the entry at a location.
func prunes(t *store.Turn, incarnation int, loc string) bool {
	return incarnation == t.Incarnation && slices.ContainsFunc(t.Prune, func(s store.Span) bool { return s.Contains(loc) })
}

// send carries out what a turn sends.
func (d *data) send(t *store.Turn, c *store.Command, now store.Time, leases []store.Lease, repeat bool) store.Answer {
	answer := d.apply(c, now, leases, repeat)
	nobody := answer.Outcome == store.NotFound || answer.Outcome == store.Ended
	if nobody && c.Item != nil && c.Item.Kind == store.ItemWatch {
		if r := d.runs[t.Run]; !r.Status.Terminal() && r.itemIDs[c.Item.ID] == nil {
			d.insert(r, storekit.UnwatchableEnd(c.Item), now)
		}
	}
	return answer
}

// refuses returns why the turn breaks a law, or "".
func (d *data) refuses(r *run, t *store.Turn) string {
	switch {
	case r == nil:
		return fmt.Sprintf("there is no run number %d", t.Run)
	case r.Shard != t.Shard:
		return fmt.Sprintf("the run is of shard %s, not %s", r.Shard, t.Shard)
	case r.Incarnation != t.Incarnation:
		return fmt.Sprintf("the run is in incarnation %d, not %d", r.Incarnation, t.Incarnation)
	case r.condition != claimed:
		return "the run is not claimed"
	case t.Update != nil && !r.Status.CanBecome(t.Update.Status):
		return fmt.Sprintf("a %s run cannot become %s", r.Status, t.Update.Status)
	case t.Update != nil && t.Update.Continue != nil && r.Status != store.Running:
		return fmt.Sprintf("a %s run cannot continue as new", r.Status)
	case t.Update != nil && t.Update.Generation != 0 && t.Update.Generation <= r.Generation:
		return fmt.Sprintf("generation %d does not follow %d", t.Update.Generation, r.Generation)
	}
	written := map[string]*store.Entry{} // by this turn
	for i := range t.Rewrites {
		e := &t.Rewrites[i]
		if r.entries[entryKey{t.Incarnation, e.Loc}] == nil || prunes(t, t.Incarnation, e.Loc) {
			return fmt.Sprintf("there is no entry at %q to be rewritten", e.Loc)
		}
		written[e.Loc] = e
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		old := written[e.Loc]
		if old == nil && !prunes(t, t.Incarnation, e.Loc) {
			old = r.entries[entryKey{t.Incarnation, e.Loc}]
		}
		if !overwritable(old, e) {
			return fmt.Sprintf("the entry at %q is final and different", e.Loc)
		}
		written[e.Loc] = e
	}
	for _, no := range t.Seen {
		if r.item(no) == nil {
			return fmt.Sprintf("the run has no item number %d", no)
		}
	}
	consumed := map[store.ItemNo]bool{} // by this turn
	verdicts := map[store.ItemNo]bool{} // of these, with one
	done := map[store.ItemNo]bool{}     // by this turn
	for _, c := range t.Consumed {
		if it := r.item(c.Item); it == nil || !pending(it) || done[c.Item] {
			return fmt.Sprintf("the run has no pending item number %d to consume", c.Item)
		}
		consumed[c.Item], verdicts[c.Item] = true, c.Verdict != nil
		done[c.Item] = true
	}
	for _, no := range t.Dead {
		if it := r.item(no); it == nil || !pending(it) || done[no] || !it.Kind.CanBeDead() {
			return fmt.Sprintf("the run has no pending item number %d for a dead letter", no)
		}
		done[no] = true
	}
	for _, x := range t.Refused {
		if it := r.item(x.Item); it == nil || !pending(it) || done[x.Item] || !it.Kind.CanBeRefused() {
			return fmt.Sprintf("the run has no pending item number %d to refuse", x.Item)
		}
		done[x.Item] = true
	}
	if t.Update != nil {
		for _, c := range t.Update.Consumed {
			if it := r.item(c.Item); it == nil || !pending(it) || done[c.Item] {
				return fmt.Sprintf("the run has no pending item number %d to consume with the update", c.Item)
			}
			done[c.Item] = true
		}
	}
	answered := map[store.ItemNo]bool{} // by this turn
	for _, c := range t.Answers {
		it := r.item(c.Item)
		open := it != nil && it.Kind == store.ItemUpdate && it.Verdict == nil && !answered[c.Item] &&
			(it.State == store.Consumed || slices.ContainsFunc(t.Consumed,
				func(c store.Consumption) bool { return c.Item == it.No && c.Verdict == nil }))
		if !open || c.Verdict == nil {
			return fmt.Sprintf("the run has no update number %d that is consumed and not answered, or the answer is none",
				c.Item)
		}
		answered[c.Item] = true
	}
	returned := map[string]bool{} // by this turn
	for i := range t.Returned {
		id := t.Returned[i].ID
		it := r.itemIDs[id]
		switch {
		case returned[id] || it != nil && (it.State != store.Consumed && !consumed[it.No]):
			return fmt.Sprintf("the item %q to be returned is not consumed", id)
		case it != nil && it.Kind == store.ItemUpdate:
		case it != nil && (it.Verdict != nil || verdicts[it.No] || answered[it.No]):
			return fmt.Sprintf("the item %q to be returned was answered", id)
		}
		returned[id] = true
	}
	return ""
}

// giveAgain puts a consumed item into the inbox again. One that was swept gets its number if
// no other item has that.
func (d *data) giveAgain(r *run, item *store.Item, now store.Time) {
	if it := r.itemIDs[item.ID]; it != nil {
		if it.Verdict != nil {
			return // an update, which was answered
		}
		it.State, it.Value, it.Headers = store.New, bytes.Clone(item.Value), bytes.Clone(item.Headers)
		return
	}
	no := d.insert(r, item, now)
	it := r.items[len(r.items)-1]
	it.Sent = item.Sent
	if item.No <= 0 || item.No > no || d.hasItem(item.No) {
		return
	}
	it.No = item.No
	d.lastItem--
	slices.SortFunc(r.items, func(a, b *store.Item) int { return cmp.Compare(a.No, b.No) })
}

// hasItem reports whether some run has an item with the number.
func (d *data) hasItem(no store.ItemNo) bool {
	for _, r := range d.runs {
		if r.item(no) != nil {
			return true
		}
	}
	return false
}

// note adds to the acts of operators on the run.
func (r *run) note(audit []store.Audit, now store.Time) {
	for _, a := range audit {
		a.No, a.Time = len(r.audit)+1, now
		r.audit = append(r.audit, a)
	}
}

// consume uses an item up.
func (r *run) consume(c *store.Consumption) {
	it := r.item(c.Item)
	it.State, it.Value, it.Headers, it.Verdict = store.Consumed, nil, nil, bytes.Clone(c.Verdict)
}

// pending reports whether an item is neither consumed nor dead.
func pending(it *store.Item) bool { return it.State == store.New || it.State == store.Seen }

// overwritable reports whether an entry may be written over what stands.
func overwritable(old, next *store.Entry) bool {
	if old == nil || old.State != store.Done && old.State != store.FailedEntry {
		return true
	}
	a, b := *old, *next
	if a.Seq == 0 && b.Seq != 0 {
		a.Seq, a.At = b.Seq, b.At
	}
	sameValue := bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
	a.Value, b.Value, a.Size, b.Size = nil, nil, 0, 0
	return sameValue && a.Loc == b.Loc && a.Kind == b.Kind && a.State == b.State && a.Seq == b.Seq && a.Born == b.Born &&
		a.At == b.At && a.Wake == b.Wake && a.Attempt == b.Attempt && a.Owes == b.Owes && a.Generation == b.Generation &&
		a.Started == b.Started && a.Ended == b.Ended
}

func (r *run) item(no store.ItemNo) *store.Item {
	i, found := slices.BinarySearchFunc(r.items, no, func(it *store.Item, no store.ItemNo) int {
		return cmp.Compare(it.No, no)
	})
	if !found {
		return nil
	}
	return r.items[i]
}

// examine brings the set of runs with unexamined items up to date.
func (r *run) examine(d *data) {
	if slices.ContainsFunc(r.items, func(it *store.Item) bool { return it.State == store.New }) {
		d.dirty[r] = true
	} else {
		delete(d.dirty, r)
	}
}

// update changes the run's row.
func (d *data) update(r *run, u *store.Update, now store.Time) store.Verdict {
	if u.AnyBuild {
		r.Build = ""
	}
	r.Build = max(r.Build, u.Build)
	if !u.Isolate && !u.EndIsolation {
		r.Suspect, r.Strikes, r.Alone = 0, 0, false
	}
	if d.holdsBack(r, u) {
		return store.StillReady
	}
	for i := range u.Consumed {
		r.consume(&u.Consumed[i])
	}
	r.examine(d)
	r.note(u.Audit, now)
	if u.Status.Terminal() && !r.Status.Terminal() {
		r.Ended, r.Expires = now, u.Expires(now)
		r.abandon(false)
		r.examine(d)
		r.bury(u.Discard, u.DiscardNames)
	} else if !u.Status.Terminal() {
		if r.Status.Terminal() {
			r.unbury()
		}
		r.Ended, r.Expires = 0, 0
	}
	if u.Marks&store.Held != 0 && r.Marks&store.Held == 0 {
		r.waitsFrom = now
	}
	r.Status, r.Marks, r.Reason, r.Waits = u.Status, u.MarksOver(r.Marks), u.Reason, bytes.Clone(u.Waits)
	r.WakeAt = 0
	if u.Status == store.Suspended || u.Status == store.Queued && u.WakeAt > now {
		r.WakeAt = u.WakeAt
	}
	if u.Generation != 0 {
		r.Generation = u.Generation
	}
	r.Alone = u.Isolate
	if u.EndIsolation {
		r.Strikes = 0
	}
	if u.Continue != nil {
		r.continueAsNew(u.Continue, now)
		r.examine(d)
	}
	if u.Queue != nil {
		r.Queue = bytes.Clone(u.Queue)
	}
	if u.Output != nil {
		r.Output = bytes.Clone(u.Output)
	}
	if u.Status == store.Running && r.Started == 0 {
		r.Started = now // it was claimed at rest
	}
	switch {
	case u.Status == store.Running && u.Marks&(store.Paused|store.Held) == 0 && !u.Unclaim:
	case u.Status == store.Running, u.Status == store.Queued && r.WakeAt == 0:
		r.condition = ready
	default:
		r.condition = idle
	}
	return store.Committed
}

// continueAsNew begins the next incarnation.
func (r *run) continueAsNew(c *store.Continuation, now store.Time) {
	r.abandon(true)
	first := r.Origin()
	if r.Incarnation == 0 && c.First != (store.Origin{}) {
		first = c.First
	}
	r.First = first
	r.Incarnation++
	r.Workflow, r.Input, r.Seed, r.Random, r.Began = c.Workflow, bytes.Clone(c.Input), c.Seed, store.Seed{}, max(c.At, now)
}

// holdsBack reports whether something unexamined keeps the run from suspending,
// ending, or beginning to undo.
func (d *data) holdsBack(r *run, u *store.Update) bool {
	suspends := u.Status == store.Suspended && u.Marks&(store.Paused|store.Held) == 0
	ends := u.Status.Terminal() && !r.Status.Terminal() || u.Marks&^r.Marks&store.Undoing != 0
	return d.dirty[r] && (suspends || ends) && slices.ContainsFunc(r.items, func(it *store.Item) bool {
		return it.State == store.New && (suspends || it.Kind == store.ItemCancel || it.Kind == store.ItemTerminate) &&
			!slices.ContainsFunc(u.Consumed, func(c store.Consumption) bool { return c.Item == it.No })
	})
}
