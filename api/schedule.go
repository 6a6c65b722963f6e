package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
)

// Schedule is how a schedule stands.
type Schedule struct {
	Name      string          `json:"name"`
	Workflow  string          `json:"workflow"`
	Cron      string          `json:"cron,omitempty"`
	Zone      string          `json:"zone,omitempty"`
	EveryMS   int64           `json:"every_ms,omitempty"`
	OffsetMS  int64           `json:"offset_ms,omitempty"`
	Overlap   stet.Overlap    `json:"overlap"`
	CatchUpMS *int64          `json:"catch_up_ms"` // null: however late
	Input     json.RawMessage `json:"input,omitempty"`
	Tags      stet.Tags       `json:"tags,omitempty"`
	Headers   stet.Headers    `json:"headers,omitempty"`
	Queue     *QueuePlace     `json:"queue,omitempty"`
	Policy    *Policy         `json:"policy,omitempty"`
	Paused    bool            `json:"paused"`
	PausedAt  *time.Time      `json:"paused_at,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Stalled   string          `json:"stalled,omitempty"`
	Lacks     string          `json:"lacks,omitempty"` // what its process lacks to read it
	Next      []time.Time     `json:"next"`
	Running   []string        `json:"running"`
	Buffered  *time.Time      `json:"buffered,omitempty"`
	Backfills int             `json:"backfills"`
	Started   int64           `json:"started"`
	Skipped   int64           `json:"skipped"`
	Past      []Decision      `json:"past,omitempty"`
}

// Decision is what became of consecutive instants.
type Decision struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"`
	At     time.Time `json:"at"`
	Run    string    `json:"run,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ScheduleOf returns the form of a schedule, with its past decisions or without.
func ScheduleOf(i *stet.ScheduleInfo, past bool) *Schedule {
	v := &Schedule{
		Name: i.Name, Workflow: i.Workflow, Cron: i.Schedule.Cron, Zone: i.Schedule.Zone,
		EveryMS: i.Schedule.Every.Milliseconds(), OffsetMS: i.Schedule.Offset.Milliseconds(), Overlap: i.Schedule.Overlap,
		Input: Value(i.Input), Tags: i.Schedule.Tags, Headers: i.Schedule.Headers,
		Paused: i.Schedule.Paused, PausedAt: timePointer(i.PausedAt), Reason: i.PauseReason, Stalled: i.Stalled,
		Lacks: i.Lacks,
		Next:  append([]time.Time{}, i.Next...), Running: []string{}, Buffered: timePointer(i.Buffered),
		Backfills: i.Backfills, Started: i.Started, Skipped: i.Skipped, Policy: PolicyOf(i.Policy),
	}
	if q := i.OnQueue; q != nil {
		v.Queue = &QueuePlace{Name: q.Name, Key: q.Key, Priority: q.Priority}
	}
	if i.Schedule.CatchUp != stet.None {
		ms := i.Schedule.CatchUp.Milliseconds()
		v.CatchUpMS = &ms
	}
	for _, r := range i.Running {
		v.Running = append(v.Running, r.RunID)
	}
	if past {
		for _, d := range i.Past {
			v.Past = append(v.Past, Decision{d.From, d.To, d.Count, d.At, d.RunID, d.Reason})
		}
	}
	return v
}

// Edit edits the input and the headers of its runs, and the reasons why it is paused or stalled.
func (s *Schedule) Edit(e Editor) {
	e.value(&s.Input)
	e.headers(&s.Headers)
	e.text(&s.Reason)
	e.text(&s.Stalled)
}

// Schedules are all schedules, the newest first.
type Schedules struct {
	Schedules []*Schedule `json:"schedules"`
}

// Instants are the times at which a schedule is due.
type Instants struct {
	Instants []time.Time `json:"instants"`
}
