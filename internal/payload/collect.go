package payload

import (
	"context"
	"encoding/base32"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Spare is how long an object is kept to which nothing refers: a value that refers to
// it may be on its way into the store.
const Spare = 24 * time.Hour

// clock is an object without a meaning. It is written to learn the time of the objects'
// own clock, which need not be that of this machine.
const clock = "stet-clock"

// Collect deletes the objects to which no value of the store refers and which are older
// than spare, by the clock that says when they were written. It returns their number.
// Only one call at a time collects.
func (p *Policy) Collect(ctx context.Context, s store.Store, spare time.Duration) (deleted int, err error) {
	if p == nil || p.cfg.Objects == nil {
		return 0, nil
	}
	p.mu.Lock()
	p.collecting, p.fresh = true, map[string]bool{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.collecting, p.fresh = false, nil
		p.mu.Unlock()
	}()
	now, err := p.objectsNow(ctx)
	if err != nil {
		return 0, err
	}
	group, used := "", map[string]bool(nil)
	for after := ""; ; {
		list, err := p.cfg.Objects.List(ctx, after)
		if err != nil || len(list) == 0 {
			return deleted, err
		}
		for _, object := range list {
			after = object.Name
			of := path.Dir(object.Name)
			if of == "." || now.Sub(object.Written) < spare {
				continue
			}
			if used == nil || of != group {
				if used, err = usedBy(ctx, s, of); err != nil {
					return deleted, err
				}
				group = of
			}
			if used == nil || used[object.Name] || p.isFresh(object.Name) {
				continue // not an object of stet, or needed
			}
			if err := p.cfg.Objects.Delete(ctx, object.Name); err != nil {
				return deleted, err
			}
			deleted++
		}
	}
}

// objectsNow returns the time of the clock that says when objects were written.
func (p *Policy) objectsNow(ctx context.Context) (time.Time, error) {
	if err := p.cfg.Objects.Put(ctx, clock, []byte{}); err != nil {
		return time.Time{}, err
	}
	list, err := p.cfg.Objects.List(ctx, clock[:len(clock)-1])
	if err != nil {
		return time.Time{}, err
	}
	for _, object := range list {
		if object.Name == clock {
			return object.Written, nil
		}
	}
	return time.Time{}, fmt.Errorf("objects: expected %q, which was written, in the list of names after %q",
		clock, clock[:len(clock)-1])
}

func (p *Policy) isFresh(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fresh[name]
}

// usedBy returns the objects to which the runs of a group refer, or nil if no group has
// the name.
func usedBy(ctx context.Context, s store.Store, group string) (map[string]bool, error) {
	filters, ok := runsOf(group)
	if !ok {
		return nil, nil
	}
	used := map[string]bool{}
	use := func(value []byte) {
		if sealed, ok, err := Look(value); ok && err == nil && sealed.Object != "" {
			used[sealed.Object] = true
		}
	}
	for _, f := range filters {
		for {
			page, err := s.List(ctx, f)
			if err != nil {
				return nil, err
			}
			for i := range page.Runs {
				if err := usedByRun(ctx, s, &page.Runs[i], use); err != nil {
					return nil, err
				}
			}
			if f.Cursor = page.Next; page.Next == "" {
				break
			}
		}
	}
	return used, nil
}

// A group of an ID has parts of at most partSize letters, as names of files have at most
// 255.
const (
	groupMark = "j"
	partMark  = "/-"
	partSize  = 200
)

// base32Hex has no two letters that differ by their case alone: names of objects may be
// compared without it, as macOS and Windows do.
var base32Hex = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// groupOfID returns the group of the run with an ID, if its number is not known yet.
func groupOfID(id string) string {
	var parts []string
	for part := range slices.Chunk([]byte(base32Hex.EncodeToString([]byte(id))), partSize) {
		parts = append(parts, string(part))
	}
	return groupMark + strings.Join(parts, partMark)
}

// runsOf returns filters for the runs of a group: the run with the number, or those that
// have or had the ID.
func runsOf(group string) ([]store.Filter, bool) {
	if no, ok := strings.CutPrefix(group, "r"); ok {
		no, err := strconv.ParseInt(no, 10, 64)
		return []store.Filter{{Nos: []store.RunNo{store.RunNo(no)}}}, err == nil && no > 0
	}
	text, ok := strings.CutPrefix(group, groupMark)
	if !ok {
		return nil, false
	}
	id, err := base32Hex.DecodeString(strings.ReplaceAll(text, partMark, ""))
	return []store.Filter{{IDs: []string{string(id)}}, {IDPrefix: string(id) + "@"}}, err == nil && len(id) > 0
}

// usedByRun calls use with each value of a run that may be in an object.
func usedByRun(ctx context.Context, s store.Store, r *store.Run, use func([]byte)) error {
	snapshots, _, err := s.Load(ctx, []store.RunNo{r.No})
	if err != nil {
		return fmt.Errorf("objects of run %q: %w", r.ID, err)
	}
	for i := range snapshots {
		snap := &snapshots[i]
		use(snap.Run.Input)
		use(snap.Run.Output)
		for i := range snap.Entries {
			use(snap.Entries[i].Value) // a value that refers to an object is never large
		}
		for i := range snap.Items {
			use(snap.Items[i].Value)
		}
	}
	f := store.DeadFilter{RunIDs: []string{r.ID}, Values: true, Limit: store.MaxPage}
	for {
		page, err := s.DeadLetters(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Letters {
			use(page.Letters[i].Item.Value)
		}
		if f.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}
