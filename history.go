package stet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// HistoryEntry is what is recorded of one operation of a run.
type HistoryEntry struct {
	Location string     // as in logs: "pack/[sku-7]/pick#2"
	Kind     store.Kind `json:",omitzero"` // step, sleep, receive, …
	// State is open, done, failed or withdrawn. A withdrawn operation has lost a race, or was cancelled. The body of a
	// withdrawn step may have had an effect if the entry has Attempts: it was cut. Ended says then when the last attempt
	// returned, and Err with which error, or nil if it succeeded; without Ended that is not known, as of a task that a
	// worker had begun.
	State    store.EntryState `json:",omitzero"`
	Number   int64            // in the order of completions, from 1; 0: not completed
	Born     int64            // number of the completion after which the code asked for it; 0: before the first
	Attempts int              // of a step, on record
	Started  time.Time        `json:",omitzero"` // when it was asked for; of a step when its first attempt began
	Ended    time.Time        `json:",omitzero"` // zero: not ended
	Wake     time.Time        `json:",omitzero"` // deadline, end of a sleep or next attempt of an open one; zero: none
	Size     int              // of the stored value in bytes
	Owes     bool             // a completed step that carries a compensation, undone or not
	Undone   bool             // a step that Owes, whose compensation has succeeded

	// These need values.
	Run   string    // ID of the child, the awaited run, or the receiver of what was sent
	Topic string    // of an event that was received or published
	Event string    // ID of that event in its topic
	Loop  *LoopInfo // of a loop, at the loop's own location; nil for other entries
	// Failures are the last failed attempts of a step or a compensation, oldest first: at most
	// 8, with at most 1 KiB of text each, once it has succeeded, and at most 20 before that, or
	// if it has failed. The number of the first one, less 1, is how many were left out.
	Failures []FailedAttempt
	// Tried is when the last attempt on record ended: of an open step or compensation, whose
	// attempts have all failed so far. Zero: none is on record.
	Tried time.Time `json:",omitzero"`
	// Executing is when the attempt began that is being executed: of an open step whose body
	// has taken 10 s or longer. Its number is Attempts + 1, and Value is the detail of its last
	// heartbeat. Zero: none is known, as of a step in a transaction. If the process has died
	// since, the attempt is made again. A step that waits for its next attempt has a Wake.
	Executing time.Time `json:",omitzero"`
	// By and Why are of the Act with which a promise was assigned; "": none was given. The HTTP
	// API gives the identity and its reason.
	By, Why string

	value   []byte // as it is stored
	content []byte // the part of it that Decode decodes
	damaged error  // the value cannot be read
	codecs  codecs
	errors  *errorTable
}

// LoopInfo is how far a loop has come, as of its last commit.
type LoopInfo struct {
	Completed int64 // iterations
	Oldest    int64 // the first iteration whose history is kept
}

// FailedAttempt is an attempt of a step, or of a compensation, that has failed.
type FailedAttempt struct {
	Number  int       // from 1
	Began   time.Time `json:",omitzero"`
	Ended   time.Time `json:",omitzero"`
	Code    string    // as FailureRecord.Code
	Message string    // of the error
}

// ReceivedMessage is a message that a receive has consumed.
type ReceivedMessage struct {
	Name    string
	Sent    time.Time `json:",omitzero"`
	Headers Headers   // that it was sent with
	Value   RawValue  `json:",omitzero"`
}

// LocationOf returns a location as HistoryEntry has it, of one that a store has: of the Loc
// of an entry or an item. Of "" it is "".
func LocationOf(stored string) string {
	if stored == "" {
		return ""
	}
	return location.Loc(stored).String()
}

// Decode decodes into v, a pointer, what an operation that is done has given to the code:
// the result of a step, a child, an awaited run or a loop, what a promise was resolved
// with, an event, the message of a receive, or the number of a version. Errors: ErrInvalid
// if there is no such value, because the operation is not done or gives none, because a
// receive took several messages (see Messages), or because the entry was read without
// values; ErrSealed or store.ErrDamaged if it cannot be read; or that of the codec.
func (e *HistoryEntry) Decode(v any) error {
	none := func(found string) error {
		return fmt.Errorf("%s %s: expected a value, found %s: %w", e.Kind, e.Location, found, ErrInvalid)
	}
	switch {
	case e.State != store.Done:
		return none(fmt.Sprintf("an operation that is %s", e.State))
	case e.value == nil && e.Size > 0:
		return none("an entry that was read without values")
	case e.value == nil:
		return none("none")
	}
	if err := e.readable(); err != nil {
		return err
	}
	switch e.Kind {
	case store.KindStep, store.KindChild, store.KindRun, store.KindEvent, store.KindPromise, store.KindLoop:
		if e.content == nil {
			return none("none")
		}
		return e.codecs.decode(e.content, v)
	case store.KindReceive:
		messages, err := e.Messages()
		if err != nil {
			return err
		}
		if len(messages) != 1 {
			return none(fmt.Sprintf("%d messages, which Messages returns", len(messages)))
		}
		return messages[0].Value.Decode(v)
	case store.KindVersion:
		return (codecs{JSON}).decode(e.content, v)
	}
	return none("an operation that gives none")
}

// Value returns the value of an operation that is done, for readers that do not know its
// type: a step's result, a run's output, an event's data, the number of a version, the
// reason of a cancel. It is empty for a publication,
// for messages, which Messages returns, and for an entry without a value or read without
// values. Of a value whose key or object is missing it returns the sealed form, in any
// state; see Unreadable.
func (e *HistoryEntry) Value() RawValue { return RawValue{e.content, e.codecs} }

// Messages returns the messages that a receive has consumed, oldest first. It needs
// values, and returns none for other entries. The error wraps ErrSealed if the entry
// cannot be read here, and store.ErrDamaged if it cannot be read at all.
func (e *HistoryEntry) Messages() ([]ReceivedMessage, error) {
	if e.Kind != store.KindReceive || e.State != store.Done || e.value == nil {
		return nil, nil
	}
	if err := payload.Readable(e.value); err != nil {
		return nil, err
	}
	receipt, err := stored.DecodeReceipt(e.value)
	if err != nil {
		return nil, err
	}
	messages := make([]ReceivedMessage, len(receipt))
	for i, m := range receipt {
		messages[i] = ReceivedMessage{m.Name, m.Sent.Time(), nil, RawValue{m.Value, e.codecs}}
		headers, _ := stored.SplitExpiry(m.Headers)
		messages[i].Headers, _ = decodeHeaders(headers) // were written by encode
	}
	return messages, nil
}

// Err returns the failure of a failed operation, and of an open step or compensation
// that of its last attempt, or nil. errors.As finds it as a *FailureRecord too. For an
// entry that cannot be read it returns the reason, which wraps ErrSealed or
// store.ErrDamaged. It needs values.
func (e *HistoryEntry) Err() error {
	if e.value == nil {
		return nil
	}
	if err := e.readable(); err != nil {
		return err
	}
	var failure *stored.Failure
	switch {
	case e.State == store.FailedEntry:
		var err error
		if failure, err = stored.DecodeFailure(e.value); err != nil {
			return err
		}
	case e.State == store.Open && (e.Kind == store.KindStep || e.Kind.Undoes()),
		e.State == store.Withdrawn && e.Kind == store.KindStep && !e.Ended.IsZero():
		progress, err := stored.DecodeProgress(e.value)
		if err != nil || len(progress.Causes) == 0 || progress.Succeeded {
			return err
		}
		failure = progress.Causes[len(progress.Causes)-1]
	default:
		return nil
	}
	return e.errors.recorded(failure)
}

// readable returns why the value cannot be read, or nil.
func (e *HistoryEntry) readable() error {
	if e.damaged != nil {
		return e.damaged
	}
	return payload.Readable(e.value)
}

// unpack fills in what the value says, which depends on the kind of operation.
func (e *HistoryEntry) unpack() {
	if e.value == nil {
		return
	}
	if payload.Readable(e.value) != nil {
		e.content = e.value
		return
	}
	switch e.Kind {
	case store.KindChild, store.KindRun:
		var link stored.Link
		link, e.damaged = stored.DecodeLink(e.State, e.value)
		e.Run, e.content = link.RunID, link.Output
	case store.KindLoop:
		if e.State == store.Done {
			e.content = e.value
		} else if e.State == store.Open {
			var p stored.LoopProgress
			p, e.damaged = stored.DecodeLoop(e.value)
			e.Loop = &LoopInfo{p.Completed, p.Oldest}
		}
	case store.KindEvent:
		if e.State == store.Done {
			e.Topic, e.Event, e.content, e.damaged = stored.DecodeEvent(e.value)
		}
	case store.KindPublish:
		if e.State != store.FailedEntry {
			var p stored.Published
			p, e.damaged = stored.DecodePublished(e.value)
			e.Topic, e.Event = p.Topic, p.ID
		}
	case store.KindSend:
		if e.State == store.Done {
			var s stored.Sent
			s, e.damaged = stored.DecodeSent(e.value)
			e.Run = s.Run
		}
	case store.KindReceive:
	case store.KindPromise:
		e.unpackPromise()
	case store.KindStep, store.KindUndo, store.KindSagaUndo:
		e.unpackStep()
	case store.KindVersion:
		var version int
		if version, e.damaged = stored.DecodeVersion(e.value); e.damaged == nil {
			e.content, e.damaged = codecs{JSON}.encode(version)
		}
	case store.KindCancel:
		e.content, e.damaged = codecs{JSON}.encode(string(e.value)) // the reason
	default:
		if e.State == store.Done {
			e.content = e.value
		}
	}
}

// unpackPromise does so for a promise.
func (e *HistoryEntry) unpackPromise() {
	var headers []byte
	switch e.State {
	case store.Done:
		headers, e.content, e.damaged = stored.SplitHeaders(e.value)
	case store.FailedEntry:
		if f, err := stored.DecodeFailure(e.value); err == nil { // otherwise Err says so
			headers = f.Headers
		}
	}
	given, _ := decodeHeaders(headers) // were written by encode
	e.By, e.Why = given[stored.ByHeader], given[stored.WhyHeader]
}

// unpackStep does so for a step or a compensation.
func (e *HistoryEntry) unpackStep() {
	var causes []*stored.Failure
	failed := e.Attempts
	switch e.State {
	case store.Done:
		var t stored.Tried
		t, e.damaged = stored.SplitTried(e.value)
		causes, e.content = t.Causes, t.Value
		failed--
	case store.Open:
		var p stored.Progress
		p, e.damaged = stored.DecodeProgress(e.value)
		causes, e.Executing, e.content = p.Causes, p.Begun.Time(), p.Detail
	case store.Withdrawn:
		var p stored.Progress
		p, e.damaged = stored.DecodeProgress(e.value)
		if causes = p.Causes; e.Ended.IsZero() || p.Succeeded {
			failed-- // the attempt that was cut
		}
	case store.FailedEntry:
		if f, err := stored.DecodeFailure(e.value); err == nil { // otherwise Err says so
			causes = f.Causes
		}
	}
	causes = slices.DeleteFunc(slices.Clone(causes), func(f *stored.Failure) bool {
		return f == nil || f.Ended == 0 // none that has begun
	})
	for i, f := range causes {
		e.Failures = append(e.Failures, FailedAttempt{
			Number: failed - len(causes) + i + 1, Began: f.Began.Time(), Ended: f.Ended.Time(), Code: f.Code, Message: f.Message,
		})
		if e.State == store.Open {
			e.Tried = f.Ended.Time()
		}
	}
}

// HistoryQuery selects entries. The zero HistoryQuery selects all, without
// values.
type HistoryQuery struct {
	Values bool   // with values
	After  string // only locations after this one, as HistoryEntry.Location gives it
	Limit  int    // at most so many; 0: all
	// At selects exactly the entries at these locations, as HistoryEntry.Location gives them;
	// nil: all. Where nothing is recorded, nothing is returned.
	At []string
	// Run is the run, as it was read a moment ago: its row is not read again. Of it only Number and
	// Incarnation count. nil: the row is read. If the run has continued as new since, nothing is returned.
	Run *RunInfo
}

// History returns what is recorded of a run, in the order of locations: names
// in byte order, occurrences and iterations by number. Errors: ErrNotFound, and
// ErrInvalid for a location that is none.
func (r Runs) History(ctx context.Context, runID string, q HistoryQuery) ([]HistoryEntry, error) {
	run := &store.Run{}
	if q.Run != nil {
		run.No, run.Incarnation = q.Run.Number, q.Run.Incarnation
	} else {
		var err error
		if run, err = r.engine.find(ctx, runID); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	query := store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation, Limit: q.Limit, Values: q.Values}
	if q.After != "" {
		after, err := location.Parse(q.After)
		if err != nil {
			return nil, fmt.Errorf("history of run %q: After: %w: %w", runID, err, ErrInvalid)
		}
		query.After = string(after)
	}
	wanted := map[string]bool{}
	for _, text := range q.At {
		at, err := location.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("history of run %q: At: %w: %w", runID, err, ErrInvalid)
		}
		wanted[string(at)] = true
		query.Locs = append(query.Locs, string(at), string(history.UndoOf(at)))
	}
	if q.At != nil {
		query.Limit = 0 // what is read beside them does not count
		if len(wanted) == 0 {
			return nil, nil
		}
	}
	if query.Limit > 0 {
		query.Limit++ // a compensation stands directly behind its step
	}
	recorded, err := r.engine.store.History(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("history of run %q: %w", runID, err)
	}
	undone := map[string]bool{}
	for i := range recorded {
		if s := &recorded[i]; s.Kind.Undoes() && s.State == store.Done {
			undone[s.Loc] = true
		}
	}
	if q.At != nil {
		recorded = slices.DeleteFunc(recorded, func(s store.Entry) bool { return !wanted[s.Loc] })
	}
	if q.Limit > 0 {
		recorded = recorded[:min(q.Limit, len(recorded))]
	}
	entries := make([]HistoryEntry, len(recorded))
	for i := range recorded {
		e := r.engine.entry(&recorded[i])
		e.Undone = e.Owes && undone[string(history.UndoOf(location.Loc(recorded[i].Loc)))]
		entries[i] = e
	}
	return entries, nil
}

// entry returns an entry as users see it.
func (e *Engine) entry(s *store.Entry) HistoryEntry {
	entry := HistoryEntry{
		Location: location.Loc(s.Loc).String(), Kind: s.Kind, State: s.State, Number: s.Seq, Born: s.Born,
		Attempts: s.Attempt, Started: s.Started.Time(), Size: s.Size,
		Owes: s.Owes && s.State == store.Done, value: s.Value, codecs: e.codecs, errors: e.errors,
	}
	switch {
	case s.State == store.Done || s.State == store.FailedEntry || s.State == store.Withdrawn && s.Kind == store.KindStep:
		entry.Ended = s.Ended.Time()
	case s.State == store.Open:
		entry.Wake = s.Wake.Time()
	}
	entry.unpack()
	return entry
}
