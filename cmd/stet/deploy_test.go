package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/servers"
)

// TestDeploys goes through wrong deploys as an operator does, on each kind of store: builds
// that are rolled back, code that does not fit, a type that has changed, a process that is lost.
func TestDeploys(t *testing.T) {
	scripts, err := filepath.Glob("testdata/deploy/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("the scripts: %v, %v", scripts, err)
	}
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
		for _, script := range scripts {
			t.Run(c.name+"/"+filepath.Base(script), func(t *testing.T) {
				address := c.address(t) // a server of its own: each script is a deploy of everything
				testscript.Run(t, testscript.Params{
					Files: []string{script},
					Cmds:  map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith, "soon": soon},
					Condition: func(string) (bool, error) {
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
}
