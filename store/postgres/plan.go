package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// To plan a statement may take the server longer than all else, and left to itself it
// plans many each time. So those of the daily work are planned once for a session, when
// the tables are perhaps empty, and the plan has to be good when they have grown. What
// the server estimates must not decide it, then: a statement finds rows by an index, for
// one row after the other of what it was given or has found before, which
//
//   - is its shape: the outer side comes first, the inner one is LATERAL (… OFFSET 0);
//   - and is all that the settings below leave it to choose from.
//
// TestPlans watches over it. Listings, whose conditions are the users', are planned each
// time, without these settings.

// steady are what the server is kept from in the daily work.
var steady = []string{"seqscan", "bitmapscan", "hashjoin", "mergejoin"}

// steadyText makes the settings of the daily work, for the transaction or the session.
func steadyText(local string) string {
	return planText("force_generic_plan", "off", local)
}

// freeText takes them back for the transaction.
var freeText = planText("force_custom_plan", "on", "true")

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

// queueSteady adds the settings of the daily work to a transaction, where a session
// keeps none.
func (s *Store) queueSteady(batch *pgx.Batch) {
	if s.pooled {
		batch.Queue(steadyText("true"))
	}
}

// readSteady reads the answer to what queueSteady has added.
func (s *Store) readSteady(results pgx.BatchResults) error {
	if !s.pooled {
		return nil
	}
	_, err := results.Exec()
	return err
}
