package stet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Act says who asks for something, and why. The zero Act is one of this process, for
// no reason that it gives. Runs keep it in their Audit; a schedule keeps Why while it
// is paused. What is done to something else than a run is in the audit of the store (AuditOf),
// and logged by the process that asks, at level Info, if the Act says anything.
type Act struct {
	// By says who acts: 1 to 255 bytes of text without control characters.
	// Default: Config.Node.
	By string
	// Why is the reason, for people. At most 4,092 bytes; it may be empty.
	Why string
	// Children makes Runs.Pause, Resume and Delete reach the children of the run too, and
	// theirs, one after the other. It is ErrInvalid elsewhere.
	Children bool
	// AnyBuild lets a process of any build take the run up, and not only one of the
	// build that has worked on it last or of a later one; so after a rollback. It is
	// for Runs.Resume, Retry, Rewind and the edits, and ErrInvalid elsewhere. The audit
	// names the former build.
	AnyBuild bool
}

// check returns what is wrong with an act that is no request about a run.
func (a *Act) check() error { return a.checkFor(0) }

// checkFor returns what is wrong with the act of a verb; 0: it is none.
func (a *Act) checkFor(verb store.ItemKind) error {
	var problem error
	if a.By != "" && store.CheckRunID(a.By) != nil {
		problem = fmt.Errorf("field By: expected 1 to 255 bytes without control characters, found %q: %w", a.By, ErrInvalid)
	}
	if a.Children && verb != store.ItemPause && verb != store.ItemResume {
		problem = errors.Join(problem, fmt.Errorf("field Children is for Pause, Resume and Delete of a run: %w", ErrInvalid))
	}
	switch verb {
	case store.ItemResume, store.ItemRetry, store.ItemRewind, store.ItemEdit:
	default:
		if a.AnyBuild {
			problem = errors.Join(problem,
				fmt.Errorf("field AnyBuild is for what lets a run go on: Resume, Retry, Rewind and edits: %w", ErrInvalid))
		}
	}
	return errors.Join(problem, checkReason(a.Why))
}

// logged logs an act on what is no run, if it was done and says anything. The store's audit has
// it by what it was asked with (see recordOf), or by noteFirst.
func (e *Engine) logged(ctx context.Context, verb, object, name string, act Act, err error) {
	if err == nil && (act.By != "" || act.Why != "") {
		e.log.InfoContext(ctx, "an operator's request was carried out",
			"verb", verb, object, name, "by", cmp.Or(act.By, e.node), "why", act.Why)
	}
}

// recordOf returns what the store's audit is to have of an act. It goes with the request to the
// entity, whose turn carries the request out and sends the record on.
func recordOf(e *Engine, verb, object, name string, act Act) *acts.Record {
	about := object + " " + name
	if len(about) > maxAbout { // the numbers of many letters
		about = strings.ToValidUTF8(about[:maxAbout], "")
	}
	return &acts.Record{By: cmp.Or(act.By, e.node), Verb: verb, About: about, Why: act.Why, ID: uuid.NewString()}
}

// noteFirst puts an act into the store's audit before it is done, where the store does it
// without a command: an act that is done is there, whoever dies when.
func noteFirst(ctx context.Context, e *Engine, verb, object, name string, act Act) error {
	if err := acts.Note(ctx, e.inner, recordOf(e, verb, object, name, act)); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// checkReason bounds what is kept in an audit.
func checkReason(reason string) error {
	if len(reason) > store.MaxWhy-4 {
		return fmt.Errorf("reason: expected at most %d bytes, found %d: %w", store.MaxWhy-4, len(reason), ErrInvalid)
	}
	return nil
}

// Cancel requests the cancellation of a run. The request is durable at once; the owner
// decides. It returns true if the run will end as cancelled, after its code has cleaned
// up. A run that is paused, stalled, or never ran ends without its code.
//
// With false the error says why: ErrNotFound, ErrTerminal if the run has ended,
// ErrRefused with the owner's reason, ErrInvalid for a bad act, or one of the store.
// ErrPending: ctx ended before the decision; the request stands. Granted requests are in
// the run's Audit.
func (r Runs) Cancel(ctx context.Context, runID string, act Act) (bool, error) {
	return r.engine.verb(ctx, runID, store.ItemCancel, act)
}

// Terminate requests the end of a run at once; no more steps of it run. RunError.Owed lists
// what is not undone: first steps that are under way, or were when their process died, and
// may have had an effect; then completed steps. For that the code of a run whose process
// died may be replayed. The results are those of Cancel.
func (r Runs) Terminate(ctx context.Context, runID string, act Act) (bool, error) {
	return r.engine.verb(ctx, runID, store.ItemTerminate, act)
}

// Pause requests that a run does nothing until it is resumed. Step bodies that are
// executing finish, and their ends are recorded; nothing else happens in the run once
// its owner knows. Its status and its messages stay. Timers keep their due time; those
// that have passed are due when the run is resumed.
//
// Until the bodies that are executing have ended the pause is pending. A cancel is stronger
// than a pending pause, and Resume withdraws it; the pause is then refused.
//
// The results are those of Cancel; for a run that is stalled, or paused already, it is
// ErrRefused. With Act.Children true means that the run itself is paused; the error is
// then of its children.
func (r Runs) Pause(ctx context.Context, runID string, act Act) (bool, error) {
	return r.engine.verb(ctx, runID, store.ItemPause, act)
}

// Resume requests that a stalled or paused run goes on, and withdraws a pause that is still
// pending. A run that is stalled because it failed is retried. The results are those of Cancel.
//
// On a store with many slots a run goes on in a process of the build that has worked on
// it last, or of a later one: RunInfo.Build. What it waits for if none is there says
// NodesInfo.Unserved. With Act.AnyBuild an earlier one takes it up.
func (r Runs) Resume(ctx context.Context, runID string, act Act) (bool, error) {
	return r.engine.verb(ctx, runID, store.ItemResume, act)
}

// Nudge requests that the code of a suspended run is executed as far as it goes, as it is
// when one of its waits is over: its history is replayed, and the code goes on if it does
// not wait any more. Nothing else changes: waits, deadlines and messages stay. It is for
// code that has changed, such as Removed in place of a wait that is open.
//
// True means that the code was executed; by a node of an earlier build too, if the run is
// in its hands. For a run that executes it does nothing. A run whose history does not fit
// the code stalls. The results are those of Cancel; for a run that is queued, paused or
// stalled, or waits for a permit of its queue, it is ErrRefused.
func (r Runs) Nudge(ctx context.Context, runID string, act Act) (bool, error) {
	return r.engine.verb(ctx, runID, store.ItemNudge, act)
}

// Retry requests that a failed run tries again. It takes back the operation that made the
// run fail and all operations that completed since; they are executed again. Steps have
// fresh attempts and the same idempotency keys, so that a receiver recognises a call that
// had succeeded.
//
//   - If the run's error wraps errors of operations, it goes back to the first of those.
//   - Otherwise it goes back to the first one that has failed and to which the code has not
//     reacted: neither the branch that has got its error, nor one that has waited for that
//     branch, has requested an operation since. So items of a Map that fail, and whose errors are
//     collected as data, are all tried again by one retry.
//   - If there is none the function has failed by itself. Its end is taken back, and the
//     code goes on after its last completion: fix it first, or it fails again.
//
// Children whose failures it takes back are retried with it, and so are theirs: it is one act,
// with an audit in each of them. Preview has their IDs. A child that was repaired before is
// asked again how it has ended.
//
// The audit has the error with which the run had failed. The results are those of Cancel.
// ErrRefused: the run has not failed, it has begun to undo, or it is superseded; or it goes back
// to a child that cannot be retried, whose ID the error names: rewind one of the two.
func (r Runs) Retry(ctx context.Context, runID string, act Act) (bool, error) {
	return r.engine.verb(ctx, runID, store.ItemRetry, act)
}

// Rewind requests that a run goes on from before a location, as History gives it; "/" is
// the beginning of the run. It takes back the operation there, those inside it, and those
// that completed since. They are executed again, with new idempotency keys, children and
// tokens. Operations that completed before are not executed again.
//
// Of the operations that are taken back:
//
//   - messages and resolutions return to the inbox, to their old place
//   - children that are awaited and have not ended are cancelled
//   - sent messages and published events stay sent, and streams get a mark
//   - no compensation runs
//   - one that the code began before the location keeps its key, token and child
//
// It is for runs that have ended, are stalled or paused; a paused one stays paused. The
// results are those of Cancel. ErrRefused: the location is unknown, its history is
// pruned, a step before it was undone, or the run is superseded.
func (r Runs) Rewind(ctx context.Context, runID, before string, act Act) (bool, error) {
	loc, err := parsePlace(before)
	if err != nil {
		return false, fmt.Errorf("rewind run %q: %w", runID, err)
	}
	return r.engine.verbWith(ctx, runID, store.ItemRewind, stored.Request{Location: string(loc)}, act)
}

// EditResult asks for the result of a step of a run to be replaced by a value; a step
// that has failed has then succeeded, one that is open is done. The run then goes
// on. It is for runs that have ended, are stalled or paused; a paused one stays so.
// The results are those of Cancel. Refused are an unknown location, one that is no
// step, a step that was undone, and superseded runs. The code sees the value; if it
// then asks for other operations than are recorded, the run stalls.
//
// A compensation that has failed is a step, too, at the location of its own step and
// "undo": with any value it counts as done, and is not executed any more.
func (r Runs) EditResult(ctx context.Context, runID, step string, value any, act Act) (bool, error) {
	data, err := r.engine.encodeValue("result", value)
	if err != nil {
		return false, fmt.Errorf("edit run %q: %w", runID, err)
	}
	return r.engine.edit(ctx, runID, step, stored.Request{Value: data}, act)
}

// EditFailure is EditResult with a failure: the step has then failed with the cause.
// A nil cause is ErrInvalid.
func (r Runs) EditFailure(ctx context.Context, runID, step string, cause error, act Act) (bool, error) {
	if cause == nil {
		return false, fmt.Errorf("edit run %q: expected an error, found nil: %w", runID, ErrInvalid)
	}
	data := stored.EncodeFailure(r.engine.errors.record(cause))
	return r.engine.edit(ctx, runID, step, stored.Request{Failed: true, Value: data}, act)
}

func (e *Engine) edit(ctx context.Context, runID, step string, q stored.Request, act Act) (bool, error) {
	loc, err := location.Parse(step)
	if err == nil && loc == "" {
		err = errors.New("expected the location of a step, found none")
	}
	if err != nil {
		return false, fmt.Errorf("edit run %q: %w: %w", runID, err, ErrInvalid)
	}
	q.Location = string(loc)
	return e.verbWith(ctx, runID, store.ItemEdit, q, act)
}

// parsePlace returns a location; "/" is the root.
func parsePlace(text string) (location.Loc, error) {
	if text == "/" {
		return "", nil
	}
	loc, err := location.Parse(text)
	if err == nil && loc == "" {
		err = errors.New(`location: expected one as the history gives it, or "/", found none`)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	return loc, nil
}

// Fork starts a new run from before a location of another, which stays as it is: it
// begins with what a rewind to there would leave standing, and has the same input,
// headers and tags, its own idempotency keys and tokens, and the randomness of the
// other. It returns the ID of the new run. Messages that are pending or would return
// are there too; children that have not ended are awaited by both runs.
//
// The run must have ended, be stalled or paused; superseded ones may be forked.
// Errors: ErrNotFound (which a run has after its retention too), ErrRefused with the
// reasons of Rewind, ErrExists, ErrInvalid, and those of the store.
func (r Runs) Fork(ctx context.Context, runID, before string, act Act, id ...ID) (string, error) {
	loc, err := parsePlace(before)
	if err == nil {
		err = act.check()
	}
	for _, one := range id {
		err = cmp.Or(err, checkRunID(string(one)))
	}
	if err == nil {
		err = checkNotEntity(runID)
	}
	if err != nil {
		return "", fmt.Errorf("fork run %q: %w", runID, err)
	}
	audit := store.Audit{Who: cmp.Or(act.By, r.engine.node), Verb: "fork", Why: act.Why}
	start, ok, err := r.engine.inner.Fork(ctx, runID, loc, audit)
	var refusal history.Refusal
	switch {
	case errors.As(err, &refusal):
		return "", fmt.Errorf("fork run %q: %w: %s", runID, ErrRefused, refusal)
	case err != nil:
		return "", fmt.Errorf("fork run %q: %w", runID, err)
	case !ok:
		return "", fmt.Errorf("fork run %q: %w", runID, ErrNotFound)
	}
	newID := ""
	if len(id) > 0 {
		newID = string(id[len(id)-1])
	} else {
		random, err := uuid.NewV7()
		if err != nil {
			return "", err
		}
		newID = random.String()
	}
	start.ID, start.Shard.Slot = newID, r.engine.inner.Slot(newID)
	rand.Read(start.Seed[:])
	if err := r.engine.inner.Queues().EnqueueFork(ctx, start); err != nil {
		return "", fmt.Errorf("fork run %q: %w", runID, err)
	}
	answers, err := r.engine.inner.Apply(ctx, []store.Command{{Start: start}})
	if err != nil {
		return "", fmt.Errorf("fork run %q: %w", runID, err)
	}
	if a := answers[0]; a.Outcome != store.Applied {
		return "", fmt.Errorf("fork run %q: run %q is %s since %s: %w", runID, newID, a.Run.Status, a.Run.Created, ErrExists)
	}
	return newID, nil
}

// verb asks for what needs no arguments.
func (e *Engine) verb(ctx context.Context, runID string, kind store.ItemKind, act Act) (bool, error) {
	return e.verbWith(ctx, runID, kind, stored.Request{}, act)
}

// verbWith puts a request into the run's inbox and waits for the owner's verdict.
func (e *Engine) verbWith(
	ctx context.Context, runID string, kind store.ItemKind, q stored.Request, act Act,
) (bool, error) {
	if err := act.checkFor(kind); err != nil {
		return false, fmt.Errorf("%s run %q: %w", kind, runID, err)
	}
	value := []byte(act.Why)
	if q.AnyBuild = act.AnyBuild; q.AnyBuild || kind == store.ItemRewind || kind == store.ItemEdit {
		q.Why = act.Why
		value = q.Encode()
	}
	no, err := e.ask(ctx, runID, &store.Item{Kind: kind, Name: cmp.Or(act.By, e.node), Value: value})
	if err != nil {
		return false, err
	}
	if act.Children {
		return true, e.askChildren(ctx, no, kind, act)
	}
	return true, nil
}

// ask puts a verb into a run's inbox and waits for the verdict.
func (e *Engine) ask(ctx context.Context, runID string, item *store.Item) (store.RunNo, error) {
	kind := item.Kind
	if kind != store.ItemResume { // of an entity that is stalled
		if err := checkNotEntity(runID); err != nil {
			return 0, fmt.Errorf("%s: %w", kind, err)
		}
	}
	run, ok, err := e.inner.Get(ctx, runID)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s run %q: %w", kind, runID, err)
	case !ok:
		return 0, fmt.Errorf("%s run %q: %w", kind, runID, ErrNotFound)
	}
	if err := refusal(kind, &run); err != nil && !(kind == store.ItemResume && e.mayPause(ctx, &run)) {
		return 0, fmt.Errorf("%s run %q: %w", kind, runID, err)
	}
	if retries(kind, &run) {
		if err := e.checkRetry(ctx, &run); err != nil {
			return 0, fmt.Errorf("%s run %q: %w", kind, runID, err)
		}
	}
	item.ID = uuid.NewString()
	item.Origin = item.ID
	answer, err := e.put(ctx, runID, item)
	if err != nil {
		return 0, err
	}
	if err := refusal(kind, &answer.Run); err != nil && answer.Run.Status.Terminal() && !answer.Repeated {
		return 0, fmt.Errorf("%s run %q: %w", kind, runID, err)
	}
	verdict, err := e.inner.Verdict(ctx, answer.Run.No, answer.Item, item.ID)
	if err != nil {
		return 0, fmt.Errorf("%s run %q: %w", kind, runID, err)
	}
	if err := payload.Readable(verdict); err != nil {
		return 0, fmt.Errorf("%s run %q: its owner has decided: %w", kind, runID, err)
	}
	if accepted, reason := verbs.DecodeVerdict(verdict); !accepted {
		return 0, fmt.Errorf("%s run %q: %w: %s", kind, runID, ErrRefused, reason)
	}
	return answer.Run.No, nil
}

// mayPause reports whether a pause of a live run is requested and not decided, which a
// resume withdraws.
func (e *Engine) mayPause(ctx context.Context, run *store.Run) bool {
	if run.Status.Terminal() {
		return false
	}
	items, err := e.store.Inbox(ctx, run.No)
	return err == nil && slices.ContainsFunc(items, func(it store.Item) bool { return it.Kind == store.ItemPause })
}

// Refusal returns the error with which a verb about the run is refused while it stands
// like this, or nil if nothing in its row speaks against it. The verbs are
// store.ItemCancel, ItemTerminate, ItemPause, ItemResume, ItemRetry, ItemRewind,
// ItemEdit and ItemNudge. Errors: ErrTerminal, ErrRefused. The owner may still refuse the verb because
// of what the row does not tell, such as the run's history.
func (i *RunInfo) Refusal(verb store.ItemKind) error {
	return refusal(verb, &store.Run{
		No: i.Number, ID: i.ID, Workflow: i.Workflow, Status: i.Status, Marks: i.Marks, Reason: i.Reason,
		OutputSize: i.OutputSize,
	})
}

// refusal returns the error with which the owner would refuse the verb in the run's
// present state, or nil. It only saves a round trip; the owner decides.
func refusal(kind store.ItemKind, run *store.Run) error {
	ruling := verbs.Judge(run, kind)
	text := strings.Replace(ruling.Refused, "the run ", "it ", 1) // the error names the run before
	switch {
	case ruling.Refused == "":
		return nil
	case ruling.Ended:
		return fmt.Errorf("%s: %w", text, ErrTerminal)
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}

// askChildren asks the same of the children of a run for which it makes sense.
func (e *Engine) askChildren(ctx context.Context, parent store.RunNo, kind store.ItemKind, act Act) error {
	var problems []error
	f := store.Filter{Parent: parent, Limit: store.MaxPage}
	for {
		page, err := e.store.List(ctx, f)
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for i := range page.Runs {
			child := &page.Runs[i]
			paused := child.Marks&store.Paused != 0
			var err error
			switch {
			case child.Status.Terminal() || child.Status == store.Stalled:
				continue
			case paused != (kind == store.ItemResume):
				err = e.askChildren(ctx, child.No, kind, act)
			default:
				_, err = e.verb(ctx, child.ID, kind, act)
			}
			if err != nil && !errors.Is(err, ErrTerminal) && !errors.Is(err, ErrRefused) {
				problems = append(problems, err)
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return errors.Join(problems...)
		}
	}
}
