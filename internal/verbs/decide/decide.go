package decide

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Reader reads what a snapshot leaves out. A store.Store is one.
type Reader interface {
	History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error)
	Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error)
}

// Owner says what a decision has to know of the process that owns the run.
type Owner struct {
	Reader   Reader
	Now      store.Time // lower bound of the store's time
	Executes bool       // it has the code of the run, and executes it when it goes on
	First    bool       // no process has executed the run before
	Discard  bool       // the workflow keeps no dead letters
	// DiscardNames are those messages of which it keeps none.
	DiscardNames []string
}

// Decision is the turn to commit and what follows from it. The turn lacks where the
// starts and items that it sends are addressed to.
type Decision struct {
	Turn *store.Turn
	// GoesOn says that the run, still claimed, is to be loaded again once the turn is
	// committed: it is executed, or the rest of its inbox is decided.
	GoesOn bool
	// Ended is the run as the turn leaves it, if the turn ends it; otherwise nil.
	Ended *store.Run
}

// AtRest decides the verbs in the inbox of a claimed run whose code does not run. An
// error says that the history could not be read: nothing is decided.
func AtRest(ctx context.Context, s *store.Snapshot, by Owner) (Decision, error) {
	d := begin(ctx, s, by)
	for i := range d.items {
		if err := d.take(i); err != nil {
			return Decision{}, err
		}
		if d.changed {
			break // the rest is asked of the run as it is then
		}
	}
	u := d.update
	if u.Marks&store.Held == 0 {
		d.turn.Seen = append(d.turn.Seen, d.grants...) // otherwise they are to be found when the run goes on
	}
	if by.Executes && u.Status == store.Suspended && u.Marks&(store.Paused|store.Held) == 0 {
		u.Status = store.Running // it is not paused after all
	}
	d.notify()
	result := Decision{Turn: d.turn, GoesOn: u.Status == store.Running && u.Marks&(store.Paused|store.Held) == 0}
	if u.Status.Terminal() && !d.run.Status.Terminal() {
		ended := d.after()
		ended.Output = u.Output
		result.Ended = &ended
	}
	return result, nil
}

// decision is a decision in the making.
type decision struct {
	ctx     context.Context
	by      Owner
	run     *store.Run // as it was loaded
	unrun   bool       // no turn of it was ever committed
	items   []store.Item
	entries []store.Entry
	turn    *store.Turn
	update  *store.Update  // of the turn
	watch   []store.Item   // that are to be answered if the run has ended
	grants  []store.ItemNo // of permits that a held run waits for
	cancels []*store.Item  // that the code is to see, unless the run is terminated

	// changed says that the turn changes the history.
	changed bool
}

// begin returns a decision that leaves the run as it is.
func begin(ctx context.Context, s *store.Snapshot, by Owner) *decision {
	run := &s.Run
	u := &store.Update{Status: run.Status, Marks: run.Marks, Reason: run.Reason, Discard: by.Discard,
		DiscardNames: by.DiscardNames}
	if verbs.Resting(run) {
		u.WakeAt, u.Waits = run.WakeAt, run.Waits
	} else {
		u.Waits = verbs.KeepSign(run)
	}
	return &decision{
		ctx: ctx, by: by, run: run, unrun: verbs.Unrun(s, by.First), entries: s.Entries, items: s.Items, update: u,
		turn: &store.Turn{Run: run.No, Shard: run.Shard, Incarnation: run.Incarnation, Update: u},
	}
}

// after returns the run as the verbs so far leave it, except for its output.
func (d *decision) after() store.Run {
	run := *d.run
	run.Status, run.Marks, run.Reason = d.update.Status, d.update.Marks, d.update.Reason
	return run
}

// take decides one item of the inbox: it is consumed, seen, or left as it is.
func (d *decision) take(i int) error {
	it, ended := &d.items[i], d.run.Status.Terminal()
	switch {
	case it.State == store.Consumed: // an update that the code has received
	case stored.ByAnother(it, d.run):
		d.consume(it, verbs.No(verbs.NotItsParent))
	case it.Kind == store.ItemWatch && !ended:
		d.watch = append(d.watch, *it)
		d.see(it)
	case it.Kind == store.ItemWatch && it.State == store.New:
		d.watch = append(d.watch, *it)
		d.consume(it, nil)
	case it.Kind == store.ItemWatch: // was answered when the run ended
	case it.Kind == store.ItemDelivery && ended:
		d.consume(it, nil) // its wait is over: the topic keeps the event
	case it.Kind == store.ItemGrant && d.run.Marks&store.Held != 0:
		d.grants = append(d.grants, it.No)
	case !it.Kind.Verb():
		d.see(it)
	default:
		return d.verb(i)
	}
	return nil
}

func (d *decision) see(it *store.Item) { d.turn.Seen = append(d.turn.Seen, it.No) }

func (d *decision) consume(it *store.Item, verdict []byte) {
	d.turn.Consumed = append(d.turn.Consumed, store.Consumption{Item: it.No, Verdict: verdict})
}

// verb decides a verb other than Watch: by the table, then by the rest of the inbox,
// then by the history.
func (d *decision) verb(i int) error {
	it := &d.items[i]
	run := d.after()
	ruling := verbs.Judge(&run, it.Kind)
	if ruling.NeedsCode && !d.unrun { // its code sees it
		if it.Kind == store.ItemCancel {
			d.cancels = append(d.cancels, it)
		}
		return nil
	}
	detail, refused := "", ruling.Refused
	if refused == "" {
		var err error
		if detail, refused, err = d.carryOut(i); err != nil {
			return err
		}
		if refused == "" && takesUp(it) && stored.RequestOf(it).AnyBuild {
			detail = d.forAnyBuild(detail)
		}
		if refused == "" && takesUp(it) {
			detail = stored.WithEnd(detail, d.run)
		}
	}
	if refused != "" {
		d.consume(it, verbs.No(refused))
		return nil
	}
	consumed, audit := &d.turn.Consumed, &d.turn.Audit
	if it.Kind == store.ItemCancel || it.Kind == store.ItemTerminate { // another verb may keep the run from ending
		consumed, audit = &d.update.Consumed, &d.update.Audit
	}
	if it.Name != "" { // otherwise another run asks, which is no act of an operator
		*audit = append(*audit, stored.AuditOf(it, stored.Why(it), detail))
	}
	*consumed = append(*consumed, store.Consumption{Item: it.No, Verdict: verbs.Yes()})
	if it.Kind == store.ItemTerminate {
		d.overtake()
	}
	return nil
}

// overtake answers the cancels before a terminate, with the end: a new one would keep the run from ending, each time.
func (d *decision) overtake() {
	for _, it := range d.cancels {
		if it.Name == "" { // a parent waits for no answer
			d.see(it)
			continue
		}
		d.update.Consumed = append(d.update.Consumed, store.Consumption{Item: it.No, Verdict: verbs.No(verbs.Terminated)})
	}
	d.cancels = nil
}

// carryOut does what a verb asks for that nothing in the run's row speaks against.
// detail is what was done, for the audit; refused is what the inbox or the history has
// against it.
func (d *decision) carryOut(i int) (detail, refused string, err error) {
	it, u := &d.items[i], d.update
	switch it.Kind {
	case store.ItemCancel:
		return "", "", d.end("cancelled", it)
	case store.ItemTerminate:
		return "", "", d.end("terminated", it)
	case store.ItemPause:
		if verbs.CancelAmong(d.items[:i]) {
			return "", verbs.BeingCancelled, nil
		}
		u.Marks |= store.Paused
	case store.ItemResume:
		return d.resume(it)
	case store.ItemRetry:
		run := d.after()
		if stored.CauseOf(&run).IsBug() {
			return d.resume(it) // nothing of it has failed
		}
		if u.Status == store.Stalled && !d.hasFailed() {
			return "", verbs.NotFailed(u.Status).Refused, nil
		}
		return d.change(it, d.retry)
	case store.ItemRewind:
		return d.change(it, d.rewind)
	case store.ItemEdit:
		return d.change(it, d.edit)
	}
	return "", "", nil
}

// takesUp reports whether a verb makes a run go on.
func takesUp(it *store.Item) bool {
	switch it.Kind {
	case store.ItemResume, store.ItemRetry, store.ItemRewind, store.ItemEdit:
		return true
	}
	return false
}

// forAnyBuild lets any build take the run up, and adds that to what the audit says. That a
// turn of the run was committed is to be seen by its waits then.
func (d *decision) forAnyBuild(detail string) string {
	u := d.update
	u.AnyBuild = true
	if !d.unrun && u.Waits == nil {
		u.Waits = verbs.NoWaits()
	}
	text := "any build may take it up"
	if d.run.Build != "" {
		text += ", not only " + d.run.Build + " and later ones"
	}
	if detail == "" {
		return text
	}
	return detail + "; " + text
}

// end ends the run as cancelled.
func (d *decision) end(how string, it *store.Item) error {
	owed, err := d.owed()
	if err != nil {
		return err
	}
	if len(it.Value) > 0 {
		how += ": " + string(it.Value)
	}
	u := d.update
	u.Status, u.Marks, u.Reason = store.Cancelled, 0, how
	u.Keep = stored.Keep(d.run.Headers, u.Status)
	u.Output = stored.CancelledOutput(how, owed, d.run.Output)
	return nil
}

// owed lists what is to be undone. It reads the values that the snapshot has left out.
func (d *decision) owed() ([]string, error) {
	entries := d.entries
	if locs := history.Unread(entries); len(locs) > 0 {
		q := store.HistoryQuery{Run: d.run.No, Incarnation: d.run.Incarnation, Locs: locs, Values: true}
		read, err := d.by.Reader.History(d.ctx, q)
		if err != nil {
			return nil, err
		}
		entries = slices.Clone(entries)
		for i := range entries {
			if at := slices.IndexFunc(read, func(e store.Entry) bool { return e.Loc == entries[i].Loc }); at >= 0 {
				entries[i].Value = read[at].Value
			}
		}
	}
	return history.Owed(entries), nil
}

// resume lets a run go on that is stalled or paused. One that is stalled because it has
// failed is retried; if there is nothing to retry, its function is executed again.
func (d *decision) resume(it *store.Item) (detail, refused string, err error) {
	u := d.update
	run := d.after()
	if stored.CauseOf(&run) == stored.CauseFailure && verbs.Judge(&run, store.ItemRetry).Refused == "" && d.hasFailed() {
		if detail, refused, err = d.change(it, d.retry); err != nil || refused == "" {
			return detail, refused, err
		}
	}
	u.Reason = ""
	if u.Status == store.Stalled {
		u.Status = store.Running
		return "", "", nil
	}
	u.Marks &^= store.Paused
	if u.Status == store.Suspended && u.Marks&store.Held == 0 {
		u.Status = store.Running
	}
	return "", "", nil
}

// hasFailed reports whether the output of a stalled run is the failure of which its
// reason speaks.
func (d *decision) hasFailed() bool {
	_, err := stored.DecodeFailure(d.run.Output)
	return err == nil
}

// failure returns the failure with which the run has ended, or for which it is stalled; nil:
// it has not failed.
func (d *decision) failure() *stored.Failure {
	if d.run.Status != store.Failed && d.run.Status != store.Stalled {
		return nil
	}
	failure, err := stored.DecodeFailure(d.run.Output)
	if err != nil {
		return nil
	}
	return failure
}

// notify adds to the turn what others are sent because of it: the answers to watches of
// a run that had ended, or, if the turn ends the run, the notifications of its end.
func (d *decision) notify() {
	turn, u, run := d.turn, d.update, d.after()
	if u.Status.Terminal() {
		permit.ReleaseGrants(turn, d.items)
	}
	switch {
	case d.run.Status.Terminal():
		run = *d.run
		run.Parent = 0 // was notified when the run ended
		turn.Sends = append(turn.Sends, stored.Notify(&run, d.watch, uuid.NewString)...)
	case u.Status.Terminal():
		u.Sends = history.Orphans(&run, d.entries, nil)
		withdrawn, sends := history.Forsake(d.entries)
		turn.Entries, turn.Sends = append(turn.Entries, withdrawn...), append(turn.Sends, sends...)
		NotifyEnd(u, &run, d.watch)
	}
}

// NotifyEnd adds to the update that ends a run what others are sent of the end: its
// parent, those that watch it, and its queue. run is as it will be.
func NotifyEnd(u *store.Update, run *store.Run, watches []store.Item) {
	u.Sends = append(u.Sends, stored.Notify(run, watches, uuid.NewString)...)
	permit.Release(u, run)
}
