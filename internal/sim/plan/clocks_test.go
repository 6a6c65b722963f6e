package plan

import (
	"testing"
	"time"
)

// TestAClockThatWasTooFast: what a clock has gained excuses what is early until the store has come that far, at the
// latest a lease after an answer could correct it.
func TestAClockThatWasTooFast(t *testing.T) {
	fast := Fault{Kind: Drift, At: time.Second, Lasts: 2 * time.Second, Share: 2}
	frozen := Fault{Kind: Freeze, At: 2 * time.Second, Lasts: 3 * time.Second}
	for _, c := range []struct {
		of     string
		faults []Fault
		at     time.Duration
		want   time.Duration
	}{
		{"before it is too fast", []Fault{fast}, time.Second, 0},
		{"while it is", []Fault{fast}, 1500 * time.Millisecond, 500 * time.Millisecond},
		{"while it stands", []Fault{fast}, 5900 * time.Millisecond, 2 * time.Second},
		{"after that", []Fault{fast}, 6 * time.Second, 0},
		{"after a pause in which no answer came", []Fault{fast, frozen}, 8900 * time.Millisecond, 2 * time.Second},
		{"later", []Fault{fast, frozen}, 9 * time.Second, 0},
		{"of a slow one", []Fault{{Kind: Drift, At: time.Second, Lasts: time.Second, Share: 0.5}}, 2 * time.Second, 0},
	} {
		p := Plan{Nodes: []Node{{LeaseTTL: time.Second}}, Faults: c.faults}
		if got := p.Ahead(c.at); got != c.want {
			t.Errorf("%s: expected that a node may be ahead by %s at %s, got %s", c.of, c.want, c.at, got)
		}
	}
}
