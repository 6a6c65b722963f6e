package stet

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/entity/planner"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// ScheduleInfo is what is known of a schedule.
type ScheduleInfo struct {
	Name     string
	Workflow string
	Schedule Schedule // as it was given, with defaults; Paused is as it is now
	Input    []byte   // encoded, as in a run's row
	OnQueue  *OnQueue // on which its runs are started; nil: none
	Policy   RunPolicy

	// Stalled is why the schedule does nothing until it is resumed by Runs.Resume
	// of "stet.schedule/NAME": its owner does not know the time zone, or what stands
	// is damaged. "": it is well.
	Stalled string
	// Lacks is what the process that owns the schedule lacks to read it, such as its time zone or a key. It does nothing
	// until another process has it. "": nothing is lacking.
	Lacks string

	PausedAt    time.Time `json:",omitzero"` // zero: it is not paused
	PauseReason string

	Next      []time.Time    // the next instants, at most 5; empty while it is paused
	Running   []ScheduledRun // that have not ended as far as the schedule knows, by instant
	Buffered  time.Time      `json:",omitzero"` // the instant that is started when they have ended; zero: none
	Backfills int            // that have not come to their end

	// Started and Skipped count instants, with those of triggers and backfills.
	Started, Skipped int64
	// Past is what became of instants, oldest first; at most the last 1,000.
	Past []ScheduleDecision
}

// ScheduledRun is a run that a schedule has started.
type ScheduledRun struct {
	RunID   string
	Instant time.Time `json:",omitzero"`
}

// ScheduleDecision is what became of an instant, or of several that follow each
// other and were skipped for one reason.
type ScheduleDecision struct {
	From, To time.Time `json:",omitzero"` // the first instant and the last one
	Count    int64     // of instants
	At       time.Time `json:",omitzero"` // when it was decided
	RunID    string    // of the run that was started; "": skipped
	Reason   string    // why it was skipped
}

// Schedules are the schedules of an engine's store. Workflow.Schedule makes one. Safe
// for concurrent use.
type Schedules struct{ engine *Engine }

// Schedules returns the schedules of the store.
func (e *Engine) Schedules() Schedules { return Schedules{e} }

// showNext is the number of instants that Info returns beforehand.
const showNext = 5

// Info returns what is known of the schedule with the name. What was asked
// for and not carried out yet is not in it. ErrNotFound: there is none.
func (s Schedules) Info(ctx context.Context, name string) (*ScheduleInfo, error) {
	err := checkName("schedule", name)
	if err != nil {
		return nil, aboutSchedule("show", name, err)
	}
	run, ok, err := s.engine.inner.Get(ctx, entity.ID(planner.Workflow, name))
	var info *ScheduleInfo
	if err == nil && ok {
		info, err = s.engine.readSchedule(ctx, &run, &recordLacks{engine: s.engine})
	}
	switch {
	case err != nil:
		return nil, aboutSchedule("show", name, err)
	case info == nil:
		return nil, aboutSchedule("show", name, ErrNotFound)
	}
	return info, nil
}

// List returns all schedules, the newest first.
func (s Schedules) List(ctx context.Context) ([]*ScheduleInfo, error) {
	var list []*ScheduleInfo
	lacks := recordLacks{engine: s.engine}
	f := store.Filter{Workflows: []string{planner.Workflow}, Limit: store.MaxPage}
	for {
		page, err := s.engine.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		for i := range page.Runs {
			info, err := s.engine.readSchedule(ctx, &page.Runs[i], &lacks)
			if err != nil {
				return nil, aboutSchedule("show", planner.NameOf(page.Runs[i].ID), err)
			}
			if info != nil {
				list = append(list, info)
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			return list, nil
		}
	}
}

// readSchedule reads what stands in the entity of a schedule; nil: it has none.
func (e *Engine) readSchedule(ctx context.Context, run *store.Run, lacks *recordLacks) (*ScheduleInfo, error) {
	entries, err := e.store.History(ctx, store.HistoryQuery{Run: run.No, Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	if err != nil {
		return nil, err
	}
	s, err := planner.Read(entries)
	if err != nil || s.Config == nil {
		return nil, err
	}
	c := s.Config
	info := &ScheduleInfo{
		Name: planner.NameOf(run.ID), Workflow: c.Workflow, Input: c.Input,
		Schedule: Schedule{
			Cron: c.Cron, Zone: c.Zone, Every: c.Every, Offset: c.Offset,
			Overlap: Overlap(c.Overlap), CatchUp: None, Paused: s.State.Paused,
		},
		PausedAt: s.State.PausedAt.Time(), PauseReason: s.State.Reason,
		Buffered: s.State.Buffered.Time(), Backfills: len(s.Fills), Started: s.State.Started, Skipped: s.State.Skipped,
	}
	if q := c.Queue; q != nil {
		info.OnQueue = &OnQueue{Name: q.Queue, Key: q.Key, Priority: q.Priority}
	}
	if run.Status == store.Stalled {
		info.Stalled = run.Reason
	}
	if info.Lacks, err = lacks.of(ctx, run); err != nil {
		return nil, err
	}
	if c.CatchUp >= 0 {
		info.Schedule.CatchUp = time.Duration(c.CatchUp) * time.Microsecond
	}
	for _, tag := range c.Tags {
		if info.Schedule.Tags == nil {
			info.Schedule.Tags = Tags{}
		}
		info.Schedule.Tags[tag.Key] = tag.Value
	}
	headers, policy := stored.SplitPolicy(c.Headers)
	if info.Schedule.Headers, err = decodeHeaders(headers); err != nil {
		return nil, err
	}
	info.Policy = runPolicy(policy)
	for _, r := range s.Running {
		info.Running = append(info.Running, ScheduledRun{r.RunID, r.Instant.Time()})
	}
	for _, d := range s.Past {
		info.Past = append(info.Past, ScheduleDecision{d.From.Time(), d.To.Time(), d.Count, d.At.Time(), d.RunID, d.Reason})
	}
	if s.State.Paused {
		return info, nil
	}
	times, err := c.Spec().Compile()
	if err != nil {
		return info, nil // a time zone that this machine does not know
	}
	for at := times.Next(s.State.At.Time()); len(info.Next) < showNext && !at.IsZero(); at = times.Next(at) {
		info.Next = append(info.Next, at)
	}
	return info, nil
}

// Pause lets the instants of a schedule pass without a run until it is resumed; they
// are recorded as skipped. Runs go on. A paused schedule stays paused. Errors:
// ErrNotFound if there is no schedule of the name, ErrInvalid for a bad act, ErrPending
// if ctx ends before the owner has decided (the request stands), and those of the store.
func (s Schedules) Pause(ctx context.Context, name string, act Act) error {
	_, err := s.act(ctx, "pause", name, planner.ItemPause, []byte(act.Why), act)
	return err
}

// Resume lets a paused schedule go on. One that is not paused stays so. Errors are
// those of Pause.
func (s Schedules) Resume(ctx context.Context, name string, act Act) error {
	_, err := s.act(ctx, "resume", name, planner.ItemResume, nil, act)
	return err
}

// Trigger starts a run now, also if the schedule is paused, and returns its ID. If a
// run has not ended, the overlap policy decides: the run may begin later, or the
// request is ErrRefused. Other errors are those of Pause. On a store on several servers the run may be on its way
// to another one, for as long as that is away: until it is there it is not found.
func (s Schedules) Trigger(ctx context.Context, name string, act Act) (runID string, err error) {
	answer, err := s.act(ctx, "trigger", name, planner.ItemTrigger, nil, act)
	if err == nil {
		arrives(ctx, s.engine, answer.RunID)
	}
	return answer.RunID, err
}

// arrives waits a moment for a run that an entity has started, on a store where that may be on
// its way to another server. It may begin later, for other reasons.
func arrives(ctx context.Context, e *Engine, runID string) {
	if len(store.LanesOf(e.base).Lanes()) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if _, there, err := e.inner.Get(ctx, runID); err != nil || there {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Backfill starts the runs of the instants from from, included, to to, excluded. Those
// must not be in the future. They start all at once if runs may overlap, otherwise one
// after another. An instant whose run exists is not started again. Errors: ErrRefused
// with the reason, and those of Pause.
func (s Schedules) Backfill(ctx context.Context, name string, from, to time.Time, act Act) error {
	if from.IsZero() || !from.Before(to) {
		err := fmt.Errorf("expected a time and a later one, found %s and %s: %w", from, to, ErrInvalid)
		return aboutSchedule("backfill", name, err)
	}
	fill := planner.Fill{After: store.TimeOf(from.Add(-time.Microsecond)), To: store.TimeOf(to)}
	_, err := s.act(ctx, "backfill", name, planner.ItemBackfill, planner.Encode(&fill), act)
	return err
}

// Delete removes a schedule and what it remembers. Runs go on. Errors are those of
// Pause.
func (s Schedules) Delete(ctx context.Context, name string, act Act) error {
	_, err := s.act(ctx, "delete", name, planner.ItemDelete, nil, act)
	return err
}

// act makes a request of an operator and waits for the answer.
func (s Schedules) act(
	ctx context.Context, verb, name, what string, value []byte, act Act,
) (planner.Answer, error) {
	if err := act.check(); err != nil {
		return planner.Answer{}, aboutSchedule(verb, name, err)
	}
	answer, err := s.engine.askSchedule(ctx, name, what, value, recordOf(s.engine, verb, "schedule", name, act))
	s.engine.logged(ctx, verb, "schedule", name, act, err)
	return answer, aboutSchedule(verb, name, err)
}

func aboutSchedule(act, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s schedule %q: %w", act, name, err)
}

// askSchedule asks a schedule for something and waits for its answer. record is for the audit;
// nil: nobody's act.
func (e *Engine) askSchedule(
	ctx context.Context, name, what string, value []byte, record *acts.Record,
) (planner.Answer, error) {
	if err := checkName("schedule", name); err != nil {
		return planner.Answer{}, err
	}
	answer, err := planner.Ask(ctx, e.inner, name, what, value, encoded(record))
	switch {
	case err != nil:
		return answer, err
	case answer.Missing:
		return answer, ErrNotFound
	case answer.Exists:
		return answer, scheduleExists{}
	case !answer.OK:
		return answer, fmt.Errorf("%w: %s", ErrRefused, answer.Reason)
	}
	return answer, nil
}

// encoded returns the stored form of a record; nil of nil.
func encoded(r *acts.Record) []byte {
	if r == nil {
		return nil
	}
	return r.Encode()
}

// scheduleExists is ErrExists of a schedule.
type scheduleExists struct{}

func (scheduleExists) Error() string { return "there is another schedule of this name" }

func (scheduleExists) Is(target error) bool { return target == ErrExists }
