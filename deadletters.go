package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// DiscardDeadLetters drops what a run has not received by its end, and what arrives for an
// earlier incarnation. Without it these are kept as dead letters as long as the run is.
//
// Given kinds of messages, of which there may be 100, it drops messages of these kinds
// alone: a tick that nobody has received is worth nothing, a payment is. It may be given
// several times. What a run has refused, because it has expired or does not decode, is
// kept all the same.
func DiscardDeadLetters(of ...MessageKind) DefineOption { return discardDeadLetters(of) }

// MessageKind is a Message of any type.
type MessageKind interface{ messageName() string }

func (m Message[T]) messageName() string { return string(m) }

type discardDeadLetters []MessageKind

func (d discardDeadLetters) applyDefine(o *defineOptions) {
	o.discard = o.discard || len(d) == 0
	for _, kind := range d {
		if kind == nil {
			panic("stet: DiscardDeadLetters: a kind of messages is nil")
		}
		o.discardNames = append(o.discardNames, kind.messageName())
	}
}

// DeadLetters are the dead letters of an engine's store. Safe for concurrent use.
type DeadLetters struct{ engine *Engine }

// DeadLetters returns the dead letters of the store.
func (e *Engine) DeadLetters() DeadLetters { return DeadLetters{e} }

// DeadLetter is something that was accepted for a run and that nobody will
// receive any more:
//   - the run has ended without it;
//   - it does not decode into the type that the run's code has for it (Reason says why);
//   - it is for a promise of an earlier incarnation, or the end of a child that this one
//     has started.
//
// An event that did not decode has the Kind store.ItemDelivery and its topic's Name.
type DeadLetter struct {
	Number   store.ItemNo   // names it
	Kind     store.ItemKind `json:",omitzero"` // message, resolution, …
	Name     string         // of a message, or of an event's topic
	RunID    string         // that it was sent to
	Workflow string         // of the run
	Status   store.Status   `json:",omitzero"` // of the run
	Sent     time.Time      `json:",omitzero"`
	Headers  Headers        // of a message, an event or the resolution of a promise
	Size     int            // of the stored value in bytes
	Reason   string         // why the run has refused it; "": it has not

	value  []byte
	failed bool
	codecs codecs
	errors *errorTable
}

// Decode decodes the value into v, a pointer. A letter without a value, or one
// that was listed without values, leaves v alone. What rejects a promise is
// ErrInvalid: it has no value.
func (d *DeadLetter) Decode(v any) error {
	if d.failed {
		return fmt.Errorf("dead letter %d rejects a promise and has no value: %w", d.Number, ErrInvalid)
	}
	return d.codecs.decode(d.value, v)
}

// Value returns the value, for readers that do not know its type. It is empty for a letter
// that rejects a promise, and for one without a value or listed without values.
func (d *DeadLetter) Value() RawValue {
	if d.failed {
		return RawValue{nil, d.codecs}
	}
	return RawValue{d.value, d.codecs}
}

// Err returns the failure with which the letter rejects a promise, or nil. errors.As finds
// it as a *FailureRecord too. If it cannot be read the error is the reason, which wraps
// ErrSealed or store.ErrDamaged. It needs values.
func (d *DeadLetter) Err() error {
	if !d.failed || d.value == nil {
		return nil
	}
	if err := payload.Readable(d.value); err != nil {
		return err
	}
	failure, err := stored.DecodeFailure(d.value)
	if err != nil {
		return err
	}
	return d.errors.recorded(failure)
}

// List returns dead letters, newest first, and the cursor of the next
// page, "" after the last. store.ErrBadCursor: the cursor is not one of these.
func (d DeadLetters) List(ctx context.Context, f store.DeadFilter) (letters []DeadLetter, next string, err error) {
	page, err := d.engine.store.DeadLetters(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("list dead letters: %w", err)
	}
	letters = make([]DeadLetter, len(page.Letters))
	for i := range page.Letters {
		l, of := &page.Letters[i], &letters[i]
		*of = DeadLetter{
			Number: l.Item.No, Kind: l.Item.Kind, Name: l.Item.Name, RunID: l.RunID, Workflow: l.Workflow, Status: l.Status,
			Sent: l.Item.Sent.Time(), Size: l.Size, value: l.Item.Value, failed: l.Item.Failed,
			codecs: d.engine.codecs, errors: d.engine.errors,
		}
		if l.Item.Verdict != nil {
			of.Reason = textOf(l.Item.Verdict)
		}
		headers, _ := stored.SplitExpiry(l.Item.Headers)
		if x := deliveredEvent(&l.Item); x != nil {
			of.Name, of.value, headers = x.Topic, x.Event.Value, x.Event.Headers
		}
		of.Headers, _ = decodeHeaders(headers) // were written by encode
	}
	return letters, page.Next, nil
}

// textOf returns a stored text, or what there is to say of one that cannot be read.
func textOf(stored []byte) string {
	if err := payload.Readable(stored); err != nil {
		return err.Error()
	}
	return string(stored)
}

// deliveredEvent returns the event that a letter has, or nil: it has another value, none,
// or one that cannot be read.
func deliveredEvent(it *store.Item) *event.Delivery {
	d := new(event.Delivery)
	if it.Kind != store.ItemDelivery || payload.Readable(it.Value) != nil || event.Decode(it.Value, d) != nil {
		return nil
	}
	return d
}

// Replay sends a dead letter again, and then removes it: for code that fits it now, or for
// another run.
//   - A message goes, with its headers, to the run with the ID; "" is the run that it was for.
//   - What assigns a promise goes to the promise at the same location of the run, which has
//     to be made and not assigned: of a run whose code fits now, or of its fork.
//   - An event of a consumed topic is published again, with its headers and the settings of
//     the event that was published last; runID is "". One of a broadcast topic has gone to
//     all others that waited, and is not sent again: ErrInvalid.
//
// If the process dies in between, the letter is still there, and a second replay to the same
// place delivers nothing twice. Errors, with which the letter is kept: ErrNotFound if there
// is no such letter, run or promise; ErrTerminal if the run has ended; ErrInboxFull;
// ErrAlreadyResolved; ErrSealed if this process has not the key or the object of the value;
// ErrInvalid for a letter of another kind, such as the end of a child.
func (d DeadLetters) Replay(ctx context.Context, number store.ItemNo, runID string, act Act) error {
	if err := act.check(); err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	page, err := d.engine.store.DeadLetters(ctx, store.DeadFilter{Nos: []store.ItemNo{number}, Values: true})
	if err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	if len(page.Letters) == 0 {
		return fmt.Errorf("dead letter %d: %w", number, ErrNotFound)
	}
	if err = d.again(ctx, &page.Letters[0], runID); err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	if err = noteFirst(ctx, d.engine, "replay", "dead_letter", fmt.Sprint(number), act); err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	_, err = d.remove(ctx, number)
	d.engine.logged(ctx, "replay", "dead_letter", fmt.Sprint(number), act, err)
	return err
}

// again sends a letter again.
func (d DeadLetters) again(ctx context.Context, l *store.DeadLetter, runID string) error {
	letter := &l.Item
	if err := payload.Readable(letter.Value); err != nil {
		return fmt.Errorf("give this process the keys and the objects of the store: %w", err)
	}
	if letter.Kind == store.ItemDelivery {
		return d.publishAgain(ctx, letter, runID)
	}
	runID = cmp.Or(runID, l.RunID)
	item := &store.Item{Kind: letter.Kind, Origin: uuid.NewString(), Value: letter.Value, Failed: letter.Failed}
	var already error
	switch letter.Kind {
	case store.ItemMessage:
		item.Name, item.ID = letter.Name, fmt.Sprintf("d:%d", letter.No)
		item.Headers, _ = stored.SplitExpiry(letter.Headers) // a person wants it received
	case store.ItemResolution:
		if err := d.promiseAt(ctx, item, letter.Loc, runID); err != nil {
			return err
		}
		already = fmt.Errorf("promise %s of run %q: %w", location.Loc(letter.Loc), runID, ErrAlreadyResolved)
	default:
		return fmt.Errorf("expected a message, the resolution of a promise, or an event of a consumed topic, found a %s, "+
			"which is for one place in one run: %w", letter.Kind, ErrInvalid)
	}
	_, err := d.engine.put(ctx, runID, item)
	if errors.Is(err, errDuplicate) {
		return already
	}
	return err
}

// promiseAt completes the item that assigns the promise at a location of a run.
func (d DeadLetters) promiseAt(ctx context.Context, item *store.Item, loc, runID string) error {
	run, ok, err := d.engine.inner.Get(ctx, runID)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	entries, err := d.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation,
		Locs: []string{loc}})
	switch {
	case err != nil:
		return err
	case len(entries) == 0 || entries[0].Kind != store.KindPromise:
		return fmt.Errorf("promise %s of run %q: %w", location.Loc(loc), runID, ErrNotFound)
	case entries[0].State != store.Open:
		return fmt.Errorf("promise %s of run %q: %w", location.Loc(loc), runID, ErrAlreadyResolved)
	}
	item.Loc, item.Incarnation, item.Generation = loc, run.Incarnation, entries[0].Generation
	item.ID = stored.ResolutionID(loc, item.Incarnation, item.Generation)
	return nil
}

// publishAgain publishes the event of a letter again.
func (d DeadLetters) publishAgain(ctx context.Context, letter *store.Item, runID string) error {
	e, x := d.engine, deliveredEvent(letter)
	switch {
	case x == nil:
		return fmt.Errorf("expected an event, found something else in the delivery: %w", store.ErrDamaged)
	case runID != "":
		return fmt.Errorf("an event of topic %q goes to its topic, not to run %q: give no run: %w",
			x.Topic, runID, ErrInvalid)
	case x.Event.Mode != event.Consumed:
		return fmt.Errorf("topic %q is broadcast, and all others that waited have the event: publish it again: %w",
			x.Topic, ErrInvalid)
	}
	run, err := e.topicRecord(ctx, x.Topic)
	if err != nil {
		return err
	}
	stats, err := e.topicStats(ctx, run)
	if err != nil {
		return err
	}
	c := event.Publish(x.Topic, fmt.Sprintf("d:%d", letter.No), uuid.NewString(),
		&event.Publication{Settings: stats.Settings, Value: x.Event.Value}, x.Event.Headers)
	if _, err := e.inner.Tell(ctx, c.RunID, *c.Item); err != nil {
		return fmt.Errorf("publish to topic %q: %w", x.Topic, err)
	}
	return nil
}

// Remove removes dead letters for good and returns how many of the numbers were of dead
// letters. ErrInvalid: a bad act.
func (d DeadLetters) Remove(ctx context.Context, act Act, numbers ...store.ItemNo) (int, error) {
	if err := act.check(); err != nil {
		return 0, fmt.Errorf("remove dead letters: %w", err)
	}
	there, err := d.there(ctx, numbers)
	if err != nil || len(there) == 0 {
		return 0, err
	}
	if err := noteFirst(ctx, d.engine, "remove", "dead_letters", fmt.Sprint(there), act); err != nil {
		return 0, fmt.Errorf("remove dead letters: %w", err)
	}
	n, err := d.remove(ctx, numbers...)
	d.engine.logged(ctx, "remove", "dead_letters", fmt.Sprint(there), act, err)
	return n, err
}

// there returns those of the numbers that are of dead letters.
func (d DeadLetters) there(ctx context.Context, numbers []store.ItemNo) ([]store.ItemNo, error) {
	found := map[store.ItemNo]bool{}
	for chunk := range slices.Chunk(numbers, store.MaxPage) {
		page, err := d.engine.store.DeadLetters(ctx, store.DeadFilter{Nos: chunk, Limit: len(chunk)})
		if err != nil {
			return nil, fmt.Errorf("remove dead letters: %w", err)
		}
		for i := range page.Letters {
			found[page.Letters[i].Item.No] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(numbers), func(n store.ItemNo) bool { return !found[n] }), nil
}

func (d DeadLetters) remove(ctx context.Context, numbers ...store.ItemNo) (int, error) {
	were, err := d.engine.store.Discard(ctx, numbers)
	if err != nil {
		return 0, fmt.Errorf("remove dead letters: %w", err)
	}
	removed := map[store.ItemNo]bool{}
	for i, was := range were {
		if was {
			removed[numbers[i]] = true
		}
	}
	return len(removed), nil
}
