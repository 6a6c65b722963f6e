package script_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// TestAVersionThatDoesNotCompileHere stalls no run: the process that has deployed it may be of another build. The run
// waits for such a process, and can be terminated meanwhile.
func TestAVersionThatDoesNotCompileHere(t *testing.T) {
	stettest.Run(t, stet.Config{Library: open(t)}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		code := stet.ScriptCode{Code: "workflow = a word of tomorrow"}
		if _, err := stet.ScriptsOf(e).Deploy(ctx, "s", code, stet.Act{}); err != nil {
			t.Fatal(err)
		}
		r := begin(t, ctx, e, "s", stet.ID("r"))
		env.Settle()
		time.Sleep(time.Minute)
		info, err := e.Runs().Info(ctx, r.ID())
		if err != nil || info.Status != store.Running && info.Status != store.Queued {
			t.Errorf("%+v, %v; want a run that waits for a process which compiles the version", info, err)
		}
		if ok, err := e.Runs().Terminate(ctx, r.ID(), stet.Act{By: "ada"}); !ok || err != nil {
			t.Errorf("terminate: %t, %v", ok, err)
		}
		if info, err = e.Runs().Info(ctx, r.ID()); err != nil || info.Status != store.Cancelled {
			t.Errorf("%+v, %v; want it to be terminated", info, err)
		}
	})
}
