package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// undoes reserves and charges, and then ships, which fails: both are undone.
var undoes = stet.Define("undoes", func(ctx stet.Context, _ string) (string, error) {
	if err := stet.Do(ctx, "look", func(context.Context) error { return nil }); err != nil {
		return "", err
	}
	for _, name := range []string{"reserve", "charge"} {
		done := func(context.Context) error { return nil }
		if err := stet.Do(ctx, name, done, stet.UndoDo(done)); err != nil {
			return "", err
		}
	}
	return "", stet.Do(ctx, "ship", func(context.Context) error { return stet.Permanent(errors.New("no ship")) })
})

// stalls has a bug.
var stalls = stet.Define("stalls", func(ctx stet.Context, text string) (string, error) {
	return text[len(text):][:1], nil
})

// becomes waits until a run has a status.
func (w *world) becomes(id string, want store.Status) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		info, err := w.engine.Runs().Info(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		if info.Status == want {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("run %s: expected %s, found %s", id, want, info.Status)
		}
	}
}

// TestARunSaysWhatItRefuses: each verb that a run is said to refuse is refused with this reason, and
// each other verb is granted. A run that has undone its steps says before which it can be rewound.
func TestARunSaysWhatItRefuses(t *testing.T) {
	w := newWorld(t, true)
	runs, ctx := w.engine.Runs(), t.Context()
	start := func(d *stet.Workflow[string, string], id string, want store.Status) {
		t.Helper()
		if _, err := d.Start(ctx, w.engine, "x", stet.ID(id)); err != nil {
			t.Fatal(err)
		}
		w.becomes(id, want)
	}
	all := []string{"cancel", "edit", "fork", "nudge", "pause", "resume", "retry", "rewind", "terminate"}
	for name, c := range map[string]struct {
		make   func(id string)
		grants string // the verbs that are not refused, sorted
		before string
	}{
		"suspended": {func(id string) { start(order, id, store.Suspended) }, "cancel nudge pause terminate", ""},
		"paused": {func(id string) {
			start(order, id, store.Suspended)
			if _, err := runs.Pause(ctx, id, stet.Act{}); err != nil {
				t.Fatal(err)
			}
		}, "cancel edit fork resume rewind terminate", ""},
		"succeeded": {func(id string) { w.ended(id) }, "edit fork rewind", ""},
		"failed":    {func(id string) { start(broken, id, store.Failed) }, "edit fork retry rewind", ""},
		"undone":    {func(id string) { start(undoes, id, store.Failed) }, "edit fork rewind", "reserve"},
		"cancelled": {func(id string) {
			start(order, id, store.Suspended)
			if _, err := runs.Cancel(ctx, id, stet.Act{}); err != nil {
				t.Fatal(err)
			}
			w.becomes(id, store.Cancelled)
		}, "edit fork rewind", ""},
		"stalled": {func(id string) { start(stalls, id, store.Stalled) }, "cancel edit fork resume rewind retry terminate", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.make(name)
			var run api.Run
			w.get("operator", "runs/"+name, &run)
			if run.RewindBefore != c.before {
				t.Errorf("rewound before %q, want %q", run.RewindBefore, c.before)
			}
			grants := strings.Fields(c.grants)
			for _, verb := range all {
				why := run.Refused[verb]
				if granted := why == ""; granted != slices.Contains(grants, verb) {
					t.Errorf("%s: refused with %q, want granted: %t", verb, why, !granted)
				}
				if why == "" || verb == "edit" || verb == "rewind" || verb == "fork" {
					continue
				}
				code := "refused"
				if strings.Contains(why, "already "+run.Status.String()) {
					code = "ended"
				}
				p := w.refused("operator", "POST", "runs/"+name+"/"+verb, api.Act{}, code)
				if !strings.Contains(p.Detail, why) {
					t.Errorf("%s: the run says %q, and the verb was refused with %q", verb, why, p.Detail)
				}
			}
			if c.before != "" {
				var done api.Done
				w.ask("operator", "POST", "runs/"+name+"/rewind", api.Rewind{Before: c.before}, http.StatusOK, &done)
				if !done.Done {
					t.Error("it is not rewound")
				}
			}
		})
	}
}
