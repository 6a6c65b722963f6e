package guide_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

var Pack = stet.Define("pack", pack)

func pack(ctx stet.Context, line string) (string, error) {
	return stet.Step(ctx, "pick", func(context.Context) (string, error) { return line + " in a box", nil })
}

func fulfil(ctx stet.Context, lines []string) ([]string, error) {
	var boxes []*stet.RunFuture[string]
	for _, line := range lines {
		box, err := Pack.Go(ctx, line, stet.Key(line)) // all at the same time
		if err != nil {
			return nil, err
		}
		boxes = append(boxes, box)
	}
	var packed []string
	for _, box := range boxes {
		text, err := box.Await(ctx)
		if err != nil {
			return nil, err
		}
		packed = append(packed, text)
	}
	return packed, nil
}

func TestChildren(t *testing.T) {
	orders := stet.Define("fulfil", fulfil)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{orders, Pack}}, func(t *testing.T, env *stettest.Env) {
		run, err := orders.Start(t.Context(), env.Engine, []string{"lamp", "chair"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := run.Wait(t.Context())
		if want := []string{"lamp in a box", "chair in a box"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
