package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Where the ID exists a start gives the existing run, if the input is the same.
// The policies say otherwise: RefuseExisting wants a new run, ReplaceFailed gives
// a failed or cancelled one a successor.
func ExampleExisting() {
	imports := stet.Define("import", func(ctx stet.Context, file string) (int, error) {
		return stet.Step(ctx, "read", func(context.Context) (int, error) {
			return 0, stet.Permanent(errors.New("no such file"))
		})
	})
	engine, stop := background(imports)
	defer stop()
	ctx := context.Background()

	for _, policy := range []stet.Existing{stet.UseExisting, stet.RefuseExisting, stet.ReplaceFailed} {
		run, err := imports.Start(ctx, engine, "july.csv", stet.ID("import-july"), policy)
		if err != nil {
			fmt.Println("refused:", errors.Is(err, stet.ErrExists))
			continue
		}
		_, err = run.Wait(ctx)
		fmt.Println("failed:", err != nil)
	}
	runs, _, err := engine.Runs().List(ctx, store.Filter{IDPrefix: "import-july"})
	for _, run := range runs {
		fmt.Println(run.ID, run.Status)
	}
	fmt.Println(err)
	// Output:
	// failed: true
	// refused: true
	// failed: true
	// import-july failed
	// import-july@1 failed
	// <nil>
}

// Many runs are started in one commit. IDFrom names each by its input, so that
// doing it again starts none twice.
func ExampleWorkflow_StartAll() {
	greet := stet.Define("greet", func(_ stet.Context, name string) (string, error) { return "hello " + name, nil },
		stet.IDFrom(func(name string) string { return name }))
	engine, stop := background(greet)
	defer stop()
	ctx := context.Background()

	for range 2 {
		runs, err := greet.StartAll(ctx, engine, []string{"Ada", "Grace"}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, run := range runs {
			text, err := run.Wait(ctx)
			fmt.Println(run.ID(), text, err)
		}
	}
	fmt.Println(greet.RunID("Ada"))
	// Output:
	// greet/Ada hello Ada <nil>
	// greet/Grace hello Grace <nil>
	// greet/Ada hello Ada <nil>
	// greet/Grace hello Grace <nil>
	// greet/Ada <nil>
}
