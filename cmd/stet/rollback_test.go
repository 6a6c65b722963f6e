package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestRollback rolls a deployment back as an operator does, on each kind of store.
func TestRollback(t *testing.T) {
	for _, c := range []struct {
		name    string
		address func(*testing.T) string
	}{
		{"sqlite", func(*testing.T) string { return "app.db" }},
		{"postgres", func(t *testing.T) string {
			return "postgres://stet:secret@" + servers.NewPostgres(t).Addr() + "/postgres?sslmode=disable"
		}},
		{"redis", func(t *testing.T) string { return servers.NewRedis(t, servers.Durable...).URL() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := c.address(t)
			testscript.Run(t, testscript.Params{
				Dir:  "testdata/rollback",
				Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
				Condition: func(cond string) (bool, error) {
					return c.name != "sqlite", nil
				},
				Setup: func(env *testscript.Env) error {
					env.Setenv("STET_DB", address)
					return nil
				},
			})
		})
	}
}
