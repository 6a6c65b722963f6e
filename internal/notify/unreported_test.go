package notify

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
)

// Runs are known for a while, and beyond a bound every run counts as one.
func TestUnreported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u Unreported
		if u.Has(1) {
			t.Error("a run is known before any was noted")
		}
		u.Add(1)
		if !u.Has(1) || u.Has(2) {
			t.Errorf("expected run 1 alone, found 1: %t, 2: %t", u.Has(1), u.Has(2))
		}
		time.Sleep(unreportedFor)
		if u.Has(1) {
			t.Errorf("a run is known after %s", unreportedFor)
		}
		for run := range store.RunNo(maxUnreported + 1) {
			u.Add(run + 10)
		}
		if len(u.until) > maxUnreported || !u.Has(maxUnreported+10) || !u.Has(5) {
			t.Errorf("expected that each run counts, and %d are kept; found %d", maxUnreported, len(u.until))
		}
		time.Sleep(unreportedFor)
		if u.Add(1); u.Has(5) || !u.Has(1) || len(u.until) != 1 {
			t.Errorf("expected one run after %s, found %d", unreportedFor, len(u.until))
		}
	})
}
