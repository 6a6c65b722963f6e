package committer

import (
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Claimed returns the runs that are claimed in the shards, of those that the filters find: a
// batch or a claim whose answer was lost may have claimed them.
func Claimed(
	in *ownership.Shards, filters []store.Filter, list func(store.Filter) (store.Page, error),
) (map[store.RunNo]*ownership.Shard, error) {
	claimed := map[store.RunNo]*ownership.Shard{}
	for _, f := range filters {
		for {
			page, err := list(f)
			if err != nil {
				return nil, err
			}
			for i := range page.Runs {
				if r := &page.Runs[i]; r.Claimed && in.Of(r.Shard) != nil {
					claimed[r.No] = in.Of(r.Shard)
				}
			}
			if f.Cursor = page.Next; page.Next == "" {
				break
			}
		}
	}
	return claimed, nil
}
