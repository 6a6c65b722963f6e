package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestUnservedRunsSaySo: a run says that no process has its code, to all that read it, as long as that is so.
func TestUnservedRunsSaySo(t *testing.T) {
	t.Parallel()
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

// TestNewSaysThatAnotherServiceHasTheStore: at Warn, once. An earlier process of the same service is none, even with
// other workflows beside, with the same name, or after its end.
func TestNewSaysThatAnotherServiceHasTheStore(t *testing.T) {
	t.Parallel()
	code := func(stet.Context, string) (string, error) { return "", nil }
	shop, more, bank := stet.Define("shop", code), stet.Define("more", code), stet.Define("bank", code)
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		says := func(node string, workflows ...stet.Definition) bool {
			t.Helper()
			var log bytes.Buffer
			_, err := stet.New(t.Context(), stet.Config{Store: s.Join(), Workflows: workflows, Node: node,
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(log.String(), "another service executes the runs of this store")
		}
		if says("", bank) {
			t.Error("a store without an owner is another service's")
		}
		served(t, stet.Config{Store: s, Node: "first", Workflows: []stet.Definition{shop}}, func(*stet.Engine) {
			time.Sleep(time.Second)
			if !says("", bank) {
				t.Error("New has not said that another service executes the store")
			}
			for what, said := range map[string]bool{
				"a later build":                   says("", shop, more),
				"a process of the holder's name":  says("first", bank),
				"a process that executes no runs": says(""),
			} {
				if said {
					t.Errorf("for %s New says that another service executes the store", what)
				}
			}
		})
		if says("", bank) {
			t.Error("after its end the other service still has the store")
		}
	})
}

// TestARunOfTheServiceThatStandsByIsUnserved: two services share a store with one owner. The standby service has the
// code, and executes nothing.
func TestARunOfTheServiceThatStandsByIsUnserved(t *testing.T) {
	t.Parallel()
	shop := stet.Define("shop", func(stet.Context, string) (string, error) { return "", nil })
	bank := stet.Define("bank", func(stet.Context, string) (string, error) { return "", nil })
	synctest.Test(t, func(t *testing.T) {
		s, ctx := memory.New(), context.Background()
		unserved := func(e *stet.Engine) error {
			t.Helper()
			time.Sleep(time.Minute)
			info, err := e.Runs().Info(ctx, "r")
			if err != nil {
				t.Fatal(err)
			}
			return info.Unserved
		}
		var second *stet.Engine
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{shop}}, func(*stet.Engine) {
			time.Sleep(time.Second)
			second = serve(t, stet.Config{Store: s.Join(), Workflows: []stet.Definition{bank}})
			if _, err := bank.Start(ctx, second, "", stet.ID("r")); err != nil {
				t.Fatal(err)
			}
			if err := unserved(second); err == nil {
				t.Error("a run whose process stands by counts as served")
			}
		})
		if err := unserved(second); err != nil {
			t.Errorf("once its process executes the store: %v", err)
		}
	})
}
