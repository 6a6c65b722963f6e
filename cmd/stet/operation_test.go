package main

import (
	"testing"
	"time"

	"github.com/stet-run/stet/api"
)

// TestExecutingStepIsShown with the begin and number of its attempt, its last heartbeat,
// and why the former attempt has failed.
func TestExecutingStepIsShown(t *testing.T) {
	o := operation{Entry: api.Entry{
		Kind: "step", State: "open", Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}}
	if got := o.result(); got != "executing since 2026-03-01T12:00:00Z (attempt 1)" {
		t.Errorf("it is shown as %q", got)
	}
	o.Attempts, o.Value, o.Error = 2, []byte(`"half"`), &api.Failure{Message: "503"}
	want := `executing since 2026-03-01T12:00:00Z (attempt 3), last heartbeat: "half"; before: 503`
	if got := o.result(); got != want {
		t.Errorf("it is shown as %q, want %q", got, want)
	}
}
