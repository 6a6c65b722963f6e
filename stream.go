package stet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Stream is a sequence of items that a run makes while it goes on, by name: log
// lines, tokens of an answer, rows that are done. It is declared once and used by
// both sides:
//
//	var Log = stet.Stream[Line]("log")
//
// Items are kept in the order in which they were appended, each once, whatever
// crashes: a position is never left out and never given twice. Anyone can read
// them from any position and follow what comes.
type Stream[T any] string

// Append adds an item. It is part of the commit that records what led to it:
// readers never see what a crash takes back, and a replay appends nothing again.
// It waits for nothing, makes no entry (but one before the first completion of the
// run), and works in a cancelled branch. ErrInvalid: a bad Keep. An item that does not encode
// or is too large stalls the run (see OnBug); with FailOnBug it is ErrInvalid or ErrTooLarge.
func (s Stream[T]) Append(ctx Context, item T, opts ...AppendOption) error {
	ctx.mustBeGiven()
	keep, err := keepOf(opts)
	if err != nil {
		return s.error(err)
	}
	data, err := ctx.env.engine.codecs.encode(item)
	if err != nil {
		return ctx.unencodable(fmt.Errorf("stream %q: %w: %w", string(s), err, ErrInvalid))
	}
	return ctx.seen(ctx.branch.Append(runner.Call{Name: string(s)}, data, keep))
}

// AppendOption is an option of Stream.Append and Stream.Emit: a Keep.
type AppendOption interface{ applyAppend(*appendOptions) }

type appendOptions struct{ keep Keep }

// Keep bounds a stream: with the item that is added it has that many of the newest ones, and
// those before are dropped for good, marks too. Positions stay as they are, so readers know
// what they have missed (StreamItem.Skipped). It is said with each item, and counts from the
// next item on that says it. 0 and None: all.
type Keep int64

func (k Keep) applyAppend(o *appendOptions) { o.keep = k }

// keepOf returns how many items a stream keeps, 0 for all.
func keepOf(opts []AppendOption) (int64, error) {
	var o appendOptions
	for _, opt := range opts {
		opt.applyAppend(&o)
	}
	if o.keep < None {
		return 0, fmt.Errorf("expected to Keep 1 or more items, or None, found %d: %w", o.keep, ErrInvalid)
	}
	return int64(max(o.keep, 0)), nil
}

// Emit adds an item from the body of a step, whose context ctx is: tokens of an answer,
// lines of a long import. It is durable soon, 100 ms or 64 KiB later with a store that is
// quick, and before the outcome of the step at the latest. Items of one body stay in their
// order. A body that is executed again, by a retry or after a crash, emits its items again:
// those of the former one stay, and a mark (StreamItem.Again) stands before the first item
// that the later one adds.
//
// It waits while 64 KiB of the body are on their way to the store, until ctx ends; the error
// is the cause then. It may be called concurrently while the body executes. ErrInvalid: ctx
// is of no step, of one in a transaction (which a crash takes back), or of one that has
// ended. An item that is too large is ErrTooLarge, one that does not encode ErrInvalid; the run
// stalls if the body returns that (see OnBug).
func (s Stream[T]) Emit(ctx context.Context, item T, opts ...AppendOption) error {
	return s.error(s.emit(ctx, item, opts))
}

func (s Stream[T]) emit(ctx context.Context, item T, opts []AppendOption) error {
	if err := checkName("stream", string(s)); err != nil {
		return err
	}
	keep, err := keepOf(opts)
	if err != nil {
		return err
	}
	e, attempt := EngineOf(ctx), steps.AttemptOf(ctx)
	switch {
	case e == nil || attempt == nil:
		return fmt.Errorf("expected the context of a step's body, found another one; "+
			"the code of a workflow adds items with Append: %w", ErrInvalid)
	case !attempt.Emitting() && transactionIn(ctx) != nil: // once: it looks through all contexts around the body
		return fmt.Errorf("a step in a transaction emits nothing, because a crash takes back what it does; "+
			"add the item with Append behind it: %w", ErrInvalid)
	}
	data, err := e.codecs.encode(item)
	switch {
	case err != nil:
		return &unrecorded{fmt.Errorf("%w: %w", err, ErrInvalid)}
	case len(data) > e.limits.Value:
		return &unrecorded{fmt.Errorf("an item has %d bytes, more than the limit of %d: store it elsewhere and emit "+
			"a reference: %w", len(data), e.limits.Value, ErrTooLarge)}
	}
	err = attempt.Emit(ctx, steps.Emitted{Stream: string(s), Value: data, Keep: keep})
	if errors.Is(err, steps.ErrEnded) {
		return fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	return err
}

// error says of which stream an error is.
func (s Stream[T]) error(err error) error {
	if err != nil {
		err = fmt.Errorf("stream %q: %w", string(s), err)
	}
	return err
}

// StreamItem is an item of a stream.
type StreamItem[T any] struct {
	Position int64     // from 1
	At       time.Time `json:",omitzero"`
	// Skipped is how many items the reader has missed right before this one: the stream keeps
	// only the newest (Keep), and they were dropped.
	Skipped int64
	// Location and Attempt say which step has emitted the item, and in which of its attempts,
	// from 1; "" and 0: it was appended by the code.
	Location string
	Attempt  int
	// Again marks the place at which the body of the step at Location is executed again:
	// what it emitted before stays, and what follows may say it again. Such an item has no
	// value.
	Again bool
	// Rewound marks the place at which the run was rewound: what was appended
	// before it stays, and what follows may say some of it again. Such an item has
	// no value.
	Rewound bool
	Value   T
}

// Items returns items of a run's stream after a position, 0 for all that are kept, in their
// order: at most limit of them, 100 for 0, and not more than about 4 MiB. An empty
// answer says that there are none yet. Errors: ErrNotFound if there is no run with
// the ID, ErrInvalid for bad numbers, and those of decoding and of the store.
func (s Stream[T]) Items(
	ctx context.Context, e *Engine, runID string, after int64, limit int,
) ([]StreamItem[T], error) {
	raw, err := e.Runs().Items(ctx, runID, string(s), after, limit)
	if err != nil {
		return nil, err
	}
	items := make([]StreamItem[T], len(raw))
	for i := range raw {
		if items[i], err = decodeItem[T](&raw[i]); err != nil {
			return nil, fmt.Errorf("stream %q of run %q: %w", string(s), runID, err)
		}
	}
	return items, nil
}

// Tail yields the items of a run's stream after a position, 0 for all, and then
// what comes, until the run has ended. To go on later, pass the position of the
// last item seen. It costs no query while nothing changes, and goes on while the store
// cannot be reached. An error is yielded last: the cause of ctx's end, which wraps
// store.ErrUnavailable if the store was away then, or those of Items.
func (s Stream[T]) Tail(ctx context.Context, e *Engine, runID string, after int64) iter.Seq2[StreamItem[T], error] {
	return func(yield func(StreamItem[T], error) bool) {
		for raw, err := range e.Runs().Tail(ctx, runID, string(s), after) {
			var item StreamItem[T]
			if err == nil {
				item, err = decodeItem[T](&raw)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func decodeItem[T any](raw *StreamItem[RawValue]) (StreamItem[T], error) {
	item := StreamItem[T]{
		Position: raw.Position, At: raw.At, Skipped: raw.Skipped, Rewound: raw.Rewound,
		Location: raw.Location, Attempt: raw.Attempt, Again: raw.Again,
	}
	err := raw.Value.Decode(&item.Value)
	if err != nil {
		err = fmt.Errorf("item %d: %w", raw.Position, err)
	}
	return item, err
}

// RawValue is a stored value whose type the reader knows. The zero RawValue is none.
type RawValue struct {
	data   []byte
	codecs codecs
}

// Bytes returns the value as it is stored, the codec's format byte first; nil: there is
// none. The caller must not change it.
func (r RawValue) Bytes() []byte { return r.data }

// Decode decodes the value into v, a pointer. No value leaves v alone. The error is
// ErrSealed if it cannot be read, or that of the codec.
func (r RawValue) Decode(v any) error { return r.codecs.decode(r.data, v) }

// Items is Stream.Items for a stream whose type is not known.
func (r Runs) Items(ctx context.Context, runID, stream string, after int64, limit int) ([]StreamItem[RawValue], error) {
	run, err := r.engine.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	items, err := r.engine.items(ctx, store.StreamQuery{Run: run.No, Name: stream, After: after, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", runID, err)
	}
	return items, nil
}

func (e *Engine) items(ctx context.Context, q store.StreamQuery) ([]StreamItem[RawValue], error) {
	if err := checkName("stream", q.Name); err != nil {
		return nil, err
	}
	if _, err := q.Bounds(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	found, err := e.store.Stream(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", q.Name, err)
	}
	items := make([]StreamItem[RawValue], len(found))
	for i := range found {
		it := &found[i]
		items[i] = StreamItem[RawValue]{Position: it.Pos, At: it.At.Time(), Rewound: it.Rewound,
			Value: RawValue{it.Value, e.codecs}}
		by, ok, err := stored.DecodeEmitted(it.Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("stream %q: item %d: %w", q.Name, it.Pos, err)
		case ok:
			items[i].Location, items[i].Attempt, items[i].Again = by.Location, by.Attempt, by.Again
			items[i].Value.data = by.Value
		}
	}
	if len(items) > 0 {
		items[0].Skipped = items[0].Position - q.After - 1
	}
	return items, nil
}

// Tail is Stream.Tail for a stream whose type is not known.
func (r Runs) Tail(ctx context.Context, runID, stream string, after int64) iter.Seq2[StreamItem[RawValue], error] {
	return func(yield func(StreamItem[RawValue], error) bool) {
		run, err := r.engine.await(ctx, runID)
		if err == nil {
			err = r.engine.follow(ctx, run, func() (bool, error) {
				for {
					items, err := r.engine.items(ctx, store.StreamQuery{Run: run.No, Name: stream, After: after})
					if err != nil || len(items) == 0 {
						return true, err
					}
					for _, item := range items {
						if !yield(item, nil) {
							return false, nil
						}
						after = item.Position
					}
				}
			})
		}
		if err != nil {
			yield(StreamItem[RawValue]{}, err)
		}
	}
}
