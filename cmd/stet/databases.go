package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// databasesCommand makes the commands about the databases of a store over several.
func (ac adminCommands) databasesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "databases",
		Short: "list the databases of a store over several, or move one to another server",
		Long: `Lists the databases of a store over several Postgres databases: which one has how many
slots, and whether it is there. Name all of them, by --db for each.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("expected move, found %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			return ac.withStore(cmd.Context(), func(s store.Store) error {
				w, ok := s.(*postgres.Wide)
				if !ok {
					return usage(errors.New("expected a store over several Postgres databases: name each with a --db"))
				}
				g := &grid{headers: []string{"DATABASE", "SLOTS", "STATE", "WHERE"}}
				for i, lane := range w.Lanes() {
					d, err := lane.Describe(cmd.Context())
					view := struct {
						Database int    `json:"database"`
						Slots    int    `json:"slots"`
						Problem  string `json:"problem,omitempty"`
						Where    string `json:"where"`
					}{Database: i, Where: w.Databases()[i]}
					state := "there"
					if err != nil {
						view.Problem, state = err.Error(), "away: "+short(err.Error(), 120)
					}
					about, err := w.Describe(cmd.Context())
					if err != nil {
						return err
					}
					for slot := range max(about.Slots, d.Slots) {
						if w.LaneOf(slot) == i {
							view.Slots++
						}
					}
					if ac.output == formJSON {
						if err := ac.json(view); err != nil {
							return err
						}
					}
					g.add(strconv.Itoa(i), strconv.Itoa(view.Slots), printable(state), printable(view.Where))
				}
				if ac.output == formJSON {
					return nil
				}
				return ac.print(g)
			})
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "move FROM TO",
		Short: "move a database of a store over several to another server, while its processes work",
		Long: `Moves a database of a store over several from one address to another, both as for --db:
to a new server, or to another schema with &stet_schema=NAME. The processes of the
store go on: for them this database is away while it is copied, and the others are not
concerned. They find the new address by a note at the old one; change it in their
settings before you take the old server away.

It may be interrupted at any moment, and is then continued by the same command. Until
that the database is away. A move that fails says so, and gives the database back.`,
		Args: exactly("FROM", "TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			for _, address := range args {
				if u, err := url.Parse(address); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
					return usage(fmt.Errorf("expected addresses like postgres://HOST/DATABASE, found %s",
						(&opener{db: address}).address()))
				}
			}
			if err := postgres.Move(cmd.Context(), args[0], args[1], postgres.Logger(ac.log)); err != nil {
				return err
			}
			ac.say("moved; name the new address in the settings of the processes")
			return nil
		},
	})
	return cmd
}
