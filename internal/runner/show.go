package runner

import (
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// This file is what a run says to readers while it goes on: values, items of
// streams, tags, and answers to updates. See the package comment for why a
// replay says nothing twice.

// shownLocation is where it is recorded that what the code says before its first
// completion is committed.
var shownLocation = location.Loc("").Key("shown", 1)

// updates are the updates that the run has received and not answered.
type updates struct {
	unanswered map[store.ItemNo]struct{}
	late       []store.Consumption // answers for when the run goes live
}

// received notes an update that is to be answered.
func (u *updates) received(no store.ItemNo) { u.unanswered[no] = struct{}{} }

// answered notes that an update is answered. It reports false if it is not to be.
func (u *updates) answered(no store.ItemNo) bool {
	_, open := u.unanswered[no]
	delete(u.unanswered, no)
	return open
}

// answerLate gives the answers that were kept until the run is live.
func (u *updates) answerLate(log *turnlog.Log) {
	for _, a := range u.late {
		log.Answer(a)
	}
	u.late = nil
}

// showing is what of what the code shows depends on what it has shown before.
type showing struct {
	tags     []store.Pair // after what was set
	said     bool         // something was shown before the first completion
	appended bool         // … to a stream
}

// Set gives a named value new content. In a cancelled branch it works too. The
// error is ErrTooLarge's likeness, or that of a misused context.
func (b *Branch) Set(call Call, value []byte) error {
	if err := b.mayShow(call, "value", value); err != nil || b.said() {
		return err
	}
	b.run.j.Log.Set(call.Name, value)
	b.bound()
	return nil
}

// Append adds an item to a stream, which keeps the newest items, or all for 0. Errors are
// those of Set.
func (b *Branch) Append(call Call, value []byte, keep int64) error {
	if err := b.mayShow(call, "item of stream", value); err != nil || b.said() {
		return err
	}
	r := b.run
	if r.j.Seq() == 0 && !r.shows.appended {
		// No completion says that this is committed.
		r.shows.appended = true
		r.j.Spend(&b.Branch, shownLocation, nil)
		r.j.Log.Add(store.Entry{
			Loc: string(shownLocation), Kind: store.KindShown, State: store.Done, Started: r.j.Now(), Ended: r.j.Now(),
		})
	}
	r.j.Log.Append(store.Append{Name: call.Name, Value: value, Keep: keep})
	b.bound()
	return nil
}

// Tag sets tags of the run; an empty value removes one.
func (b *Branch) Tag(call Call, tags []store.Pair) error {
	if err := b.Check(call); err != nil || b.said() {
		return err
	}
	r := b.run
	merged, set := store.MergeTags(r.shows.tags, tags), r.j.Log.WithTags(tags)
	if len(merged) > store.MaxTags || len(set) > store.MaxTags {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Message: fmt.Sprintf(
			"the run has more than %d tags: set fewer, and use values for what is not to be listed by", store.MaxTags)})
	}
	r.shows.tags = merged
	r.j.Log.SetTags(set)
	return nil
}

// AnswerUpdate answers an update that the run has received: with a verdict of
// EncodeAnswer. Only the first answer counts. It works in a cancelled branch.
func (b *Branch) AnswerUpdate(call Call, no store.ItemNo, verdict []byte) error {
	if err := b.mayShow(call, "answer to update", verdict); err != nil {
		return err
	}
	r := b.run
	if !r.updates.answered(no) {
		return nil
	}
	answer := store.Consumption{Item: no, Verdict: verdict}
	if b.said() {
		// What stands was made by code that had not answered here.
		r.updates.late = append(r.updates.late, answer)
		return nil
	}
	r.j.Log.Answer(answer)
	b.bound()
	return nil
}

// said reports whether the code that executes now has been executed before by
// an activation that has committed what it said.
func (b *Branch) said() bool {
	r := b.run
	switch {
	case r.j.Seq() == 0 && r.j.Recorded() == 0 && len(r.cfg.Entries) == 0:
		if !r.shows.said {
			r.shows.said = true
			r.j.Barrier() // a transactional step behind it must not become durable before it
		}
		return false
	case r.j.Live(), r.j.Seq() > r.j.Recorded():
		return false
	}
	return true
}

// mayShow checks what the code wants to say.
func (b *Branch) mayShow(call Call, what string, value []byte) error {
	if err := b.Check(call); err != nil {
		return err
	}
	if err := location.CheckName(call.Name); err != nil {
		b.Misnamed(fmt.Errorf("%s: %w", what, err))
	}
	if limit := b.run.j.Limits.Value; len(value) > limit {
		f := &stored.Failure{Code: stored.CodeTooLarge, Message: fmt.Sprintf(
			"%s %q has %d bytes, more than the limit of %d: store it elsewhere and show a reference",
			what, call.Name, len(value), limit)}
		b.Unencodable(f)
		return f
	}
	return nil
}

// bound stops a run that says without an end what no turn can hold.
func (b *Branch) bound() {
	r := b.run
	if rows, bytes := r.j.Log.ShownSize(); bytes > r.j.Limits.Bytes || rows > r.j.Limits.Entries {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Message: fmt.Sprintf(
			"the run has shown %d values and items with %d bytes without an operation between "+
				"(limits %d and %d): let it sleep or do a step now and then",
			rows, bytes, r.j.Limits.Entries, r.j.Limits.Bytes)})
	}
}
