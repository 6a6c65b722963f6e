package postgres_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// TestARegisteredNodeHasItsConnections: those of claims and commits are made while a new node takes its leases. A
// process that only reads makes none of them.
func TestARegisteredNodeHasItsConnections(t *testing.T) {
	s, _, _ := fresh(t)
	if _, err := s.List(t.Context(), store.Filter{}); err != nil {
		t.Fatal(err)
	}
	if claims, commits := s.Connections(); claims != 0 || commits != 0 {
		t.Errorf("a process that reads has %d connections of claims and %d of commits; expected none", claims, commits)
	}
	if _, err := s.Register(t.Context(), store.Node{ID: "n", Boot: "n-1"}); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "a node that has registered has connections of claims and commits", func() bool {
		claims, commits := s.Connections()
		return claims == 1 && commits == 1
	})
}
