package report_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/report"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// reporter returns a reporter whose goroutines begin when begin is called.
func reporter(hooks report.Hooks) (r *report.Reporter, log *bytes.Buffer, begin func()) {
	log = new(bytes.Buffer)
	var begun []func()
	return &report.Reporter{
			Log: slog.New(slog.NewTextHandler(log, nil)), Hooks: hooks, Now: func() store.Time { return 7 },
			Go: func(f func()) { begun = append(begun, f) },
		}, log, func() {
			for _, f := range begun {
				f()
			}
			begun = nil
		}
}

// TestOnlyWhatIsDurable: of a turn that is not committed nothing is reported, of one that
// the run goes on after only what stands.
func TestOnlyWhatIsDurable(t *testing.T) {
	run := store.Run{ID: "r", Workflow: "w"}
	failed := run
	failed.Status, failed.Output = store.Failed, stored.EncodeFailure(&stored.Failure{Code: "no", Message: "no"})
	turn := report.Turn{
		Run: &run, Over: &failed,
		News: runner.News{Paused: "why", Failed: []attempts.Failed{{Attempt: 1, Failure: &stored.Failure{Code: "no"}}}},
	}
	for verdict, want := range map[store.Verdict][]string{
		store.Committed:  {"step attempt failed", "run paused", "run failed"},
		store.StillReady: {"step attempt failed"},
		store.Fenced:     nil,
		store.Refused:    nil,
	} {
		r, log, _ := reporter(report.Hooks{})
		r.Committed(&turn, verdict)
		if n := strings.Count(log.String(), "\n"); n != len(want) {
			t.Errorf("%s: the log has %d lines, want %q", verdict, n, want)
		}
		for _, text := range want {
			if !strings.Contains(log.String(), text) {
				t.Errorf("%s: the log is %s, want %q", verdict, log, text)
			}
		}
	}
}

// TestHooks are called in order, not by the caller, and one that panics does not hinder the
// next. A run whose store's time of its end is not known has ended about now.
func TestHooks(t *testing.T) {
	var got []string
	r, log, begin := reporter(report.Hooks{
		OnEnd: func(run *store.Run) {
			if got = append(got, "end "+run.ID); run.Ended != 7 {
				t.Errorf("the run has ended at %d", run.Ended)
			}
			panic("of the application")
		},
		OnStall: func(run *store.Run) { got = append(got, "stall "+run.ID) },
	})
	r.Over(&store.Run{ID: "a", Status: store.Succeeded}, "")
	r.Over(&store.Run{ID: "b", Status: store.Stalled, Reason: "refused turn: x"}, "")
	r.Over(&store.Run{ID: "c", Workflow: store.EntityPrefix + "topic", Status: store.Succeeded}, "")
	r.Over(&store.Run{ID: "d", Status: store.Cancelled}, "")
	if len(got) != 0 {
		t.Errorf("the caller has called %q", got)
	}
	begin()
	if !slices.Equal(got, []string{"end a", "stall b", "end d"}) {
		t.Errorf("the hooks were called %q", got)
	}
	if strings.Count(log.String(), "OnEnd panicked") != 2 || !strings.Contains(log.String(), "cause=refused") {
		t.Errorf("the log is %s", log)
	}
	r.Over(&store.Run{ID: "e", Status: store.Stalled}, "")
	if begin(); got[len(got)-1] != "stall e" {
		t.Error("what comes later is not reported")
	}
}

// TestWhatStandsIsObserved: of a turn that stands, once, and nothing of one that does not.
func TestWhatStandsIsObserved(t *testing.T) {
	run := store.Run{ID: "r", Workflow: "w"}
	over := run
	over.Status = store.Succeeded
	turn := report.Turn{Run: &run, Over: &over, Began: true, News: runner.News{Woken: true, Late: time.Second}}
	turn.Turn = &store.Turn{
		Entries: []store.Entry{
			{Kind: store.KindSleep, Seq: 1, State: store.Done}, {Kind: store.KindReceive, State: store.Open},
			{Kind: store.KindStep, Seq: 2, State: store.Done},
		},
		Sends: []store.Command{
			{RunID: "other", Item: &store.Item{Kind: store.ItemMessage}}, {RunNo: 1, Item: &store.Item{Kind: store.ItemEnd}},
		},
	}
	var got []string
	note := func(what string) func(*store.Run) {
		return func(r *store.Run) { got = append(got, fmt.Sprint(what, " ", r.ID, " ", int64(r.Ended))) }
	}
	port := &observe.Port{
		RunBegan: note("began"), RunEnded: note("ended"), RunStalled: note("stalled"),
		Turn:   func(*store.Run, *store.Turn) { got = append(got, "turn") },
		Waited: func(_ *store.Run, e *store.Entry, _ store.Time) { got = append(got, "waited "+e.Kind.String()) },
		Sent:   func(_ *store.Run, c *store.Command, _ store.Time) { got = append(got, "sent to "+c.RunID) },
		Woken:  func(_ *store.Run, late time.Duration) { got = append(got, "woken "+late.String()) },
	}
	stands := []string{"began r 0", "turn", "woken 1s", "waited sleep", "sent to other"}
	for verdict, want := range map[store.Verdict][]string{
		store.Committed:  append(slices.Clone(stands), "ended r 7"),
		store.StillReady: stands,
		store.Fenced:     nil,
		store.Refused:    nil,
		store.Busy:       nil,
	} {
		got = nil
		r, _, _ := reporter(report.Hooks{})
		r.Observer = port
		r.Committed(&turn, verdict)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the observer was told %q, want %q", verdict, got, want)
		}
	}
}

// TestNoObserverCostsNothing: a turn without news allocates nothing.
func TestNoObserverCostsNothing(t *testing.T) {
	r, _, _ := reporter(report.Hooks{})
	over := store.Run{ID: "r", Workflow: store.EntityPrefix + "topic", Status: store.Running}
	turn := report.Turn{Run: &over, Began: true}
	turn.Turn = &store.Turn{Entries: []store.Entry{{Kind: store.KindSleep, Seq: 1}}}
	if n := testing.AllocsPerRun(100, func() { r.Committed(&turn, store.Committed) }); n != 0 {
		t.Errorf("without an observer a turn has %v allocations", n)
	}
}
