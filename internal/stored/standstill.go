package stored

import (
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/store"
)

// StallVerb is the verb of an audit that the engine writes when it stalls a run. Its Why is the reason.
const StallVerb = "stall"

// Engine is the author of what the engine does to a run by itself, in the run's audit.
const Engine = "engine"

// StallAudit returns the audit of a stall.
func StallAudit(reason string) store.Audit {
	return store.Audit{Who: Engine, Verb: StallVerb, Why: Cut(reason, store.MaxWhy-4)}
}

// hadEnded begins the part of an audit's detail that says since when the run had ended.
const hadEnded = "it had ended "

// WithEnd adds to the detail of the audit of a verb that makes an ended run go on when the run had ended.
func WithEnd(detail string, run *store.Run) string {
	if !run.Status.Terminal() || run.Ended == 0 {
		return detail
	}
	text := fmt.Sprintf("%s%s at %s", hadEnded, run.Status, run.Ended.Time().UTC().Format(time.RFC3339Nano))
	if detail == "" {
		return text
	}
	return detail + "; " + text
}

// EndedAt is the inverse of WithEnd; 0: the detail names no end.
func EndedAt(detail string) store.Time {
	at := strings.LastIndex(detail, hadEnded)
	if at < 0 {
		return 0
	}
	_, text, _ := strings.Cut(detail[at:], " at ")
	text, _, _ = strings.Cut(text, ";")
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0
	}
	return store.TimeOf(t)
}
