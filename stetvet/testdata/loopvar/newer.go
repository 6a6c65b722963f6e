package loopvar

import "github.com/stet-run/stet"

func newer(ctx stet.Context, items []string) error {
	for _, item := range items {
		f := stet.Go(ctx, item, func(ctx stet.Context) (string, error) { return item, nil })
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}
