package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stet-run/stet/cmd/stet/internal/torture"
)

// TestExitCodeOfATorture tells what is broken from what could not be carried out. In make faults a script tortures with
// a defect, and with an outage that fails.
func TestExitCodeOfATorture(t *testing.T) {
	const broken, troubled = `"violations": {"duplicated": 1}`, `"troubles": ["the store is away"]`
	for _, row := range []struct {
		name, report string
		err          error
		want         int
	}{
		{"all is right", `{"ok": true}`, nil, exitDone},
		{"broken", `{` + broken + `}`, nil, exitFailed},
		{"broken and not carried out", `{` + broken + `, ` + troubled + `}`, errors.New("away"), exitFailed},
		{"not carried out", `{` + troubled + `}`, nil, exitNotCarriedOut},
		{"the harness has failed", `{"ok": false}`, errors.New("away"), exitNotCarriedOut},
	} {
		report := new(torture.Report)
		if err := json.Unmarshal([]byte(row.report), report); err != nil {
			t.Fatal(row.name, err)
		}
		if got := exitCode(verdictOn(report, row.err)); got != row.want {
			t.Errorf("%s: expected the exit code %d, found %d", row.name, row.want, got)
		}
	}
}
