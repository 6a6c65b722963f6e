package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Apply implements store.Store. Commands for several databases are one act for each of them.
func (w *Wide) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	if err := storekit.RefuseLines(commands); err != nil {
		return nil, 0, err
	}
	if err := w.checkCommands(commands); err != nil {
		return nil, 0, err
	}
	commands = slices.Clone(commands)
	given, err := w.resolve(ctx, commands)
	if err != nil {
		return nil, 0, err
	}
	c := &wideBatch{w: w, b: &store.Batch{Commands: commands}, given: given}
	answers, now := make([]store.Answer, len(commands)), store.Time(0)
	for n, st := range c.stages() {
		parts := c.parts(&st)
		which, routes := map[int]bool{}, map[[2]int]bool{}
		for index, p := range parts {
			which[index] = true
			for to := range targets(p.posts) {
				routes[[2]int{index, to}] = true
			}
		}
		var mu sync.Mutex
		err := w.each(ctx, which, func(index int, s *Store) error {
			p := parts[index]
			got, at, err := applyPosting(ctx, s, p.Commands, p.posts)
			mu.Lock()
			defer mu.Unlock()
			for k, i := range p.commands {
				if err == nil {
					answers[i] = got[k]
				}
			}
			now = max(now, at)
			return err
		})
		if err != nil {
			if (n > 0 || len(parts) > 1) && !errors.Is(err, store.ErrUnknown) {
				err = fmt.Errorf("%w: %w", store.ErrUnknown, err) // others stand
			}
			return nil, 0, err
		}
		w.flush(ctx, routes, nil)
	}
	for i, a := range given {
		answers[i] = a
	}
	return answers, now, nil
}

// applyPosting is Apply, with posts of starts.
func applyPosting(ctx context.Context, s *Store, commands []store.Command, posts []post) (answers []store.Answer,
	at store.Time, err error) {
	if len(posts) == 0 {
		return s.Apply(ctx, commands)
	}
	err = patiently(ctx, s, func() error {
		return s.write(ctx, "apply commands", waitLimit, func(t *tx, now store.Time) error {
			at = now
			if answers, err = s.applyAll(t, now, commands); err != nil {
				return err
			}
			result := store.BatchResult{Commands: answers, Now: now}
			return t.writePosts(slices.DeleteFunc(slices.Clone(posts), func(p post) bool { return !p.writes(&result) }))
		})
	})
	if err == nil {
		s.hint.notify(storekit.ChangeOf(&store.Batch{Commands: commands}, &store.BatchResult{Commands: answers}),
			len(commands))
	}
	return answers, at, err
}

// resolve finds out which names of the form ID@N are those of replaced runs, which are in the
// database of their number, and addresses these by number. It returns the answers to starts of runs
// under such a name, which exist.
func (w *Wide) resolve(ctx context.Context, commands []store.Command) (given map[int]store.Answer, err error) {
	for i := range commands {
		c := &commands[i]
		id := c.RunID
		if c.Start != nil {
			id = c.Start.ID
		}
		no := replaced(id)
		if no == 0 || ofNo(w.place, no) == w.place.of(c) {
			continue
		}
		s, err := w.at(ctx, ofNo(w.place, no))
		if err != nil {
			return nil, err
		}
		page, err := s.List(ctx, store.Filter{IDs: []string{id}, Values: true})
		switch {
		case err != nil:
			return nil, err
		case len(page.Runs) == 0:
		case c.Start == nil:
			c.RunID, c.RunNo = "", page.Runs[0].No
		default:
			if given == nil {
				given = map[int]store.Answer{}
			}
			page.Runs[0].Output = nil
			given[i] = store.Answer{Outcome: store.Exists, Run: page.Runs[0]}
		}
	}
	return given, nil
}

func (w *Wide) resolveTurn(ctx context.Context, t *store.Turn) (*store.Turn, error) {
	named := func(c store.Command) bool { return replaced(c.RunID) > 0 }
	if !slices.ContainsFunc(t.Sends, named) && !slices.ContainsFunc(sendsOf(t.Update), named) {
		return t, nil
	}
	turn := *t
	turn.Sends = slices.Clone(t.Sends)
	_, err := w.resolve(ctx, turn.Sends)
	if err == nil && t.Update != nil {
		u := *t.Update
		u.Sends = slices.Clone(u.Sends)
		_, err = w.resolve(ctx, u.Sends)
		turn.Update = &u
	}
	return &turn, err
}
