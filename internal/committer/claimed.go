package committer

import (
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Claimed returns the runs that are claimed in the shards: a batch or a claim whose answer was
// lost may have claimed them.
func Claimed(
	in *ownership.Shards, list func(store.Filter) (store.Page, error),
) (map[store.RunNo]*ownership.Shard, error) {
	claimed := map[store.RunNo]*ownership.Shard{}
	f := store.Filter{Limit: store.MaxPage}
	for _, l := range in.Leases() {
		f.Claimed = append(f.Claimed, l.Shard)
	}
	for len(f.Claimed) > 0 {
		page, err := list(f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			if h := in.Of(r.Shard); h != nil {
				claimed[r.No] = h
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	return claimed, nil
}
