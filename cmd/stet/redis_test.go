package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestRedisScripts runs the command line on a Redis server of its own.
func TestRedisScripts(t *testing.T) {
	server := servers.NewRedis(t, servers.Durable...)
	runScripts(t, testscript.Params{
		Dir: "testdata/redis",
		Setup: func(env *testscript.Env) error {
			env.Setenv("STET_DB", server.URL())
			return nil
		},
	})
}
