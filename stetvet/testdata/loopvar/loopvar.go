//go:build go1.21

package loopvar

import (
	"context"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context, items []string) error {
	for _, item := range items {
		f := stet.Go(ctx, item, func(ctx stet.Context) (string, error) { return item, nil }) // want `loopvar: all iterations share item`
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func good(ctx stet.Context, items []string) error {
	for _, item := range items {
		item := item
		f := stet.Go(ctx, item, func(ctx stet.Context) (string, error) { return item, nil })
		if _, err := f.Await(ctx); err != nil {
			return err
		}
	}
	for _, item := range items {
		if err := stet.Do(ctx, item, func(context.Context) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}
