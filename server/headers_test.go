package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
)

// TestCallersWriteNoReservedHeaders: what says that something came by a webhook, from an identity or
// for a version of a script is written by none of its callers, and is not refused either: programs
// pass on the headers that they have received.
func TestCallersWriteNoReservedHeaders(t *testing.T) { synctest.Test(t, reservedHeaders) }

func reservedHeaders(t *testing.T) {
	w := newWorld(t, true)
	defer w.stop()
	given := stet.Headers{
		"hook": "orders", "hook.delivery": "d-1", "hook.event": "push", "script.order": "1", "stet.by": "root",
		"stet.why": "x",
		"tenant":   "acme", "hooked": "yes", "scripts": "2",
	}
	kept := stet.Headers{"tenant": "acme", "hooked": "yes", "scripts": "2"}
	check := func(who string, found stet.Headers) {
		t.Helper()
		want := maps.Clone(kept)
		want["stet.by"] = who
		if !maps.Equal(found, want) {
			t.Errorf("expected %v, found %v", want, found)
		}
	}
	start := api.Start{Workflow: "order", ID: "o-1", Input: []byte(`"apple"`), Headers: given}
	w.ask("caller", "POST", "runs", start, 201, nil)
	var run api.Run
	w.get("operator", "runs/o-1", &run)
	check("carl", run.Headers)
	w.ask("caller", "POST", "topics/jobs/events", api.Publish{RetentionMS: 3_600_000,
		Send: api.Send{Value: []byte("1"), Headers: given}}, 201, nil)
	time.Sleep(time.Second) // the topic's owner takes it
	var events api.TopicEvents
	w.get("operator", "topics/jobs/events", &events)
	if len(events.Events) != 1 {
		t.Fatalf("the events: %+v", events)
	}
	check("carl", events.Events[0].Headers)
	w.ask("operator", "PUT", "schedules/nightly",
		api.SetSchedule{Workflow: "order", EveryMS: 3_600_000, Input: []byte(`"fig"`), Headers: given}, 200, nil)
	var schedule api.Schedule
	w.get("operator", "schedules/nightly", &schedule)
	check("olga", schedule.Headers)

	// A signed delivery is not taken for one that was repeated.
	w.hook("orders", api.SetHook{Scheme: "hmac", Start: "order", Target: "/id", Value: "/sku"})
	body := `{"id": "o-2", "sku": "pear"}`
	w.ask("caller", "POST", "runs", api.Start{Workflow: "order", ID: "o-2", Input: []byte(`"forged"`),
		Headers: stet.Headers{"hook": "orders", "hook.delivery": deliveryID(body)}}, 201, nil)
	w.refused("", "POST", "hooks/orders", body, "exists", byHMAC(hookSecret, body)...)
}

// deliveryID is how a call of a scheme without IDs is known.
func deliveryID(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
