package stet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// DiscardDeadLetters drops messages that a run has not received by its end, and those
// that arrive for an earlier incarnation. Without it they are kept as dead letters as
// long as the run is.
func DiscardDeadLetters() DefineOption { return discardDeadLetters{} }

type discardDeadLetters struct{}

func (discardDeadLetters) applyDefine(o *defineOptions) { o.discard = true }

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
	Kind     store.ItemKind // message, resolution, …
	Name     string         // of a message, or of an event's topic
	RunID    string         // that it was sent to
	Workflow string         // of the run
	Status   store.Status   // of the run
	Sent     time.Time
	Headers  Headers // of a message or an event
	Size     int     // of the stored value in bytes
	Reason   string  // why the run has refused it; "": it has not

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
	return &recordedError{d.errors.restore(failure), failure}
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

// Replay sends a dead message again, with its headers, to the run with the ID, which may be
// another one than before, and then removes the letter. If the process dies in between, the
// letter is still there, and a second replay to the same run delivers nothing twice.
// Errors, with which the letter is kept: ErrNotFound if there is no such letter or run,
// ErrTerminal if the run has ended, ErrSealed if this process has not the key or the object
// of the value, ErrInvalid if the letter is no message.
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
	letter := &page.Letters[0].Item
	if letter.Kind != store.ItemMessage {
		return fmt.Errorf("replay dead letter %d: expected a message, found a %s, which is for one place in one run: %w",
			number, letter.Kind, ErrInvalid)
	}
	if err := payload.Readable(letter.Value); err != nil {
		return fmt.Errorf("replay dead letter %d: give this process the keys and the objects of the store: %w", number, err)
	}
	headers, _ := stored.SplitExpiry(letter.Headers) // a person wants it received
	_, err = d.engine.put(ctx, runID, &store.Item{Kind: store.ItemMessage, Name: letter.Name,
		ID: fmt.Sprintf("d:%d", number), Origin: uuid.NewString(), Value: letter.Value, Headers: headers})
	if err != nil && !errors.Is(err, errDuplicate) {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	_, err = d.remove(ctx, number)
	d.engine.logged(ctx, "replay", "dead_letter", fmt.Sprint(number), act, err)
	return err
}

// Remove removes dead letters for good and returns how many of the numbers were of dead
// letters. ErrInvalid: a bad act.
func (d DeadLetters) Remove(ctx context.Context, act Act, numbers ...store.ItemNo) (int, error) {
	if err := act.check(); err != nil {
		return 0, fmt.Errorf("remove dead letters: %w", err)
	}
	n, err := d.remove(ctx, numbers...)
	d.engine.logged(ctx, "remove", "dead_letters", fmt.Sprint(numbers), act, err)
	return n, err
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
