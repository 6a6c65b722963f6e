package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
)

// TestDeploys goes through wrong deploys as an operator does: builds that are rolled back, code that does not fit, a
// type that has changed, a process that is lost.
func TestDeploys(t *testing.T) {
	deploys(t, func(string) string { return "app.db" })
}

// TestDeploysOnServers is TestDeploys where several processes work at a time.
func TestDeploysOnServers(t *testing.T) {
	soak.Faults(t)
	t.Run("postgres", func(t *testing.T) {
		server := servers.NewPostgres(t)
		deploys(t, func(script string) string {
			return "postgres://stet:secret@" + server.Addr() + "/postgres?sslmode=disable&stet_schema=" +
				strings.ReplaceAll(script, "-", "_")
		}, "servers")
	})
	t.Run("redis", func(t *testing.T) {
		deploys(t, func(string) string { return servers.NewRedis(t, servers.Durable...).URL() }, "servers")
	})
}

// deploys runs each script of testdata/deploy on the store at an address, under conditions.
func deploys(t *testing.T, address func(script string) string, conditions ...string) {
	t.Helper()
	runScripts(t, testscript.Params{
		Dir: "testdata/deploy",
		Condition: func(name string) (bool, error) {
			return slices.Contains(conditions, name), nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("STET_DB", address(filepath.Base(env.WorkDir)))
			return nil
		},
	})
}
