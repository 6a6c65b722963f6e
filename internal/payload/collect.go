package payload

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// Spare is how long an object is kept to which nothing refers: a value that refers to
// it may be on its way into the store.
const Spare = 24 * time.Hour

// Collect deletes the objects that were written before the given time and to which no
// value of the store refers. It returns their number. Only one call at a time collects.
func (p *Policy) Collect(ctx context.Context, s store.Store, before time.Time) (deleted int, err error) {
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
	group, used := "", map[string]bool(nil)
	for after := ""; ; {
		list, err := p.cfg.Objects.List(ctx, after)
		if err != nil || len(list) == 0 {
			return deleted, err
		}
		for _, object := range list {
			after = object.Name
			of, _, ok := strings.Cut(object.Name, "/")
			if !ok || !object.Written.Before(before) {
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

// runsOf returns filters for the runs of a group: the run with the number, or those that
// have or had the ID.
func runsOf(group string) ([]store.Filter, bool) {
	if len(group) < 2 {
		return nil, false
	}
	switch group[0] {
	case 'r':
		no, err := strconv.ParseInt(group[1:], 10, 64)
		return []store.Filter{{Nos: []store.RunNo{store.RunNo(no)}}}, err == nil && no > 0
	case 'i':
		id, err := base64.RawURLEncoding.DecodeString(group[1:])
		return []store.Filter{{IDs: []string{string(id)}}, {IDPrefix: string(id) + "@"}}, err == nil
	}
	return nil, false
}

// usedByRun calls use with each value of a run that may be in an object.
func usedByRun(ctx context.Context, s store.Store, r *store.Run, use func([]byte)) error {
	snapshots, err := s.Load(ctx, []store.RunNo{r.No})
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
