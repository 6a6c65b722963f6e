package planner_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/planner"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/schedule"
	"github.com/stet-run/stet/store"
)

const noon = "2026-11-21T12:30:00Z"

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestStartsAtEachInstant(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.Skip)
	set.Config.Tags = []store.Pair{{Key: "team", Value: "a"}, {Key: "stet.schedule", Value: "forged"}}
	set.Config.Headers = []byte(`{"tenant":"x"}`)
	if a := w.ask(planner.ItemSet, &set); !a.OK {
		t.Fatalf("expected the schedule to be made, got %+v", a)
	}
	for range 3 {
		w.pass(time.Hour)
		w.end(w.order[len(w.order)-1])
	}
	expect(t, "instants", w.instants(), "2026-11-21T13:00:00Z 2026-11-21T14:00:00Z 2026-11-21T15:00:00Z")
	r := w.runs["nightly/2026-11-21T14:00:00Z"]
	expect(t, "headers", r.headers, `{"stet-schedule":"nightly","stet-scheduled-for":"2026-11-21T14:00:00Z","tenant":"x"}`)
	expect(t, "tags", fmt.Sprint(r.tags), "[{stet.schedule nightly} {team a}]")
	if s := w.read(); s.State.Started != 3 || s.State.Skipped != 0 || len(s.Running) != 0 ||
		s.State.At.Time().Hour() != 15 {
		t.Errorf("expected three starts and nothing running, got %+v", s)
	}
}

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap       planner.Overlap
		during, after string
		past          string
		cancelled     bool
	}{
		{planner.Skip, "13:00", "13:00 17:00",
			"13:00:00 started; 14:00:00-16:00:00 3 skipped: " + planner.Overlapped + "; 17:00:00 started; ", false},
		{planner.BufferOne, "13:00", "13:00 14:00",
			"13:00:00 started; 15:00:00-16:00:00 2 skipped: " + planner.Overlapped + "; 14:00:00 started; ", false},
		{planner.Allow, "13:00 14:00 15:00 16:00", "13:00 14:00 15:00 16:00 17:00",
			"13:00:00 started; 14:00:00 started; 15:00:00 started; 16:00:00 started; 17:00:00 started; ", false},
		{planner.CancelPrevious, "13:00", "13:00 16:00",
			"13:00:00 started; 14:00:00-15:00:00 2 skipped: " + planner.Replaced + "; 16:00:00 started; ", true},
	} {
		t.Run(fmt.Sprint(c.overlap), func(t *testing.T) {
			short := func(w *world) string {
				return strings.NewReplacer("2026-11-21T", "", ":00Z", "").Replace(w.instants())
			}
			w := newWorld(t, noon)
			set := hourly(c.overlap)
			w.ask(planner.ItemSet, &set)
			w.pass(4 * time.Hour)
			expect(t, "while the first runs", short(w), c.during)
			if w.runs[w.order[0]].cancelled != c.cancelled {
				t.Errorf("expected the first to be cancelled: %t", c.cancelled)
			}
			w.end(w.order[0])
			if c.overlap == planner.Skip || c.overlap == planner.Allow {
				w.pass(time.Hour)
			}
			expect(t, "when it has ended", short(w), c.after)
			expect(t, "decisions", w.past(), c.past)
		})
	}
}

// TestRunsOnAQueue: each start is put on the queue; where that is not there the
// instants are skipped, and while nobody can say whether it is, nothing is decided.
func TestRunsOnAQueue(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.Allow)
	set.Config.CatchUp = 60 * minute
	set.Config.Queue = &permit.Place{Queue: "q", Key: "k", Priority: 3}
	w.ask(planner.ItemSet, &set)
	w.pass(time.Hour) // 13:00
	w.queue = missing
	w.pass(2 * time.Hour)
	if a := w.ask(planner.ItemTrigger, nil); a.OK || a.Reason != planner.NoQueue {
		t.Errorf("a trigger without a queue: %+v", a)
	}
	w.queue = unknown
	w.pass(time.Hour) // 16:00
	asked := w.tell(planner.ItemTrigger, nil)
	if s := w.read(); s.State.Started != 1 || s.State.Skipped != 2 || asked.State == store.Consumed {
		t.Errorf("while the queue is unknown: %+v; the trigger is in state %d", s.State, asked.State)
	}
	w.queue = there
	w.pass(time.Minute)
	w.queue = missing
	// 13:00, which is there, and 14:00
	fill := planner.Fill{After: w.now.Add(-4 * time.Hour), To: w.now.Add(-2 * time.Hour)}
	w.ask(planner.ItemBackfill, &fill)
	for _, id := range w.order {
		if p := w.runs[id].place; p == nil || p.Queue != "q" || p.Key != "k" || p.Priority != 3 ||
			p.Ticket != "ticket of "+id {
			t.Errorf("%s stands at %+v", id, p)
		}
	}
	if len(w.order) != 3 || w.order[1] != "nightly/2026-11-21T16:00:00Z" || w.items[asked.No-1].State != store.Consumed {
		t.Errorf("started: %q", w.order)
	}
	expect(t, "past", w.past(), "13:00:00 started; 14:00:00-15:00:00 2 skipped: "+planner.NoQueue+
		"; 16:00:00 started; 16:30:00 started; 14:00:00 skipped: "+planner.NoQueue+"; ")
	// Another queue counts from the same turn on.
	set.Config.Queue = nil
	w.ask(planner.ItemSet, &set)
	w.pass(time.Hour)
	if last := w.order[len(w.order)-1]; len(w.order) != 4 || w.runs[last].place != nil {
		t.Errorf("started: %q; the last one stands at %+v", w.order, w.runs[last].place)
	}
}

func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		window store.Delay
		cron   string
		past   string
	}{
		{minute, "", "13:00:00-22:00:00 10 skipped: " + planner.Missed + "; "},
		{120 * minute, "", "13:00:00-20:00:00 8 skipped: " + planner.Missed + "; 21:00:00 started; 22:00:00 started; "},
		{120 * minute, "0 * * * *", "13:00:00-20:00:00 8 skipped: " + planner.Missed + "; 21:00:00 started; 22:00:00 started; "},
		{-1, "0 0-23/3 * * *", "15:00:00 started; 18:00:00 started; 21:00:00 started; "},
	} {
		w := newWorld(t, noon)
		set := hourly(planner.Allow)
		set.Config.CatchUp = c.window
		if c.cron != "" {
			set.Config.Every, set.Config.Cron = 0, c.cron
		}
		w.ask(planner.ItemSet, &set)
		w.jump(10 * time.Hour) // nobody works
		expect(t, fmt.Sprintf("after ten hours with a window of %d and %q", c.window, c.cron), w.past(), c.past)
	}
}

func TestPause(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.BufferOne)
	w.ask(planner.ItemSet, &set)
	w.pass(2 * time.Hour) // 13:00 runs, 14:00 is buffered
	if a := w.ask(planner.ItemPause, nil); !a.OK || w.rec.WakeAt != 0 {
		t.Fatalf("expected it to be paused and to sleep, got %+v and a wake time at %s", a, w.rec.WakeAt)
	}
	w.end(w.order[0])
	w.jump(3 * time.Hour)
	expect(t, "while it is paused", w.past(), "13:00:00 started; ")
	if s := w.read(); !s.State.Paused || s.State.PausedAt == 0 {
		t.Errorf("expected the state to say so, got %+v", s.State)
	}
	w.ask(planner.ItemPause, nil) // again
	if a := w.ask(planner.ItemResume, nil); !a.OK {
		t.Fatal(a)
	}
	expect(t, "when it is resumed", w.past(),
		"13:00:00 started; 14:00:00 started; 15:00:00-17:00:00 3 skipped: "+planner.WasPaused+"; ")
	w.ask(planner.ItemResume, nil)
	w.end(w.order[1])
	w.pass(time.Hour)
	if len(w.order) != 3 {
		t.Errorf("expected it to go on, got %s", w.instants())
	}
}

func TestTrigger(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.BufferOne)
	set.Config.Paused = true
	w.ask(planner.ItemSet, &set)
	first := w.ask(planner.ItemTrigger, nil)
	expect(t, "the first, though it is paused", first.RunID, "nightly/2026-11-21T12:30:00.000001Z")
	w.ask(planner.ItemResume, nil)
	second, third := w.ask(planner.ItemTrigger, nil), w.ask(planner.ItemTrigger, nil)
	if !second.OK || third.OK || !strings.Contains(third.Reason, planner.Overlapped) || len(w.order) != 1 {
		t.Errorf("expected the second to be buffered and the third to be refused, got %+v and %+v", second, third)
	}
	w.end(first.RunID)
	expect(t, "started", strings.Join(w.order, " "), first.RunID+" "+second.RunID)
}

func TestBackfill(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.Allow)
	w.ask(planner.ItemSet, &set)
	w.pass(time.Hour) // 13:00
	w.end(w.order[0])
	from, to := w.now.Add(-5*time.Hour), w.now
	if a := w.ask(planner.ItemBackfill, &planner.Fill{After: from, To: to + 1}); a.OK {
		t.Error("expected the future to be refused")
	}
	w.ask(planner.ItemBackfill, &planner.Fill{After: from, To: to})
	expect(t, "with all allowed", w.instants(),
		"2026-11-21T13:00:00Z 2026-11-21T09:00:00Z 2026-11-21T10:00:00Z 2026-11-21T11:00:00Z 2026-11-21T12:00:00Z")
	if s := w.read(); len(s.Running) != 4 || len(s.Fills) != 0 {
		t.Errorf("expected the one that had ended before not to run, got %+v", s)
	}

	w = newWorld(t, noon)
	set = hourly(planner.Skip)
	w.ask(planner.ItemSet, &set)
	w.ask(planner.ItemBackfill, &planner.Fill{After: from, To: from.Add(3 * time.Hour)})
	w.ask(planner.ItemBackfill, &planner.Fill{After: from.Add(-24 * time.Hour), To: from.Add(-23 * time.Hour)})
	for i := range 4 {
		if len(w.order) != i+1 {
			t.Fatalf("expected one after another, got %s", w.instants())
		}
		w.end(w.order[i])
	}
	expect(t, "one after another", w.instants(),
		"2026-11-21T09:00:00Z 2026-11-21T10:00:00Z 2026-11-21T11:00:00Z 2026-11-20T09:00:00Z")
	if s := w.read(); len(s.Running) != 0 || len(s.Fills) != 0 {
		t.Errorf("expected the backfills to have ended, got %+v", s)
	}
}

func TestSetAgain(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.Skip)
	w.ask(planner.ItemSet, &set)
	turns := len(w.entries)
	set.New = true
	if a := w.ask(planner.ItemSet, &set); !a.OK || len(w.entries) != turns {
		t.Errorf("expected an equal one to change nothing, got %+v", a)
	}
	other := hourly(planner.Allow)
	other.Config.Every = 30 * time.Minute
	other.New = true
	if a := w.ask(planner.ItemSet, &other); a.OK || !a.Exists {
		t.Errorf("expected another one to be refused, got %+v", a)
	}
	w.jump(30 * time.Minute) // to 13:00: what has come by then is by the former times
	other.New = false
	w.ask(planner.ItemSet, &other)
	w.pass(90 * time.Minute)
	expect(t, "instants", w.instants(),
		"2026-11-21T13:00:00Z 2026-11-21T13:30:00Z 2026-11-21T14:00:00Z 2026-11-21T14:30:00Z")
	bad := hourly(planner.Skip)
	bad.Config.Zone = "nowhere"
	if a := w.ask(planner.ItemSet, &bad); a.OK || a.Reason == "" {
		t.Errorf("expected bad times to be refused, got %+v", a)
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t, noon)
	for _, name := range []string{planner.ItemPause, planner.ItemResume, planner.ItemTrigger, planner.ItemDelete,
		planner.ItemBackfill} {
		if a := w.ask(name, nil); !a.Missing || a.OK {
			t.Errorf("%s: expected there to be none, got %+v", name, a)
		}
	}
	set := hourly(planner.Allow)
	set.Config.Every = time.Second
	w.ask(planner.ItemSet, &set)
	w.pass(40 * time.Minute) // 2,400 runs, of which 1,000 are remembered
	if s := w.read(); len(s.Running) != 2400 || len(s.Past) != planner.Keep || s.State.Started != 2400 {
		t.Fatalf("expected 2,400 runs and the last %d decisions, got %d and %d", planner.Keep, len(s.Running), len(s.Past))
	}
	// A crash right after the commit that answers: it is deleted all the same.
	w.crash = func(int) (drop, after bool) { w.crash = nil; return true, true }
	if a := w.ask(planner.ItemDelete, nil); !a.OK || len(w.entries) != 0 || w.rec.WakeAt != 0 {
		t.Errorf("expected nothing to stand, got %d entries", len(w.entries))
	}
	w.end(w.order[0]) // of which nobody wants to know
	w.pass(time.Hour)
	set = hourly(planner.Skip)
	w.ask(planner.ItemSet, &set)
	w.ask(planner.ItemBackfill, &planner.Fill{After: w.now.Add(-2 * time.Hour), To: w.now})
	w.pass(time.Hour)
	if s := w.read(); s.State.Started != 1 || len(s.Running) != 1 ||
		s.Running[0].RunID != "nightly/2026-11-21T13:00:00Z" || len(s.Fills) != 1 {
		t.Errorf("expected a new life, got %+v", s)
	}
}

func TestDamaged(t *testing.T) {
	for _, e := range []store.Entry{{Loc: "config", Value: []byte("x")}, {Loc: "what", Value: []byte{0xa0}}} {
		if _, err := planner.Read([]store.Entry{e}); err == nil {
			t.Errorf("expected %q not to be read", e.Loc)
		}
	}
}

// TestAYear lets a year pass for schedules in zones whose clocks change, with runs
// that take their time, crashes before and after commits, and hours in which nobody
// works. Each instant is started once or skipped once, with a reason.
func TestAYear(t *testing.T) {
	for i, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
		"Africa/Cairo", "Antarctica/Troll"} {
		for _, cron := range []string{"30 2 * * *", "45 */6 * * *", "45 * * * *"} {
			if cron == "45 * * * *" && zone != "Australia/Lord_Howe" {
				continue // it takes its time
			}
			if testing.Short() && (i > 1 || cron == "45 * * * *") {
				continue // so does a year under the race detector
			}
			overlap := planner.Overlap(1 + i%4)
			t.Run(fmt.Sprintf("%s %s %d", zone, cron, overlap), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				w := newWorld(t, "2026-01-01T00:00:00Z")
				set := planner.Set{Config: planner.Config{Cron: cron, Zone: zone, Workflow: "report", Overlap: overlap,
					CatchUp: 180 * minute}}
				begun, end := w.now, w.now.Add(365*24*time.Hour)
				w.ask(planner.ItemSet, &set)
				w.crash = func(int) (drop, after bool) { return rng.IntN(10) == 0, rng.IntN(2) == 0 }
				became := map[store.Time]string{} // of each instant
				times := compile(t, zone, cron)
				last := int64(0)
				observe := func() {
					s := w.read()
					first := s.State.Past - int64(len(s.Past)) + 1
					if first > last+1 {
						t.Fatalf("decisions %d to %d went by unseen", last+1, first-1)
					}
					for n, d := range s.Past {
						if first+int64(n) < last { // the last one may have grown
							continue
						}
						at, count := d.From, int64(0)
						for ; at != 0 && at <= d.To; at = store.TimeOf(times.Next(at.Time())) {
							what := d.Reason + d.RunID
							if former := became[at]; former != "" && (former != what || d.RunID != "" && first+int64(n) > last) {
								t.Fatalf("%s: %s, and then %s", at, former, what)
							}
							became[at] = what
							count++
						}
						if d.RunID == "" && count != d.Count {
							t.Fatalf("expected %d instants from %s to %s, got %d", count, d.From, d.To, d.Count)
						}
					}
					last = s.State.Past
				}
				w.lasts = func() time.Duration { return time.Duration(rng.IntN(1+rng.IntN(6*60))) * time.Minute }
				for w.now < end {
					w.jump(time.Duration(rng.IntN(8*60)) * time.Minute)
					w.pass(time.Duration(rng.IntN(10*24*60)) * time.Minute)
					observe()
				}
				w.lasts = func() time.Duration { return 0 }
				w.pass(24 * time.Hour)
				observe()
				n := 0
				for at := times.Next(begun.Time()); !at.After(w.now.Time()); at = times.Next(at) {
					n++
					what := became[store.TimeOf(at)]
					run := w.runs["nightly/"+at.Format(time.RFC3339)]
					switch {
					case what == "" && store.TimeOf(at) == w.read().State.Buffered:
					case what == "":
						t.Errorf("%s was neither started nor skipped", at)
					case (run != nil) != strings.HasPrefix(what, "nightly/"):
						t.Errorf("%s: %s, but the run is there: %t", at, what, run != nil)
					}
					delete(became, store.TimeOf(at))
				}
				if len(became) > 0 {
					t.Errorf("decided what was no instant: %v", became)
				}
				for id, n := range w.starts {
					if n != 1 {
						t.Errorf("%s was started %d times", id, n)
					}
				}
				s := w.read()
				t.Logf("%d instants: %d started, %d skipped, %d turns, %d crashes", n, s.State.Started, s.State.Skipped, w.turns,
					w.crashes)
				if int64(n) != s.State.Started+s.State.Skipped || w.crashes == 0 || s.State.Started == 0 {
					t.Errorf("expected each to be counted, and crashes")
				}
			})
		}
	}
}

func compile(t *testing.T, zone, cron string) *schedule.Times {
	t.Helper()
	times, err := (&planner.Config{Cron: cron, Zone: zone}).Spec().Compile()
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// TestClockThatGoesBack: a new owner's clock may be behind.
func TestClockThatGoesBack(t *testing.T) {
	w := newWorld(t, noon)
	set := hourly(planner.Allow)
	w.ask(planner.ItemSet, &set)
	w.pass(2 * time.Hour)
	w.now = w.now.Add(-90 * time.Minute)
	w.m, w.rec.Status = nil, store.Running
	w.work()
	w.pass(3 * time.Hour)
	expect(t, "instants", w.instants(),
		"2026-11-21T13:00:00Z 2026-11-21T14:00:00Z 2026-11-21T15:00:00Z 2026-11-21T16:00:00Z")
	if slices.Contains(slices.Collect(func(yield func(int) bool) {
		for _, n := range w.starts {
			if !yield(n) {
				return
			}
		}
	}), 2) {
		t.Error("expected no instant to be started twice")
	}
}

// TestARecordIsNotDamagedWhereAZoneIsUnknown: another process knows it.
func TestARecordIsNotDamagedWhereAZoneIsUnknown(t *testing.T) {
	c := planner.Config{Cron: "0 9 * * *", Zone: "Europe/Atlantis", Workflow: "w"}
	rules := planner.New(nil)(&store.Run{ID: planner.Workflow + "/s"})
	err := rules.Load([]store.Entry{{Loc: "config", Value: planner.Encode(&c)}})
	if !errors.Is(err, entity.ErrLacks) || !strings.Contains(err.Error(), "Europe/Atlantis") {
		t.Errorf("found %v; want one that wraps ErrLacks and names the zone", err)
	}
}
