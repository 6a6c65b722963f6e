package guide_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

func payloads(current, former []byte, objects store.Objects) stet.Payloads {
	return stet.Payloads{
		Keys: []stet.PayloadKey{ // 32 bytes each, from where the application keeps its secrets
			{ID: "2026-11", Secret: current}, // encrypts
			{ID: "2025-11", Secret: former},  // only decrypts
		},
		Compress: 1024,    // values from 1 KiB on, with zstd
		Objects:  objects, // values above Offload (256 KiB), outside the store
	}
}

func keep(fn func(stet.Context, string) (int, error)) (stet.Config, *stet.Workflow[string, int]) {
	pings := stet.Define("ping", fn, stet.Retention{Succeeded: stet.AtOnce, Failed: stet.None})
	return stet.Config{
		Workflows: []stet.Definition{pings},
		Retention: stet.KeepFor(90 * 24 * time.Hour), // of other workflows, and of cancelled runs
	}, pings
}

// TestKeysAreChanged reads with the next keys what the former have encrypted, and not
// without them.
func TestKeysAreChanged(t *testing.T) {
	db := memory.New()
	former, current := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	ctx := context.Background()
	config, pings := keep(func(_ stet.Context, host string) (int, error) { return len(host), nil })
	config.Store = db
	with := func(p stet.Payloads) *stet.Engine {
		cfg := config
		cfg.Payloads = p
		e, err := stet.New(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	old := with(stet.Payloads{Keys: []stet.PayloadKey{{ID: "2025-11", Secret: former}}})
	if _, err := pings.Start(ctx, old, "a.example", stet.ID("1")); err != nil {
		t.Fatal(err)
	}
	var host string
	info, err := with(payloads(current, former, nil)).Runs().Info(ctx, "1")
	if err == nil {
		err = info.Input.Decode(&host)
	}
	if host != "a.example" || err != nil {
		t.Errorf("got %q, %v", host, err)
	}
	info, err = with(stet.Payloads{}).Runs().Info(ctx, "1")
	if err == nil {
		err = info.Input.Decode(&host)
	}
	if !errors.Is(err, stet.ErrSealed) {
		t.Errorf("got %v", err)
	}
}
