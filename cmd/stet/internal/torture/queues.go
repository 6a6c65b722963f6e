package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/entity/queue"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// limitedRef is a workflow whose runs are started on the queue slots. Each has two
// steps; the second one uses the queue calls.
var limitedRef = stet.Ref[uint64, uint64](prefix + "limited")

const (
	slotsQueue = prefix + "slots"
	callsQueue = prefix + "calls"

	workStep = "work"
	callStep = "call"
)

// limits are those of the queues.
var limits = map[string]stet.QueueSettings{
	slotsQueue: {Concurrency: 6, PerKey: 3},
	callsQueue: {Concurrency: 2, Rate: 40, Per: time.Second},
}

// backlog is how many runs wait for a slot at most when another one is started.
const backlog = 10

// keyOf returns the queue key of a run.
func keyOf(seed uint64) string { return []string{"", "a", "b"}[seed%3] }

func (w *worker) limited() *stet.Workflow[uint64, uint64] {
	return stet.Define(limitedRef.Name(), func(ctx stet.Context, seed uint64) (uint64, error) {
		e := &execution{worker: w, program: &program{runID: stet.RunID(ctx)}}
		first, err := e.step(ctx, workStep, 0, seed, nil)
		if err != nil {
			return 0, err
		}
		var use []stet.StepOption
		if !w.plants.has(plantUnlimited) {
			use = append(use, stet.Permit{Queue: callsQueue, Key: keyOf(seed), Priority: int(seed % 2)})
		}
		second, err := e.step(ctx, callStep, int(seed%2), mix(seed, 2), nil, use...)
		return mix(first, second), err
	}, stet.Retry{Attempts: 8, First: 5 * time.Millisecond, Max: 50 * time.Millisecond})
}

// limitedRun is a run that was started on a queue.
type limitedRun struct {
	id    string
	seed  uint64
	known bool // it is there
	asked bool // a cancel was asked for
}

// queueWatch is the harness's knowledge of the queues.
type queueWatch struct {
	made   bool  // all are there
	since  int64 // before the first of them was made, by this machine's clock
	runs   []*limitedRun
	grants map[string]map[int64]store.Time // of the queues, by number
}

// makeQueues creates the queues; their owners do the work.
func (h *harness) makeQueues(ctx context.Context) error {
	h.queues.since = machineTime()
	for _, list := range []map[string]stet.QueueSettings{limits, spending} {
		for name, s := range list {
			_, err := patiently(ctx, func() (any, error) { return nil, h.client.engine.Queues().Create(ctx, name, s) })
			if err != nil {
				return fmt.Errorf("make queue %s: %w", name, err)
			}
		}
	}
	return nil
}

// keepLimited starts runs on a queue, until ctx ends, and cancels some.
func (h *harness) keepLimited(ctx context.Context) error {
	for i := 0; ; i++ {
		if err := pause(ctx, rand.N(60*time.Millisecond)); err != nil {
			return nil
		}
		if info, err := h.client.engine.Queues().Info(ctx, slotsQueue); err != nil || info.Waiting > backlog {
			if err != nil && !indefinite(err) {
				return err
			}
			continue
		}
		r := &limitedRun{id: fmt.Sprintf("%slimited-%016x-%d", prefix, h.cfg.Seed, i), seed: mix(h.cfg.Seed, uint64(i))}
		place := stet.OnQueue{Name: slotsQueue, Key: keyOf(r.seed), Priority: int(r.seed % 2)}
		_, err := limitedRef.Start(ctx, h.client.engine, r.seed, stet.ID(r.id), place)
		if err != nil && !indefinite(err) {
			return fmt.Errorf("start %s: %w", r.id, err)
		}
		r.known, r.asked = err == nil, r.seed%8 == 0
		h.mu.Lock()
		h.queues.runs = append(h.queues.runs, r)
		h.mu.Unlock()
		if r.known && r.asked {
			h.attend(func(ctx context.Context) error {
				if err := pause(ctx, rand.N(time.Second)); err != nil {
					return err
				}
				return h.endLimited(ctx, r)
			})
		}
	}
}

// endLimited cancels or terminates a run, which may have ended.
func (h *harness) endLimited(ctx context.Context, r *limitedRun) error {
	var err error
	if r.seed%16 == 0 {
		_, err = h.client.engine.Runs().Terminate(ctx, r.id, stet.Act{Why: "a strike"})
	} else {
		_, err = h.client.engine.Runs().Cancel(ctx, r.id, stet.Act{Why: "a strike"})
	}
	if err != nil && !indefinite(err) && !errors.Is(err, stet.ErrTerminal) && !errors.Is(err, stet.ErrRefused) {
		return fmt.Errorf("cancel %s: %w", r.id, err)
	}
	return nil
}

// watchQueues reads the permits that stand, until ctx ends: at no instant are there
// more than a limit allows.
func (h *harness) watchQueues(ctx context.Context) error {
	records := map[string]store.RunNo{}
	for {
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
		for name := range limits {
			if err := h.watchQueue(ctx, name, records); err != nil && !indefinite(err) {
				return err
			}
		}
	}
}

func (h *harness) watchQueue(ctx context.Context, name string, records map[string]store.RunNo) error {
	if records[name] == 0 {
		page, err := h.db.List(ctx, store.Filter{IDs: []string{permit.EntityID(name)}, Limit: 1})
		if err != nil || len(page.Runs) == 0 {
			return err
		}
		records[name] = page.Runs[0].No
	}
	entries, err := h.db.History(ctx, store.HistoryQuery{Run: records[name], Values: true})
	if err != nil {
		return err
	}
	standing, err := queue.Read(entries)
	if err != nil {
		return err
	}
	held, err := h.holders(ctx, name, records[name], standing)
	if err != nil {
		return err
	}
	h.report.count("looks at permits", 1)
	s := limits[name]
	if n := len(held); n > s.Concurrency {
		h.report.violated(limitExceeded, "queue %s: %d permits stand, of %d", name, n, s.Concurrency)
	}
	perKey := map[string]int{}
	for _, key := range held {
		if perKey[key]++; s.PerKey > 0 && key != "" && perKey[key] > s.PerKey {
			h.report.violated(limitExceeded, "queue %s: %d permits of key %q stand, of %d", name, perKey[key], key, s.PerKey)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queues.grants == nil {
		h.queues.grants = map[string]map[int64]store.Time{}
	}
	if h.queues.grants[name] == nil {
		h.queues.grants[name] = map[int64]store.Time{}
	}
	for no, at := range standing.Recent {
		h.queues.grants[name][no] = at
	}
	return nil
}

// holders returns the keys of the permits that were held at one instant: the permits in standing, and the admitted runs
// of that instant. A ticket is used once, so a permit that is found before and after a look was held all the time.
func (h *harness) holders(
	ctx context.Context, name string, record store.RunNo, standing *queue.Standing,
) (map[string]string, error) {
	held := maps.Clone(standing.Held)
	admitted, err := h.db.Waiting(ctx, store.WaitingQuery{Queue: permit.EntityID(name), Admitted: true})
	if err != nil || len(admitted) == 0 {
		return held, err
	}
	entries, err := h.db.History(ctx, store.HistoryQuery{Run: record, Values: true})
	if err != nil {
		return nil, err
	}
	after, err := queue.Read(entries)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(held, func(ticket, _ string) bool { _, stands := after.Held[ticket]; return !stands })
	for i := range admitted {
		held[fmt.Sprint("run ", admitted[i].No)] = admitted[i].Key
	}
	return held, nil
}

// queuesRest reports whether no permit is held or awaited.
func (h *harness) queuesRest(ctx context.Context) (bool, error) {
	h.mu.Lock()
	made := h.queues.made
	h.mu.Unlock()
	if !made {
		return true, nil
	}
	for name := range limits {
		info, err := h.client.engine.Queues().Info(ctx, name)
		if err != nil || info.Held+info.Waiting+info.Delayed > 0 {
			return false, err
		}
	}
	return true, nil
}

// checkQueues checks that the runs of the queues have ended, every permit has come back, and the rate was kept. By the
// log it is also checked that no more bodies were under way than there are permits.
func (a *audit) checkQueues(ctx context.Context) error {
	if !a.queues.made {
		return nil // the strikes were over before a process owned the store
	}
	for _, r := range a.queues.runs {
		if !r.asked {
			a.facts.Limited = append(a.facts.Limited, r.id)
		}
		if err := a.checkLimited(ctx, r); err != nil {
			return err
		}
	}
	for name, s := range limits {
		info, err := a.client.engine.Queues().Info(ctx, name)
		if err != nil {
			return err
		}
		a.report.count("permits of "+name, int(info.Granted))
		if info.Held+info.Waiting+info.Delayed > 0 {
			a.report.violated(stuck, "queue %s: %d permits have not come back, %d wait, %d are delayed",
				name, info.Held, info.Waiting, info.Delayed)
		}
		for no, at := range a.queues.grants[name] {
			if earlier, ok := a.queues.grants[name][no-int64(s.Rate)]; ok && s.Rate > 0 && at < earlier+
				store.Time(s.Per.Microseconds()) {
				a.report.violated(limitExceeded, "queue %s: permit %d came %d µs after permit %d, of %d in %s",
					name, no, at-earlier, no-int64(s.Rate), s.Rate, s.Per)
			}
		}
	}
	return nil
}

func (a *audit) checkLimited(ctx context.Context, r *limitedRun) error {
	if !r.known {
		return nil
	}
	page, err := a.db.List(ctx, store.Filter{IDs: []string{r.id}, Values: true, Limit: 1})
	switch {
	case err != nil:
		return err
	case len(page.Runs) == 0:
		a.report.violated(acknowledgedLost, "run %s was started on a queue, and is not there", r.id)
		return nil
	}
	run := &page.Runs[0]
	a.report.count("limited runs: "+run.Status.String(), 1)
	switch {
	case run.Status == store.Succeeded:
		got, err := limitedRef.Handle(a.client.engine, r.id).Wait(ctx)
		if err != nil {
			return err
		}
		if want := mix(r.seed, mix(r.seed, 2)); got != want {
			a.report.violated(wrongResults, "run %s: expected %d, found %d", r.id, want, got)
		}
	case run.Status == store.Cancelled && r.asked:
	case run.Status.Terminal():
		a.report.violated(wrongResults, "run %s is %s: %s", r.id, run.Status, run.Reason)
	default:
		a.report.violated(stuck, "run %s is %s with marks %d and waits for %s", r.id, run.Status, run.Marks, run.Waits)
	}
	return a.checkSteps(ctx, run)
}

// ownWorkflows are all but that of the poison runs.
var ownWorkflows = append([]string{treeRef.Name(), childRef.Name(), briefRef.Name()}, limitedLive...)

// limitedLive are the workflows of runs that are to end before the store is checked.
var limitedLive = []string{limitedRef.Name(), tickRef.Name(), listenerRef.Name(), accountRef.Name(), tripRef.Name(),
	readerRef.Name()}

// queuesAndSchedules keeps the queues and the schedules busy until ctx ends.
func (h *harness) queuesAndSchedules(ctx context.Context) error {
	if err := errors.Join(h.makeQueues(ctx), h.makeSchedules(ctx)); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	h.mu.Lock()
	h.queues.made = true
	h.mu.Unlock()
	h.attend(h.watchQueues)
	return h.keepLimited(ctx)
}
