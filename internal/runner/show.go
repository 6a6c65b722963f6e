package runner

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// This file is what a run says to readers while it goes on: values, items of
// streams, tags, and answers to updates. See the package comment for why a
// replay says nothing twice.

// shownLocation is where it is recorded that what the code says before its first
// completion is committed.
var shownLocation = location.Loc("").Key("shown", 1)

// shown is what the turn that fills says to readers.
type shown struct {
	values  []store.Setting
	places  map[string]int // in values, by name
	appends []store.Append
	tags    []store.Pair
	answers []store.Consumption
	size    int // bytes of values
}

func (s *shown) empty() bool {
	return len(s.values) == 0 && len(s.appends) == 0 && len(s.tags) == 0 && len(s.answers) == 0
}

// rows is how many rows of a store it takes.
func (s *shown) rows() int {
	return len(s.values) + len(s.appends) + len(s.tags) + len(s.answers)
}

// Set gives a named value new content. In a cancelled branch it works too. The
// error is ErrTooLarge's likeness, or that of a misused context.
func (b *Branch) Set(call Call, value []byte) error {
	if err := b.mayShow(call, "value", value); err != nil || b.said() {
		return err
	}
	s := &b.run.log.shown
	at, found := s.places[call.Name]
	if !found {
		if s.places == nil {
			s.places = map[string]int{}
		}
		at = len(s.values)
		s.places[call.Name] = at
		s.values = append(s.values, store.Setting{Name: call.Name})
	}
	s.size += len(value) - len(s.values[at].Value)
	s.values[at].Value = value
	b.bound()
	return nil
}

// Append adds an item to a stream. Errors are those of Set.
func (b *Branch) Append(call Call, value []byte) error {
	if err := b.mayShow(call, "item of stream", value); err != nil || b.said() {
		return err
	}
	r := b.run
	if r.seq == 0 && !r.appended {
		// No completion says that this is committed.
		r.appended = true
		b.spend(shownLocation, nil)
		r.log.add(store.Entry{Loc: string(shownLocation), Kind: store.KindShown, State: store.Done, Started: r.now, Ended: r.now})
	}
	s := &r.log.shown
	s.appends = append(s.appends, store.Append{Name: call.Name, Value: value})
	s.size += len(value)
	b.bound()
	return nil
}

// Tag sets tags of the run; an empty value removes one.
func (b *Branch) Tag(call Call, tags []store.Pair) error {
	if err := b.Check(call); err != nil || b.said() {
		return err
	}
	r := b.run
	merged, set := store.MergeTags(r.tags, tags), slices.Clone(r.log.shown.tags)
	for _, tag := range tags {
		if i := slices.IndexFunc(set, func(t store.Pair) bool { return t.Key == tag.Key }); i >= 0 {
			set[i] = tag
		} else {
			set = append(set, tag)
		}
	}
	if len(merged) > store.MaxTags || len(set) > store.MaxTags {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Message: fmt.Sprintf("the run has more than %d tags: use values for what is not to be listed by", store.MaxTags)})
	}
	r.tags, r.log.shown.tags = merged, set
	return nil
}

// AnswerUpdate answers an update that the run has received: with a verdict of
// EncodeAnswer. Only the first answer counts. It works in a cancelled branch.
func (b *Branch) AnswerUpdate(call Call, no store.ItemNo, verdict []byte) error {
	if err := b.mayShow(call, "answer to update", verdict); err != nil {
		return err
	}
	r := b.run
	if _, open := r.unanswered[no]; !open {
		return nil
	}
	delete(r.unanswered, no)
	answer := store.Consumption{Item: no, Verdict: verdict}
	if b.said() {
		// What stands was made by code that had not answered here.
		r.late = append(r.late, answer)
		return nil
	}
	r.log.shown.answer(answer)
	b.bound()
	return nil
}

func (s *shown) answer(a store.Consumption) {
	s.answers = append(s.answers, a)
	s.size += len(a.Verdict)
}

// said reports whether the code that executes now has been executed before by
// an activation that has committed what it said.
func (b *Branch) said() bool {
	r := b.run
	switch {
	case r.seq == 0 && r.recorded == 0 && len(r.cfg.Entries) == 0:
		if !r.begun {
			r.begun = true
			r.pos++ // a transactional step behind it must not become durable before it
		}
		return false
	case r.live, r.seq > r.recorded:
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
	if limit := b.run.limits.Value; len(value) > limit {
		return &stored.Failure{Code: stored.CodeTooLarge, Message: fmt.Sprintf(
			"%s %q has %d bytes, more than the limit of %d: store it elsewhere and show a reference", what, call.Name, len(value), limit)}
	}
	return nil
}

// bound fails a run that says without an end what no turn can hold.
func (b *Branch) bound() {
	r := b.run
	if s := &r.log.shown; s.size > r.limits.Bytes || s.rows() > r.limits.Entries {
		b.Fail(&stored.Failure{Code: stored.CodeBudget, Message: fmt.Sprintf(
			"the run has shown %d values and items with %d bytes without an operation between (limits %d and %d): let it sleep or do a step now and then",
			s.rows(), s.size, r.limits.Entries, r.limits.Bytes)})
	}
}
