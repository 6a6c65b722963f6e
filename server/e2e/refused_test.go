package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// shipment reserves and charges, and then fails: both are undone.
var shipment = stet.Define("shipment", func(ctx stet.Context, _ int) (int, error) {
	done := func(context.Context) error { return nil }
	for _, name := range []string{"look", "reserve", "charge"} {
		var undo []stet.StepOption
		if name != "look" {
			undo = append(undo, stet.UndoDo(done))
		}
		if err := stet.Do(ctx, name, done, undo...); err != nil {
			return 0, err
		}
	}
	return 0, stet.Do(ctx, "ship", func(context.Context) error { return stet.Permanent(errors.New("no ship")) })
})

// buttons returns the labels of the buttons of a run that can be pressed, as they stand.
func (tb *tab) buttons() []string {
	tb.t.Helper()
	return is[[]string](tb, `[...document.querySelectorAll(".title-line > .buttons > button")].map(
		(b) => b.textContent.trim())`)
}

// TestButtonsOfARunAreGranted: the first button of a run helps, and none is refused.
func TestButtonsOfARunAreGranted(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := serveAt(t, time.Now(), shipment, contract, invoice)
	ctx := t.Context()
	must[*stet.Run[int]](t)(shipment.Start(ctx, s.engine, 0, stet.ID("shipment-1")))
	must[*stet.Run[string]](t)(contract.Start(ctx, s.engine, 0, stet.ID("contract-1")))
	must[*stet.Run[int]](t)(invoice.Start(ctx, s.engine, 3, stet.ID("invoice-1")))
	s.until(t, "shipment-1", store.Failed)
	s.until(t, "contract-1", store.Suspended)
	s.until(t, "invoice-1", store.Stalled)
	must[bool](t)(s.engine.Runs().Cancel(ctx, "contract-1", stet.Act{}))
	s.until(t, "contract-1", store.Cancelled)
	for id, want := range map[string][]string{
		"shipment-1": {"Rewind to before reserve…"}, "contract-1": nil, "invoice-1": {"Resume…", "Retry…", "Cancel…"},
	} {
		tb := open(t, b, s.url+runPath(id), ".title-line .buttons")
		if got := tb.buttons(); !slices.Equal(got, want) {
			t.Errorf("%s has the buttons %q, want %q", id, got, want)
		}
		tb.press(".title-line", "More")
		tb.untilTrue(`[...document.querySelectorAll("[role=menuitem]")].find(
			(c) => c.textContent.startsWith("Pause"))?.ariaDisabled === "true"`)
		tb.clean()
	}
	tb := open(t, b, s.url+runPath("shipment-1"), ".title-line .buttons")
	tb.press(".title-line", "Rewind to before reserve")
	tb.confirm("Rewind", "Reason", "the ship is back", "Type", "shipment-1")
	tb.closed()
	s.audited(t, "shipment-1", "the ship is back")
	s.until(t, "shipment-1", store.Failed)
	tb.clean()
}

// TestAScheduleShowsItsPast: the page of a schedule lists the runs that it has started, and the calendar has them.
func TestAScheduleShowsItsPast(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	later := stet.Define("later", func(_ stet.Context, text string) (string, error) { return text, nil })
	s := serveAt(t, time.Date(2027, 3, 10, 9, 30, 0, 0, time.UTC), later)
	ctx := t.Context()
	if err := later.Schedule(ctx, s.engine, "every second", "x", stet.Schedule{Every: time.Second},
		stet.UntilCarriedOut()); err != nil {
		t.Fatal(err)
	}
	past := func() []stet.ScheduleDecision {
		return must[*stet.ScheduleInfo](t)(s.engine.Schedules().Info(ctx, "every second")).Past
	}
	eventually(t, "it has started a run", func() bool { return len(past()) > 0 && past()[0].RunID != "" })
	if err := s.engine.Schedules().Pause(ctx, "every second", stet.Act{}); err != nil {
		t.Fatal(err)
	}
	tb := open(t, b, s.url+"#/schedules/every%20second", `table.month a[href^="#/runs/"]`)
	tb.until(`[aria-label="Past decisions"] a[href^="#/runs/"]`)
	if text := is[string](tb, `document.body.innerText`); strings.Contains(text, "decided nothing") {
		t.Errorf("the page: %s", text)
	}
	tb.looks("schedule-past")
	tb.clean()

	tb = open(t, b, s.url+"#/schedules/none", ".empty")
	tb.says(".empty", "There is no schedule none")
}
