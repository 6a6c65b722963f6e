package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stet-run/stet/store/postgres"
)

// TestCallKnowsStatuses: the function commit_1, which is never changed, allows the same
// changes of status as store.Status.CanBecome, of which all other texts are made.
func TestCallKnowsStatuses(t *testing.T) {
	t.Parallel()
	sql, err := os.ReadFile("migrations/0001_initial.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, function, found := strings.Cut(string(sql), "CREATE FUNCTION stet.commit_1(")
	if !found {
		t.Fatal("the migration has no function commit_1")
	}
	want := "(" + postgres.CanBecome("r.status", "u.status") + ")"
	if text := strings.Join(strings.Fields(function), " "); !strings.Contains(text, want) {
		t.Errorf("expected commit_1 to ask\n%s\nA store that allows other changes of status needs a commit_2.", want)
	}
}
