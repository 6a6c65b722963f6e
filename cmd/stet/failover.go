package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// confirmFailoverCommand makes a command for a store whose server was replaced by one that
// may lack the last acknowledged writes.
func (ac adminCommands) confirmFailoverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "confirm-failover",
		Short: "go on after a failover that may have lost the last acknowledged writes",
		Long: `After a failover of Postgres to an asynchronous standby, or a restore of a backup, the
last acknowledged writes may be lost: nodes stop and say so. Compare what you know
with the content of the store; then this command lets nodes go on from there. It takes
the shards from all nodes, which acquire them again.`,
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
