package stet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/acts"
	"github.com/stet-run/stet/internal/entity/planner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/schedule"
	"github.com/stet-run/stet/store"
)

// Schedule says when runs of a workflow are started, again and again: by Cron in
// a Zone, or Every so often. Package schedule says what the fields mean exactly,
// and what becomes of hours that the clocks skip or repeat.
type Schedule struct {
	Cron   string        // five fields, or six with seconds first, or @daily …
	Zone   string        // of Cron: an IANA name as "Europe/Berlin"; default UTC
	Every  time.Duration // in place of Cron: at the multiples of it since 1970, UTC
	Offset time.Duration // … and this much later

	// Overlap says what becomes of an instant while a run of the schedule has not
	// ended. Default: SkipOverlap.
	Overlap Overlap `json:",omitzero"`
	// CatchUp is how late an instant may be started, when nobody was there at the
	// time; what is later is skipped. Default 1 h, at least 1 s; None: however late.
	CatchUp time.Duration
	// Tags and Headers are given to each run. The tag "stet.schedule" is the name
	// of the schedule.
	Tags    Tags
	Headers Headers
	// Paused makes a schedule that begins paused. It changes none that is there.
	Paused bool
}

// When says when the schedule is due: "0 3 * * * Europe/Berlin", "every 1h30m0s".
func (s Schedule) When() string {
	return schedule.Spec{Cron: s.Cron, Zone: s.Zone, Every: s.Every, Offset: s.Offset}.String()
}

// Overlap says what becomes of an instant of a schedule while a run of it has not
// ended.
type Overlap uint8

const (
	// SkipOverlap skips the instant.
	SkipOverlap Overlap = Overlap(planner.Skip)
	// BufferOne starts the first such instant when the run has ended, and skips
	// the others.
	BufferOne Overlap = Overlap(planner.BufferOne)
	// AllowOverlap starts a run beside it.
	AllowOverlap Overlap = Overlap(planner.Allow)
	// CancelPrevious cancels the run, and starts the last such instant when it has
	// ended; the others are skipped.
	CancelPrevious Overlap = Overlap(planner.CancelPrevious)
)

// String returns the policy as the command line shows it: "skip", "buffer-one",
// "allow" or "cancel-previous".
func (o Overlap) String() string {
	if planner.Overlap(o).Valid() {
		return overlapWords[o]
	}
	return fmt.Sprintf("overlap(%d)", uint8(o))
}

// ScheduleOption is an option of Workflow.Schedule: RefuseExisting, UntilCarriedOut or
// OnQueue; an Act, if an operator asks and not the code of an application, which the store's
// audit then has if it changes anything; and MaxRunTime, MaxSuspension, OnFailure or OnBug,
// which count for the schedule's runs in place of those of Define.
type ScheduleOption interface{ applySchedule(*scheduleOptions) error }

type scheduleOptions struct {
	refuse, wait bool
	act          *Act     // nil: the code of an application asks
	queue        *OnQueue // nil: as the definition says
	policy       stored.Policy
}

// UntilCarriedOut makes Schedule wait until the owner of the store has made the schedule.
func UntilCarriedOut() ScheduleOption { return untilCarriedOut{} }

type untilCarriedOut struct{}

func (untilCarriedOut) applySchedule(o *scheduleOptions) error {
	o.wait = true
	return nil
}

func (a Act) applySchedule(o *scheduleOptions) error {
	o.act = &a
	return a.check()
}

func (x Existing) applySchedule(o *scheduleOptions) error {
	if x == ReplaceFailed || x == ReplaceEnded {
		return fmt.Errorf("Existing: expected UseExisting or RefuseExisting of a schedule, found a policy that replaces: %w",
			ErrInvalid)
	}
	o.refuse = x == RefuseExisting
	o.wait = o.wait || o.refuse
	return nil
}

// Schedule makes the schedule with the name (1 to 64 bytes), or changes the one
// that is there into this; one that is the same already is left alone. Each of its
// instants from now on is started once, or skipped with a reason, however many
// processes there are and however often they restart. Its runs have the IDs
// NAME/INSTANT, as "nightly/2026-11-21T03:00:00Z", and learn the instant by
// ScheduledFor.
//
// With OnQueue its runs are started on a queue, which must be there (ErrNoQueue); while
// it is not, because it was deleted since, its instants are skipped. A run that waits
// for its permit has not ended.
//
// What is asked for is durable when Schedule returns; the owner of the store
// carries it out when it is there. With RefuseExisting it waits for the owner, and
// is ErrExists if there is a schedule of the name that is another one. Other
// errors: ErrUnknownWorkflow, ErrInvalid, ErrTooLarge, ErrPending, and those of the
// store.
func (w *Workflow[In, Out]) Schedule(
	ctx context.Context, e *Engine, name string, input In, s Schedule, opts ...ScheduleOption,
) error {
	fail := func(err error) error { return fmt.Errorf("schedule %q of %s: %w", name, w.name, err) }
	var o scheduleOptions
	for _, opt := range opts {
		if err := opt.applySchedule(&o); err != nil {
			return fail(err)
		}
	}
	if err := e.inner.Workflows().Check(ctx, w.name); err != nil {
		return fail(err)
	}
	data, err := e.encodeValue("input", input)
	if err != nil {
		return fail(err)
	}
	config, err := s.config(name, o.policy)
	if err != nil {
		return fail(err)
	}
	config.Workflow, config.Input = w.name, data
	if q := o.queue.over(w.options.queue); q != nil {
		if _, _, err := e.inner.Queues().State(ctx, q.Name); err != nil {
			return fail(queueError(q.Name, err))
		}
		place := q.place()
		config.Queue = &place
	}
	var record *acts.Record
	if o.act != nil {
		record = recordOf(e, "set", "schedule", name, *o.act)
	}
	if !o.wait {
		set := planner.Encode(&planner.Set{Config: *config})
		err = entity.SendWith(ctx, e.inner, entity.ID(planner.Workflow, name), planner.ItemSet, set, encoded(record))
	} else {
		_, err = e.askSchedule(ctx, name, planner.ItemSet,
			planner.Encode(&planner.Set{Config: *config, New: o.refuse}), record)
	}
	if err != nil {
		return fail(err)
	}
	if o.act != nil {
		e.logged(ctx, "set", "schedule", name, *o.act, nil)
	}
	return nil
}

// config checks a schedule and returns it in the planner's form.
func (s Schedule) config(name string, p stored.Policy) (*planner.Config, error) {
	if err := checkName("schedule", name); err != nil {
		return nil, err
	}
	pick(&s.Overlap, SkipOverlap)
	pick(&s.CatchUp, time.Hour)
	switch {
	case !planner.Overlap(s.Overlap).Valid():
		return nil, fmt.Errorf("Overlap: expected a policy that has a name, found %d: %w", s.Overlap, ErrInvalid)
	case s.CatchUp != None && s.CatchUp < time.Second:
		return nil, fmt.Errorf("CatchUp: expected 1s or more, or None, found %s: %w", s.CatchUp, ErrInvalid)
	}
	c := &planner.Config{
		Cron: s.Cron, Zone: s.Zone, Every: s.Every, Offset: s.Offset,
		Overlap: planner.Overlap(s.Overlap), CatchUp: store.Delay(s.CatchUp.Microseconds()), Paused: s.Paused,
	}
	if s.CatchUp == None {
		c.CatchUp = -1
	}
	if _, err := c.Spec().Compile(); err != nil {
		if errors.Is(err, schedule.ErrInvalid) {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil, err
	}
	var err error
	if c.Tags, err = s.Tags.pairs(false); err != nil {
		return nil, err
	}
	if _, own := s.Tags[planner.Tag]; own || len(s.Tags) == store.MaxTags {
		return nil, fmt.Errorf("tags: expected at most %d, and none with the key %q, which is the schedule's name: %w",
			store.MaxTags-1, planner.Tag, ErrInvalid)
	}
	if c.Headers, err = s.Headers.encode(nil); err != nil {
		return nil, err
	}
	if c.Headers, err = withPolicy(c.Headers, p); err != nil {
		return nil, err
	}
	if n := len(planner.Headers(c.Headers, name, store.TimeOf(time.Now()))); n > store.MaxHeaders {
		return nil, fmt.Errorf("headers have %d bytes with those of the schedule, more than the limit of %d: %w", n,
			store.MaxHeaders, ErrTooLarge)
	}
	return c, nil
}

// ScheduledFor returns the name of the schedule that has started the run, or one
// that it descends from, and the instant for which it did; ok is false if none has.
func ScheduledFor(ctx Context) (name string, at time.Time, ok bool) {
	name = Header(ctx, planner.HeaderName)
	at, err := time.Parse(time.RFC3339Nano, Header(ctx, planner.HeaderTime))
	return name, at, name != "" && err == nil
}
