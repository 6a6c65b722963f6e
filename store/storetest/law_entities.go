package storetest

import (
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// entityWorkflow is the workflow of the entities that the suite makes.
const entityWorkflow = store.EntityPrefix + "r"

var law27 = []testCase{
	{"RecordsAreSelectedOnlyByName", func(k *kit) {
		o := k.owner(k.s, "n")
		names := map[store.RunNo]string{}
		nos := map[string]store.RunNo{}
		for name, workflow := range map[string]string{"entity": entityWorkflow, "other": "stet.z", "run": "w", "like": "stet",
			"beside": "stet/r", "before": "stet-r"} {
			nos[name] = k.start("stet."+name, func(s *store.Start) {
				s.Workflow, s.Tags = workflow,
					[]store.Pair{{Key: "k", Value: "v"}}
			}).No
			names[nos[name]] = name
		}
		claims, err := k.s.Claim(k.ctx, store.ClaimRequest{Node: o.node.ID, Boot: o.node.Boot, Leases: o.leases,
			Workflows: []string{entityWorkflow}, Limit: 10})
		k.ok(err)
		if len(claims.Runs) != 1 || claims.Runs[0].Run.No != nos["entity"] {
			k.Errorf("a claim of an entity's workflow: %+v", claims.Runs)
		}
		all := []string{"before", "beside", "like", "run"}
		for _, row := range []struct {
			f    store.Filter
			want []string
		}{
			{store.Filter{}, all},
			{store.Filter{IDPrefix: "stet."}, all},
			{store.Filter{Statuses: []store.Status{store.Queued}}, all},
			{store.Filter{Statuses: []store.Status{store.Running}}, nil},
			{store.Filter{Tags: []store.Pair{{Key: "k", Value: "v"}}}, all},
			{store.Filter{CreatedFrom: 1}, all},
			{store.Filter{Workflows: []string{entityWorkflow}}, []string{"entity"}},
			{store.Filter{Workflows: []string{entityWorkflow, "w", "stet.z"}, Statuses: []store.Status{store.Queued}}, []string{"other", "run"}},
			{store.Filter{IDs: []string{"stet.entity", "stet.run"}}, []string{"entity", "run"}},
			{store.Filter{Nos: []store.RunNo{nos["entity"], nos["like"]}}, []string{"entity", "like"}},
		} {
			page, err := k.s.List(k.ctx, row.f)
			k.ok(err)
			var got []string
			for i := range page.Runs {
				got = append(got, names[page.Runs[i].No])
			}
			slices.Sort(got)
			k.equal(fmt.Sprintf("listed with %+v", row.f), got, row.want)
			tallies, err := k.s.Count(k.ctx, row.f)
			k.ok(err)
			n := int64(0)
			for _, tally := range tallies {
				n += tally.Runs
			}
			k.equal(fmt.Sprintf("counted with %+v", row.f), n, int64(len(row.want)))
		}
	}},
}
