package stet

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// Value is something that a run shows under a name while it goes on: its
// progress, its state. It is declared once and used by both sides:
//
//	var Progress = stet.Value[Percent]("progress")
//
// Anyone can read it and follow its changes, also after the run has ended.
type Value[T any] string

// Set gives the value new content. It is part of the commit that records what led
// to it: readers never see what a crash takes back, a replay sets nothing again,
// and of several contents between two commits only the last is written. It waits
// for nothing, makes no entry, and works in a cancelled branch. A content that does not encode
// or is too large stalls the run (see OnBug); with FailOnBug it is ErrInvalid or ErrTooLarge.
func (v Value[T]) Set(ctx Context, content T) error {
	ctx.mustBeGiven()
	data, err := ctx.env.engine.codecs.encode(content)
	if err != nil {
		return ctx.unencodable(fmt.Errorf("value %q: %w: %w", string(v), err, ErrInvalid))
	}
	return ctx.seen(ctx.branch.Set(runner.Call{Name: string(v)}, data))
}

// Get returns the content of a run's value. ok is false if the run has not set
// it. Errors: ErrNotFound if there is no run with the ID, and those of decoding
// and of the store.
func (v Value[T]) Get(ctx context.Context, e *Engine, runID string) (content T, ok bool, err error) {
	run, err := e.find(ctx, runID)
	if err != nil {
		return content, false, err
	}
	f, ok, err := e.value(ctx, run.No, string(v))
	if err != nil || !ok {
		return content, false, err
	}
	content, err = decodeAs[T](e.codecs, f.Value)
	return content, err == nil, err
}

// Watch yields the content of a run's value, as soon as there is one, and then
// each time it has been set, until the run has ended. A reader that is slower than
// the run misses contents, never the last one. It costs no query while nothing
// changes, and goes on while the store cannot be reached. An error is yielded last: the cause
// of ctx's end, which wraps store.ErrUnavailable if the store was away then, or those of Get.
func (v Value[T]) Watch(ctx context.Context, e *Engine, runID string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		run, err := e.await(ctx, runID)
		if err != nil {
			yield(zero, err)
			return
		}
		seen := int64(0)
		err = e.follow(ctx, run, func() (bool, error) {
			f, ok, err := e.value(ctx, run.No, string(v))
			if err != nil || !ok || f.Last == seen {
				return true, err
			}
			seen = f.Last
			content, err := decodeAs[T](e.codecs, f.Value)
			return err == nil && yield(content, nil), err
		})
		if err != nil {
			yield(zero, err)
		}
	}
}

// value reads a value.
func (e *Engine) value(ctx context.Context, run store.RunNo, name string) (store.Feed, bool, error) {
	feeds, err := e.store.Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{run}, Name: name, Values: true})
	if err != nil {
		return store.Feed{}, false, fmt.Errorf("value %q: %w", name, err)
	}
	for _, f := range feeds {
		if !f.Stream {
			return f, true, nil
		}
	}
	return store.Feed{}, false, nil
}

// Feed is what a run shows under a name: a value, or a stream of items.
type Feed struct {
	Name   string
	Stream bool
	// Last is the position of the stream's last item, or how often the value was
	// set.
	Last int64
	// Dropped is how many items of the stream, its first ones, were dropped (Keep).
	Dropped int64
	At      time.Time `json:",omitzero"` // of the last change
	Size    int       // of the stored value in bytes; 0 for a stream

	content RawValue
}

// Decode decodes the content of a value into v, a pointer. Of a stream it leaves v
// alone: read that with Runs.Items.
func (f *Feed) Decode(v any) error { return f.content.Decode(v) }

// Feeds returns what a run shows, values before streams, by name, with the
// contents of the values. ErrNotFound: there is no run with the ID.
func (r Runs) Feeds(ctx context.Context, runID string) ([]Feed, error) {
	run, err := r.engine.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	stored, err := r.engine.store.Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{run.No}, Values: true})
	if err != nil {
		return nil, fmt.Errorf("feeds of run %q: %w", runID, err)
	}
	feeds := make([]Feed, len(stored))
	for i := range stored {
		s := &stored[i]
		feeds[i] = Feed{Name: s.Name, Stream: s.Stream, Last: s.Last, Dropped: s.Dropped, At: s.At.Time(), Size: s.Size,
			content: RawValue{s.Value, r.engine.codecs}}
	}
	return feeds, nil
}

// find returns the run with the ID, without values.
func (e *Engine) find(ctx context.Context, runID string) (*store.Run, error) {
	return e.findBy(ctx, runID, store.Filter{})
}

// findWaits is find with what the run waits for.
func (e *Engine) findWaits(ctx context.Context, runID string) (*store.Run, error) {
	return e.findBy(ctx, runID, store.Filter{Values: true, Longest: -1})
}

func (e *Engine) findBy(ctx context.Context, runID string, f store.Filter) (*store.Run, error) {
	f.IDs, f.Limit = []string{runID}, 1
	page, err := e.store.List(ctx, f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("run %q: %w", runID, err)
	case len(page.Runs) == 0:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	return &page.Runs[0], nil
}

// await is find for a call that goes on while the store cannot be reached, until ctx ends.
func (e *Engine) await(ctx context.Context, runID string) (run *store.Run, err error) {
	err = e.inner.Waiters().Persist(ctx, func() (err error) {
		run, err = e.find(ctx, runID)
		return err
	})
	return run, err
}

// follow calls read now and whenever the run may have something new, until read
// returns false or an error, or the run has ended and read has seen that.
func (e *Engine) follow(ctx context.Context, run *store.Run, read func() (more bool, err error)) error {
	there, err := e.inner.Waiters().Follow(ctx, run.No, read)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("run %q: %w", run.ID, err)
	case err == nil && !there:
		return fmt.Errorf("run %q: it is no longer kept: %w", run.ID, ErrNotFound)
	}
	return err
}
