package storetest_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/storetest"
)

// harness opens handles on a store in memory.
type harness struct{ first *memory.Store }

func open(_ *testing.T, clock func() time.Time) storetest.Harness {
	return harness{memory.New(memory.Clock(clock))}
}

func (h harness) First() store.Store { return h.first }

func (h harness) Join(testing.TB) store.Store { return h.first.Join() }

func (h harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// TestMemory compares the specification with itself, which proves the suite and
// not the store.
func TestMemory(t *testing.T) { storetest.Run(t, open) }
