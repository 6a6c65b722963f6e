package sqlite

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/store"
)

func TestReplacedRunIsNotGivenANameThatIsTaken(t *testing.T) {
	s, run, b := one(t)
	b.commit(t, s, &store.Turn{Run: run, Shard: testShard, Update: &store.Update{Status: store.Failed}})
	taken := start(fmt.Sprintf("run-1@%d", run))
	apply(t, s, taken)
	again := start("run-1")
	again.Start.Seed, again.Start.Existing = seedOf("another"), store.ReplaceFailed
	answers, _, err := s.Apply(t.Context(), []store.Command{again})
	if err != nil || answers[0].Outcome != store.Exists || answers[0].Run.No != run {
		t.Errorf("expected the failed run to stay, got %+v, %v", answers, err)
	}
}
