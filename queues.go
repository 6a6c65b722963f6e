package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/queues"
	"github.com/stet-run/stet/store"
)

// ErrNoQueue: there is no queue of this name. Make one with Queues.Create.
var ErrNoQueue = errors.New("no such queue")

// queueError says of which queue an error is.
func queueError(name string, err error) error {
	if errors.Is(err, queues.ErrNoQueue) {
		return fmt.Errorf("queue %q: %w", name, ErrNoQueue)
	}
	return fmt.Errorf("queue %q: %w", name, err)
}

// QueueSettings are the limits of a queue. They count permits: a run has one from
// before it first executes until it has ended, also while it is suspended, paused or
// stalled; a step for an attempt, if it uses the queue (see Permit). They are exact,
// whichever nodes execute the runs. 0 is no limit.
type QueueSettings struct {
	// Concurrency bounds the permits that are held at a time.
	Concurrency int
	// PerKey bounds those of one key. Runs without a key have no such limit.
	PerKey int
	// Rate bounds the permits granted in any interval of the length Per, each with its
	// Cost (see Permit). At most 1,000,000,000.
	Rate int
	// RatePerKey bounds those of one key, likewise. Keys take turns, and one that has used
	// its rate up lets the others pass. Runs without a key have no such limit. A permit
	// may come up to a 64th of Per late, never early.
	RatePerKey int
	// Per is from 1 ms to 366 days. Default: 1 s, if there is a Rate or a RatePerKey.
	Per time.Duration
	// Group names the nodes that execute the queue's runs (Config.Groups). It cannot
	// be changed. Default: "default".
	Group string
	// ReleaseWhileSuspended has runs give their permit back while they are suspended,
	// and ask for a new one when they are woken. It is for runs that are started from
	// then on.
	ReleaseWhileSuspended bool
}

// maxRate bounds what a rate can count, and what a permit can cost.
const maxRate = 1_000_000_000

func (s *QueueSettings) stored() (permit.Settings, error) {
	out := permit.Settings{
		Concurrency: s.Concurrency, PerKey: s.PerKey, Rate: s.Rate, RatePerKey: s.RatePerKey,
		Per:   store.Delay(s.Per.Microseconds()),
		Group: s.Group, Release: s.ReleaseWhileSuspended,
	}
	pick(&out.Group, store.DefaultGroup)
	limited := s.Rate != 0 || s.RatePerKey != 0
	if limited {
		pick(&out.Per, store.Delay(time.Second.Microseconds()))
	}
	bad := func(format string, args ...any) (permit.Settings, error) {
		return out, fmt.Errorf(format+": %w", append(args, ErrInvalid)...)
	}
	switch {
	case s.Concurrency < 0 || s.PerKey < 0:
		return bad("expected limits of 0 or more, found %d and %d per key", s.Concurrency, s.PerKey)
	case s.Rate < 0 || s.Rate > maxRate || s.RatePerKey < 0 || s.RatePerKey > maxRate:
		return bad("expected a rate of 0 to %d, found %d and %d per key", maxRate, s.Rate, s.RatePerKey)
	case !limited && s.Per != 0:
		return bad("expected a rate for the time of %s, found none", s.Per)
	case limited && (out.Per < 1000 || out.Per > store.Delay(366*24*time.Hour/time.Microsecond)):
		return bad("expected a time of 1ms to 366 days for the rate, found %s", s.Per)
	case out.Group == store.SystemGroup:
		return bad("expected a group other than %q, which is the engine's own", store.SystemGroup)
	}
	if err := location.CheckName(out.Group); err != nil {
		return bad("group: %w", err)
	}
	return out, nil
}

// QueueInfo is how a queue stands.
type QueueInfo struct {
	Name     string
	Settings QueueSettings // that count
	Declared QueueSettings // of the last Create
	Source   QueueSource   // of Declared; zero: not known
	Override *QueueSource  // who has overridden what is declared by Settings; nil: nobody
	Paused   bool
	PausedBy *QueueSource // who has paused it, and why; nil: it is not paused, or that is not known
	Waiting  int          // runs, and attempts of steps, that would begin now if they had a permit
	Delayed  int          // runs that are to begin later
	Held     int          // permits
	Granted  int64        // permits since the queue was made
	Tasks    []TaskCount  // that are offered and leased, by name
	Locks    []QueueLock  // that keep runs from going on; at most 20
	// Lacks is what the process that owns the queue lacks to read it, such as a key. It grants nothing until another
	// process has it. "": nothing is lacking.
	Lacks string
}

// QueueLock says that all permits of a queue, or of one of its keys, are held by runs that only wait for runs which
// they have started, directly or not, and that these wait for the permits.
type QueueLock struct {
	Key     string   // whose permits are held; "": all permits of the queue
	Held    int      // permits
	Holders []string // IDs of runs, at most 20
	Waiting []string // IDs of runs, the first one in the queue first; at most 50
}

// QueueSource says where settings of a queue come from.
type QueueSource struct {
	By    string    // the node that has declared them, or the operator who has overridden them
	Build string    // of the node that has declared them
	Why   string    // the operator's reason
	At    time.Time `json:",omitzero"`
}

func queueSource(s *permit.Source) QueueSource {
	return QueueSource{By: s.By, Build: s.Build, Why: s.Why, At: s.At.Time()}
}

func queueInfo(name string, s *permit.State) *QueueInfo {
	d := declared(s)
	info := &QueueInfo{
		Name: name, Paused: s.Paused, Waiting: s.Waiting, Delayed: s.Delayed, Held: s.Held, Granted: s.Granted,
		Tasks: taskCounts(s.Tasks), Locks: queueLocksOf(s), Settings: settingsOf(&s.Settings), Declared: settingsOf(&d),
	}
	if s.PausedBy != nil {
		source := queueSource(s.PausedBy)
		info.PausedBy = &source
	}
	if l := s.Limits; l != nil && l.Source != nil {
		info.Source = queueSource(l.Source)
	}
	if l := s.Limits; l != nil && l.Override != nil {
		source := queueSource(&l.Override.Source)
		info.Override = &source
	}
	return info
}

func settingsOf(s *permit.Settings) QueueSettings {
	return QueueSettings{
		Concurrency: s.Concurrency, PerKey: s.PerKey, Rate: s.Rate, RatePerKey: s.RatePerKey,
		Per:   time.Duration(s.Per) * time.Microsecond,
		Group: s.Group, ReleaseWhileSuspended: s.Release,
	}
}

// QueueOption is an option of Queues.Create: an Act, if an operator asks and not the code of an
// application. The store's audit then has it.
type QueueOption interface{ applyQueue(*queueOptions) }

type queueOptions struct{ act *Act }

func (a Act) applyQueue(o *queueOptions) { o.act = &a }

// Queues are the queues of an engine's store. Safe for concurrent use.
type Queues struct{ engine *Engine }

// Queues returns the queues of the store.
func (e *Engine) Queues() Queues { return Queues{e} }

// Create declares a queue: it makes it, changes the settings that were declared before, or
// does nothing if they are the same. The name is 1 to 64 bytes. Call it wherever the
// application starts; Run need not have begun, here or elsewhere.
//
// What is declared is durable when Create returns, and counts as soon as a node has the
// queue. Of processes that declare different settings, as two builds do during a deploy,
// the last call counts. Settings of Set count in place of declared ones until Reset; a
// Create that they keep from counting is logged at level Warn.
//
// Permits that are held stay: where there are more than a new limit allows, none is granted
// until there are fewer. Given an Act, the store's audit has it. Errors: ErrRefused if the queue
// has another group, ErrInvalid, and those of the store.
func (q Queues) Create(ctx context.Context, name string, s QueueSettings, opts ...QueueOption) error {
	var o queueOptions
	for _, opt := range opts {
		opt.applyQueue(&o)
	}
	settings, err := s.stored()
	if err == nil && o.act != nil {
		err = o.act.check()
	}
	if err == nil {
		err = location.CheckName(name)
		if err != nil {
			err = fmt.Errorf("%w: %w", err, ErrInvalid)
		}
	}
	if err == nil {
		err = q.declare(ctx, name, settings, o.act)
	}
	if err != nil {
		return queueError(name, err)
	}
	if o.act != nil {
		q.engine.logged(ctx, permit.Create, "queue", name, *o.act, nil)
	}
	return nil
}

// declare sends the settings that the code declares to a queue, unless it has them.
func (q Queues) declare(ctx context.Context, name string, s permit.Settings, act *Act) error {
	e := q.engine
	state, run, err := e.inner.Queues().State(ctx, name)
	switch {
	case errors.Is(err, queues.ErrNoQueue):
	case err != nil:
		return err
	default:
		if err := q.redeclare(ctx, name, s, &state); err != nil {
			return err
		}
		creating, err := e.inner.Queues().Creating(ctx, run.No)
		if err != nil {
			return err
		}
		if creating == nil && declared(&state) == s || creating != nil && creating.Settings == s {
			return nil
		}
	}
	defer e.inner.Queues().Forget(name)
	c, record := permit.Change{Settings: s, By: e.node, Build: e.build}, []byte(nil)
	if act != nil {
		c.By, c.Why = cmp.Or(act.By, e.node), act.Why
		record = recordOf(e, permit.Create, "queue", name, *act).Encode()
	}
	return entity.TellWith(ctx, e.inner, permit.EntityID(name), permit.Create, c.Encode(), record)
}

// redeclare says what settings that are declared again lead to.
func (q Queues) redeclare(ctx context.Context, name string, s permit.Settings, state *permit.State) error {
	e := q.engine
	old := declared(state)
	if old.Group != s.Group {
		return fmt.Errorf("its runs belong to group %s, found %s: delete it and create it again, or create another: %w",
			old.Group, s.Group, ErrRefused)
	}
	if l := state.Limits; l != nil && l.Override != nil {
		by := &l.Override.Source
		e.log.WarnContext(ctx, "a queue's settings were overridden: declared ones do not count until they are reset",
			"queue", name, "by", by.By, "since", by.At.Time(), "why", by.Why)
	}
	if old != s {
		e.log.InfoContext(ctx, "a queue is declared with other settings", "queue", name,
			"former", settingsText(old), "declared", settingsText(s))
	}
	return nil
}

// declared returns the settings of a queue that the code declares.
func declared(s *permit.State) permit.Settings {
	if s.Limits != nil {
		return s.Limits.Declared
	}
	return s.Settings
}

// settingsText is settings for the log.
func settingsText(s permit.Settings) string {
	return fmt.Sprintf("%+v", settingsOf(&s))
}

// Set overrides all settings of a queue, except the group, whatever the code declares, until
// Reset. The act stands in QueueInfo. Permits that are held stay, as with Create. It returns
// when some node has done so: ErrPending says that ctx has ended before, and the request
// stands. Errors: ErrNoQueue, ErrRefused if the queue has another group, ErrInvalid, and
// those of the store.
func (q Queues) Set(ctx context.Context, name string, s QueueSettings, act Act) error {
	settings, err := s.stored()
	if err == nil {
		err = act.check()
	}
	if err != nil {
		return queueError(name, err)
	}
	c := permit.Change{Settings: settings, By: cmp.Or(act.By, q.engine.node), Why: act.Why}
	return q.engine.manage(ctx, name, permit.Set, c.Encode(), act)
}

// Reset takes back what Set has overridden: the settings that the code declares count
// again. Errors are those of Pause.
func (q Queues) Reset(ctx context.Context, name string, act Act) error {
	return q.act(ctx, name, permit.Reset, act)
}

// Pause stops a queue from granting permits until it is resumed. Runs that hold one go
// on, and runs can be started on it. The act stands in QueueInfo; that of the first request
// counts. Errors: ErrNoQueue, ErrInvalid for a bad act,
// ErrPending, and those of the store.
func (q Queues) Pause(ctx context.Context, name string, act Act) error {
	if err := act.check(); err != nil {
		return queueError(name, err)
	}
	by := permit.Change{By: cmp.Or(act.By, q.engine.node), Why: act.Why}
	return q.engine.manage(ctx, name, permit.Pause, by.Encode(), act)
}

// Resume lets a paused queue grant permits again. Errors are those of Pause.
func (q Queues) Resume(ctx context.Context, name string, act Act) error {
	return q.act(ctx, name, permit.Resume, act)
}

// Delete deletes a queue in which nothing waits and of which nothing holds a permit;
// otherwise it is ErrRefused. Steps that use it afterwards, and children that are started
// on it, wait until it is created again. Other errors are those of Pause.
func (q Queues) Delete(ctx context.Context, name string, act Act) error {
	return q.act(ctx, name, permit.Delete, act)
}

// act requests what needs no settings.
func (q Queues) act(ctx context.Context, name, verb string, act Act) error {
	if err := act.check(); err != nil {
		return queueError(name, err)
	}
	return q.engine.manage(ctx, name, verb, nil, act)
}

// manage asks a queue's record for something.
func (e *Engine) manage(ctx context.Context, name, verb string, value []byte, act Act) (err error) {
	defer func() { e.logged(ctx, verb, "queue", name, act, err) }()
	if err := location.CheckName(name); err != nil {
		return queueError(name, fmt.Errorf("%w: %w", err, ErrInvalid))
	}
	if _, _, err := e.inner.Queues().State(ctx, name); err != nil { // asked of nobody it would make an entity
		return queueError(name, err)
	}
	defer e.inner.Queues().Forget(name)
	record := recordOf(e, verb, "queue", name, act)
	verdict, err := entity.AskWith(ctx, e.inner, permit.EntityID(name), verb, value, record.Encode())
	switch {
	case err != nil:
		return queueError(name, err)
	case len(verdict) == 0:
		return queueError(name, fmt.Errorf("%w: it gave an empty answer", store.ErrDamaged))
	}
	switch reason := string(verdict[1:]); verdict[0] {
	case permit.Yes:
		return nil
	case permit.Missing:
		return queueError(name, queues.ErrNoQueue)
	default:
		return queueError(name, fmt.Errorf("%w: %s", ErrRefused, reason))
	}
}

// Info returns how a queue stands, with the last declared settings also while its node does
// not know them yet. ErrNoQueue: there is none of the name.
func (q Queues) Info(ctx context.Context, name string) (*QueueInfo, error) {
	inner := q.engine.inner.Queues()
	state, run, err := inner.State(ctx, name)
	if err != nil {
		return nil, queueError(name, err)
	}
	info := queueInfo(name, &state)
	if err := q.engine.queueLocks(ctx, info); err != nil {
		return nil, queueError(name, err)
	}
	lacks := recordLacks{engine: q.engine}
	if info.Lacks, err = lacks.of(ctx, &run); err != nil {
		return nil, queueError(name, err)
	}
	creating, err := inner.Creating(ctx, run.No)
	if err != nil {
		return nil, queueError(name, err)
	}
	if creating != nil && creating.Settings.Group == state.Settings.Group {
		if info.Declared = settingsOf(&creating.Settings); info.Override == nil {
			info.Settings = info.Declared
		}
	}
	return info, nil
}

// List returns all queues, newest first, including queues that were created a moment ago.
func (q Queues) List(ctx context.Context) ([]QueueInfo, error) {
	var list []QueueInfo
	lacks := recordLacks{engine: q.engine}
	f := store.Filter{Workflows: []string{permit.Workflow}, Limit: 1000}
	for {
		page, err := q.engine.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		states, err := q.engine.inner.Queues().States(ctx, page.Runs)
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		for i := range page.Runs {
			name, ok := permit.Queue(page.Runs[i].ID)
			if !ok {
				continue
			}
			if !states[i].Exists { // or its node has yet to learn that it was created
				switch states[i], _, err = q.engine.inner.Queues().State(ctx, name); {
				case errors.Is(err, queues.ErrNoQueue):
					continue
				case err != nil:
					return nil, fmt.Errorf("list queues: %w", err)
				}
			}
			info := queueInfo(name, &states[i])
			if info.Lacks, err = lacks.of(ctx, &page.Runs[i]); err != nil {
				return nil, fmt.Errorf("list queues: %w", err)
			}
			list = append(list, *info)
		}
		if f.Cursor = page.Next; page.Next == "" {
			infos := make([]*QueueInfo, len(list))
			for i := range list {
				infos[i] = &list[i]
			}
			if err := q.engine.queueLocks(ctx, infos...); err != nil {
				return nil, fmt.Errorf("list queues: %w", err)
			}
			return list, nil
		}
	}
}

// queuePlace returns the queue that a run is on, and whether it waits for a permit
// of it; nil: none.
func queuePlace(run *store.Run) *QueuePlace {
	p, ok, err := permit.DecodePlace(run.Queue)
	if err != nil || !ok {
		return nil
	}
	return &QueuePlace{
		OnQueue: OnQueue{Name: p.Queue, Key: p.Key, Priority: p.Priority},
		Waits:   run.Marks&store.Held != 0,
		Holds:   run.Marks&store.Held == 0 && (p.Ticket != "" || run.Marks&store.Admitted != 0) && !run.Status.Terminal(),
	}
}

// QueuePlace is where a run stands in its queue.
type QueuePlace struct {
	OnQueue
	Waits bool // for a permit
	Holds bool // one
}

// String returns it for people.
func (p *QueuePlace) String() string {
	var b strings.Builder
	b.WriteString(p.Name)
	if p.Key != "" {
		fmt.Fprintf(&b, ", key %s", p.Key)
	}
	if p.Priority != 0 {
		fmt.Fprintf(&b, ", priority %d", p.Priority)
	}
	switch {
	case p.Waits:
		b.WriteString(": waits for a permit")
	case p.Holds:
		b.WriteString(": has a permit")
	}
	return b.String()
}
