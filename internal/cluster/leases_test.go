package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// TestMuchLongerLeasesAreLogged: once for each life of a node, and only if they are longer by far.
func TestMuchLongerLeasesAreLogged(t *testing.T) {
	var text bytes.Buffer
	m := &Member{Node: store.Node{ID: "own", Boot: "b"}, TTL: 30 * time.Second,
		Log: slog.New(slog.NewTextHandler(&text, nil))}
	node := func(id, boot string, ttl time.Duration) store.Node {
		return store.Node{ID: id, Boot: boot, TTL: delay(ttl)}
	}
	looks := []struct {
		nodes []store.Node
		want  string // of the new lines
	}{
		{[]store.Node{node("own", "b", 30*time.Second), node("a", "1", 2*time.Minute), node("old", "1", 0)}, ""},
		{[]store.Node{node("a", "1", 2*time.Minute), node("c", "1", 5*time.Minute)}, "node=c lease=5m0s own=30s"},
		{[]store.Node{node("c", "1", 5*time.Minute)}, ""},
		{[]store.Node{node("c", "2", 3*time.Minute)}, "node=c lease=3m0s own=30s"},
	}
	for i, look := range looks {
		text.Reset()
		m.compareLeases(look.nodes)
		got := text.String()
		if look.want == "" && got != "" || !strings.Contains(got, look.want) || strings.Count(got, "\n") > 1 {
			t.Errorf("look %d: expected %q, found %q", i+1, look.want, got)
		}
	}
}
