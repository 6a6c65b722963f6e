package planner_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/planner"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// world is a store with one schedule, the runs that it has started, and a clock.
type world struct {
	t       *testing.T
	now     store.Time
	rec     store.Run
	m       *entity.Machine
	entries map[string]store.Entry
	items   []store.Item
	done    int // items that are consumed
	runs    map[string]*run
	order   []string // of the starts
	starts  map[string]int
	watches map[string]bool // item IDs
	turns   int
	crash   func(turn int) (drop, after bool)
	ends    map[string]store.Time // when runs end by themselves
	lasts   func() time.Duration  // how long a run lasts; nil: until it is ended
	crashes int
	queue   queueIs
}

// queueIs says what can be known of the queue of the schedule.
type queueIs uint8

const (
	there queueIs = iota
	missing
	unknown
)

func (w *world) placer(p permit.Place) (func(*store.Start), error) {
	switch w.queue {
	case missing:
		return nil, nil
	case unknown:
		return nil, store.ErrUnavailable
	}
	return func(start *store.Start) {
		p.Ticket = "ticket of " + start.ID
		start.Queue = &store.QueueEntry{Data: p.Encode(), Ask: p.AskFor(permit.Ask{RunID: start.ID})}
	}, nil
}

type run struct {
	started   store.Time
	instant   string
	watchers  int
	ended     bool
	cancelled bool
	headers   string
	tags      []store.Pair
	seed      store.Seed
	place     *permit.Place // nil: on no queue
}

func newWorld(t *testing.T, now string) *world {
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, now: store.TimeOf(at), entries: map[string]store.Entry{}, runs: map[string]*run{},
		starts: map[string]int{}, watches: map[string]bool{}, ends: map[string]store.Time{},
		rec: store.Run{No: 7, ID: planner.Workflow + "/nightly", Workflow: planner.Workflow, Status: store.Running,
			Seed: store.Seed{1}},
	}
}

// tell puts an item into the inbox of the schedule and lets it work.
func (w *world) tell(name string, value any) store.Item {
	w.t.Helper()
	var data []byte
	if value != nil {
		data = planner.Encode(value)
	}
	it := w.put(store.Item{Kind: store.ItemUpdate, Name: name, Value: data})
	w.work()
	return w.items[it.No-1]
}

// ask is tell with an answer.
func (w *world) ask(name string, value any) planner.Answer {
	w.t.Helper()
	var a planner.Answer
	it := w.tell(name, value)
	if err := planner.Decode(it.Verdict, &a); err != nil {
		w.t.Fatalf("%s: expected an answer, got %q (%v)", name, it.Verdict, err)
	}
	return a
}

func (w *world) put(it store.Item) store.Item {
	it.No, it.State, it.Sent = store.ItemNo(len(w.items)+1), store.New, w.now
	it.ID = fmt.Sprint("item", it.No)
	w.items = append(w.items, it)
	return it
}

func (w *world) open(states ...store.ItemState) []store.Item {
	for w.done < len(w.items) && w.items[w.done].State == store.Consumed {
		w.done++
	}
	return slices.DeleteFunc(slices.Clone(w.items[w.done:]),
		func(it store.Item) bool { return !slices.Contains(states, it.State) })
}

func (w *world) load() {
	entries := slices.SortedFunc(maps.Values(w.entries), func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) })
	w.m = entity.New(entity.Config{Run: w.rec, Rules: planner.New(w.placer)(&w.rec), Entries: entries,
		Fetch: func(loc string) ([]byte, error) {
			return w.entries[loc].Value, nil
		}})
	w.m.Deliver(w.open(store.New, store.Seen)...)
}

// work drives the schedule until it rests.
func (w *world) work() {
	w.t.Helper()
	if w.rec.Status == store.Stalled {
		w.t.Fatalf("the schedule is stalled: %s", w.rec.Reason)
	}
	due := w.rec.WakeAt != 0 && w.rec.WakeAt <= w.now
	fresh := w.open(store.New)
	switch {
	case w.m == nil:
		w.rec.Status = store.Running
		w.load()
	case w.rec.Status == store.Suspended && (due || len(fresh) > 0):
		w.rec.Status = store.Running
		w.m.Resumed()
		w.m.Deliver(fresh...)
	case w.rec.Status == store.Suspended:
		return
	}
	for range 10_000 {
		w.m.Advance(w.now, w.now)
		turn := w.m.Take()
		if turn == nil && (w.m.Suspended() || w.rec.Status == store.Stalled) {
			if w.rec.Status == store.Stalled {
				w.t.Fatalf("the schedule has stalled: %s", w.rec.Reason)
			}
			if fresh := w.open(store.New); len(fresh) > 0 { // from a run that had ended
				w.rec.Status = store.Running
				w.m.Resumed()
				w.m.Deliver(fresh...)
				continue
			}
			return
		}
		if turn == nil {
			at, _ := w.m.NextTimer()
			if at <= w.now {
				w.t.Fatalf("the schedule neither waits nor works at %s", w.now)
			}
			return // it is due within a second
		}
		w.turns++
		drop, after := false, false
		if w.crash != nil {
			drop, after = w.crash(w.turns)
		}
		if !drop || after {
			w.commit(turn)
		}
		if drop {
			w.crashes++
			w.rec.Status = store.Running
			w.load()
			continue
		}
		if fresh := w.open(store.New); len(fresh) > 0 && w.rec.Status == store.Running && turn.Update != nil {
			w.m.StillReady()
			w.m.Deliver(fresh...)
			continue
		}
		w.m.Committed()
	}
	w.t.Fatal("the schedule does not come to rest")
}

func (w *world) commit(turn *store.Turn) {
	w.t.Helper()
	for _, s := range turn.Prune {
		delete(w.entries, s.From)
	}
	for _, e := range turn.Entries {
		e.Value = bytes.Clone(e.Value)
		w.entries[e.Loc] = e
	}
	for _, no := range turn.Seen {
		w.items[no-1].State = store.Seen
	}
	for _, c := range turn.Consumed {
		it := &w.items[c.Item-1]
		if it.State == store.Consumed {
			w.t.Errorf("item %d was consumed twice", c.Item)
		}
		it.State, it.Verdict = store.Consumed, c.Verdict
	}
	for i := range turn.Sends {
		w.send(&turn.Sends[i])
	}
	if u := turn.Update; u != nil && !(u.Status == store.Suspended && len(w.open(store.New)) > 0) {
		w.rec.Status, w.rec.WakeAt, w.rec.Reason = u.Status, u.WakeAt, u.Reason
	}
}

// send does what a store would do.
func (w *world) send(c *store.Command) {
	w.t.Helper()
	if err := c.Validate(); c.Start == nil && err != nil {
		w.t.Error(err)
	}
	if s := c.Start; s != nil {
		if s.Shard = (store.Shard{Group: store.DefaultGroup}); c.Validate() != nil {
			w.t.Error(c.Validate())
		}
		w.starts[s.ID]++
		if w.runs[s.ID] == nil {
			w.runs[s.ID] = &run{started: w.now, instant: strings.TrimPrefix(s.ID, "nightly/"), headers: string(s.Headers),
				tags: s.Tags, seed: s.Seed}
			w.order = append(w.order, s.ID)
			if s.Queue != nil {
				p, _, err := permit.DecodePlace(s.Queue.Data)
				if err != nil {
					w.t.Error(err)
				}
				w.runs[s.ID].place = &p
			}
			if w.lasts != nil {
				w.ends[s.ID] = w.now.Add(w.lasts())
			}
		}
		return
	}
	r := w.runs[c.RunID]
	if r == nil {
		w.t.Fatalf("an item for %s, which does not exist", c.RunID)
	}
	switch c.Item.Kind {
	case store.ItemWatch:
		if w.watches[c.Item.ID] {
			w.t.Errorf("two requests have the ID %s", c.Item.ID)
		}
		w.watches[c.Item.ID] = true
		r.watchers++
		if r.ended {
			w.put(store.Item{Kind: store.ItemEnd, Name: c.Item.Name})
		}
	case store.ItemCancel:
		r.cancelled = true
	default:
		w.t.Errorf("nobody expects %s", c.Item.Kind)
	}
}

// end ends a run.
func (w *world) end(id string) {
	w.t.Helper()
	r := w.runs[id]
	if r == nil || r.ended || r.watchers == 0 {
		w.t.Fatalf("expected %s to run and to be watched", id)
	}
	r.ended = true
	w.put(store.Item{Kind: store.ItemEnd, Name: id})
	w.work()
}

// pass lets time pass, from one wake time of the schedule or end of a run to the
// next.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	to := w.now.Add(d)
	for {
		next, ending := store.Time(0), ""
		switch {
		case w.rec.Status == store.Suspended:
			next = w.rec.WakeAt
		case w.m != nil: // claimed ahead of its time
			next, _ = w.m.NextTimer()
		}
		for id, at := range w.ends {
			if next == 0 || at < next || at == next && id < ending {
				next, ending = at, id
			}
		}
		if next == 0 || next > to {
			break
		}
		w.now = max(w.now, next)
		if ending != "" {
			delete(w.ends, ending)
			w.end(ending)
		} else {
			w.work()
		}
	}
	w.now = to
}

// jump lets time pass while nobody works.
func (w *world) jump(d time.Duration) {
	w.now = w.now.Add(d)
	w.work()
}

func (w *world) read() *planner.Snapshot {
	w.t.Helper()
	s, err := planner.Read(slices.SortedFunc(maps.Values(w.entries),
		func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) }))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// instants are the times of the runs in the order of their starts.
func (w *world) instants() string {
	var list []string
	for _, id := range w.order {
		list = append(list, w.runs[id].instant)
	}
	return strings.Join(list, " ")
}

// past is what has become of instants.
func (w *world) past() string {
	var b strings.Builder
	for _, d := range w.read().Past {
		at := d.From.Time().Format("15:04:05")
		switch {
		case d.RunID != "":
			fmt.Fprintf(&b, "%s started; ", at)
		case d.Count == 1:
			fmt.Fprintf(&b, "%s skipped: %s; ", at, d.Reason)
		default:
			fmt.Fprintf(&b, "%s-%s %d skipped: %s; ", at, d.To.Time().Format("15:04:05"), d.Count, d.Reason)
		}
	}
	return b.String()
}

const minute = store.Delay(time.Minute / time.Microsecond)

func hourly(o planner.Overlap) planner.Set {
	return planner.Set{Config: planner.Config{Every: time.Hour, Workflow: "report", Overlap: o, CatchUp: minute}}
}
