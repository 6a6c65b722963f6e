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

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// journal is what a store would hold of one run, with the laws that matter here.
type journal struct {
	run     store.Run
	entries map[string]store.Entry
	items   []store.Item
	turns   int
	broken  []string // laws that were broken
}

func newJournal() *journal {
	return &journal{run: store.Run{No: 1, ID: "r", Status: store.Running, Started: 1_000_000, Seed: store.Seed{7}}, entries: map[string]store.Entry{}}
}

func (j *journal) violate(format string, args ...any) {
	j.broken = append(j.broken, fmt.Sprintf(format, args...))
}

// commit applies a turn. It reports false if an unexamined item holds back the
// suspension or end.
func (j *journal) commit(t *store.Turn) bool {
	j.turns++
	for _, e := range t.Entries {
		old, ok := j.entries[e.Loc]
		if ok && (old.State == store.Done || old.State == store.FailedEntry) && (old.Seq != 0 || e.Seq == 0) {
			j.violate("entry %s was final and is written again", location.Loc(e.Loc))
		}
		e.Size = len(e.Value)
		j.entries[e.Loc] = e
	}
	for i := range j.items {
		it := &j.items[i]
		if slices.Contains(t.Seen, it.No) && it.State == store.New {
			it.State = store.Seen
		}
		for _, c := range t.Consumed {
			if c.Item == it.No {
				if it.State == store.Consumed {
					j.violate("item %d is consumed twice", it.No)
				}
				it.State = store.Consumed
			}
		}
	}
	if u := t.Update; u != nil {
		for _, it := range j.items {
			if it.State == store.New && (u.Status == store.Suspended || u.Status.Terminal() && it.Kind == store.ItemCancel) {
				return false
			}
		}
		j.run.Status, j.run.Marks, j.run.Reason, j.run.WakeAt = u.Status, u.Marks, u.Reason, u.WakeAt
		if u.Output != nil {
			j.run.Output = u.Output
		}
	}
	return true
}

func (j *journal) send(it store.Item) store.Item {
	it.No, it.State = store.ItemNo(len(j.items)+1), store.New
	it.ID = fmt.Sprint("i", it.No)
	j.items = append(j.items, it)
	return it
}

// snapshot is what a new activation is made from.
func (j *journal) snapshot() ([]store.Entry, []store.Item) {
	var entries []store.Entry
	for _, e := range j.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	var items []store.Item
	for _, it := range j.items {
		if it.State != store.Consumed {
			items = append(items, it)
		}
	}
	return entries, items
}

// seq returns the number of the last completion that is durable.
func (j *journal) seq() (last int64) {
	for _, e := range j.entries {
		last = max(last, e.Seq)
	}
	return last
}

// driver plays the engine and the world for one run.
type driver struct {
	t      testing.TB
	j      *journal
	prog   *program
	clock  store.Time
	random *rand.Rand // timing; nil: the completion with the smallest hash is next
	nonce  int        // makes the value of each execution of a body different
	weak   weakness
	mail   int // messages that may still be sent

	r       *Run
	seen    *seen
	flight  []Body
	pending *store.Turn
}

// weakness is a part of the rule that is left out, to see that it is noticed.
type weakness uint8

const (
	sound weakness = iota
	highestFirst
	orderOfRequest
	noBarrier
	wokenInAnyOrder
)

// activate begins an activation from what is durable.
func (d *driver) activate() {
	entries, items := d.j.snapshot()
	d.seen = &seen{}
	d.r = New(Config{Run: d.j.run, Entries: entries, Items: items, Code: d.prog.code(d)})
	d.seen.run = d.r
	d.flight, d.pending = nil, nil
	switch d.weak {
	case highestFirst:
		d.r.replay.awaited.before = func(a, b *op) bool { return a.rec.Seq > b.rec.Seq }
	case orderOfRequest:
		d.r.replay.awaited.before = func(a, b *op) bool { return a.id < b.id }
	case wokenInAnyOrder:
		d.r.ready.choose = func(n int) int { return int(d.chaos() % uint64(n)) }
	}
}

var chaosState uint64 = 1

func (d *driver) chaos() uint64 {
	chaosState = chaosState*6364136223846793005 + 1442695040888963407
	return chaosState >> 33
}

// cut ends the activation like a crash: what is not committed is lost.
func (d *driver) cut() {
	d.r.Unwind()
	d.r = nil
}

// take begins the commit of the turn that is ready.
func (d *driver) take() bool {
	if d.pending == nil {
		d.pending = d.r.Take()
	}
	return d.pending != nil
}

// commit ends the commit under way.
func (d *driver) commit() {
	if d.j.commit(d.pending) {
		d.r.Committed()
	} else {
		d.r.StillReady()
	}
	d.pending = nil
}

// bodies starts what may start and checks the barrier.
func (d *driver) bodies() {
	if d.weak == noBarrier {
		d.r.durable = d.r.pos
	}
	for _, b := range d.r.Bodies() {
		if e, ok := d.j.entries[string(b.Location)]; ok && (e.State == store.Done || e.State == store.FailedEntry) {
			d.j.violate("the body of %s is started although its end is durable", b.Location)
		}
		if born := d.r.bodies[b.ID].born; born > d.j.seq() {
			d.j.violate("the body of %s is started after completion %d, of which %d are durable", b.Location, born, d.j.seq())
		}
		d.flight = append(d.flight, b)
	}
}

// complete ends one body in flight.
func (d *driver) complete() {
	i := 0
	if d.random != nil {
		i = d.random.IntN(len(d.flight))
	} else {
		for k := range d.flight {
			if hashOf(d.flight[k].Location) < hashOf(d.flight[i].Location) {
				i = k
			}
		}
	}
	b := d.flight[i]
	d.flight = slices.Delete(d.flight, i, i+1)
	if d.random != nil {
		d.clock += 10 // else a body that was lost would take time again
	}
	result := b.Func(context.Background(), &b)
	result.Started, result.Ended = d.clock-5, d.clock
	d.r.Complete(b.ID, b.Attempt, result)
}

func hashOf(loc location.Loc) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(loc) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h * 2654435761
}

// advance lets the code go on.
func (d *driver) advance() { d.r.Advance(d.clock, d.clock) }

// nothing waits for the driver to do something that is not a matter of time.
func (d *driver) nudge() bool {
	if at, _ := d.r.NextTimer(); at != 0 {
		d.clock = max(d.clock, at)
		return true
	}
	if d.mail > 0 {
		d.mail--
		name := fmt.Sprintf("m%d", d.mail%3)
		d.r.Deliver(d.j.send(store.Item{Kind: store.ItemMessage, Name: name, Sent: d.clock, Value: []byte(fmt.Sprint("mail", d.mail))}))
		d.r.Resumed()
		return true
	}
	for _, loc := range slices.Sorted(maps.Keys(d.j.entries)) {
		e := d.j.entries[loc]
		if e.Kind == store.KindPromise && e.State == store.Open && !slices.ContainsFunc(d.j.items, func(it store.Item) bool { return it.Loc == loc }) {
			d.r.Deliver(d.j.send(store.Item{Kind: store.ItemResolution, Loc: loc, Value: []byte("resolved")}))
			d.r.Resumed()
			return true
		}
	}
	if !slices.ContainsFunc(d.j.items, func(it store.Item) bool { return it.Kind == store.ItemCancel }) {
		d.r.Deliver(d.j.send(store.Item{Kind: store.ItemCancel}))
		d.r.Resumed()
		return true
	}
	return false
}

// play drives the run to its end. mayCut is asked at every point where a crash
// can come; it may be nil.
func (d *driver) play(mayCut func() bool) *Outcome {
	if d.r == nil {
		d.activate()
	}
	for step := 0; ; step++ {
		if step > 20_000 {
			d.t.Fatalf("the run does not end; it waits for %s", d.r.waits())
		}
		cut := func() bool { return mayCut != nil && mayCut() }
		if cut() {
			d.crash()
		}
		d.advance()
		if d.r.over != nil && d.r.over.Status == store.Stalled {
			return d.r.over
		}
		if d.pending != nil && (d.random == nil || d.random.IntN(2) == 0) {
			d.commit()
			if cut() {
				d.crash()
				continue
			}
		}
		if over := d.r.over; over != nil && d.pending == nil && d.j.run.Status == over.Status {
			d.r.Unwind()
			return over
		}
		d.take()
		d.bodies()
		if d.random == nil && d.pending != nil {
			continue // commit first
		}
		switch {
		case len(d.flight) > 0 && (d.random == nil || d.random.IntN(3) > 0):
			d.complete()
		case d.pending == nil && len(d.flight) == 0 && d.r.queue.len() == 0 && d.r.over == nil:
			if d.j.run.Status == store.Suspended {
				d.j.run.Status = store.Running
				if d.random != nil && d.random.IntN(3) == 0 { // evicted, and claimed again
					d.crash()
					d.advance()
				}
				d.r.Resumed()
			}
			if !d.nudge() && d.r.over == nil && d.r.ready.len() == 0 && d.r.arrived.len() == 0 {
				d.advance()
				if d.r.over == nil && !d.take() {
					d.t.Fatalf("nothing is left to happen; the run waits for %s", d.r.waits())
				}
			}
		}
	}
}

// crash cuts the activation, begins another one, and checks that it has seen the
// same as far as is durable.
func (d *driver) crash() {
	before := d.seen
	d.cut()
	durable := d.j.seq()
	if d.j.run.Status == store.Suspended {
		d.j.run.Status = store.Running
	}
	d.activate()
	d.advance()
	if d.r.over != nil && d.r.over.Status == store.Stalled {
		return
	}
	want, got := before.upTo(durable), d.seen.upTo(durable)
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

// seen is what the code of an activation has seen, in order.
type seen struct {
	run    *Run
	events []event
}

type event struct {
	seq  int64
	text string
}

func (s *seen) add(format string, args ...any) {
	s.events = append(s.events, event{s.run.seq, fmt.Sprintf(format, args...)})
}

// upTo returns the events before the completion after the given one.
func (s *seen) upTo(seq int64) []string {
	var texts []string
	for _, e := range s.events {
		if e.seq <= seq {
			texts = append(texts, e.text)
		}
	}
	return texts
}

func (s *seen) String() string {
	var b bytes.Buffer
	for _, e := range s.events {
		fmt.Fprintf(&b, "%d %s\n", e.seq, e.text)
	}
	return b.String()
}
