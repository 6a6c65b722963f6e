package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The server may need longer to plan a statement than to execute it, and by default it
// plans many each time. So the statements of the daily work are planned once for a session.
// The tables may be empty then, and the plan has to be good when they have grown, so the
// server's estimates must not decide about it. Each statement finds rows by an index, for
// one row after the other that it was given or has found before:
//
//   - its shape says so: the outer side comes first, the inner one is LATERAL (… OFFSET 0);
//   - the settings below forbid all other plans.
//
// TestPlans checks it. Listings, whose conditions come from users, are planned each time,
// without these settings, but for those of workflows and statuses: these have an index.

// steady are the kinds of plans that are forbidden in the daily work.
var steady = []string{"seqscan", "bitmapscan", "hashjoin", "mergejoin"}

// steadyText makes the settings of the daily work, for the transaction or the session.
func steadyText(local string) string {
	return planText("force_generic_plan", "off", local) +
		fmt.Sprintf(", set_config('default_transaction_isolation', 'read committed', %s)", local)
}

// freeText takes them back for the transaction.
var freeText = planText("force_custom_plan", "on", "true")

// listedText lets the server plan each statement, and forbids the same kinds of plans.
var listedText = planText("force_custom_plan", "off", "true")

// orderedText is listedText for a statement that names the order of each index that it reads: what would have to be
// sorted is from another index.
var orderedText = listedText + ", set_config('enable_sort', 'off', true)"

func planText(mode, enable, local string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "SELECT set_config('plan_cache_mode', '%s', %s), set_config('jit', 'off', %[2]s)", mode, local)
	for _, way := range steady {
		fmt.Fprintf(&text, ", set_config('enable_%s', '%s', %s)", way, enable, local)
	}
	return text.String()
}

// sessionText makes the settings of group commits, which wait for no lock for long.
func sessionText(local string, locks time.Duration) string {
	return steadyText(local) + fmt.Sprintf(", set_config('lock_timeout', '%dms', %s)", locks.Milliseconds(), local)
}

// queueSteady adds the settings of the daily work to a transaction, if the session keeps
// none because it is pooled.
func queueSteady(batch *pgx.Batch, pooled bool) {
	if pooled {
		batch.Queue(steadyText("true"))
	}
}

// readSteady reads the answer to the statement of queueSteady.
func readSteady(results pgx.BatchResults, pooled bool) error {
	if !pooled {
		return nil
	}
	_, err := results.Exec()
	return err
}
