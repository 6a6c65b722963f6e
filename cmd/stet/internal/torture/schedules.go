package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// tickRef is a workflow whose runs schedules start. A run takes the time of its input.
var tickRef = stet.Ref[time.Duration, string](prefix + "tick")

func (w *worker) tick() *stet.Workflow[time.Duration, string] {
	return stet.Define(tickRef.Name(), func(ctx stet.Context, takes time.Duration) (string, error) {
		name, at, _ := stet.ScheduledFor(ctx)
		err := stet.Sleep(ctx, "take", takes)
		return name + "/" + at.Format(time.RFC3339Nano), err
	})
}

// plan is a schedule of the torture.
type plan struct {
	name    string
	takes   time.Duration
	when    stet.Schedule
	options []stet.ScheduleOption
}

// plans returns the schedules: one whose instants are all started, however late; one
// that skips those that come while a run has not ended; and one on a queue.
func (h *harness) plans() []plan {
	every := stet.Schedule{Every: time.Second, CatchUp: stet.None, Overlap: stet.AllowOverlap}
	skip, buffer := every, every
	skip.Overlap, buffer.Overlap = stet.SkipOverlap, stet.BufferOne
	name := func(what string) string { return fmt.Sprintf("%s%s-%016x", prefix, what, h.cfg.Seed) }
	return []plan{
		{name: name("all"), when: every},
		{name: name("skips"), when: skip, takes: 1500 * time.Millisecond},
		{name: name("queued"), when: buffer, options: []stet.ScheduleOption{stet.OnQueue{Name: slotsQueue, Key: "c", Priority: 1}}},
	}
}

func (h *harness) makeSchedules(ctx context.Context) error {
	for _, p := range h.plans() {
		_, err := patiently(ctx, func() (any, error) {
			return nil, tickRef.Schedule(ctx, h.client.engine, p.name, p.takes, p.when,
				append(p.options, stet.UntilCarriedOut())...)
		})
		if err != nil {
			return fmt.Errorf("make schedule %s: %w", p.name, err)
		}
	}
	if plants(h.cfg.Plants).has(plantInstant) {
		id := h.plans()[0].name + "/" + time.Now().UTC().Truncate(time.Second).Add(time.Millisecond).Format(time.RFC3339Nano)
		_, err := patiently(ctx, func() (any, error) {
			return tickRef.Start(ctx, h.client.engine, 0, stet.ID(id), stet.Tags{"from": "nobody"})
		})
		return err
	}
	return nil
}

// pauseSchedules ends the starts of the schedules.
func (h *harness) pauseSchedules(ctx context.Context) error {
	for _, p := range h.plans() {
		err := h.until(ctx, "pause schedule "+p.name, func(ctx context.Context) error {
			return h.client.engine.Schedules().Pause(ctx, p.name, stet.Act{Why: "enough"})
		})
		if err != nil && !errors.Is(err, stet.ErrNotFound) { // it was never made
			return err
		}
	}
	return nil
}

// checkSchedules checks that each instant of a schedule was started once, or skipped
// with a reason.
func (a *audit) checkSchedules(ctx context.Context) error {
	for _, p := range a.plans() {
		info, err := a.client.engine.Schedules().Info(ctx, p.name)
		if errors.Is(err, stet.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := a.checkInstants(ctx, &p, info); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) checkInstants(ctx context.Context, p *plan, info *stet.ScheduleInfo) error {
	wrong := func(format string, args ...any) {
		a.report.violated(wrongInstants, "schedule %s: %s", p.name, fmt.Sprintf(format, args...))
	}
	if int64(len(info.Past)) >= 1000 {
		a.report.count("schedules that have forgotten instants", 1)
		return nil // what it remembers does not begin with the first one
	}
	became := map[time.Time]string{} // run IDs; "": skipped
	var first, last time.Time
	for _, d := range info.Past {
		for at := d.From; !at.After(d.To); at = at.Add(p.when.Every) {
			if former, twice := became[at]; twice {
				wrong("%s was decided twice: %q, and %q", at, former, d.RunID)
			}
			became[at] = d.RunID
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
		if d.RunID == "" && d.Reason == "" {
			wrong("%s was skipped for no reason", d.From)
		}
		if d.RunID == "" && p.when.Overlap == stet.AllowOverlap {
			wrong("%s was skipped: %s", d.From, d.Reason)
		}
	}
	missing := 0
	for at := first; !at.After(last); at = at.Add(p.when.Every) {
		if _, ok := became[at]; !ok && !at.Equal(info.Buffered) {
			missing++
			wrong("%s was neither started nor skipped", at)
		}
	}
	a.report.count("instants of schedules", len(became))
	return a.checkTicks(ctx, p, became, wrong)
}

// checkTicks compares the runs of a schedule with the decisions about its instants.
func (a *audit) checkTicks(ctx context.Context, p *plan, became map[time.Time]string,
	wrong func(string, ...any)) error {
	started := map[string]bool{}
	for _, id := range became {
		if id != "" {
			started[id] = true
		}
	}
	f := store.Filter{IDPrefix: p.name + "/", Workflows: []string{tickRef.Name()}, Values: true, Limit: store.MaxPage}
	for {
		page, err := a.db.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			a.report.count("runs of schedules: "+r.Status.String(), 1)
			if !started[r.ID] {
				wrong("run %s was started, and no instant says so", strings.TrimPrefix(r.ID, p.name+"/"))
				continue
			}
			delete(started, r.ID)
			if !r.Status.Terminal() {
				a.report.violated(stuck, "run %s is %s with marks %d", r.ID, r.Status, r.Marks)
				continue
			}
			got, err := tickRef.Handle(a.client.engine, r.ID).Wait(ctx)
			if err != nil {
				return err
			}
			if got != r.ID {
				wrong("run %s was started for %s", r.ID, got)
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	for id := range started {
		wrong("run %s was started, and is not there", id)
	}
	return nil
}
