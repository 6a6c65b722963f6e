package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/clock"
	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/definition"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/idle"
	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/internal/notify"
	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/queues"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/internal/registry"
	"github.com/stet-run/stet/internal/report"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/together"
	"github.com/stet-run/stet/store"
)

// UnknownBuild is the build of a binary without a name. It is earlier than all others.
const UnknownBuild = "(unknown)"

// Config is what an Engine is made from. All fields are set by the caller.
type Config struct {
	Store     store.Store
	WarnStep  time.Duration   // a body that is silent for so long is logged; 0: never
	WarnValue int             // from this length on a value is logged, once per place; 0: never
	Payloads  *payload.Policy // of what is stored; nil: nothing is done to values
	Workflows map[string]Workflow
	Library   library.Source       // of code beside that of Workflows; nil: there is none
	Entities  map[string]MakeRules // by the name of the workflow that entities of the kind have
	Node      string
	Build     string
	Host      string
	PID       int
	Log       *slog.Logger
	Limits    runner.Limits
	Retention func() []store.Retention // of the runs of its workflows; nil: for ever
	Sweep     time.Duration            // how long after one pass of sweeping the next one begins

	ReloadRate int // suspended runs of former builds that are executed again, per second; 0: none

	MaxSteps       int           // bodies at once
	FairSteps      bool          // a workflow leaves some of these to others
	MaxRuns        int           // runs in memory, without suspended ones; entities are counted by themselves
	MaxParkedBytes int           // of suspended runs that stay in memory
	ParkFor        time.Duration // how long one stays

	Groups    []string // whose shards this process may own, on a store with many slots
	LeaseTTL  time.Duration
	Renew     time.Duration
	Poll      time.Duration
	Grace     time.Duration // for bodies at shutdown
	Exclusive bool
	Replaces  bool
	Tasks     []string // with a function of this process
	// Begun returns when workers have begun tasks last, by their tickets; of others nothing. nil: nobody knows.
	Begun func(context.Context, []permit.Withdrawn) (map[string]store.Time, error)

	PoisonLimit int           // strikes after which a run is stalled; negative: never
	AloneFor    time.Duration // longest trial

	// OnLoss receives the error that says that the store has lost what it had acknowledged; nil:
	// nothing does.
	OnLoss func(error)
	// OnRecover receives what was found when leases were acquired; nil: nothing does.
	OnRecover func(recovery.Found)
	Hooks     report.Hooks
	Observer  *observe.Port // nil: nothing is reported
	// LongPause is as in runner.Config.
	LongPause time.Duration
	// Attempt observes the attempts of steps, as steps.Env.Observe does; nil: nothing does.
	Attempt func(context.Context, *steps.Attempt) (context.Context, func(*stored.Failure))
}

// Workflow is the code of one workflow.
type Workflow = definition.Workflow

// Engine runs workflows on a store. Its methods are safe for concurrent use.
type Engine struct {
	cfg      Config
	large    payload.Large
	base     store.Store   // with values as they are stored
	view     *payload.View // of base, that of cfg: opens and seals values
	boot     string
	slots    int
	lines    bool        // the store has lines
	allKnow  atomic.Bool // that runs wait in lines, as far as nodes are listed: later ones do too
	time     clock.Bound
	changes  *notify.Changes
	waiters  *notify.Waiters
	entities entity.Directory
	outside  notify.Unreported
	outsider *together.Applier // of base, while this process holds no shards
	queues   *queues.Queues

	executor  atomic.Pointer[executor] // nil: not the owner
	lanes     store.Laned              // of base
	lacks     lacks
	batches   []committer.Numbers // of the batches of this boot, by lane
	workflows registry.Workflows
	code      library.Shelf

	mu      sync.Mutex
	running bool
}

// DifferError says that another node of the build has other workflows.
type DifferError = cluster.DifferError

// ErrRunning is returned by a second concurrent Run or RunOnce.
var ErrRunning = errors.New("the engine is already running")

// New returns an engine that does nothing until it is asked, on the store that was described.
func New(cfg Config, d store.Description) *Engine {
	base := cfg.Store
	view := cfg.Payloads.View(base)
	cfg.Store = view
	if cfg.Retention == nil {
		cfg.Retention = func() []store.Retention { return nil }
	}
	e := &Engine{
		base: base, view: view, cfg: cfg, boot: uuid.Must(uuid.NewV7()).String(), slots: d.Slots,
		large: payload.Large{From: cfg.WarnValue, Log: cfg.Log},
	}
	e.lines = d.Lines
	e.outsider = together.New(base)
	e.code.Own, e.code.Source, e.code.Beside = cfg.Workflows, cfg.Library, slices.Collect(maps.Keys(cfg.Entities))
	e.workflows.Store, e.workflows.Code = cfg.Store, &e.code
	e.entities.Home, e.entities.Has = e.home, func(kind string) bool { return cfg.Entities[kind] != nil }
	e.changes = notify.NewChanges(cfg.Store.Changed)
	e.waiters = notify.New(notify.Config{
		Store: cfg.Store, Changes: e.changes, Poll: cfg.Poll, InMemory: e.inMemory, Sole: e.sole,
	})
	e.queues = queues.New(queues.Config{Store: cfg.Store, Home: e.queueHome, Working: e.working,
		Lines: e.usesLines})
	if d.OwnClock {
		e.time.Same()
	}
	e.time.Observe(time.Time{}, d.Now)
	e.lanes = store.LanesOf(base)
	e.batches = make([]committer.Numbers, len(e.lanes.Lanes()))
	return e
}

// Large logs a large value, once per place.
func (e *Engine) Large(workflow, what string, size int) { e.large.Saw(workflow, what, size) }

// Queues returns the queues of the store.
func (e *Engine) Queues() *queues.Queues { return e.queues }

// queueHome returns the shard of a run whose queue names a group.
func (e *Engine) queueHome(group, runID string) store.Shard {
	if e.slots == 1 { // one process owns the store, whatever its groups
		group = store.DefaultGroup
	}
	return store.Shard{Group: group, Slot: e.Slot(runID)}
}

// usesLines reports whether runs that are started wait in the lines of queues: the store has lines, and all nodes that
// may have the record of a queue know them. A node of an earlier build cannot join once the store has lines.
func (e *Engine) usesLines(ctx context.Context) (bool, error) {
	if !e.lines || e.allKnow.Load() {
		return e.lines, nil
	}
	d, err := e.base.Describe(ctx)
	if err != nil {
		return false, err
	}
	for i := range d.Nodes {
		if n := &d.Nodes[i]; !n.Lines && !d.Lost(n) {
			return false, nil
		}
	}
	e.allKnow.Store(true)
	return true, nil
}

// working returns a context for a read on behalf of a run that executes here.
func (e *Engine) working() (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if x := e.executor.Load(); x != nil {
		ctx = x.held
	}
	return context.WithTimeout(ctx, e.cfg.LeaseTTL)
}

// Run works until ctx ends, as the owner or as a standby that takes over. See
// stet.Engine.Run.
func (e *Engine) Run(ctx context.Context) error { return e.runUntil(ctx, nil) }

func (e *Engine) runUntil(ctx context.Context, stay *idle.Stay) error {
	err := e.run(ctx, stay)
	if errors.Is(err, store.ErrClosed) {
		return fmt.Errorf("the store was closed while the engine worked on it; close it when Run has returned: %w", err)
	}
	return err
}

func (e *Engine) run(ctx context.Context, stay *idle.Stay) error {
	e.mu.Lock()
	if e.running {
		e.mu.Unlock()
		return ErrRunning
	}
	e.running = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.running = false
		e.mu.Unlock()
	}()
	for i := range e.batches {
		e.batches[i].Forget() // with the row of the boot, at the end of an earlier Run
	}
	if _, err := e.code.Look(ctx); err != nil {
		e.cfg.Log.Error("reading the names of the library; trying again", "error", err)
	}
	node := store.Node{
		ID: e.cfg.Node, Boot: e.boot, Build: e.cfg.Build, Host: e.cfg.Host, PID: e.cfg.PID,
		Workflows: e.code.Names(), Groups: e.groups(), Replaces: e.cfg.Replaces, Tasks: e.cfg.Tasks,
		Zones: cluster.Zones(), Lines: true,
	}
	if e.slots > 1 && !e.cfg.Exclusive {
		return e.asMember(ctx, node, stay)
	}
	keeper := &cluster.Keeper{
		Store: e.cfg.Store, Node: node, Bodies: e.bodies, Lacks: e.lacks.list,
		Shards: e.shards(), TTL: e.cfg.LeaseTTL, Renew: e.cfg.Renew, Retry: e.cfg.Poll,
		Names: e.code.Names, Exclusive: e.cfg.Exclusive || stay != nil, Log: e.cfg.Log, Observe: e.time.Observe,
		Last: func() int64 { return 0 }, WentBack: func(last int64, err error) { e.wentBack(0, last, err) },
	}
	if len(e.batches) == 1 { // otherwise each commit asks
		keeper.Last = e.batches[0].Acknowledged
	}
	return keeper.Run(ctx, func(stop, held context.Context, c cluster.Term) error {
		x := newExecutor(e, stop, held)
		x.stay, x.recovery.Brief = stay, stay != nil
		x.shards.Take(x.held, c.Leases)
		x.recovery.First = &recovery.Found{Clean: c.Clean, Suspects: c.Suspects, Shards: e.shards()}
		e.cfg.Observer.Leases(observe.LeaseTaken, e.shards())
		defer func() {
			ends := observe.LeaseReleased
			if held.Err() != nil {
				ends = observe.LeaseLost
			}
			e.cfg.Observer.Leases(ends, e.shards())
		}()
		return x.serve()
	})
}

// groups returns the groups whose shards this process may own: its own, and that of
// the entities. On a store with one slot all other runs are of the default group, and
// so have one owner.
func (e *Engine) groups() []string {
	groups := []string{store.DefaultGroup}
	if e.slots > 1 {
		groups = slices.Sorted(slices.Values(e.cfg.Groups))
	}
	return append(groups, store.SystemGroup)
}

// shards returns all shards of this process's groups.
func (e *Engine) shards() []store.Shard {
	groups := e.groups()
	shards := make([]store.Shard, 0, len(groups)*e.slots)
	for _, group := range groups {
		for slot := range e.slots {
			shards = append(shards, store.Shard{Group: group, Slot: slot})
		}
	}
	return shards
}

// Owner reports whether this engine holds leases now.
func (e *Engine) Owner() bool {
	x := e.executor.Load()
	return x != nil && len(x.shards.Now().Leases()) > 0
}

// Now returns a lower bound of the store's time.
func (e *Engine) Now() store.Time { return e.time.Now() }

// asMember works as one of several nodes until ctx ends.
func (e *Engine) asMember(ctx context.Context, node store.Node, stay *idle.Stay) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	x := newExecutor(e, serving, context.WithoutCancel(ctx))
	x.stay, x.recovery.Brief = stay, stay != nil
	for i, d := range x.dispatchers {
		x.member = append(x.member, &cluster.Member{
			Store: d.store, Node: node, Slots: e.slots, Has: func(slot int) bool { return e.lanes.LaneOf(slot) == i },
			TTL: e.cfg.LeaseTTL, Renew: e.cfg.Renew, Poll: e.cfg.Poll, Names: e.code.Names, Shared: e.code.Shared,
			Log: e.cfg.Log, Observe: e.time.Observe, Now: e.time.Now, Hints: e.changes.Nodes, Work: shardWork{x},
			Last: e.batches[i].Acknowledged, WentBack: lane{x, d}.WentBack, Bodies: e.bodies, Lacks: e.lacks.list,
		})
	}
	x.member.Init()
	defer e.changes.Listen()()
	served := make(chan error, 1)
	go func() { served <- x.serve() }()
	err := x.member.Run(ctx)
	end()
	// The leases are given back, or have ended. A call of the store may hang all the
	// same, such as a commit that waits for a standby which is gone.
	hangs := time.AfterFunc(e.cfg.Grace+e.cfg.LeaseTTL, x.cancel)
	defer hangs.Stop()
	if problem := <-served; err == nil {
		err = problem
	}
	x.member.SignOff() // it repeats no commit any more
	return err
}
