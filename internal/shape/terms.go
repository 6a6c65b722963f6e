package shape

import (
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

// Term is what a part of a run's time went to. The texts are those of the API.
type Term string

// The terms.
const (
	Begins  Term = "begin"   // before its first claim: its start time, or a node
	Code    Term = "code"    // the run's code, and commits
	Running Term = "running" // the code of a live run, or a step whose record is to come
	Steps   Term = "step"    // bodies of steps, on nodes
	Workers Term = "worker"  // bodies of steps, by workers
	Waits   Term = "wait"    // messages, events, promises, times and other runs
	Pauses  Term = "retry"   // between the attempts of steps
	Permits Term = "permit"  // waiting for a permit of a queue
	Places  Term = "place"   // waiting for a place on the node: MaxSteps, PerNode
	Offered Term = "offered" // tasks that no worker has
	Claims  Term = "claim"   // what it waited for had come, and no node had taken it up
	Unable  Term = "node"    // no node that lives can execute it
	Paused  Term = "paused"
	Stalled Term = "stalled"
	Over    Term = "ended" // it had failed, or ended otherwise, before it was made to go on
)

// Terms are all terms, in the order in which they are shown.
var Terms = []Term{
	Begins, Code, Running, Steps, Workers, Waits, Pauses, Permits, Places, Offered, Claims, Unable, Paused, Stalled, Over,
}

// Share is a part of a run's time.
type Share struct {
	Term  Term
	Queue string // of Permits, Offered and Workers
	Took  time.Duration
	Grows bool // the run has not ended, and its time goes to this now
}

// Attempt is what is known of an attempt of a step. A time that is 0 is not known.
type Attempt struct {
	Due     store.Time // when the pause before it was over
	Asked   store.Time // when it asked for a permit, or was offered to workers
	Granted store.Time // when the run had the permit
	Placed  store.Time // when it asked its node for a place
	Began   store.Time // 0: it has not begun
	Ended   store.Time // 0: it has not ended
	Queue   string
	Worker  bool // a worker executes it
}

// Rest is a time in which a run stood still: Paused, Stalled or Over.
type Rest struct {
	Term     Term
	From, To store.Time // To 0: it has not ended
}

// Facts are what is known of a run in addition to its entries. The zero Facts say nothing.
type Facts struct {
	Attempts map[int][]Attempt // by the index of the step's entry, the earliest first
	Rests    []Rest
	Queue    string // that the run is on; "": none
	Releases bool   // a suspended run has no permit of it
	Unserved bool   // no node that lives can execute the run
}

// span is a part of the path's time.
type span struct {
	to    store.Time
	term  Term
	queue string
}

// layout is the path's time, without gaps.
type layout struct {
	at    store.Time
	spans []span
}

// until adds the time up to a moment. Clocks differ: what lies before the end of the layout adds nothing.
func (l *layout) until(to store.Time, term Term, queue string) {
	if to > l.at {
		l.spans, l.at = append(l.spans, span{to, term, queue}), to
	}
}

// Shares returns what the time of the path went to. All shares together are the time from From to To,
// to the microsecond.
func (p *Path) Shares(run *store.Run, entries []store.Entry, facts Facts) []Share {
	l := &layout{at: p.From}
	if !p.Cut {
		p.begin(l, run, &facts)
	}
	for i := range p.Parts {
		part := &p.Parts[i]
		e := &entries[part.Entry]
		end := part.Began.Add(part.Took)
		if e.Kind == store.KindStep || e.Kind.Undoes() {
			p.step(l, e, facts.Attempts[part.Entry], part.Began, end)
		} else {
			p.wait(l, run, e, &facts, part.Began, end)
		}
	}
	term, queue := Code, ""
	if run.Ended == 0 {
		term, queue = tail(run, &facts)
	}
	l.until(p.To, term, queue)
	return p.sum(l.spans, facts.Rests, run.Ended == 0)
}

// tail is what the time of a live run goes to that waits for no operation.
func tail(run *store.Run, facts *Facts) (Term, string) {
	switch {
	case run.Marks&store.Held != 0:
		return Permits, facts.Queue
	case run.Status == store.Stalled:
		return Stalled, ""
	case run.Marks&store.Paused != 0:
		return Paused, ""
	case facts.Unserved:
		return Unable, ""
	case run.Status == store.Queued:
		return Begins, ""
	case run.Claimed:
		return Running, ""
	case run.Status == store.Suspended: // a wait that has no deadline has no entry yet
		return Waits, ""
	}
	return Claims, ""
}

// begin is the time before the first claim.
func (p *Path) begin(l *layout, run *store.Run, facts *Facts) {
	to, term := min(run.Started, p.To), Begins
	if run.Started == 0 {
		return // all of it: see tail
	}
	if facts.Queue != "" {
		term = Permits
	}
	l.until(to, term, facts.Queue)
}

// step lays out the attempts of a step.
func (p *Path) step(l *layout, e *store.Entry, attempts []Attempt, began, end store.Time) {
	to := func(t store.Time, term Term, queue string) { l.until(min(t, end), term, queue) }
	if len(attempts) == 0 {
		to(began, Code, "")
		term := Steps
		if e.State == store.Open && e.Attempt > 0 && e.Wake != 0 {
			term = Pauses
		}
		to(end, term, "")
		return
	}
	before := Code
	if e.Attempt > len(attempts) { // the earliest are not recorded: nearly all of their time are pauses
		to(began, Code, "")
		before = Pauses
	}
	for i := range attempts {
		a := &attempts[i]
		if a.Due != 0 {
			to(a.Due, Pauses, "")
			before = Claims
		}
		if a.Asked != 0 {
			to(a.Asked, before, "")
			before = Code
			granted, term := a.Granted, Permits
			if a.Worker {
				granted, term = a.Began, Offered
			}
			if granted == 0 {
				granted = end // it still waits
			}
			to(granted, term, a.Queue)
		}
		if a.Placed != 0 {
			to(a.Placed, before, "")
			to(a.Began, Places, "")
		}
		to(a.Began, before, "")
		if a.Began != 0 {
			ended, term, queue := a.Ended, Steps, ""
			if ended == 0 {
				ended = end
			}
			if a.Worker {
				term, queue = Workers, a.Queue
			}
			to(ended, term, queue)
		}
		before = Pauses
	}
	if e.State != store.Open {
		before = Code
	}
	to(end, before, "")
}

// wait lays out an operation that is no step.
func (p *Path) wait(l *layout, run *store.Run, e *store.Entry, facts *Facts, began, end store.Time) {
	l.until(began, Code, "")
	came, term, queue := e.Wake, Claims, ""
	switch open := e.Seq == 0; {
	case open && run.Marks&store.Held != 0 || !open && facts.Releases && facts.Queue != "":
		term, queue = Permits, facts.Queue
	case open && facts.Unserved:
		term = Unable
	}
	if e.Seq == 0 {
		came = run.WakeAt
	}
	if came == 0 || came > end {
		came = end
	}
	l.until(came, Waits, "")
	l.until(end, term, queue)
}

// sum adds up spans. What lies in a rest counts as that.
func (p *Path) sum(spans []span, rests []Rest, live bool) []Share {
	rests = slices.Clone(rests)
	slices.SortFunc(rests, func(a, b Rest) int { return int(min(max(a.From-b.From, -1), 1)) })
	var all []Share
	add := func(from, to store.Time, term Term, queue string) {
		if to <= from {
			return
		}
		for i := range all {
			all[i].Grows = false
		}
		i := slices.IndexFunc(all, func(s Share) bool { return s.Term == term && s.Queue == queue })
		if i < 0 {
			i, all = len(all), append(all, Share{Term: term, Queue: queue})
		}
		all[i].Took += to.Sub(from)
		all[i].Grows = live
	}
	at := p.From
	for _, s := range spans {
		for at < s.to {
			for len(rests) > 0 && rests[0].To != 0 && rests[0].To <= at {
				rests = rests[1:]
			}
			if len(rests) == 0 || rests[0].From >= s.to {
				add(at, s.to, s.term, s.queue)
				at = s.to
				break
			}
			r := rests[0]
			if r.From > at {
				add(at, r.From, s.term, s.queue)
				at = r.From
			}
			to := s.to
			if r.To != 0 {
				to = min(to, r.To)
			}
			add(at, to, r.Term, "")
			at = max(at, to)
		}
	}
	slices.SortStableFunc(all, func(a, b Share) int { return slices.Index(Terms, a.Term) - slices.Index(Terms, b.Term) })
	return all
}

// String says in a few words what the time went to.
func (s Share) String() string {
	text := words[s.Term]
	if s.Queue != "" {
		text += " of queue " + s.Queue
	}
	return text
}

var words = map[Term]string{
	Begins: "before it began", Code: "code and commits", Running: "executing", Steps: "steps",
	Workers: "executed by workers", Waits: "waits", Pauses: "retry pauses", Permits: "waiting for a permit",
	Places: "waiting for a place on its node", Offered: "offered to workers", Claims: "waiting to be claimed",
	Unable: "waiting for a node that can execute it", Paused: "paused", Stalled: "stalled",
	Over: "ended, before it went on",
}
