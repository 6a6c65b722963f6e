package engine

import (
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// lined belongs to the activation of an entity that admits the runs of a line. The entity is told what this process
// writes, and reads its line when other processes may have written.
type lined struct {
	line     entity.Lined
	looking  bool      // a look is under way
	again    bool      // another one was requested meanwhile
	looked   time.Time // when the last one began
	took     time.Duration
	deferred bool // one was requested and waits for its time
}

// window is the largest number of waiting runs that a look reads; a variable for tests.
var window = entity.Window

// lookShare bounds the time that an entity spends on looks when hints keep coming: one part in so many.
const lookShare = 10

type (
	// lineNews is something that happened to a run of the line.
	lineNews func(l entity.Lined)
	// lineHint says that another process may have changed the line.
	lineHint struct {
		always   bool // read it, even if the rules want nothing of it now
		deferred bool // it is an earlier hint, which came too soon after a look
	}
	// lineLooked is what a look has found.
	lineLooked struct {
		waiting  []store.Waiter
		more     bool
		admitted []store.Waiter
		err      error
	}
)

// beginLine is called when an entity has been loaded.
func (a *activation) beginLine(m *entity.Machine) {
	switch line := m.Line(); {
	case line == nil:
		return
	case !a.x.e.lines:
		m.Hear(entity.Lined.NoLine)
		return
	default:
		a.lined = &lined{line: line}
	}
	a.x.lines.Store(a.run.ID, a)
	a.look(true)
}

// resumeLine is called when the entity is claimed after a rest, during which it was told nothing.
func (a *activation) resumeLine() {
	if a.lined != nil {
		a.r.(*entity.Machine).Hear(entity.Lined.Forget)
		a.look(true)
	}
}

func (news lineNews) handle(a *activation, _ []event) bool {
	m, ok := a.r.(*entity.Machine)
	if !ok {
		return true
	}
	m.Hear(news)
	if m.Suspended() {
		a.dispatcher().claimSoon() // the store finds it ready, by law 34
	}
	return true
}

func (hint lineHint) handle(a *activation, _ []event) bool {
	if a.lined != nil {
		a.lined.deferred = a.lined.deferred && !hint.deferred
		a.look(hint.always)
	}
	return true
}

// look begins to read the line, unless that is under way, of no use, or too soon after the last time.
func (a *activation) look(always bool) {
	waiting, admitted := a.lined.line.Wants()
	if always {
		waiting, admitted = true, true
	}
	switch rest := time.Until(a.lined.looked.Add(lookShare * a.lined.took)); {
	case a.r.Suspended() || !waiting && !admitted || a.lined.deferred:
		return
	case a.lined.looking:
		a.lined.again = true
		return
	case rest > 0:
		a.lined.deferred = true
		time.AfterFunc(rest, func() { a.post(lineHint{deferred: true}) })
		return
	}
	if !a.x.memory.BeginDriver() {
		return
	}
	a.lined.looking, a.lined.looked = true, time.Now()
	a.r.(*entity.Machine).Hear(entity.Lined.LookBegins)
	go func() {
		defer a.x.drivers.Done()
		a.post(a.readLine())
	}()
}

// readLine reads the waiting runs before the admitted ones: a run that is admitted between is found twice, not missed.
func (a *activation) readLine() *lineLooked {
	ctx, done := a.x.limited(a.shard.Context())
	defer done()
	found := &lineLooked{}
	s := a.dispatcher().store
	found.waiting, found.err = s.Waiting(ctx, store.WaitingQuery{Queue: a.run.ID, Limit: window})
	if found.err == nil {
		found.more = len(found.waiting) == window
		found.admitted, found.err = s.Waiting(ctx, store.WaitingQuery{Queue: a.run.ID, Admitted: true})
	}
	return found
}

func (found *lineLooked) handle(a *activation, _ []event) bool {
	a.lined.looking, a.lined.took = false, time.Since(a.lined.looked)
	if found.err != nil {
		if a.shard.Context().Err() == nil {
			a.x.log().Error("reading the runs that wait for a queue; trying again", "run_id", a.id, "error", found.err)
			time.AfterFunc(a.x.e.cfg.Poll, func() { a.post(lineHint{always: true}) })
		}
		return true
	}
	a.r.(*entity.Machine).Hear(func(l entity.Lined) { l.Look(found.waiting, found.more, found.admitted) })
	if a.lined.again {
		a.lined.again = false
		a.look(false)
	}
	return true
}

// endLine is called when the entity leaves memory.
func (a *activation) endLine() {
	if a.lined != nil {
		a.x.lines.CompareAndDelete(a.run.ID, a)
	}
}

// tellLine posts an event to the entity of a queue, and reports whether it is in memory.
func (x *executor) tellLine(queue string, ev event) bool {
	a, ok := x.lines.Load(queue)
	return ok && a.(*activation).post(ev)
}

// hintLines posts a lineHint to each entity of a lane that has a line.
func (x *executor) hintLines(d *dispatcher, always bool) {
	x.lines.Range(func(_, v any) bool {
		if a := v.(*activation); a.dispatcher() == d {
			a.post(lineHint{always: always})
		}
		return true
	})
}

// joined tells a queue's entity of a run that a start of this process has put into its line.
func (x *executor) joined(in *ownership.Shards, start *store.Start, answer *store.Answer) {
	if start.Queue == nil || start.Queue.Line == nil || answer.Outcome != store.Applied ||
		answer.Run.Marks&store.Held == 0 {
		return
	}
	l, run := start.Queue.Line, &answer.Run
	w := store.Waiter{No: run.No, ID: run.ID, Key: l.Key, Priority: l.Priority, Place: run.Queue,
		Due: start.Due(run.Created)}
	if x.tellLine(l.Queue, lineNews(func(line entity.Lined) { line.Joined(w) })) {
		return
	}
	if shard := in.Of(x.e.home(l.Queue)); shard != nil {
		x.of(shard).claimSoon()
	}
}

// hint adds to a turn of a run that gives back a permit the shard of the queue, if another process has that.
func (x *executor) hint(run *store.Run, turn *store.Turn) {
	if turn.Update == nil || !permit.GaveBack(run, turn.Update) {
		return
	}
	p, _, err := permit.DecodePlace(run.Queue)
	if err != nil || !p.InLine {
		return
	}
	if shard := x.e.home(permit.EntityID(p.Queue)); x.shards.Now().Of(shard) == nil {
		turn.Hints = append(turn.Hints, shard)
	}
}

// yielded tells a queue's entity that an update of this process has given a run's permit back, or has made the run
// wait.
func (x *executor) yielded(run *store.Run, u *store.Update) {
	if u == nil {
		return
	}
	gave, waits := permit.GaveBack(run, u), u.Marks&store.Held != 0 && run.Marks&store.Held == 0
	if !gave && !waits {
		return
	}
	p, _, err := permit.DecodePlace(run.Queue)
	if err != nil || !p.InLine {
		return
	}
	queue, no := permit.EntityID(p.Queue), run.No
	if gave {
		x.tellLine(queue, lineNews(func(l entity.Lined) { l.Left(no) }))
	}
	if waits && !x.tellLine(queue, lineHint{always: true}) {
		x.dispatchers.claimSoon()
	}
}

// answeredAdmit acts on the answer to an Admit: the queue's entity hears of it, and a run that was claimed is loaded.
func (x *executor) answeredAdmit(
	in *ownership.Shards, queue store.RunNo, c *store.Command, answer *store.Answer, now store.Time,
) {
	no, outcome := c.RunNo, answer.Outcome
	if a := x.memory.Find(queue); a != nil {
		a.post(lineNews(func(l entity.Lined) { l.Answered(no, outcome) }))
		if outcome != store.Applied {
			a.post(lineHint{always: true})
		}
	}
	shard := in.Of(answer.Run.Shard)
	switch {
	case shard == nil || outcome != store.Applied:
	case answer.Claimed:
		x.takeSince(shard, answer.Run.No, now)
	default:
		x.of(shard).claimSoon()
	}
}
