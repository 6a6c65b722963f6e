package stet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity/topic"
	"github.com/stet-run/stet/internal/inboxes"
	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/internal/report"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/tasks"
	"github.com/stet-run/stet/store"
)

// Config is what an Engine is made from. Only Store is needed. In every field 0
// means the default, and None means "none" or "without limit" where it says so.
type Config struct {
	// Store is where everything is kept. The caller opens and closes it.
	Store store.Store
	// Workflows are the definitions whose code this process has. Without any the
	// engine starts, sends and reads, and runs nothing.
	Workflows []Definition
	// Library has the code of further workflows, which may become more while the engine
	// runs. Their retention is that of Retention below. Default: there is none.
	Library Library

	// Tasks are functions that execute tasks in this process: of these, nothing is offered to
	// workers. Nodes of one group and build have the same ones. See Task.Func.
	Tasks []TaskFunc

	// Node names this process in the store. Default: host name and process ID.
	Node string
	// Replaces says that there is never more than one process with the name Node, as of a
	// StatefulSet: this process takes the shards of those that had the name before it at once,
	// also where the store cannot know that they have died. Should one of them still live, its
	// Run returns ErrReplaced, and what it was executing is executed again. Which one is later is
	// told by the clocks of their machines: if that of the later process is behind, the leases count.
	Replaces bool
	// Build is the version of the code. Builds are compared as text, byte by byte: a
	// later version must have a later text, so take times, or numbers with leading
	// zeros. It begins with a letter or a digit. Where several nodes work on a store, a
	// run that a later build has worked on waits for a node of that build or a later
	// one. Default: the time and revision of the commit that the binary was built
	// from. Without one the build is unknown: the node takes up every run, and leaves
	// its build as it is.
	Build string
	// ReloadRate is how many suspended runs of former builds this process loads per second, in
	// the background, from ten seconds after it has taken their shards and while memory has
	// room. A run goes on then that waits where the code has Removed now. One that goes on
	// waiting keeps its build, so that a former build may take it up after a rollback; it is
	// loaded once per build. If three runs of a workflow stall, its others are left alone.
	// Where the Build is unknown, and by RunOnce, no run is loaded. Default 20, at most 1,000;
	// None: none.
	ReloadRate int
	// Logger gets what happens outside of calls. Default: slog.Default().
	Logger *slog.Logger
	// Codecs encode and decode values: the first one encodes, all decode, by the
	// format that is stored with each value. Default: JSON.
	Codecs []Codec
	// Errors are known by codes, so that errors.Is and errors.As find them after
	// a replay.
	Errors []ErrorCode
	// Retry is the default of all steps. See Retry for its own defaults.
	Retry Retry
	// OnFailure says what becomes of a run that fails. Default: EndOnFailure.
	OnFailure OnFailure
	// OnBug says what becomes of a run whose code has a fault. Default: StallOnBug.
	OnBug OnBug
	// Around is called for each step body and calls next: for logging, tracing,
	// measuring. What it returns is the body's error.
	Around func(ctx context.Context, step StepInfo, next func(context.Context) error) error

	// MaxSteps bounds the step bodies that run at once; more wait in order. A body
	// counts until its outcome is durable, so that a crash repeats no more than
	// these. Workflows take turns. Default 1,000, of which one workflow takes 889 at
	// most, so that others need not wait for its long bodies.
	MaxSteps int
	// MaxRuns bounds the runs in memory, suspended ones not counted; more wait in
	// the store. Topics, queues and schedules that have something to do are counted by
	// themselves, up to the same number; one that is not in memory waits like a run until
	// there is room. Default 10,000.
	MaxRuns int
	// MaxParkedBytes bounds, in bytes, the suspended runs that stay in memory, where they go on
	// without replay. A run counts with its stack, its history with all values, its input and
	// the messages that it has not received; see Footprint. When there are too many, those
	// leave that have waited longest: plain deferred functions of their code are executed. A run
	// that alone is larger leaves at once. Default 256 MiB, which is 12,000 small runs; None: no
	// run stays.
	MaxParkedBytes int
	// ParkFor is how long a suspended run stays in memory while there is room. Default 1 h.
	ParkFor time.Duration

	// MaxInbox bounds the messages and updates that one run has not received: Send and Call
	// return ErrInboxFull above it. It is exact for one sender; each other process may send
	// 200 messages or 16 MiB before it looks. Default 10,000; None: without limit.
	MaxInbox int
	// MaxInboxBytes is the same bound for their values. Default 512 MiB; None: without limit.
	MaxInboxBytes int

	// MaxValue bounds one stored value in bytes. Default 2 MiB.
	MaxValue int
	// WarnValue is the length from which on a value is logged as large, once per
	// place. Default: half of MaxValue; None: never.
	WarnValue int
	// WarnStep is how long a body may execute without a heartbeat before that is logged
	// as "a step has not returned", then after twice the time, and so on. Default 10 min;
	// None: never.
	WarnStep time.Duration
	// Payloads says whether values are compressed, encrypted, or kept outside the
	// store. Default: none of it.
	Payloads Payloads
	// MaxEntries and MaxBytes bound the history of one run: its operations, and the bytes of
	// their values. Defaults 100,000 and 256 MiB. A run that has used half, or 80 %, is logged.
	// At the bound it stalls with CauseBudget, nothing is undone, and Resume lets it go on when
	// the bound is larger.
	MaxEntries int
	MaxBytes   int

	// Sweep is the interval at which runs that have outlived their retention are deleted.
	// Default 1 min.
	Sweep time.Duration
	// Retention is how long runs are kept after their end, where their workflow
	// does not say. Default: 30 days.
	Retention Retention

	// Groups are the groups of nodes that this process belongs to, for stores on
	// which several work at the same time: a run belongs to the group that its queue
	// names, and is executed by one of the group's nodes. On other stores one process
	// executes the runs of all groups. Default: the group "default", of the runs that
	// were started without a queue.
	Groups []string
	// LeaseTTL is how long another process waits for this one when it has
	// stopped without a word. Default 10 s; at least 3 times Renew. On a store with many
	// slots from 1 s to 5 min. Processes on one store should have about the same: one that
	// sees a lease of more than 4 times its own length logs that.
	LeaseTTL time.Duration
	// Renew is the interval at which leases are renewed. Default LeaseTTL / 3.
	Renew time.Duration
	// Poll is how long a lost hint may delay a run. Default 1 s.
	Poll time.Duration
	// Grace is how long step bodies may go on when Run is asked to stop, before
	// their contexts end. Default 15 s; None: not at all.
	Grace time.Duration
	// Exclusive makes Run return an error, instead of standing by, when another
	// process works on the store.
	Exclusive bool

	// PoisonLimit is how often in a row a run may take its process down while it
	// is tried for that, before it is stalled. Default 3, at least 2; None:
	// without limit, and no run waits because the process has died.
	PoisonLimit int
	// AloneFor is how long a run is tried at the longest. The pause before a
	// trial alone is at most twice as long. A run that takes its process down
	// later than this is not found. Default 10 s.
	AloneFor time.Duration

	// OnLoss is called when the store does not have what it had acknowledged to this
	// process: a backup was restored, a standby without the last writes has taken over, a
	// disk was lost. All runs go on from what is there; what is missing was done and is done
	// again, or must be looked for elsewhere. The error says what is missing. It must return
	// soon. Default: nothing is called; the log has an error in any case.
	OnLoss func(error)
	// OnRecover is called when this process has taken over the store, or some of its
	// shards. It must return soon. Default: nothing is called.
	OnRecover func(Recovery)
	// OnEnd is called when a run has succeeded, failed or was cancelled, and OnStall when
	// one is stalled: after the commit, by the process that has made it. They are called
	// one after the other, not concurrently, and must return soon. A panic in one of them is
	// logged. A run that is retried or rewound ends again. At most once for each end: never
	// if the process dies, or loses the answer of the store, between the commit and the
	// call. What must happen belongs into a step. Default: nothing is called; the log has
	// runs that fail or stall in any case.
	OnEnd   func(*RunInfo)
	OnStall func(*RunInfo)
	// Observer is called with all that this process does, for metrics and traces. Default:
	// nothing is called.
	Observer *Observer
}

// Recovery says what was found at taking over a store, or some of its shards.
// Recovering needs nothing else: what was running is ready again. Stats.Recovered has counts.
type Recovery struct {
	Clean    bool          // the former owners ended cleanly, or there were none
	Suspects int           // runs that were executing when they did not
	Shards   []store.Shard // what was taken over
}

// Engine runs workflows on a store, and starts, sends to and reads runs. Its
// methods are safe for concurrent use.
type Engine struct {
	node      string
	build     string
	base      store.Store // with values as they are stored
	payloads  *payload.Policy
	inner     *engine.Engine
	store     store.Store
	log       *slog.Logger
	codecs    codecs
	errors    *errorTable
	retry     Retry
	onFailure OnFailure
	onBug     OnBug
	wrap      func(context.Context, StepInfo, func(context.Context) error) error
	limit     int  // of a value, in bytes
	single    bool // one process at a time works on the store
	rooms     *topic.Rooms
	inboxes   *inboxes.Guard

	observation *observation // nil: there is no observer
	schema      int          // of the store, as New has found it
	leaseTTL    time.Duration

	definitions map[string]*definition                                // those with code here; not changed after New
	library     *librarian                                            // nil: there is none
	tasks       map[string]func(context.Context, []byte) (any, error) // of Config.Tasks
	desk        *tasks.Desk
	limits      runner.Limits
}

// New returns an engine. It reads the store, which ctx bounds, and starts no
// goroutine: Run executes workflows. Everything that is wrong with the config is
// reported at once, wrapping ErrInvalid; other errors are those of the store.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Replaces && cfg.Node == "" {
		return nil, fmt.Errorf("config: Replaces: expected a Node that later processes have, too; found none: %w", ErrInvalid)
	}
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	found, err := cfg.Store.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the store: %w", err)
	}
	if err := cfg.checkLease(found.Slots); err != nil {
		return nil, err
	}
	if n := len(store.LanesOf(cfg.Store).Lanes()); found.Lanes > 1 && n != found.Lanes {
		return nil, fmt.Errorf("config: Store: expected the %d lanes of a store on several servers, found a %T that hides "+
			"them: let it implement store.Laned with the lanes of the store it wraps, see store.WrapLanes: %w",
			found.Lanes, cfg.Store, ErrInvalid)
	}
	payloads := cfg.Payloads.policy()
	e := &Engine{base: cfg.Store, payloads: payloads, log: cfg.Logger, codecs: cfg.Codecs,
		node: cfg.Node, build: cfg.Build, retry: cfg.Retry, onFailure: cfg.OnFailure, onBug: cfg.OnBug,
		wrap: cfg.Around, limit: cfg.MaxValue, single: found.Slots == 1,
		schema: found.Schema, leaseTTL: cfg.LeaseTTL}
	var attempt func(context.Context, *steps.Attempt) (context.Context, func(*stored.Failure))
	if cfg.Observer != nil {
		e.observation = &observation{Observer: *cfg.Observer, engine: e, log: cfg.Logger}
		if cfg.Observer.Attempt != nil {
			attempt = e.observation.attempt
		}
	}
	port := e.observation.port()
	cfg.Store = observe.Store(cfg.Store, port)
	e.store = payloads.View(cfg.Store)
	e.definitions = make(map[string]*definition, len(cfg.Workflows))
	e.limits = runner.Limits{Entries: cfg.MaxEntries, Bytes: cfg.MaxBytes, Value: cfg.MaxValue}
	if e.errors, err = newErrorTable(e.codecs, cfg.Errors); err != nil {
		return nil, err
	}
	workflows := make(map[string]engine.Workflow, len(cfg.Workflows))
	for _, d := range cfg.Workflows {
		workflows[d.Name()] = d.inner().workflow(e)
		e.definitions[d.Name()] = d.inner()
	}
	var retention []store.Retention
	for _, d := range cfg.Workflows {
		retention = append(retention, d.inner().options.retention.over(cfg.Retention).rules(d.Name())...)
	}
	rules := func() []store.Retention { return retention }
	var source library.Source
	if cfg.Library != nil {
		e.library = &librarian{engine: e, library: cfg.Library}
		source = e.library
		rules = func() []store.Retention {
			all := slices.Clone(retention)
			for _, name := range e.library.known() {
				if e.definitions[name] == nil {
					all = append(all, cfg.Retention.rules(name)...)
				}
			}
			return all
		}
	}
	host, _ := os.Hostname() // only shown
	var onRecover func(recovery.Found)
	if cfg.OnRecover != nil {
		onRecover = func(r recovery.Found) { cfg.OnRecover(Recovery(r)) }
	}
	hook := func(f func(*RunInfo)) func(*store.Run) {
		if f == nil {
			return nil
		}
		return func(run *store.Run) { f(e.runInfo(run)) }
	}
	e.inner = engine.New(engine.Config{
		Store: cfg.Store, Payloads: payloads, WarnValue: max(cfg.WarnValue, 0), WarnStep: max(cfg.WarnStep, 0),
		Retention: rules, Sweep: cfg.Sweep,
		Workflows: workflows, Library: source, Entities: e.entityKinds(),
		Node: cfg.Node, Build: cfg.Build, Host: host, PID: os.Getpid(), Log: cfg.Logger,
		Limits:   e.limits,
		MaxSteps: cfg.MaxSteps, FairSteps: cfg.MaxSteps == defaultSteps,
		MaxRuns: cfg.MaxRuns, MaxParkedBytes: max(cfg.MaxParkedBytes, 0), ParkFor: cfg.ParkFor,
		Groups: cfg.Groups, ReloadRate: cfg.ReloadRate,
		LeaseTTL: cfg.LeaseTTL, Renew: cfg.Renew, Poll: cfg.Poll, Grace: max(cfg.Grace, 0), Exclusive: cfg.Exclusive,
		Replaces: cfg.Replaces, Tasks: taskNames(cfg.Tasks), Begun: e.begunTasks,
		PoisonLimit: cfg.PoisonLimit, AloneFor: cfg.AloneFor, OnRecover: onRecover, OnLoss: cfg.OnLoss,
		Hooks:    report.Hooks{OnEnd: hook(cfg.OnEnd), OnStall: hook(cfg.OnStall)},
		Observer: port, Attempt: attempt, LongPause: e.observation.longPause(),
	}, found)
	e.tasks, _ = tasksOf(cfg.Tasks)
	e.desk = tasks.New(tasks.Config{Store: e.store, Client: e.inner, Follow: e.inner.Waiters().Follow,
		States: e.inner.Queues().States, Poll: cfg.Poll})
	e.rooms = topic.NewRooms(e.inner, e.store)
	e.inboxes = inboxes.New(cfg.Store, inboxes.Limits{Items: cfg.MaxInbox, Bytes: cfg.MaxInboxBytes})
	e.observation.attach(e)
	cfg.warnOfStranger(&found)
	return e, nil
}

// Run executes workflows until ctx ends. It blocks and owns all goroutines.
//
// On a store that one process works on at a time, such as a file, it stands by while
// there is another owner, and takes over when that ends. On a store with many slots it
// takes its share of the runs: the living processes share the slots among them, and
// again whenever one joins, leaves or dies. On such a store Run fails with an error
// wrapping ErrInvalid if another process of the same build and group registers different
// workflows. With Exclusive it is the only process, on any store, or returns an error
// that names the other one, and wraps ErrHeld.
//
// When ctx ends, nothing new begins. Step bodies may finish within Grace, then their
// contexts end. Where several nodes share a store, the other runs of a long body's shard go
// on here until the shard is given back. Completed operations are committed, and the store is
// released, so that others take over at once. Run then returns nil, or an error that lists the
// code and the bodies that have not returned: nothing that they still do is recorded. If the
// store is closed before, Run returns an error that wraps store.ErrClosed. With Config.Replaces
// it returns one that wraps ErrReplaced when a later process of the same name has begun.
func (e *Engine) Run(ctx context.Context) error {
	return differs(e.inner.Run(context.WithValue(ctx, engineKey{}, e)))
}

// differs returns the error of Run: other workflows than those of another node are invalid.
func differs(err error) error {
	if differ := (*engine.DifferError)(nil); errors.As(err, &differ) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// RunOnce executes all that is ready and returns when nothing is: for a cron job, a request
// handler, a function. next is the time, by the clock of this process, at which RunOnce is to
// be called again: when the first sleep, deadline, schedule or retry is due. Zero means that
// nothing is planned. Before it returns it deletes what has outlived its retention.
//
// Ready is also what becomes so meanwhile, so a run that never waits keeps it busy until ctx
// ends. It waits for step bodies, and for delays that are shorter than a second. What is
// started or sent while it is returning may be left: call RunOnce after a Start or a Send. A
// run whose code this process does not have is left, and is in no next.
//
// When ctx ends before, RunOnce stops as Run does; next is then a time that has passed,
// because something may be left. On a store that one process works on at a time, such as a
// file, it returns an error wrapping ErrHeld at once if there is another owner; next is then
// when that owner must have renewed its lease. On a store with many slots it takes those that
// others do not hold, and next is not later than the first end of a lease of others: they may
// have died. In all else it is like Run. RunOnce may be called again and again, but not while
// Run or RunOnce of the same engine is under way.
func (e *Engine) RunOnce(ctx context.Context) (next time.Time, err error) {
	next, err = e.inner.RunOnce(context.WithValue(ctx, engineKey{}, e))
	return next, differs(err)
}

// defaultSteps is the default of Config.MaxSteps.
const defaultSteps = 1000

// Owner reports whether this process executes the store's runs, or some, now.
func (e *Engine) Owner() bool { return e.inner.Owner() }

func (cfg *Config) setDefaults() {
	host, _ := os.Hostname() // "" is replaced below
	pick(&host, "node")
	pick(&cfg.Node, fmt.Sprintf("%s-%d-%s", host, os.Getpid(), nonce()))
	pick(&cfg.Build, buildOf())
	pick(&cfg.Logger, slog.Default())
	if len(cfg.Codecs) == 0 {
		cfg.Codecs = []Codec{JSON}
	}
	cfg.Retry = cfg.Retry.over(defaultRetry)
	pick(&cfg.OnFailure, EndOnFailure)
	pick(&cfg.OnBug, StallOnBug)
	cfg.Retention = cfg.Retention.over(defaultRetention)
	pick(&cfg.MaxSteps, defaultSteps)
	pick(&cfg.MaxRuns, 10_000)
	pick(&cfg.MaxParkedBytes, 256<<20)
	pick(&cfg.ReloadRate, 20)
	pick(&cfg.ParkFor, time.Hour)
	pick(&cfg.MaxInbox, 10_000)
	pick(&cfg.MaxInboxBytes, 512<<20)
	pick(&cfg.MaxValue, 2<<20)
	pick(&cfg.WarnStep, 10*time.Minute)
	pick(&cfg.WarnValue, max(cfg.MaxValue/2, 1))
	cfg.Payloads.setDefaults()
	pick(&cfg.MaxEntries, 100_000)
	pick(&cfg.MaxBytes, 256<<20)
	if len(cfg.Groups) == 0 {
		cfg.Groups = []string{store.DefaultGroup}
	}
	pick(&cfg.LeaseTTL, 10*time.Second)
	pick(&cfg.Renew, cfg.LeaseTTL/3)
	pick(&cfg.Poll, time.Second)
	pick(&cfg.Sweep, time.Minute)
	pick(&cfg.Grace, 15*time.Second)
	pick(&cfg.PoisonLimit, 3)
	pick(&cfg.AloneFor, 10*time.Second)
}

func nonce() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// buildOf returns the time and the VCS revision of the binary.
func buildOf() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return engine.UnknownBuild
	}
	at, revision, modified := "", "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.time":
			at = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	if revision == "" || at == "" {
		return engine.UnknownBuild
	}
	return at + "-" + revision[:min(len(revision), 12)] + modified
}

// minLease and maxLease bound LeaseTTL on a store with many slots. A shorter one does not
// outlast a pause of the garbage collector or of the network. A longer one holds the runs of a
// process that has died; a store with one slot knows of its owner's death otherwise.
const (
	minLease = time.Second
	maxLease = 5 * time.Minute
)

// checkLease checks what depends on the number of slots.
func (cfg *Config) checkLease(slots int) error {
	if slots > 1 && (cfg.LeaseTTL < minLease || cfg.LeaseTTL > maxLease) {
		return fmt.Errorf("config: LeaseTTL: expected %s to %s, found %s: %w", minLease, maxLease, cfg.LeaseTTL, ErrInvalid)
	}
	return nil
}

// check reports everything that is wrong, each with the field's name.
func (cfg *Config) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("config: "+format+": %w", append(args, ErrInvalid)...))
	}
	if cfg.Store == nil {
		bad("Store: expected an open store, found nil; open one, for example with sqlite.Open")
	}
	for _, f := range []struct {
		field string
		value int
		none  bool
	}{
		{"MaxSteps", cfg.MaxSteps, false}, {"MaxRuns", cfg.MaxRuns, false},
		{"MaxParkedBytes", cfg.MaxParkedBytes, true},
		{"WarnValue", cfg.WarnValue, true}, {"MaxInbox", cfg.MaxInbox, true}, {"MaxInboxBytes", cfg.MaxInboxBytes, true},
		{"MaxValue", cfg.MaxValue, false}, {"MaxEntries", cfg.MaxEntries, false}, {"MaxBytes", cfg.MaxBytes, false},
		{"PoisonLimit", cfg.PoisonLimit, true},
	} {
		if f.value < 1 && !(f.none && f.value == None) {
			bad("%s: expected 1 or more, found %d", f.field, f.value)
		}
	}
	for _, f := range []struct {
		field string
		value time.Duration
	}{
		{"ParkFor", cfg.ParkFor}, {"LeaseTTL", cfg.LeaseTTL}, {"Renew", cfg.Renew},
		{"Poll", cfg.Poll}, {"Sweep", cfg.Sweep}, {"AloneFor", cfg.AloneFor},
	} {
		if f.value < time.Millisecond {
			bad("%s: expected 1ms or more, found %s", f.field, f.value)
		}
	}
	if c := cfg.Build[0]; cfg.Build != engine.UnknownBuild &&
		!(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
		bad("Build: expected a letter or a digit at the beginning, found %q", cfg.Build)
	}
	if cfg.ReloadRate < None || cfg.ReloadRate > 1000 {
		bad("ReloadRate: expected 1 to 1000, 0 (default) or None, found %d", cfg.ReloadRate)
	}
	if cfg.Grace < None {
		bad("Grace: expected a positive duration or None, found %s", cfg.Grace)
	}
	if cfg.WarnStep < None {
		bad("WarnStep: expected a positive duration or None, found %s", cfg.WarnStep)
	}
	if cfg.Renew > cfg.LeaseTTL/3 {
		bad("Renew: expected at most a third of LeaseTTL (%s), found %s", cfg.LeaseTTL/3, cfg.Renew)
	}
	if cfg.OnBug > FailOnBug {
		bad("OnBug: expected StallOnBug or FailOnBug, found %d", cfg.OnBug)
	}
	if cfg.OnFailure > StallOnFailure {
		bad("OnFailure: expected EndOnFailure or StallOnFailure, found %d", cfg.OnFailure)
	}
	if err := cfg.Retry.check("Retry"); err != nil {
		problems = append(problems, fmt.Errorf("config: %w", err))
	}
	cfg.Payloads.check(bad)
	if err := cfg.Retention.check(); err != nil {
		problems = append(problems, fmt.Errorf("config: %w", err))
	}
	for i, group := range cfg.Groups {
		if err := checkName("group", group); err != nil {
			problems = append(problems, fmt.Errorf("config: Groups[%d]: %w", i, err))
		}
		if group == store.SystemGroup {
			bad("Groups[%d]: expected another name than that of the engine's own group, which every process belongs to, "+
				"found %q", i, group)
		}
		if slices.Contains(cfg.Groups[:i], group) {
			bad("Groups[%d]: expected each group once, found %q again", i, group)
		}
	}
	formats := map[byte]bool{}
	for i, c := range cfg.Codecs {
		if c == nil || formats[c.Format()] {
			bad("Codecs[%d]: expected a codec with a format of its own", i)
			continue
		}
		formats[c.Format()] = true
	}
	problems = append(problems, checkDefinitions(cfg.Workflows)...)
	_, wrong := tasksOf(cfg.Tasks)
	problems = append(problems, wrong...)
	return errors.Join(problems...)
}

func checkDefinitions(definitions []Definition) []error {
	var problems []error
	sites := map[string]string{}
	for i, d := range definitions {
		if d == nil {
			problems = append(problems, fmt.Errorf("config: Workflows[%d]: expected a definition, found nil: %w", i, ErrInvalid))
			continue
		}
		in := d.inner()
		if err := checkName("workflow", in.name); err != nil {
			problems = append(problems, fmt.Errorf("config: Workflows[%d]: %w", i, err))
		}
		if store.IsEntity(in.name) {
			problems = append(problems, fmt.Errorf("config: Workflows[%d]: workflow: expected no %q at the beginning of its "+
				"name, which names the engine's own entities, found %q: %w",
				i, store.EntityPrefix, in.name, ErrInvalid))
		}
		if in.code == nil {
			problems = append(problems, fmt.Errorf("config: Workflows[%d]: %q is a Ref, which has no code; use Define: %w", i,
				in.name, ErrInvalid))
		}
		if err := in.options.retry.check("Retry"); err != nil {
			problems = append(problems, fmt.Errorf("config: workflow %q: %w", in.name, err))
		}
		if err := in.options.retention.check(); err != nil {
			problems = append(problems, fmt.Errorf("config: workflow %q: %w", in.name, err))
		}
		if q := in.options.queue; q != nil {
			if err := q.check(); err != nil {
				problems = append(problems, fmt.Errorf("config: workflow %q: %w", in.name, err))
			}
		}
		if n := len(in.options.discardNames); n > store.MaxDiscardNames {
			problems = append(problems, fmt.Errorf("config: workflow %q: DiscardDeadLetters: expected at most %d kinds of "+
				"messages, found %d: %w", in.name, store.MaxDiscardNames, n, ErrInvalid))
		}
		for _, name := range in.options.discardNames {
			if err := checkName("message", name); err != nil {
				problems = append(problems, fmt.Errorf("config: workflow %q: DiscardDeadLetters: %w", in.name, err))
			}
		}
		if in.options.maxRunTime < None || in.options.maxSuspension < None {
			problems = append(problems, fmt.Errorf("config: workflow %q: expected durations that are positive for MaxRunTime "+
				"and MaxSuspension: %w", in.name, ErrInvalid))
		}
		if in.options.pauseAfter < None {
			problems = append(problems, fmt.Errorf("config: workflow %q: PauseAfter: expected 1 or more, or None, found %d: %w",
				in.name, in.options.pauseAfter, ErrInvalid))
		}
		if in.options.footprint < None {
			problems = append(problems, fmt.Errorf("config: workflow %q: Footprint: expected bytes, or None, found %d: %w",
				in.name, in.options.footprint, ErrInvalid))
		}
		for _, named := range []struct {
			option string
			value  int
			most   int
		}{
			{"UndoOn", int(in.options.undoOn), int(UndoOnFailure | UndoOnCancel | UndoOnRollback)},
			{"OnFailure", int(in.options.onFailure), int(StallOnFailure)},
			{"OnBug", int(in.options.onBug), int(FailOnBug)},
		} {
			if named.value > named.most {
				problems = append(problems, fmt.Errorf("config: workflow %q: %s: expected a value that has a name, found %d: %w",
					in.name, named.option, named.value, ErrInvalid))
			}
		}
		if site, twice := sites[in.name]; twice {
			problems = append(problems, fmt.Errorf("config: workflow %q is defined twice, at %s and at %s: %w", in.name, site,
				in.site, ErrInvalid))
		}
		sites[in.name] = in.site
	}
	return problems
}

// checkName checks the name of a workflow or message.
func checkName(what, name string) error {
	if err := location.CheckName(name); err != nil {
		return fmt.Errorf("%s: %w: %w", what, err, ErrInvalid)
	}
	return nil
}

// encodeValue encodes what a caller gives, within the limit.
func (e *Engine) encodeValue(what string, v any) ([]byte, error) {
	data, err := e.codecs.encode(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", what, err, ErrInvalid)
	}
	return data, e.checkSize(what, data)
}

func (e *Engine) checkSize(what string, data []byte) error {
	if len(data) > e.limit {
		return fmt.Errorf("%s has %d bytes, more than the limit of %d; store it elsewhere and pass a reference, or raise "+
			"Config.MaxValue: %w",
			what, len(data), e.limit, ErrTooLarge)
	}
	e.inner.Large("", what, len(data))
	return nil
}

// Describe returns what the store is, which processes work on it, and which workflows it
// knows.
func (e *Engine) Describe(ctx context.Context) (store.Description, error) {
	d, err := e.store.Describe(ctx)
	slices.Sort(d.Workflows)
	return d, err
}
