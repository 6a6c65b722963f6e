package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

// TestPostgresScripts runs the command line on a Postgres server of its own: one database, several. make test takes one
// of the two each day.
func TestPostgresScripts(t *testing.T) {
	files := []string{"testdata/postgres/commands.txtar", "testdata/postgres/databases.txtar"}
	if today := soak.Part(t, 0, len(files)); !soak.WithFaults() {
		files = files[today : today+1]
	}
	server := servers.NewPostgres(t)
	runScripts(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("STET_DB", "postgres://stet:secret@"+server.Addr()+"/postgres?sslmode=disable")
			return nil
		},
	})
}
