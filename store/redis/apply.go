package redis

import (
	"context"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, 0, err
	}
	if err := storekit.RefuseLines(commands); err != nil {
		return nil, 0, err
	}
	if err := s.check(commands); err != nil {
		return nil, 0, err
	}
	if err := s.memory.refuseStarts(ctx, s, commands); err != nil {
		return nil, 0, err
	}
	c := committing{Store: s, b: &store.Batch{Commands: commands}}
	if err := c.resolve(ctx); err != nil {
		return nil, 0, err
	}
	if err := c.commit(ctx); err != nil {
		return nil, 0, fmt.Errorf("apply: %w", err)
	}
	s.hints.tell(storekit.ChangeOf(c.b, &c.result))
	return c.result.Commands, c.result.Now, nil
}
