package storekit

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// ValidateCommands validates each command. The error wraps store.ErrInvalid.
func ValidateCommands(commands []store.Command) error {
	for i := range commands {
		if err := commands[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateShards validates shards that a node asks for, and the time of their leases.
// The error wraps store.ErrInvalid.
func ValidateShards(shards []store.Shard, ttl store.Delay) error {
	if ttl <= 0 || ttl > store.MaxDelay {
		return fmt.Errorf("%w: lease: expected a time of 1 to %d µs, found %d", store.ErrInvalid, store.MaxDelay, ttl)
	}
	for _, s := range shards {
		if err := s.Validate(); err != nil {
			return err
		}
	}
	return nil
}
