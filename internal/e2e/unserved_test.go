package e2e_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestUnservedRunsSaySo: a run says that no process has its code, to all that read it, as long as that is so.
func TestUnservedRunsSaySo(t *testing.T) {
	naps := stet.Define("naps", func(ctx stet.Context, _ string) (string, error) {
		return "", stet.Sleep(ctx, "nap", time.Hour)
	})
	other := stet.Define("other", func(stet.Context, string) (string, error) { return "", nil })
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		reader, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{naps}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		check := func(when string, e *stet.Engine, unserved bool) {
			t.Helper()
			info, err := e.Runs().Info(ctx, "r")
			if err != nil {
				t.Fatal(err)
			}
			list, _, err := e.Runs().List(ctx, store.Filter{IDs: []string{"r"}})
			if err != nil {
				t.Fatal(err)
			}
			for how, got := range map[string]error{"info": info.Unserved, "list": list[0].Unserved} {
				lack := (*stet.UnservedError)(nil)
				if is := errors.As(got, &lack); is != unserved || is && lack.Workflow != "naps" {
					t.Errorf("%s, by %s: %v", when, how, got)
				}
			}
		}
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{naps}}, func(e *stet.Engine) {
			if _, err := naps.Start(ctx, e, "", stet.ID("r")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			check("while it is served", e, false)
			check("read beside", reader, false)
		})
		check("when its process has stopped", reader, true)
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{other}}, func(e *stet.Engine) {
			synctest.Wait()
			check("with a process without its code", e, true)
		})
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{naps}}, func(e *stet.Engine) {
			if _, err := e.Runs().Wait(ctx, "r"); err != nil {
				t.Fatal(err)
			}
		})
		check("when it has ended", reader, false)
	})
}
