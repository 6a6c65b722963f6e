package enginetest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

func TestMemory(t *testing.T) {
	for _, slots := range []int{1, 16} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			enginetest.Run(t, func(testing.TB) func() store.Store {
				first := memory.New(memory.Slots(slots))
				return func() store.Store { return first.Join() }
			})
		})
	}
}

func TestSQLite(t *testing.T) {
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
