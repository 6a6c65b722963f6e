package sim

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/stet-run/stet/internal/sim/plan"
)

// ReadPlan reads a plan that was stored. The generator changes, and with it what a seed means.
func ReadPlan(file string) (of plan.Plan, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		return of, fmt.Errorf("the plan of a world: %w", err)
	}
	return of, nil
}
