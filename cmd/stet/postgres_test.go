package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestPostgresScripts runs the command line on a Postgres server of its own.
func TestPostgresScripts(t *testing.T) {
	server := servers.NewPostgres(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/postgres",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
		Setup: func(env *testscript.Env) error {
			env.Setenv("STET_DB", "postgres://stet:secret@"+server.Addr()+"/postgres?sslmode=disable")
			return nil
		},
	})
}
