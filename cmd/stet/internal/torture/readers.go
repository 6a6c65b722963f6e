package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/entity/queue"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// readerRef is a workflow whose steps emit what they read, and say what that has cost: each run has one on the queue
// meter, which only counts, and then one on the queue tokens, which bounds the rate of each key.
var readerRef = stet.Ref[uint64, uint64](prefix + "reader")

const (
	meterQueue  = prefix + "meter"
	tokensQueue = prefix + "tokens"

	readStep = "read"
	askStep  = "ask"
)

// spending are the queues whose permits have a cost. What the meter counts is kept for longer than a torture lasts.
var spending = map[string]stet.QueueSettings{
	meterQueue:  {Rate: 1_000_000_000, RatePerKey: 1_000_000_000, Per: 24 * time.Hour},
	tokensQueue: {RatePerKey: 40, Per: 2 * time.Second},
}

// said is an item of a run's stream.
type said struct {
	No int `json:"no"` // in its attempt, from 0
}

var says = stet.Stream[said](prefix + "says")

// reading is what a run of that workflow does. It follows from the seed.
type reading struct {
	seed     uint64
	key      string
	items    int
	failures int // attempts that fail on the way
}

func newReading(seed uint64) *reading {
	return &reading{seed: seed, key: []string{"x", "y"}[seed%2], items: 2 + int(mix(seed, 3)%5),
		failures: int(mix(seed, 4)%4) / 2}
}

// cost is what the step guesses, 1 to 20.
func (r *reading) cost() int { return 1 + int(mix(r.seed, 5)%20) }

// spent is what an attempt of the step on the meter says: more than the cost, or less, or nothing.
func (r *reading) spent(attempt int) int { return int(mix(r.seed, 6+uint64(attempt)) % 40) }

// asks is what the step on the queue tokens costs and spends.
func (r *reading) asks() int { return 20 + int(mix(r.seed, 7)%20) }

func (w *worker) reader() *stet.Workflow[uint64, uint64] {
	return stet.Define(readerRef.Name(), func(ctx stet.Context, seed uint64) (uint64, error) {
		e := &execution{worker: w, program: &program{runID: stet.RunID(ctx)}}
		r := newReading(seed)
		first, err := e.step(ctx, readStep, 0, mix(seed, 1), func(ctx context.Context) error { return w.read(ctx, r) },
			stet.Permit{Queue: meterQueue, Key: r.key, Cost: r.cost()})
		if err != nil {
			return 0, err
		}
		var use []stet.StepOption
		if !w.plants.has(plantCheap) {
			use = append(use, stet.Permit{Queue: tokensQueue, Key: r.key, Cost: r.asks()})
		}
		second, err := e.step(ctx, askStep, 0, mix(seed, 2), func(ctx context.Context) error {
			return stet.Spent(ctx, r.asks())
		}, use...)
		return mix(first, second), err
	}, stet.Retry{Attempts: 8, First: 5 * time.Millisecond, Max: 50 * time.Millisecond})
}

// read emits items. Some attempts fail in the middle.
func (w *worker) read(ctx context.Context, r *reading) error {
	attempt := stet.Attempt(ctx)
	if !w.plants.has(plantUnspent) {
		if err := stet.Spent(ctx, r.spent(attempt)); err != nil {
			return err
		}
	}
	for i := range r.items {
		if attempt <= r.failures && i == r.items/2 {
			return errPlanned
		}
		if w.plants.has(plantMute) && i == 1 {
			continue
		}
		if err := says.Emit(ctx, said{i}); err != nil {
			return err
		}
		if err := pause(ctx, time.Duration(mix(r.seed, uint64(i))%30)*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// tokensWait reports whether enough runs wait for tokens already, or nobody knows.
func (h *harness) tokensWait(ctx context.Context) bool {
	info, err := h.client.engine.Queues().Info(ctx, tokensQueue)
	return err != nil || info.Waiting+info.Delayed > backlog/3
}

// keepReading starts readers until ctx ends.
func (h *harness) keepReading(ctx context.Context) error {
	return h.keepStartingOf(ctx, readerRef, 120*time.Millisecond, 0, h.tokensWait, &h.readers)
}

// units are what a queue counts in the end, by key.
type units map[string]int

// checkReaders checks how the readers have ended, what they have emitted, and what that has cost.
func (a *audit) checkReaders(ctx context.Context) error {
	if !a.queues.made {
		return nil
	}
	want, certain := units{}, true
	for _, r := range a.readers {
		run, err := a.ended(ctx, r, "readers")
		if err != nil {
			return err
		}
		if run == nil {
			continue
		}
		plan := newReading(r.seed)
		attempts, err := a.checkReader(ctx, plan, run)
		if err != nil {
			return err
		}
		certain = certain && attempts > 0
		for n := range attempts {
			want[plan.key] += plan.spent(n + 1)
		}
		a.facts.Asked = append(a.facts.Asked, askedFor{Run: r.id, Key: plan.key, Units: plan.asks()})
	}
	if !certain {
		return nil // some have not ended, which was found
	}
	page, err := a.db.List(ctx, store.Filter{IDs: []string{permit.EntityID(meterQueue)}, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return err
	}
	entries, err := a.db.History(ctx, store.HistoryQuery{Run: page.Runs[0].No, Values: true})
	if err != nil {
		return err
	}
	standing, err := queue.Read(entries)
	if err != nil {
		return err
	}
	all := 0
	for key, n := range want {
		all += n
		if got := standing.Units(key); got != n {
			a.report.violated(wrongUnits, "queue %s: the attempts of key %s have spent %d units, and it counts %d",
				meterQueue, key, n, got)
		}
	}
	if got := standing.Units(""); got != all {
		a.report.violated(wrongUnits, "queue %s: all attempts have spent %d units, and it counts %d", meterQueue, all, got)
	}
	a.report.count("units spent", all)
	return nil
}

// checkReader checks one run. It returns how many attempts its step on the meter has had, 0 if it has not ended well.
func (a *audit) checkReader(ctx context.Context, plan *reading, run *store.Run) (attempts int, err error) {
	if run.Status != store.Succeeded {
		if run.Status.Terminal() {
			a.report.violated(wrongResults, "run %s is %s: %s %s", run.ID, run.Status, run.Reason, run.Output)
		}
		return 0, nil
	}
	got, err := readerRef.Handle(a.client.engine, run.ID).Wait(ctx)
	if err != nil {
		return 0, err
	}
	if want := mix(mix(plan.seed, 1), mix(plan.seed, 2)); got != want {
		a.report.violated(wrongResults, "run %s: expected %d, found %d", run.ID, want, got)
	}
	if err := a.checkSteps(ctx, run); err != nil {
		return 0, err
	}
	entries, err := a.client.engine.Runs().History(ctx, run.ID, stet.HistoryQuery{})
	if err != nil {
		return 0, err
	}
	for i := range entries {
		if entries[i].Location == readStep {
			attempts = entries[i].Attempts
		}
	}
	if attempts != plan.failures+1 {
		a.report.violated(wrongResults, "run %s: %d attempts of %s are recorded, expected %d", run.ID, attempts, readStep,
			plan.failures+1)
	}
	items, err := says.Items(ctx, a.client.engine, run.ID, 0, store.MaxPage)
	if err != nil {
		return 0, err
	}
	a.report.count("items emitted", len(items))
	if err := emitted(items, plan.items, attempts); err != nil {
		a.report.violated(brokenStreams, "run %s: %v", run.ID, err)
	}
	return attempts, nil
}

// emitted checks the items that a step has emitted in its attempts: those of each execution in order, without a gap,
// and behind a mark if those of an earlier one are before it; those of the last one whole.
func emitted(items []stet.StreamItem[said], whole, attempts int) error {
	next, attempt := 0, 0
	for i, it := range items {
		switch {
		case it.Position != int64(i)+1:
			return fmt.Errorf("item %d is at position %d", i+1, it.Position)
		case it.Rewound || it.Location != readStep:
			return fmt.Errorf("item %d is of %q, rewound %t", it.Position, it.Location, it.Rewound)
		case it.Again && next == 0:
			return fmt.Errorf("item %d marks that the body is executed again, and it has emitted nothing", it.Position)
		case it.Again:
			next = 0
			continue
		case it.Attempt < attempt || it.Attempt > attempts:
			return fmt.Errorf("item %d is of attempt %d, after one of attempt %d, of %d", it.Position, it.Attempt, attempt,
				attempts)
		case it.Attempt > attempt && next > 0:
			return fmt.Errorf("item %d is of attempt %d, without a mark after one of attempt %d", it.Position, it.Attempt,
				attempt)
		case it.Value.No != next:
			return fmt.Errorf("item %d has number %d in its execution, expected %d", it.Position, it.Value.No, next)
		}
		next, attempt = next+1, it.Attempt
	}
	if next != whole || attempt != attempts {
		return fmt.Errorf("the last execution has emitted %d items as attempt %d, expected %d as attempt %d",
			next, attempt, whole, attempts)
	}
	return nil
}

// askedFor is what a run takes of the rate of its key.
type askedFor struct {
	Run   string `json:"run"`
	Key   string `json:"key"`
	Units int    `json:"units"`
}

// checkRates checks that the bodies of each key have not taken more in all than its rate allows since the queue was
// made: whenever they begin, their permits were granted in that time.
func (x *executions) checkRates(report *Report, made int64, asked []askedFor) {
	s := spending[tokensQueue]
	took, last := units{}, map[string]int64{}
	for _, a := range asked {
		starts := x.starts[operation{a.Run, askStep}]
		if len(starts) == 0 {
			continue
		}
		took[a.Key] += a.Units
		last[a.Key] = max(last[a.Key], starts[0].At)
	}
	for key, n := range took {
		took := time.Duration(last[key]-made) * time.Microsecond
		if most := s.RatePerKey * (int(took/s.Per) + 2); n > most {
			report.violated(limitExceeded, "queue %s: bodies of key %s have taken %d units within %s, of %d in %s: at most %d",
				tokensQueue, key, n, took, s.RatePerKey, s.Per, most)
		}
		report.count("units of "+tokensQueue, n)
	}
}
