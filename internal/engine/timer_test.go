package engine

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/store"
)

// waits is an interpreter that waits for a time. It counts how often it was advanced.
type waits struct {
	interpreter
	until      store.Time
	needsInbox bool
	advanced   int
}

func (w *waits) Advance(store.Time, store.Time)              { w.advanced++ }
func (w *waits) Take() *store.Turn                           { return nil }
func (w *waits) Suspended() bool                             { return false }
func (w *waits) Broken() error                               { return nil }
func (w *waits) NextTimer() (at store.Time, needsInbox bool) { return w.until, w.needsInbox }
func newWaiting(t *testing.T, w *waits, from time.Time) *activation {
	e := &Engine{cfg: Config{Poll: time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	e.time.Observe(time.Time{}, store.TimeOf(from))
	pool := steps.NewPool(1, false)
	t.Cleanup(func() { pool.Stop() })
	x := &executor{e: e, held: t.Context(), steps: steps.Env{Pool: pool}}
	x.dispatchers = dispatchers{newDispatcher(x, 0, nil)}
	var set ownership.Set
	shard := store.Shard{Group: store.DefaultGroup}
	set.Take(t.Context(), []store.Lease{{Shard: shard, Epoch: 1}})
	a := x.newActivation(set.Now().Of(shard), 0, 0)
	a.phase, a.r = live, w
	return a
}

// A timer of centuries wakes its run once an hour, and no other.
func TestFarTimersAreIdle(t *testing.T) {
	for name, until := range map[string]time.Time{
		"tomorrow":        time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC),
		"year 2400":       time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC),
		"year 9999":       time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"year 300000":     time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC),
		"all there are":   time.Unix(1<<62, 0),
		"longest of them": time.Unix(1<<63-1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &waits{until: store.TimeOf(until)}
				a := newWaiting(t, w, time.Now())
				a.schedule()
				a.dispatcher().wakeBy(w.until)
				if rest := a.dispatcher().pause(); rest != time.Second {
					t.Errorf("the dispatcher rests for %s; expected the poll interval", rest)
				}
				time.Sleep(10*time.Hour + time.Minute)
				synctest.Wait()
				a.timer.Stop()
				if w.advanced != 10 {
					t.Errorf("within ten hours the run was woken %d times; expected 10", w.advanced)
				}
			})
		})
	}
}

// What is due and waits for a turn's answer wakes the run no more until that comes: the store
// may be away for long.
func TestNothingTicksUntilATurnIsAnswered(t *testing.T) {
	for _, needsInbox := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			due := store.TimeOf(time.Now().Add(-time.Second))
			w := &waits{until: due, needsInbox: needsInbox}
			a := newWaiting(t, w, time.Now())
			a.shard.InboxRead(due)
			a.turn.underWay = true
			a.step(due)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if w.advanced != 1 {
				t.Errorf("needsInbox=%t: the run was advanced %d times; expected once", needsInbox, w.advanced)
			}
			if a.timer != nil {
				a.timer.Stop()
			}
		})
	}
}

// A run that asks again and again for a read of its inbox, while the store is away, is one
// reader; one that has left memory is none.
func TestReadersAreCountedOnce(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := newWaiting(t, &waits{until: store.TimeOf(begin.Add(-time.Hour)), needsInbox: true}, begin)
	d := a.dispatcher()
	for range 10 {
		for range 10 {
			a.schedule()
		}
		_, waiting := d.request(a.x.shards.Now(), 1)
		a.schedule()
		d.failed(errors.New("away"), waiting)
		if len(d.readers) != 1 {
			t.Fatalf("%d readers; expected 1", len(d.readers))
		}
	}
	_, waiting := d.request(a.x.shards.Now(), 1)
	a.gone = true
	if d.failed(errors.New("away"), waiting); len(d.readers) != 0 {
		t.Errorf("%d readers; expected none", len(d.readers))
	}
}
