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

// RefuseLines refuses starts in a line, for a store without lines. The error wraps store.ErrInvalid.
func RefuseLines(commands []store.Command) error {
	for i := range commands {
		if s := commands[i].Start; commands[i].Admit != "" || s != nil && s.Queue != nil && s.Queue.Line != nil {
			return fmt.Errorf("%w: expected no line of a queue: this store has none (Description.Lines), and its runs ask",
				store.ErrInvalid)
		}
	}
	return nil
}

// RefuseLinesOf is RefuseLines for all commands of a batch.
func RefuseLinesOf(b *store.Batch) error {
	err := RefuseLines(b.Commands)
	for _, t := range b.Turns {
		if err == nil {
			err = RefuseLines(t.Sends)
		}
		if err == nil && t.Update != nil {
			err = RefuseLines(t.Update.Sends)
		}
	}
	return err
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
