package stet_test

import (
	"fmt"

	"github.com/stet-run/stet"
)

// Random numbers and UUIDs of a workflow follow from the run: they are the same
// in every replay, and make no entry.
func ExampleRandom() {
	lottery := stet.Define("lottery", func(ctx stet.Context, _ int) (bool, error) {
		dice := stet.Random(ctx).IntN(6) + 1
		ticket, other := stet.UUID(ctx), stet.UUID(ctx)
		return 1 <= dice && dice <= 6 && ticket != other, nil
	})
	engine, stop := background(lottery)
	defer stop()

	fmt.Println(result(engine, lottery, 0))
	// Output: true <nil>
}
