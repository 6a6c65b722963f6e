package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// TestOtherZoneDataIsLogged once, by a node that finds a living one with another digest.
func TestOtherZoneDataIsLogged(t *testing.T) {
	if Zones() == "" {
		t.Error("this process has no digest of its zones")
	}
	now := store.TimeOf(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	own := store.Node{ID: "a", Zones: "one", SeenAt: now}
	for what, c := range map[string]struct {
		other store.Node
		lines int
	}{
		"another digest":         {store.Node{ID: "b", Zones: "two", SeenAt: now}, 1},
		"the same":               {store.Node{ID: "b", Zones: "one", SeenAt: now}, 0},
		"an older stet":          {store.Node{ID: "b", SeenAt: now}, 0},
		"a node that is gone":    {store.Node{ID: "b", Zones: "two", SeenAt: now, Gone: true}, 0},
		"its own former process": {store.Node{ID: "a", Zones: "two", SeenAt: now}, 0},
	} {
		var text bytes.Buffer
		d := store.Description{Now: now, Nodes: []store.Node{own, c.other}}
		sayZones(slog.New(slog.NewTextHandler(&text, nil)), &own, &d)
		if n := strings.Count(text.String(), "different data of time zones"); n != c.lines {
			t.Errorf("%s: %d lines, want %d:\n%s", what, n, c.lines, &text)
		}
	}
}
