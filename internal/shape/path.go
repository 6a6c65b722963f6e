package shape

import (
	"time"

	"github.com/stet-run/stet/store"
)

// Part is an operation on the critical path, with its part of the run's time.
type Part struct {
	Entry  int           // index
	Before time.Duration // from the end of its cause, or the begin of the path, until it began
	Began  store.Time
	Took   time.Duration // until it ended; of an open one until now
}

// Path is the critical path of a run.
type Path struct {
	From, To store.Time    // what it explains: From is when the run was created unless Cut is set
	Parts    []Part        // the earliest first
	After    time.Duration // from the end of the last part until To: code of the run, or its commit
	Cut      bool          // what came before the first part is not recorded any more
}

// PathOf returns the critical path of a run that has the entries. Of a run that has not
// ended it leads to the operation that the run waits for now: of several open ones, to the
// one that was requested last.
func PathOf(run *store.Run, entries []store.Entry, now store.Time) Path {
	p := Path{From: run.Created, To: run.Ended}
	if p.To == 0 {
		p.To = max(now, p.From)
	}
	byNumber := make(map[int64]int, len(entries))
	last, open := -1, -1
	for i := range entries {
		e := &entries[i]
		if e.Seq == 0 {
			if e.State == store.Open && waitsFor(e) && (open < 0 || later(e, &entries[open])) {
				open = i
			}
			continue
		}
		byNumber[e.Seq] = i
		if last < 0 || e.Seq > entries[last].Seq {
			last = i
		}
	}
	if run.Ended == 0 && open >= 0 {
		last = open
	}
	first := true
	for at := last; at >= 0; {
		p.Parts = append(p.Parts, Part{Entry: at})
		cause := entries[at].Born
		next, known := byNumber[cause]
		switch {
		case cause == 0:
			first = run.Incarnation == 0
			at = -1
		case !known || entries[next].Seq >= entries[at].Seq && entries[at].Seq != 0: // a damaged one
			first, at = false, -1
		default:
			at = next
		}
	}
	for i, j := 0, len(p.Parts)-1; i < j; i, j = i+1, j-1 {
		p.Parts[i], p.Parts[j] = p.Parts[j], p.Parts[i]
	}
	if len(p.Parts) == 0 {
		p.Cut = run.Incarnation > 0
	} else if !first {
		p.Cut = true
		p.From = between(p.From, entries[p.Parts[0].Entry].Started, p.To)
	}
	p.measure(entries)
	return p
}

// measure fills in the times. The clocks of the nodes that have written the entries may
// differ, so each moment is moved to where it leaves the order of the path as it is.
func (p *Path) measure(entries []store.Entry) {
	at := p.From
	for i := range p.Parts {
		part := &p.Parts[i]
		e := &entries[part.Entry]
		ended := e.Ended
		if e.Seq == 0 {
			ended = p.To
		}
		part.Began = between(at, e.Started, p.To)
		part.Before = part.Began.Sub(at)
		at = between(part.Began, ended, p.To)
		part.Took = at.Sub(part.Began)
	}
	p.After = p.To.Sub(at)
}

// waitsFor reports whether the code of a run may be waiting for an open entry. A record
// of what the run has done is none, and neither is a loop's progress.
func waitsFor(e *store.Entry) bool {
	switch e.Kind {
	case store.KindLoop, store.KindVersion, store.KindShown, store.KindEntity:
		return false
	}
	return true
}

// later reports whether the open entry a was requested after b. Of those that were
// requested together a deadline counts least: what it bounds is what the code waits for.
func later(a, b *store.Entry) bool {
	if a.Born != b.Born {
		return a.Born > b.Born
	}
	return b.Kind == store.KindTimer && a.Kind != store.KindTimer
}

// between returns t, but not less than low and not more than high.
func between(low, t, high store.Time) store.Time { return max(low, min(t, high)) }
