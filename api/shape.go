package api

import (
	"time"

	"github.com/stet-run/stet"
)

// Shape is how the recorded operations of a run stand to each other, and which of them its
// time went to.
type Shape struct {
	From  time.Time  `json:"from"` // of the time that the path explains
	To    time.Time  `json:"to"`
	Path  []PathPart `json:"path"`          // the critical path, the earliest operation first
	After int64      `json:"after_us"`      // from the end of the path until To
	Cut   bool       `json:"cut,omitempty"` // the path begins after the run: a loop has pruned, or it continued as new
	// Spent is what the time from From to To went to: all of it add up to that.
	Spent []TimeSpent `json:"spent"`
	Boxes []ShapeBox  `json:"boxes,omitempty"` // the first is the run; each comes before those in it
	// Used is the size of the history, and what it may have. Max* are those of the process that answers.
	Used HistoryUse `json:"used"`
}

// HistoryUse is how much of its budget the history of a run has used: operations, and bytes of their values.
type HistoryUse struct {
	Entries    int `json:"entries"`
	Bytes      int `json:"bytes"`
	MaxEntries int `json:"max_entries"`
	MaxBytes   int `json:"max_bytes"`
}

// PathPart is an operation on the critical path.
type PathPart struct {
	Location string    `json:"location"`
	Kind     string    `json:"kind" words:"EntryKind"`
	State    string    `json:"state" words:"EntryState"`
	Began    time.Time `json:"began"`
	Before   int64     `json:"before_us"` // from the end of what caused it until it began
	Took     int64     `json:"took_us"`
}

// TimeSpent is a part of a run's time.
type TimeSpent struct {
	On    string `json:"on"`              // permit, step, wait, paused, …
	Queue string `json:"queue,omitempty"` // of permit, offered and worker
	Text  string `json:"text"`            // the same in a few words
	Took  int64  `json:"took_us"`
	Grows bool   `json:"grows,omitempty"` // the run spends its time on this now
}

// ShapeBox is an operation, a scope with operations in it, or both.
type ShapeBox struct {
	Location string    `json:"location"`
	Kind     string    `json:"kind,omitempty" words:"EntryKind"`   // "": there is no operation at the location
	State    string    `json:"state,omitempty" words:"EntryState"` // likewise
	Critical bool      `json:"critical,omitempty"`
	Parent   int       `json:"parent"`           // index of the box around it; -1 of the run
	Stages   [][][]int `json:"stages,omitempty"` // stages in sequence, lanes beside each other, boxes in sequence

	Open      int       `json:"open,omitempty"` // operations at and in it
	Done      int       `json:"done,omitempty"`
	Failed    int       `json:"failed,omitempty"`
	Withdrawn int       `json:"withdrawn,omitempty"`
	From      time.Time `json:"from,omitzero"` // the first begin of these
	To        time.Time `json:"to,omitzero"`   // their last end; left out while one is open
}

// ShapeOf returns the form of a shape.
func ShapeOf(s *stet.Shape) *Shape {
	v := &Shape{From: s.From, To: s.To, After: s.After.Microseconds(), Cut: s.Cut, Path: []PathPart{},
		Spent: []TimeSpent{}, Used: HistoryUse(s.Used)}
	for _, t := range s.Spent {
		v.Spent = append(v.Spent, TimeSpent{t.On, t.Queue, t.Text, t.Took.Microseconds(), t.Grows})
	}
	for _, p := range s.Path {
		v.Path = append(v.Path, PathPart{
			p.Location, p.Kind.String(), p.State.String(), p.Began, p.Before.Microseconds(), p.Took.Microseconds(),
		})
	}
	for _, b := range s.Boxes {
		box := ShapeBox{
			Location: b.Location, Critical: b.Critical, Parent: b.Parent, Stages: b.Stages,
			Open: b.Open, Done: b.Done, Failed: b.Failed, Withdrawn: b.Withdrawn, From: b.From, To: b.To,
		}
		if b.Kind != 0 {
			box.Kind, box.State = b.Kind.String(), b.State.String()
		}
		v.Boxes = append(v.Boxes, box)
	}
	return v
}
