package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// confirmFailoverCommand lets a store go on whose server was replaced by one that may
// lack what was acknowledged last.
func (ac adminCommands) confirmFailoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "confirm-failover",
		Short: "go on after a failover that may have lost what was acknowledged last",
		Long: `After a failover of Postgres to an asynchronous standby, or a restore of a backup, what
was acknowledged last may be lost: nodes stop and say so. Compare what you know with
what the store has; then this command lets it go on from there. It takes the shards
from all nodes, which take them again.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			kind, address, err := ac.backend()
			if err != nil {
				return err
			}
			if kind.confirmFailover == nil {
				return usage(errors.New("expected a store in Postgres: with others there is nothing to confirm"))
			}
			if err := kind.confirmFailover(cmd.Context(), address); err != nil {
				return err
			}
			_, err = fmt.Fprintln(ac.err, "confirmed: nodes go on with what the store has")
			return err
		},
	}
}
