package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// harness is the process that strikes, and a client of the store.
type harness struct {
	cfg     *Config
	db      store.Store
	report  *Report
	effects string // file of the log
	acks    string // file of the log
	client  *client
	watched observer

	// attend calls do in a goroutine with a context that ends with the harness. An error that it returns before that end
	// is unexpected.
	attend func(do func(context.Context) error)

	outages sync.Mutex // one at a time

	mu       sync.Mutex
	runs     map[string]*run // known ones, by ID
	live     int             // of the runs, those that have not ended
	deciding bool            // some have just ended, and may live again
	looks    int             // at the live runs so far
	ended    time.Time       // when the last one has ended
	briefs   []time.Time     // when the runs that are not kept were started; zero: it is unknown
	pauses   []stay          // of processes that were paused
	queues   queueWatch
	topics   topicWatch
	trips    []*started
	readers  []*started
}

// run is a run that the harness knows.
type run struct {
	*program  // of a poison run without nodes
	poison    bool
	asked     bool           // a cancel or terminate was asked for
	ended     bool           // or stalled
	tokens    map[string]int // nodes of the tokens that were handed out
	resuming  bool           // it was seen paused
	repaired  bool           // something was done when it had ended
	repairing bool           // … is being decided
	decided   int            // the look in which that was decided
	retries   int
	taken     bool // a part of its history was taken back
}

// stay is a time in which a process was paused, in microseconds since the epoch.
type stay struct {
	Process string `json:"process"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
}

func (h *harness) run(ctx context.Context) (err error) {
	acks, err := openJournal(h.acks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, acks.close()) }()
	effects, err := openJournal(h.effects) // before the first worker does
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, effects.close()) }()
	values, err := payloads(filepath.Dir(h.effects), h.cfg.Seed, "harness")
	if err != nil {
		return err
	}
	cfg := stet.Config{Store: h.db, Payloads: values, Node: "harness", Logger: h.cfg.Log, Poll: poll}
	engine, err := patiently(ctx, func() (*stet.Engine, error) { return stet.New(ctx, cfg) })
	if err != nil {
		return err
	}
	h.db = engine.Store() // with values as they were given
	h.client = &client{name: "harness", seed: h.cfg.Seed, plants: h.cfg.Plants, engine: engine, acks: acks}
	h.watched = observer{harness: h, effects: effects, seen: map[operation]sighting{}}
	if err := h.phases(ctx); err != nil {
		return err
	}
	h.cfg.Log.Info("checking")
	cfg.Store = newPatient(cfg.Store, h.cfg.longest())
	if h.client.engine, err = stet.New(ctx, cfg); err != nil {
		return err
	}
	h.db = h.client.engine.Store()
	return (&audit{harness: h}).check(ctx)
}

// phases does everything to the store.
func (h *harness) phases(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	var attending sync.WaitGroup
	defer attending.Wait()
	defer leave()
	h.attend = func(do func(context.Context) error) {
		attending.Go(func() {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				h.report.violated(unexpectedErrors, "%v", err)
			}
		})
	}
	h.attend(h.follow)
	h.attend(h.watched.readBack)
	h.attend(h.watched.probe)
	h.attend(h.payAccounts)
	random := rand.New(rand.NewPCG(h.cfg.Seed, 1))
	if err := h.storm(ctx, random); err != nil {
		return fmt.Errorf("strike at the workers: %w", err)
	}
	if err := h.settle(ctx); err != nil {
		return fmt.Errorf("let the runs end: %w", err)
	}
	if h.cfg.NoPoison {
		return nil
	}
	if err := h.poison(ctx); err != nil {
		return fmt.Errorf("have runs kill their processes: %w", err)
	}
	return nil
}
