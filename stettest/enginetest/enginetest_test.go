package enginetest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain runs more tests at a time than there are processors: they wait for leases.
func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "16") // a number is a valid value
	}
	os.Exit(m.Run())
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

func TestMemory(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 16} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			enginetest.Run(t, func(testing.TB) func() store.Store {
				first := memory.New(memory.Slots(slots))
				return func() store.Store { return first.Join() }
			})
		})
	}
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t testing.TB) func() store.Store {
		path := filepath.Join(t.TempDir(), "stet.db")
		return func() store.Store {
			s, err := sqlite.Open(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}
	})
}
