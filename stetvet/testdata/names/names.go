package names

import "github.com/stet-run/stet"

func bad(ctx stet.Context, b bool) error {
	if err := stet.Sleep(ctx, "s", 1); err != nil {
		return err
	}
	if b {
		return stet.Sleep(ctx, "s", 1) // want `names: line 6 has the name "s" too`
	}
	return nil
}

func good(ctx stet.Context, b bool) error {
	if b {
		return stet.Sleep(ctx, "s", 1)
	}
	f := stet.Go(ctx, "f", func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "s", 1) }, stet.Key("1"))
	g := stet.Go(ctx, "f", func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "s", 1) }, stet.Key("2"))
	if err := stet.Join(ctx, f, g); err != nil {
		return err
	}
	return stet.Sleep(ctx, "s", 1)
}
