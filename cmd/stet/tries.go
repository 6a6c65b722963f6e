package main

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

// tries returns the table of the failed attempts of operations that have succeeded since.
func tries(operations []operation, width int) *grid {
	g := &grid{headers: []string{"FAILED ATTEMPTS OF", "ATTEMPT", "BEGAN", "DURATION", "ERROR"}}
	for i := range operations {
		o := &operations[i]
		if o.State != store.Done.String() || len(o.Tries) == 0 {
			continue
		}
		if out := o.Tries[0].Number - 1; out > 0 {
			g.add(printable(o.Location), fmt.Sprintf("1-%d", out), "", "", "left out")
		}
		for _, a := range o.Tries {
			g.add(printable(o.Location), positive(int64(a.Number)), a.Began.Format(time.RFC3339),
				duration(a.Ended.Sub(a.Began)), short(a.Message, width))
		}
	}
	return g
}
