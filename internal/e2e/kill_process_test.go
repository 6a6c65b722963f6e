package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain is also the main function of the processes that tests kill.
func TestMain(m *testing.M) {
	enginetest.Main(func(ctx context.Context, path string) (store.Store, error) { return sqlite.Open(ctx, path) })
	os.Exit(m.Run())
}

// TestManyBodiesInFlightOfKilledProcesses: all are executed again within 30 s of two kills, as an
// engine is by default, and after a crash loop at regular intervals, whose cause is none of them.
// No run is stalled for it. The pauses before a suspect is tried alone are 0.25 s, 0.5 s and 2 s
// in the loops.
func TestManyBodiesInFlightOfKilledProcesses(t *testing.T) {
	for _, c := range []struct {
		name string
		enginetest.InFlight
	}{
		{"two kills", enginetest.InFlight{Kills: 2}},
		{"a loop of short lives", enginetest.InFlight{Kills: 1, Loop: 8, Life: 350 * time.Millisecond,
			AloneFor: time.Second, Again: time.Minute}},
		{"a loop of longer lives", enginetest.InFlight{Kills: 1, Loop: 6, Life: 1100 * time.Millisecond,
			AloneFor: time.Second, Again: time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.Address = filepath.Join(t.TempDir(), "stet.db")
			s, err := sqlite.Open(t.Context(), c.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c.Store, c.Bodies = s, 1000
			c.Test(t)
		})
	}
}

// TestBodiesOfAKilledProcessThatAreRepeated: as many as were under way at a time, MaxSteps, at the
// most.
func TestBodiesOfAKilledProcessThatAreRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stet.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := enginetest.InFlight{Address: path, Store: s, Bodies: 4}
	f.Repeats(t)
}
