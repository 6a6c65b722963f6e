package storetest

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/store"
)

// A store of so many runs, numbered from 1 in the order of their creation, is made in bulk for Selections. Run i
//   - has the ID old-i up to the twentieth, otherwise run-i;
//   - has the workflow w and i modulo 5;
//   - has succeeded, but each thousandth has failed; the thousandth is Paused;
//   - was created i seconds after SelectedFrom, and ended a second later;
//   - has the tags env=prod, side=a or b by turns and, up to the tenth, zone=rare.
const (
	SelectedRuns = 40_000
	SelectedFrom = store.Time(1_000_000_000_000_000)
)

// Selection is a filter that selects a few runs, of which an index finds them without the others.
type Selection struct {
	Name   string
	Filter store.Filter
	Want   int // so many are selected
}

// Selections are filters as the documentation offers them. Each selects a few runs, or a page of many.
func Selections() []Selection {
	at := func(i int) store.Time { return SelectedFrom + store.Time(i)*1_000_000 }
	tags := func(pairs ...string) (tags []store.Pair) {
		for i := 0; i < len(pairs); i += 2 {
			tags = append(tags, store.Pair{Key: pairs[i], Value: pairs[i+1]})
		}
		return tags
	}
	failed, stalled := []store.Status{store.Failed}, []store.Status{store.Stalled}
	return []Selection{
		{"a frequent tag and a status that no run has", store.Filter{Tags: tags("env", "prod"), Statuses: stalled}, 0},
		{"a frequent tag and a rare status", store.Filter{Tags: tags("env", "prod"), Statuses: failed}, 40},
		{"a frequent tag and a workflow that no run has",
			store.Filter{Tags: tags("env", "prod"), Workflows: []string{"none"}}, 0},
		{"a rare tag and a frequent status",
			store.Filter{Tags: tags("zone", "rare"), Statuses: []store.Status{store.Succeeded}}, 10},
		{"a frequent tag before a rare one", store.Filter{Tags: tags("env", "prod", "zone", "rare")}, 10},
		{"two tags that no run has together", store.Filter{Tags: tags("env", "prod", "zone", "none")}, 0},
		{"values of a tag and a rare status", store.Filter{Tags: tags("side", "a", "side", "b"), Statuses: failed}, 40},
		{"a rare tag", store.Filter{Tags: tags("zone", "rare")}, 10},
		{"a frequent tag and a mark", store.Filter{Tags: tags("env", "prod"), Marks: store.Paused}, 1},
		{"a beginning of the ID", store.Filter{IDPrefix: "old-"}, 20},
		{"a beginning of the ID that none has", store.Filter{IDPrefix: "none-"}, 0},
		{"a beginning of the ID and a tag", store.Filter{IDPrefix: "old-1", Tags: tags("env", "prod")}, 11},
		{"ended lately", store.Filter{EndedFrom: at(SelectedRuns - 30)}, 32},
		{"ended lately, of workflows", store.Filter{EndedFrom: at(SelectedRuns - 30), Workflows: []string{"w1", "w2"}}, 12},
		{"ended lately, of a status", store.Filter{EndedFrom: at(SelectedRuns - 3000), Statuses: failed}, 4},
		{"ended long ago", store.Filter{EndedBefore: at(20)}, 18},
		{"ended long ago, of a tag", store.Filter{EndedBefore: at(20), Tags: tags("zone", "rare")}, 10},
		{"created lately", store.Filter{CreatedFrom: at(SelectedRuns - 30)}, 31},
		{"by ends, of a rare tag", store.Filter{ByEnded: true, Tags: tags("env", "prod", "zone", "rare")}, 10},
		{"by ends, of a beginning of the ID", store.Filter{ByEnded: true, IDPrefix: "old-"}, 20},
		{"by ends, ended long ago", store.Filter{ByEnded: true, EndedBefore: at(20)}, 18},
	}
}

// CheckSelections lists and counts what the selections select in a store that was made in bulk. reading measures what
// an act reads, of which there may be so much.
func CheckSelections(t *testing.T, s store.Store, most int, reading func(act func()) int) {
	t.Helper()
	for _, sel := range Selections() {
		sel.Filter.Limit = 50
		check := func(what string, ask func() (int, error)) {
			t.Helper()
			read := reading(func() {
				if n, err := ask(); err != nil || n != sel.Want {
					t.Errorf("%s, %s: %d runs, %v; want %d", what, sel.Name, n, err, sel.Want)
				}
			})
			t.Logf("%s, %s: %d", what, sel.Name, read)
			if read > most {
				t.Errorf("%s, %s: it has read %d, expected at most %d", what, sel.Name, read, most)
			}
		}
		check("list", func() (int, error) {
			page, err := s.List(t.Context(), sel.Filter)
			if err == nil && page.Next != "" {
				err = fmt.Errorf("the page goes on at %s", page.Next)
			}
			return len(page.Runs), err
		})
		check("count", func() (n int, err error) {
			f := sel.Filter
			f.ByEnded = false
			tallies, err := s.Count(t.Context(), f)
			for _, tally := range tallies {
				n += int(tally.Runs)
			}
			return n, err
		})
	}
}
