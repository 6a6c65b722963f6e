package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func (ac adminCommands) auditCommand() *cobra.Command {
	var f stet.AuditFilter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "list what was done to the store and not to a run, newest first, with who and why",
		Long: `Lists what operators did to queues, schedules, topics, dead letters, nodes, scripts and
tokens, and who has logged in at a server: of the last 90 days, and at most the last
10,000. What was done to a run is in stet show; who has deleted one in stet deletions.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			if f.Limit < 1 || f.Limit > 1000 {
				return usage(fmt.Errorf("--limit: expected 1 to 1000, found %d", f.Limit))
			}
			return ac.reading(cmd.Context(), func(from side) error {
				acts, err := from.acts(cmd.Context(), f)
				if err != nil {
					return err
				}
				return ac.printActs(acts)
			})
		},
	}
	cmd.Flags().StringVar(&f.By, "who", "", "only acts by this `name`")
	cmd.Flags().StringVar(&f.Verb, "act", "", "only this `verb`, like pause")
	cmd.Flags().StringVar(&f.About, "about", "", "only what is about what begins with this `text`, like 'queue '")
	cmd.Flags().IntVar(&f.Limit, "limit", store.DefaultPage, "list so `many`, up to 1000")
	return cmd
}

func (ac adminCommands) printActs(acts []api.Audit) error {
	g := &grid{headers: []string{"AT", "WHO", "ACT", "ABOUT", "WHY"}}
	for _, a := range acts {
		if ac.output == formJSON {
			if err := ac.json(a); err != nil {
				return err
			}
			continue
		}
		g.add(moment(store.TimeOf(a.Time)), printable(a.Who), printable(a.Verb), printable(a.About), printable(a.Why))
	}
	if ac.output == formJSON {
		return nil
	}
	return ac.print(g)
}

func (s storeSide) acts(ctx context.Context, f stet.AuditFilter) ([]api.Audit, error) {
	found, err := stet.AuditOf(s.engine).List(ctx, f)
	list := make([]api.Audit, len(found))
	for i := range found {
		list[i] = api.StoreAuditOf(&found[i])
	}
	return list, err
}

func (s serverSide) acts(ctx context.Context, f stet.AuditFilter) ([]api.Audit, error) {
	page, err := s.c.StoreAudit(ctx, client.Acts{Who: f.By, Verb: f.Verb, About: f.About}, client.Page{Limit: f.Limit})
	if err != nil {
		return nil, err
	}
	return page.Audit, nil
}
