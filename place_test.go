package stet_test

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
	"github.com/stet-run/stet/store/memory"
)

// TestTheLogNamesAChildByItsPlace: each line about a child without a name says where it is in its parent.
func TestTheLogNamesAChildByItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		load := stet.Define("load", func(ctx stet.Context, _ int) (int, error) {
			stet.Log(ctx).Info("begins")
			return 0, stet.Do(ctx, "copy", func(context.Context) error {
				time.Sleep(time.Hour)
				return stet.Permanent(errors.New("no space"))
			})
		})
		etl := stet.Define("etl", func(ctx stet.Context, _ int) (int, error) {
			return load.Call(ctx, 1, stet.Key("acme-0004"))
		})
		e, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Workflows: []stet.Definition{load, etl},
			WarnStep: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		run, err := etl.Start(t.Context(), e, 1, stet.ID("etl-7"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err == nil {
			t.Error("the run succeeds; want it to fail with its child")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, text := range []string{"begins", "a step executes for long", "a step has not returned", "run failed"} {
			found := false
			for line := range strings.Lines(log.String()) {
				found = found || strings.Contains(line, text) && strings.Contains(line, " place=etl-7/load/[acme-0004]")
			}
			if !found {
				t.Errorf("no line %q has the place of the child:\n%s", text, log.String())
			}
		}
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "run_id=etl-7 ") && strings.Contains(line, "place=") {
				t.Errorf("a run that is no child has a place: %s", line)
			}
		}
	})
}
