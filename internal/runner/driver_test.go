package runner

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// driver plays a random program to its end: it is engine and world at once, and
// decides by itself what happens next.
type driver struct {
	*harness
	prog   *program
	random *rand.Rand // timing; nil: the completion with the smallest hash is next
	nonce  int        // makes the value of each execution of a body different
	weak   weakness
	mail   int  // messages that may still be sent
	cruel  bool // cancels the run at a random point
	stop   int  // run returns nil after so many events; 0: at the end
	seen   *seen
	change change // of code that is edited
	edited bool

	shows   bool // what the code sees is shown to readers, and mail m2 is updates
	shown   []sight
	said    map[string]int          // how often a text was said at a place
	keys    int                     // of waits at topics
	answers map[store.ItemNo]string // that the code of this activation has given

	cuts, evictions, lost, transactions, pauses, ends, renewals int // how often each happened
	undone, mended, chargesLost, undoneBySagas, failedScopes    int
	sagas                                                       []undoneSaga    // by the code of this activation
	charged                                                     map[string]bool // effects to be undone, by location
	incarnation                                                 int             // of the effects
	bugs, stopped                                               int             // to come; that stopped it
	asked                                                       bool            // for undoing, by this code
	brokenOff                                                   *Interpreter    // whose code had the last bug
}

// weakness is a part of the rule that is left out, to see that it is noticed.
type weakness uint8

const (
	sound weakness = iota
	highestFirst
	orderOfRequest
	noBarrier
	wokenInAnyOrder
	loopsAtOnce
)

func newDriver(t testing.TB, prog *program, random *rand.Rand) *driver {
	h := &harness{t: t, j: newDurable(), clock: birth, begun: map[string]int{}}
	d := &driver{harness: h, prog: prog, random: random, mail: 12, charged: map[string]bool{}}
	h.code = prog.code(d)
	h.cfg.FailBugs = true
	h.cfg.Look = looks
	h.cfg.NewKey = func() string {
		d.keys++
		return fmt.Sprint("k", d.keys)
	}
	if p := prog.saga; p != nil {
		h.cfg.UndoFailed, h.cfg.UndoCancelled = p.onFailure, p.onCancel
	}
	return d
}

// activate begins an activation from what is durable.
func (d *driver) activate() {
	d.seen, d.shown, d.said, d.answers = &seen{}, nil, map[string]int{}, map[store.ItemNo]string{}
	d.asked, d.sagas = false, nil
	if now := d.j.run.Incarnation; now != d.incarnation { // the new one owes nothing of the former one
		d.incarnation = now
		clear(d.charged)
	}
	d.change.begin()
	d.j.run.Marks &^= store.Paused // it was resumed
	d.harness.activate()
	d.seen.run = d.r
	for _, it := range d.j.items {
		if it.Kind == store.ItemTerminate && it.State != store.Consumed {
			d.r.Terminate(it)
		}
		if it.Kind == store.ItemPause && it.State != store.Consumed {
			d.r.Pause(it)
		}
	}
	switch d.weak {
	case highestFirst:
		d.r.j.Reorder(func(a, b *journal.Op) bool { return a.Rec.Seq > b.Rec.Seq })
	case orderOfRequest:
		d.r.j.Reorder(func(a, b *journal.Op) bool { return a.ID < b.ID })
	case loopsAtOnce:
		d.r.j.Reorder(func(a, b *journal.Op) bool {
			if (a.Kind == store.KindLoop) != (b.Kind == store.KindLoop) {
				return a.Kind == store.KindLoop
			}
			return a.Rec.Seq < b.Rec.Seq
		})
	case wokenInAnyOrder:
		d.r.sched.Choose(d.random.IntN)
	}
}

// startBodies gives out the bodies that may begin.
func (d *driver) startBodies() {
	if d.weak == noBarrier {
		d.r.turns.durable = d.r.j.Pos()
	}
	d.start()
}

// endBody ends one of the bodies in flight.
func (d *driver) endBody() {
	i := 0
	if d.random != nil {
		i = d.random.IntN(len(d.flight))
		d.clock += 10 // else a body that was lost would take time again
	} else {
		for k := range d.flight {
			if hashOf(d.flight[k].Location) < hashOf(d.flight[i].Location) {
				i = k
			}
		}
	}
	b := d.flight[i]
	d.flight = slices.Delete(d.flight, i, i+1)
	result := b.Func(context.Background(), &b)
	d.charge(&b, result)
	result.Started, result.Ended = d.clock-5, d.clock
	d.r.Complete(b.ID, b.Attempt, &result)
}

func hashOf(loc location.Loc) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(loc) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h * 2654435761
}

// give puts an item into the inbox of the run and tells the run of it.
func (d *driver) give(it store.Item) {
	it.Sent = d.clock
	it = d.j.send(it)
	d.r.Deliver(it)
	d.resume()
}

// resume claims the run again, if it is suspended.
func (d *driver) resume() {
	if d.pending == nil {
		d.j.claim()
		d.r.Resumed()
	}
}

func (d *driver) sendMail() {
	d.mail--
	it := store.Item{Kind: store.ItemMessage, Name: fmt.Sprintf("m%d", d.mail%3),
		Value: []byte(fmt.Sprint("mail", d.mail))}
	if d.shows && it.Name == "m2" {
		it.Kind = store.ItemUpdate
	}
	d.give(it)
}

// resolve assigns a promise that is open. It reports false if there is none.
func (d *driver) resolve() bool {
	for _, loc := range slices.Sorted(maps.Keys(d.j.entries)) {
		e := d.j.entries[loc]
		resolves := func(it store.Item) bool { return it.Loc == loc && it.Generation == e.Generation }
		if e.Kind == store.KindPromise && e.State == store.Open && !slices.ContainsFunc(d.j.items, resolves) {
			it := store.Item{Kind: store.ItemResolution, Loc: loc, Generation: e.Generation, Value: []byte("resolved")}
			if hashOf(location.Loc(loc))%3 == 0 {
				it.Failed, it.Value = true, stored.EncodeFailure(&stored.Failure{Code: stored.CodeError, Message: "rejected"})
			}
			d.give(it)
			return true
		}
	}
	return false
}

// cancelled reports whether somebody has asked for the run's cancel.
func (d *driver) cancelAsked() bool {
	return slices.ContainsFunc(d.j.items, func(it store.Item) bool { return it.Kind == store.ItemCancel })
}

// nudge does something for a run that waits for time or for the world.
func (d *driver) nudge() bool {
	if at, needsInbox := d.r.NextTimer(); at != 0 {
		if d.clock = max(d.clock, at); needsInbox {
			d.stale = 0
		}
		d.resume()
		return true
	}
	switch {
	case d.mail > 0:
		d.sendMail()
	case d.resolve():
	case d.endOther():
	case d.grant():
	case d.giveEvent():
	case d.endCancelled():
	case !d.cancelAsked():
		d.give(store.Item{Kind: store.ItemCancel, Name: "operator"})
	default:
		return false
	}
	return true
}

// terminate ends the run without its code.
func (d *driver) terminate() {
	it := d.j.send(store.Item{Kind: store.ItemTerminate, Sent: d.clock})
	d.resume()
	d.r.Terminate(it)
}

// disturb does now and then what the world may do at any time.
func (d *driver) disturb() {
	if d.random == nil || d.r.Over() != nil || d.random.IntN(20) > 0 {
		return
	}
	switch d.random.IntN(12) {
	case 0:
		if d.mail > 0 {
			d.sendMail()
		}
	case 1:
		d.resolve()
	case 2:
		switch {
		case d.cruel && d.random.IntN(4) == 0 && d.pending == nil:
			d.terminate()
		case d.cruel && !d.cancelAsked():
			d.give(store.Item{Kind: store.ItemCancel, Name: "operator"})
		}
	case 3:
		d.clock += store.Time(d.random.IntN(1_000_000))
	case 4:
		d.stale = time.Duration(d.random.IntN(2)) * time.Second
	case 5:
		d.endOther()
	case 6:
		d.endCancelled()
	case 8:
		d.giveEvent()
	case 9:
		d.giveStray()
	case 10:
		d.grant()
	case 11:
		d.grantStray()
	case 7:
		if d.pending == nil && !d.r.Suspended() && d.r.over == nil {
			d.r.Pause(d.j.send(store.Item{Kind: store.ItemPause, Sent: d.clock}))
		} else if d.pending == nil && d.r.Pausing() && d.r.over == nil {
			d.r.WithdrawPause(d.j.send(store.Item{Kind: store.ItemResume, Sent: d.clock}))
		}
	}
}

// run drives the run to its end. mayCut is asked at every point where a crash
// can come; it may be nil.
func (d *driver) run(mayCut func() bool) *Outcome {
	if d.r == nil {
		d.activate()
	}
	cut := func() bool { return mayCut != nil && mayCut() }
	for range 100_000 {
		if d.stop > 0 {
			if d.stop--; d.stop == 0 { // what is under way is lost
				d.leave()
				d.flight, d.pending = nil, nil
				return nil
			}
		}
		if run := &d.j.run; run.Status.Terminal() && (run.Reason == "terminated" || d.cancelledLate()) {
			d.leave()
			return &Outcome{Status: run.Status, Reason: run.Reason}
		}
		if d.r.Paused() && d.pending == nil {
			d.pauses++
			d.crash()
		}
		if cut() {
			d.crash()
		}
		d.disturb()
		d.advance()
		if d.pending != nil && (d.random == nil || d.random.IntN(2) == 0) {
			if cut() { // it stands, and nobody is told
				d.lost++
				d.j.commit(d.pending)
				d.crash()
				continue
			}
			d.commit()
			if d.r.Paused() {
				continue
			}
			if cut() {
				d.crash()
				continue
			}
		}
		if over := d.r.over; over != nil && d.pending == nil && d.j.run.Status == over.Status {
			if d.renewed() {
				d.renewals++
				d.leave()
				d.activate()
				continue
			}
			if d.mend(over) {
				continue
			}
			if over.Renewal == nil {
				d.leave()
				return over
			}
		}
		d.take()
		d.startBodies()
		if d.random == nil && d.pending != nil {
			continue // commit first
		}
		switch {
		case len(d.flight) > 0 && (d.random == nil || d.random.IntN(3) > 0):
			d.endBody()
		case d.pending == nil && len(d.flight) == 0 && d.r.steps.Queued() == 0 && d.r.over == nil:
			if d.r.Suspended() && d.random != nil && d.random.IntN(3) == 0 {
				d.evictions++
				d.crash()
				continue
			}
			if !d.nudge() && !d.r.sched.AnyReady() && d.r.steps.Arrived() == 0 {
				d.advance()
				if d.r.over == nil && !d.take() {
					d.t.Fatalf("nothing is left to happen; the run waits for %s; its inbox is %+v", waitsOf(d.r), d.j.items)
				}
			}
		}
	}
	d.t.Fatalf("the run does not end; it waits for %s", waitsOf(d.r))
	return nil
}

// crash cuts the activation, begins another one, and checks that it has seen the
// same as far as is durable, and in the meantime has written nothing.
func (d *driver) crash() {
	d.cuts++
	before, other, bug := d.seen, d.renewed(), d.panicked()
	if !bug {
		d.checkShown(d.j.seq())
	}
	d.transact()
	d.loseBodies()
	d.leave()
	if d.j.run.Reason == "terminated" {
		return // nobody executes its code again
	}
	durable := d.j.seq()
	d.resumed()
	d.activate()
	d.advance()
	if d.r.Pausing() {
		return // it stands still
	}
	if over := d.r.over; over != nil && (over.Status == store.Stalled || over.Reason == "terminated") {
		return
	}
	if d.r.Replayed() > 0 && len(d.r.j.Log.Entries()) > 0 {
		for _, e := range d.r.j.Log.Entries() {
			if e.Seq > 0 && e.Seq <= durable {
				d.j.violate("the replay writes completion %d, of %d durable ones", e.Seq, durable)
			}
		}
	}
	if other || bug {
		return // it has seen another incarnation, or deferred functions have
	}
	want, got := before.upTo(durable, d.j), d.seen.upTo(durable, d.j)
	for i := range want {
		if i >= len(got) || want[i] != got[i] {
			other := "nothing"
			if i < len(got) {
				other = got[i]
			}
			d.j.violate("up to completion %d the code had seen %q and sees %q now (event %d)", durable, want[i], other, i)
			return
		}
	}
}

// checkShown makes sure that what the code has said up to a durable completion is
// in the stream, in that order, and that nothing is there twice. What was said
// before the first completion may not be durable yet.
func (d *driver) checkShown(durable int64) {
	if !d.shows {
		return
	}
	places := map[string]int{}
	for i, text := range d.j.streams["log"] {
		if _, twice := places[text]; twice {
			d.j.violate("the stream has %q twice, the second time at %d", text, i+1)
		}
		places[text] = i + 1
	}
	last := 0
	for _, e := range d.shown {
		if e.seq > durable || durable == 0 {
			continue
		}
		if at := places[e.text]; at <= last {
			d.j.violate("the code has said %q after what stands at %d; of %d durable completions it is at %d", e.text, last,
				durable, at)
			return
		} else {
			last = at
		}
	}
}

// renewed reports whether the activation is of an incarnation that has ended.
func (d *driver) renewed() bool { return d.r.cfg.Run.Incarnation != d.j.run.Incarnation }

// transact lets some of the steps in flight commit their outcome in transactions
// of their own: they are done and have no number.
func (d *driver) transact() {
	if d.renewed() {
		return
	}
	for _, b := range d.flight {
		if d.random == nil || d.random.IntN(2) == 0 || !strings.HasPrefix(b.Location.Base(), "tx") {
			continue
		}
		if old, ok := d.j.entries[string(b.Location)]; ok && old.State != store.Withdrawn {
			continue
		}
		result := b.Func(context.Background(), &b)
		e, _ := b.Entry(0, 0, nil)
		d.transactions++
		d.j.entries[string(b.Location)] = store.Entry{
			Loc: string(b.Location), Kind: store.KindStep, State: store.Done, Attempt: 1, Born: e.Born, Generation: e.Generation,
			Value: result.Value, Size: len(result.Value), Owes: e.Owes,
		}
	}
}

// verify returns what is wrong with a run that has ended, or "". The replay of
// its whole history sees all that was seen and does nothing.
func (d *driver) verify(over *Outcome) string {
	if len(d.j.broken) > 0 {
		return d.j.broken[0]
	}
	if over.Stall != nil {
		return "false stall: " + over.Stall.Error()
	}
	if orphan := d.j.orphaned(); orphan != "" {
		return orphan
	}
	if wait := d.j.unsettled(); wait != "" {
		return wait
	}
	if permit := d.j.unreturned(); permit != "" {
		return permit
	}
	if problem := d.verifyUndone(over); problem != "" {
		return problem
	}
	if over.Reason == "terminated" {
		return "" // its code has not ended
	}
	live, bodies := d.seen, len(d.begun)
	brokenOff := over.Status == store.Cancelled && d.brokenOff == live.run // a bug does not stall a run that is cancelled
	d.activate()
	defer d.leave()
	d.advance()
	turn := d.r.j.Log.Turn(&d.r.cfg.Run)
	rows, _ := d.r.j.Log.ShownSize()
	switch got := d.r.over; {
	case got == nil:
		return "the replay of the whole history does not end"
	case got.Stall != nil:
		return "the replay of the whole history stalls: " + got.Stall.Error()
	case len(turn.Entries)+len(turn.Prune)+len(turn.Sends) > 0 || d.r.steps.Queued() > 0 || len(d.begun) != bodies:
		return fmt.Sprintf("the replay of the whole history writes %d entries, sends %d and asks for %d bodies: %+v %+v",
			len(turn.Entries), len(turn.Sends), d.r.steps.Queued(), turn.Entries, turn.Sends)
	case rows > 0:
		return fmt.Sprintf("the replay of the whole history shows %+v", turn)
	case d.cancelledLate():
	case got.Status != over.Status || !bytes.Equal(got.Output, over.Output):
		return fmt.Sprintf("the replay ends %s %q, the run ended %s %q", got.Status, got.Output, over.Status, over.Output)
	case brokenOff && strings.HasPrefix(d.seen.of(d.j), live.of(d.j)):
	case d.seen.of(d.j) != live.of(d.j):
		return fmt.Sprintf("the replay sees\n%s\nthe run had seen\n%s", d.seen.of(d.j), live.of(d.j))
	}
	return ""
}

// seen is what the code of an activation has seen, in order.
type seen struct {
	run    *Interpreter
	events []sight
}

type sight struct {
	seq  int64
	loc  location.Loc // the scope of the code
	text string
}

func (s *seen) add(loc location.Loc, format string, args ...any) {
	s.events = append(s.events, sight{s.run.j.Seq(), loc, fmt.Sprintf(format, args...)})
}

// upTo returns the events before the completion after the given one, except those
// of iterations whose history is gone.
func (s *seen) upTo(seq int64, j *durable) []string {
	var texts []string
	for _, e := range s.events {
		if e.seq <= seq && !j.pruned(e.loc) {
			texts = append(texts, e.text)
		}
	}
	return texts
}

// of returns the events, except those of iterations whose history is gone.
func (s *seen) of(j *durable) string {
	var b bytes.Buffer
	for _, e := range s.events {
		if !j.pruned(e.loc) {
			fmt.Fprintf(&b, "%d %s\n", e.seq, e.text)
		}
	}
	return b.String()
}
