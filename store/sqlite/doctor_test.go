package sqlite

import (
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/words"
)

// TestDoctorTakesTimeInProportion: each check of a store with four times as many rows of each table takes some four
// times as many steps.
func TestDoctorTakesTimeInProportion(t *testing.T) {
	s := open(t, testPath(t), AllowLoss())
	b := &batches{lease: acquire(t, s, testNode).Lease}
	runs := 0
	fill := func(upTo int) {
		t.Helper()
		for runs < upTo {
			var commands []store.Command
			for range 50 {
				runs++
				c := start(fmt.Sprint("r", runs))
				c.Start.Input = make([]byte, smallPayload+1)
				c.Start.Tags = []store.Pair{{Key: "area", Value: "north"}, {Key: "customer", Value: fmt.Sprint(runs)}}
				commands = append(commands, c, send(c.Start.ID, "m", nil))
			}
			apply(t, s, commands...)
			var turns []*store.Turn
			for _, r := range claim(t, s, b.lease).Runs {
				if !r.New {
					continue
				}
				turn := done(r.Run.No, 1, make([]byte, store.LargeValue+1))
				turn.Values = []store.Setting{{Name: "v"}}
				turn.Appends = []store.Append{{Name: "s"}, {Name: "s"}}
				turn.Audit = []store.Audit{{Who: "a", Verb: "pause"}}
				turns = append(turns, turn)
			}
			if len(turns) == 0 {
				t.Fatal("expected the new runs, found nothing to claim")
			}
			b.commit(t, s, turns...)
		}
	}
	measure := func() (steps []int) {
		t.Helper()
		for _, check := range checks {
			stmt, _, err := s.write.c.Prepare(words.SQL(check.query))
			if err != nil {
				t.Fatal(err)
			}
			for stmt.Step() {
				if bad := stmt.ColumnInt64(0); bad != 0 {
					t.Errorf("%s: %d exceptions in a sound store", check.what, bad)
				}
			}
			steps = append(steps, stmt.Status(sqlite3.STMTSTATUS_VM_STEP, false))
			if err := stmt.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return steps
	}
	few := soak.Cases(t, 300)
	fill(few)
	before := measure()
	fill(4 * few)
	for i, steps := range measure() {
		if limit := 6*before[i] + 1000; steps > limit {
			t.Errorf("%s: %d runs took %d steps and four times as many %d, expected at most %d", checks[i].what, few,
				before[i], steps, limit)
		}
	}
}
