package stet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// Tags are keys and values by which runs are listed: store.Filter has them, and
// the command line. Given to Start they are there from the beginning; the run
// changes its own with SetTags. A key is 1 to 64 bytes without spaces, commas,
// quotes and =<>*; a value 1 to 255 bytes. A run has at most 64.
type Tags map[string]string

func (t Tags) applyStart(o *startOptions) error {
	tags, err := t.pairs(false)
	o.tags = tags
	return err
}

func (t Tags) applyChild(o *childOptions) { o.tags, o.err = t.pairs(false) }

// pairs checks tags and sorts them by key.
func (t Tags) pairs(removal bool) ([]store.Pair, error) {
	if len(t) > store.MaxTags {
		return nil, fmt.Errorf("tags: expected at most %d, found %d: %w", store.MaxTags, len(t), ErrInvalid)
	}
	tags := make([]store.Pair, 0, len(t))
	for _, key := range slices.Sorted(maps.Keys(t)) {
		tag := store.Pair{Key: key, Value: t[key]}
		if err := store.CheckTag(tag, removal); err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

// SetTags changes tags of the run: an empty value removes one, others stay. It is
// part of the commit that records what led to it; it waits for nothing, and works
// in a cancelled branch. ErrInvalid: a key or value is not allowed, and nothing is
// changed. A run that would have more than 64 tags fails.
func SetTags(ctx Context, tags Tags) error {
	pairs, err := tags.pairs(true)
	if err != nil {
		return err
	}
	ctx.mustBeGiven()
	return ctx.seen(ctx.branch.Tag(runner.Call{Name: "tags"}, pairs))
}
