package stet

import (
	"context"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/shape"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Bounds of the values of steps that a shape reads.
const (
	maxShapeValue  = 64 << 10 // of one
	maxShapeValues = 1 << 20  // of all
)

// shapeFacts reads what the shape of a run needs in addition to its history: when the run stood still, and the attempts
// of the steps on the path that had several or waited before they began. nodes is nil of a run that has ended.
func (r Runs) shapeFacts(
	ctx context.Context, run *store.Run, nodes *NodesInfo, entries []store.Entry, parts []shape.Part,
) (shape.Facts, error) {
	facts := shape.Facts{Attempts: map[int][]shape.Attempt{}}
	if place, on, err := permit.DecodePlace(run.Queue); err == nil && on {
		facts.Queue, facts.Releases = place.Queue, place.Release
	}
	audit, err := r.engine.store.Audit(ctx, run.No)
	if err != nil {
		return facts, err
	}
	facts.Rests = restsOf(audit)
	infos := []RunInfo{*r.engine.runInfo(run)}
	if nodes != nil {
		facts.Unserved = r.engine.unserved(&infos[0], nodes) != nil
		if err := r.engine.taskWaits(ctx, infos); err != nil {
			return facts, err
		}
	}
	q := store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation, Values: true}
	left, steps := maxShapeValues, map[string]int{}
	for _, p := range parts {
		e := &entries[p.Entry]
		plain := e.State == store.Done && e.Attempt <= 1 && e.Wake == 0 // the entry says all of its one attempt
		if (e.Kind == store.KindStep || e.Kind.Undoes()) && !plain && e.Size > 0 && e.Size <= min(left, maxShapeValue) {
			left -= e.Size
			q.Locs, steps[e.Loc] = append(q.Locs, e.Loc), p.Entry
		}
	}
	if len(q.Locs) == 0 {
		return facts, nil
	}
	read, err := r.engine.store.History(ctx, q)
	if err != nil {
		return facts, err
	}
	for i := range read {
		if e := &read[i]; payload.Readable(e.Value) == nil { // otherwise nobody can say here
			facts.Attempts[steps[e.Loc]] = attemptsOf(e, infos[0].WaitsFor)
		}
	}
	return facts, nil
}

// restsOf returns when a run stood still, as its audit says.
func restsOf(audit []store.Audit) (rests []shape.Rest) {
	open := -1 // the rest that has not ended
	begin := func(term shape.Term, at store.Time) {
		if open < 0 {
			open, rests = len(rests), append(rests, shape.Rest{Term: term, From: at})
		}
	}
	for i := range audit {
		a := &audit[i]
		switch a.Verb {
		case store.ItemPause.String():
			begin(shape.Paused, a.Time)
		case stored.StallVerb:
			begin(shape.Stalled, a.Time)
		case store.ItemResume.String(), store.ItemRetry.String(), store.ItemRewind.String(), store.ItemEdit.String(),
			store.ItemCancel.String(), store.ItemTerminate.String():
			if ended := stored.EndedAt(a.Detail); ended != 0 {
				rests = append(rests, shape.Rest{Term: shape.Over, From: ended, To: a.Time})
			}
			if open >= 0 {
				rests[open].To, open = a.Time, -1
			}
		}
	}
	return rests
}

// attemptsOf returns the attempts of a step, as far as its entry, which was read with its value, and its
// wait say. A value that cannot be decoded says nothing.
func attemptsOf(e *store.Entry, waits []WaitInfo) (attempts []shape.Attempt) {
	led := func(lead *stored.Lead, began, ended store.Time) {
		a := shape.Attempt{Began: began, Ended: ended}
		if lead != nil {
			a.Due, a.Asked, a.Granted, a.Placed = lead.Due, lead.Asked, lead.Granted, lead.Placed
			a.Queue, a.Worker = lead.Queue, lead.Task
		}
		attempts = append(attempts, a)
	}
	failed := func(causes []*stored.Failure) {
		for _, f := range causes {
			if f != nil && f.Ended != 0 {
				led(f.Lead, f.Began, f.Ended)
			}
		}
	}
	switch e.State {
	case store.Done:
		t, err := stored.SplitTried(e.Value)
		if err != nil {
			return nil
		}
		failed(t.Causes)
		began := e.Started
		if len(attempts) > 0 {
			began = attempts[len(attempts)-1].Ended
		}
		if t.Lead != nil && t.Lead.Began != 0 {
			began = t.Lead.Began
		}
		led(t.Lead, began, e.Ended)
	case store.FailedEntry:
		if f, err := stored.DecodeFailure(e.Value); err == nil {
			failed(f.Causes)
		}
	case store.Open:
		p, err := stored.DecodeProgress(e.Value)
		if err != nil {
			return nil
		}
		failed(p.Causes)
		switch {
		case p.Permit != nil:
			next := stored.Lead{Due: e.Wake, Asked: p.Asked, Queue: p.Permit.Queue, Task: p.Task != ""}
			var began store.Time
			for i := range waits {
				if w := &waits[i]; w.Location == location.Loc(e.Loc).String() && !w.LeaseUntil.IsZero() {
					began = store.TimeOf(w.TaskSince)
				}
			}
			led(&next, began, 0)
		case p.Begun != 0:
			led(nil, p.Begun, 0)
		}
	}
	return attempts
}
