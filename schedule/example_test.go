package schedule_test

import (
	"fmt"
	"time"

	"github.com/stet-run/stet/schedule"
)

// When the clocks of Berlin are set back, half past two is shown twice and due
// once.
func ExampleSpec() {
	spec := schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}
	times, err := spec.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at = times.Next(at)
		fmt.Println(at.Format(time.RFC3339))
	}
	// Output:
	// 2026-10-24T00:30:00Z
	// 2026-10-25T00:30:00Z
	// 2026-10-26T01:30:00Z
}
