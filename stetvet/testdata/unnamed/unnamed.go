package unnamed

import "github.com/stet-run/stet"

func branch(stet.Context) (int, error) { return 0, nil }

func bad(ctx stet.Context, items []string) ([]int, error) {
	var all []*stet.Future[int]
	for range items {
		all = append(all, stet.Go(ctx, "item", branch)) // want `unnamed: every branch of this loop has the name "item"`
	}
	return stet.All(ctx, all...)
}

func good(ctx stet.Context, items []string) ([]int, error) {
	var all []*stet.Future[int]
	for _, item := range items {
		all = append(all, stet.Go(ctx, "item", branch, stet.Key(item)), stet.Go(ctx, item, branch))
	}
	return stet.All(ctx, all...)
}
