package api

import (
	"time"

	"github.com/stet-run/stet"
)

// Limits are the settings of a queue. 0 is no limit.
type Limits struct {
	Concurrency int    `json:"concurrency,omitempty"`
	PerKey      int    `json:"per_key,omitempty"`
	Rate        int    `json:"rate,omitempty"`
	RatePerKey  int    `json:"rate_per_key,omitempty"`
	PerMS       int64  `json:"per_ms,omitempty"`
	Group       string `json:"group"`
	Release     bool   `json:"release_while_suspended,omitempty"`
}

// LimitsOf returns the form of settings.
func LimitsOf(s *stet.QueueSettings) Limits {
	return Limits{
		Concurrency: s.Concurrency, PerKey: s.PerKey, Rate: s.Rate, RatePerKey: s.RatePerKey,
		PerMS: s.Per.Milliseconds(), Group: s.Group, Release: s.ReleaseWhileSuspended,
	}
}

// Settings is the inverse of LimitsOf.
func (l Limits) Settings() stet.QueueSettings {
	return stet.QueueSettings{
		Concurrency: l.Concurrency, PerKey: l.PerKey, Rate: l.Rate, RatePerKey: l.RatePerKey,
		Per: time.Duration(l.PerMS) * time.Millisecond, Group: l.Group, ReleaseWhileSuspended: l.Release,
	}
}

// Source says where settings come from.
type Source struct {
	By    string    `json:"by"`
	Build string    `json:"build,omitempty"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at"`
}

func sourceOf(s *stet.QueueSource) *Source {
	if s == nil || s.At.IsZero() {
		return nil
	}
	return &Source{By: s.By, Build: s.Build, Why: s.Why, At: s.At.UTC()}
}

// Queue is how a queue stands. Its limits are those that count.
type Queue struct {
	Name string `json:"name"`
	Limits
	Paused     bool    `json:"paused,omitempty"`
	Held       int     `json:"held"`
	Waiting    int     `json:"waiting"`
	Delayed    int     `json:"delayed"`
	Granted    int64   `json:"granted"`
	Declared   *Limits `json:"declared,omitempty"` // where they are overridden
	DeclaredBy *Source `json:"declared_by,omitempty"`
	Overridden *Source `json:"overridden,omitempty"`
	PausedBy   *Source `json:"paused_by,omitempty"` // who has paused it, and why
	// Tasks are how many of each name are offered and leased.
	Tasks []TaskCount `json:"tasks,omitempty"`
	Locks []QueueLock `json:"locks,omitempty"` // that keep runs from going on, at most 20
	Lacks string      `json:"lacks,omitempty"` // what its process lacks to read it
}

// QueueLock says that all permits of a queue, or of a key, are held by runs that only wait for runs which they have
// started, and that these wait for the permits.
type QueueLock struct {
	Key     string   `json:"key,omitempty"`
	Held    int      `json:"held"`
	Holders []string `json:"holders"` // IDs of runs, at most 20
	Waiting []string `json:"waiting"` // IDs of runs, at most 50
}

// Edit edits the reasons of those who have set it, or paused it.
func (q *Queue) Edit(e Editor) {
	for _, source := range []*Source{q.DeclaredBy, q.Overridden, q.PausedBy} {
		if source != nil {
			e.text(&source.Why)
		}
	}
}

// TaskCount is how many tasks of a name a queue has that are due.
type TaskCount struct {
	Name    string `json:"name"`
	Offered int    `json:"offered"`
	Leased  int    `json:"leased"`
}

// QueueOf returns the form of a queue.
func QueueOf(q *stet.QueueInfo) *Queue {
	v := &Queue{
		Name: q.Name, Limits: LimitsOf(&q.Settings), Paused: q.Paused, Held: q.Held, Waiting: q.Waiting,
		Delayed: q.Delayed, Granted: q.Granted, DeclaredBy: sourceOf(&q.Source), Overridden: sourceOf(q.Override),
		PausedBy: sourceOf(q.PausedBy), Lacks: q.Lacks,
	}
	for _, c := range q.Tasks {
		v.Tasks = append(v.Tasks, TaskCount(c))
	}
	for _, l := range q.Locks {
		v.Locks = append(v.Locks, QueueLock(l))
	}
	if q.Override != nil {
		declared := LimitsOf(&q.Declared)
		v.Declared = &declared
	}
	return v
}

// Info returns what the form says of the queue.
func (q *Queue) Info() *stet.QueueInfo {
	info := &stet.QueueInfo{
		Name: q.Name, Settings: q.Settings(), Paused: q.Paused, Held: q.Held, Waiting: q.Waiting, Delayed: q.Delayed,
		Granted: q.Granted, Lacks: q.Lacks,
	}
	for _, l := range q.Locks {
		info.Locks = append(info.Locks, stet.QueueLock(l))
	}
	info.Declared = info.Settings
	for _, c := range q.Tasks {
		info.Tasks = append(info.Tasks, stet.TaskCount(c))
	}
	source := func(s *Source) *stet.QueueSource {
		return &stet.QueueSource{By: s.By, Build: s.Build, Why: s.Why, At: s.At}
	}
	if q.DeclaredBy != nil {
		info.Source = *source(q.DeclaredBy)
	}
	if q.PausedBy != nil {
		info.PausedBy = source(q.PausedBy)
	}
	if q.Overridden != nil {
		info.Override = source(q.Overridden)
	}
	if q.Declared != nil {
		info.Declared = q.Declared.Settings()
	}
	return info
}

// Queues are all queues, by name.
type Queues struct {
	Queues []*Queue `json:"queues"`
}
