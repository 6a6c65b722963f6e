package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// tripRef is a workflow of sagas. Each leg of a trip books in a saga, by steps and children that can be undone. Some
// legs fail, and the trip goes another way; some trips are rolled back in the end, and some are cancelled on the way.
var tripRef = stet.Ref[uint64, uint64](prefix + "trip")

// trip is what a run of that workflow does. It follows from the seed.
type trip struct {
	legs  []leg
	rolls bool // it is rolled back in the end
}

// leg is a saga.
type leg struct {
	bookings []booking
	inner    int // so many of the last bookings are in a saga within; 0: there is none
	fails    bool
}

// booking is a step, or a child, that can be undone.
type booking struct {
	value    uint64
	child    bool
	failures int
}

func newTrip(seed uint64) *trip {
	random := rand.New(rand.NewPCG(seed, 2))
	t := &trip{rolls: random.IntN(4) == 0}
	for range 2 + random.IntN(3) {
		l := leg{fails: random.IntN(2) == 0}
		for range 1 + random.IntN(3) {
			b := booking{value: random.Uint64(), child: random.IntN(3) == 0, failures: random.IntN(2)}
			b.value -= b.value % 3 // those have a compensation, see undo
			l.bookings = append(l.bookings, b)
		}
		l.inner = random.IntN(len(l.bookings) + 1)
		t.legs = append(t.legs, l)
	}
	return t
}

// kept returns the value of a trip that succeeds, and the names of the bookings that stand.
func (t *trip) kept() (value uint64, places int) {
	for _, l := range t.legs {
		if l.fails {
			continue
		}
		for _, b := range l.bookings {
			value, places = mix(value, b.worth()), places+1
		}
	}
	return value, places
}

// worth is what a booking gives.
func (b booking) worth() uint64 {
	if b.child {
		return childValue(b.value)
	}
	return b.value
}

// bookName begins the names of bookings.
const bookName = "book-"

func (w *worker) trip() *stet.Workflow[uint64, uint64] {
	return stet.Define(tripRef.Name(), func(ctx stet.Context, seed uint64) (value uint64, err error) {
		e := &execution{worker: w, program: &program{runID: stet.RunID(ctx)}}
		t := newTrip(seed)
		for i, l := range t.legs {
			got, err := e.carryOutLeg(ctx, fmt.Sprintf("leg-%d", i), &l)
			switch {
			case errors.Is(err, stet.ErrCancelled), err != nil && !l.fails:
				return 0, err
			case err == nil && l.fails:
				return 0, fmt.Errorf("leg %d has not failed", i)
			case l.fails:
				continue // another way
			}
			for _, v := range got {
				value = mix(value, v)
			}
		}
		if t.rolls {
			return 0, stet.Rollback(errPlanned)
		}
		return value, nil
	}, stet.Retry{Attempts: 8, First: 5 * time.Millisecond, Max: 50 * time.Millisecond}, stet.UndoOnCancel)
}

func (e *execution) carryOutLeg(ctx stet.Context, name string, l *leg) ([]uint64, error) {
	undo := stet.UndoOnFailure | stet.UndoOnCancel
	if e.plants.has(plantKept) {
		undo = stet.UndoOnRollback
	}
	return stet.Saga(ctx, name, func(ctx stet.Context) ([]uint64, error) {
		outer := len(l.bookings) - l.inner
		got, err := e.book(ctx, l.bookings[:outer], 0)
		if err == nil && l.inner > 0 {
			var more []uint64
			more, err = stet.Saga(ctx, "inner", func(ctx stet.Context) ([]uint64, error) {
				return e.book(ctx, l.bookings[outer:], outer)
			}, undo)
			got = append(got, more...)
		}
		if err == nil && l.fails {
			err = stet.Do(ctx, "refuse", func(context.Context) error { return stet.Permanent(errPlanned) })
		}
		return got, err
	}, undo)
}

// book makes bookings one after the other; first is the number of the first one.
func (e *execution) book(ctx stet.Context, bookings []booking, first int) (got []uint64, err error) {
	for i, b := range bookings {
		name := fmt.Sprint(bookName, first+i)
		var v uint64
		if b.child {
			v, err = childRef.Call(ctx, childInput{Seed: b.value, Wait: time.Duration(b.value%100) * time.Millisecond},
				stet.Named(name), stet.Undo(func(ctx context.Context, got uint64) error {
					if e.linger(ctx); got != b.worth() {
						return stet.Permanent(fmt.Errorf("expected %d, found %d", b.worth(), got))
					}
					return nil
				}))
		} else {
			v, err = e.step(ctx, name, b.failures, b.value, nil)
		}
		if err != nil {
			return got, err
		}
		got = append(got, v)
	}
	return got, nil
}

// started is a run of a workflow of its own that the harness has started.
type started struct {
	id    string
	seed  uint64
	known bool // it is there
	asked bool // a cancel was asked for
}

// keepStartingOf starts runs, each after a random time below often, and cancels one of so many, 0 for none, until ctx
// ends. It leaves one out if enough says so.
func (h *harness) keepStartingOf(ctx context.Context, ref *stet.Workflow[uint64, uint64], often time.Duration,
	cancels uint64, enough func(context.Context) bool, runs *[]*started) error {
	for i := 0; pause(ctx, rand.N(often)) == nil; i++ {
		if enough != nil && enough(ctx) {
			continue
		}
		r := &started{id: fmt.Sprintf("%s-%016x-%d", ref.Name(), h.cfg.Seed, i)}
		r.seed = mix(h.cfg.Seed, textHash(r.id))
		_, err := ref.Start(ctx, h.client.engine, r.seed, stet.ID(r.id))
		if err != nil && !indefinite(err) {
			return fmt.Errorf("start %s: %w", r.id, err)
		}
		r.known, r.asked = err == nil, cancels > 0 && r.seed>>8%cancels == 0
		h.mu.Lock()
		*runs = append(*runs, r)
		h.mu.Unlock()
		if r.known && r.asked {
			h.attend(func(ctx context.Context) error { return h.endListener(ctx, r.id) })
		}
	}
	return nil
}

// ended returns a run that was started, and counts it. It returns nil if the run is not there, which is a violation if
// it was known to be.
func (a *audit) ended(ctx context.Context, r *started, what string) (*store.Run, error) {
	page, err := a.db.List(ctx, store.Filter{IDs: []string{r.id}, Values: true, Limit: 1})
	switch {
	case err != nil:
		return nil, err
	case len(page.Runs) == 0 && r.known:
		a.report.violated(acknowledgedLost, "run %s was started, and is not there", r.id)
		return nil, nil
	case len(page.Runs) == 0:
		return nil, nil
	}
	run := &page.Runs[0]
	a.report.count(what+": "+run.Status.String(), 1)
	switch {
	case run.Status == store.Stalled:
		a.stalled(run, "run %s", r.id)
	case !run.Status.Terminal():
		a.report.violated(stuck, "run %s is %s with marks %d and waits for %s", r.id, run.Status, run.Marks, run.Waits)
	}
	return run, nil
}

// checkTrips checks how the trips have ended, and what they have undone.
func (a *audit) checkTrips(ctx context.Context) error {
	for _, r := range a.trips {
		run, err := a.ended(ctx, r, "trips")
		if err != nil {
			return err
		}
		if run == nil || !run.Status.Terminal() {
			continue
		}
		if err := a.checkTrip(ctx, r, run); err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) checkTrip(ctx context.Context, r *started, run *store.Run) error {
	t := newTrip(r.seed)
	want, left := t.kept()
	switch {
	case run.Status == store.Cancelled && r.asked:
		left = 0
	case run.Status == store.Failed && t.rolls:
		left = 0
	case run.Status == store.Succeeded && !t.rolls:
		got, err := tripRef.Handle(a.client.engine, r.id).Wait(ctx)
		if err != nil {
			return err
		}
		if got != want {
			a.report.violated(wrongResults, "run %s: expected %d, found %d", r.id, want, got)
		}
	default:
		a.report.violated(wrongResults, "run %s is %s: %s %s", r.id, run.Status, run.Reason, run.Output)
	}
	entries, err := a.client.engine.Runs().History(ctx, r.id, stet.HistoryQuery{})
	if err != nil {
		return err
	}
	f := takenBackOf(r.id, entries, left)
	a.facts.Undone = append(a.facts.Undone, f)
	if err := a.checkSteps(ctx, run); err != nil {
		return err
	}
	page, err := a.db.List(ctx, store.Filter{Parent: run.No, Limit: store.MaxPage, Values: true})
	if err != nil {
		return err
	}
	for i := range page.Runs {
		a.report.count("children: "+page.Runs[i].Status.String(), 1)
		if err := a.checkChild(ctx, run, &page.Runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// undone is what the store says of the bookings of a trip.
type undone struct {
	Run   string   `json:"run"`
	Order []string `json:"order"` // locations in the order of their completions; of a compensation with undoSuffix
	Left  int      `json:"left"`  // so many are to stand in the end
}

// undoSuffix ends the location of a compensation.
const undoSuffix = "/undo"

func takenBackOf(run string, entries []stet.HistoryEntry, left int) undone {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b stet.HistoryEntry) int { return int(a.Number - b.Number) })
	u := undone{Run: run, Left: left}
	for i := range entries {
		e := &entries[i]
		name := e.Location[strings.LastIndexByte(e.Location, '/')+1:]
		switch {
		case e.Number == 0 || e.State != store.Done:
		case e.Kind.Undoes() && strings.HasSuffix(e.Location, undoSuffix), strings.HasPrefix(name, bookName):
			u.Order = append(u.Order, e.Location)
		}
	}
	return u
}

// checkUndone checks that what is undone is the newest that stands, that the rest stands in the end, and that nobody
// has undone that.
func (x *executions) checkUndone(report *Report, u *undone) {
	var standing []string
	for _, place := range u.Order {
		at, is := strings.CutSuffix(place, undoSuffix)
		if !is {
			standing = append(standing, place)
			continue
		}
		report.count("bookings undone", 1)
		if len(standing) == 0 || standing[len(standing)-1] != at {
			report.violated(wrongUndos, "run %s: %s was undone, and the newest that stood was %q", u.Run, at, standing)
			return
		}
		if len(x.starts[operation{u.Run, place}]) == 0 {
			report.violated(wrongUndos, "run %s: %s counts as undone, and nobody has done that", u.Run, at)
		}
		standing = standing[:len(standing)-1]
	}
	report.count("bookings that stand", len(standing))
	if len(standing) != u.Left {
		report.violated(wrongUndos, "run %s: in the end %d bookings stand, expected %d: %q", u.Run, len(standing), u.Left,
			standing)
	}
	for _, at := range standing {
		if starts := x.starts[operation{u.Run, at + undoSuffix}]; len(starts) > 0 {
			report.violated(wrongUndos, "run %s: %s stands, and %s has undone it (byte %d of the log)", u.Run, at,
				starts[0].Process, starts[0].place)
		}
	}
}
