package stet

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Observer is functions that an Engine calls with what its process does: for metrics, traces
// and tests. Each may be nil, which costs a comparison. The modules observe/prom and
// observe/otel return observers; Observers joins several.
//
// What is reported of runs has become durable, and is reported once, by the process that did
// it: nothing is when a run is replayed. A process that ends between the commit and the call
// reports nothing. The engine's own entities (topics, queues, schedules) are no runs here.
//
// The functions are called concurrently, by the goroutines that work. They must return within
// microseconds, and must not wait for the engine: a Start within RunEnded would wait for the
// goroutine that it is on. Config.OnEnd and Config.OnStall may. Slices and maps that they are
// given must not be changed. A panic is logged, and changes nothing for the run. The struct
// must not be changed once New has it. Later versions may have more fields.
type Observer struct {
	// LongPause is how long nothing happens in a run before StepInfo and RunEvent say when it
	// has gone on (Resumed), for traces that are not to last for years. Default: they do not.
	LongPause time.Duration

	// Attached is called by New with the engine that it returns.
	Attached func(*Engine)

	// Start is called before a run is started: by Start and StartTx once, by StartAll for each
	// input. It returns headers for the run, which those that the caller gives replace by key,
	// and a function that is called with the outcome. Both may be nil. Headers that would make
	// those of the run too large are left out. Children, and runs of schedules, are not
	// reported: they have the headers of the run, or the schedule, that starts them.
	Start func(ctx context.Context, start StartInfo) (Headers, func(error))
	// Send is called before a message is sent to a run, by Send and SendTx, and before an
	// update, by Call. It is like Start: its headers replace those that the message has from
	// the run of the step that sends it.
	Send func(ctx context.Context, send SendInfo) (Headers, func(error))

	// Attempt is called before the body of a step, or of a compensation, and returns the
	// context of the body, derived from ctx, and a function that is called once: when the
	// body has returned, or when its time is over, with the error of the attempt. Both may be
	// nil. The error is a *Failure, and wraps context.Canceled if the process has cancelled
	// the body because it stops or gives the run away: the step is executed again then. It is
	// called around Config.Around, and for an attempt whose record may still be lost.
	Attempt func(ctx context.Context, step StepInfo) (context.Context, func(error))

	// RunBegan is called when the first turn of a run is committed. It is not called for a
	// run that is cancelled before it has begun, and for one that was forked.
	RunBegan func(run RunEvent)
	// RunEnded is called when a run has succeeded, failed or was cancelled. One that is
	// retried or rewound ends again.
	RunEnded func(run RunEvent)
	// RunStalled is called when a run is stalled. See RunEvent.Cause. It is called for the
	// engine's own entities too.
	RunStalled func(run RunEvent)

	// Turn is called for each turn of a run that is committed.
	Turn func(run RunEvent, turn TurnInfo)
	// Waited is called when a wait of a run is over: a sleep, a wait for a message, an event,
	// a promise, a child, another run, or a deadline.
	Waited func(run RunEvent, wait WaitEnded)
	// Sent is called when a message or an update is committed that the code of a run sends
	// (SendFrom).
	Sent func(run RunEvent, sent SentInfo)
	// Woken is called with a turn whose run has gone on because of the time: of a sleep, a
	// deadline, or a retry. late is how much later than due that was.
	Woken func(run RunEvent, late time.Duration)

	// Committed is called when the store has written a batch of this process's.
	Committed func(CommitInfo)
	// Claimed is called when the store has answered a claim.
	Claimed func(ClaimInfo)
	// Lease is called when leases of this process are taken, given back, lost or fenced.
	Lease func(LeaseInfo)
	// Value is called for each value that is written, in its stored form. kind is that of its
	// entry ("step", "receive", …), or "input", "output", "message", "value", "stream", …
	Value func(kind string, bytes int)
	// StoreError is called when a call of the store has failed. act names it: "commit",
	// "claim", "load", "renew", … A wrong argument, a call that its caller has ended, and a
	// closed store are no errors.
	StoreError func(act string, err error)
}

// StartInfo is a start, before it is carried out.
type StartInfo struct {
	RunID    string // as given or made; the run may be there
	Workflow string
}

// SendInfo is a message or an update, before it is sent.
type SendInfo struct {
	RunID  string
	Name   string // of the message
	Update bool
}

// RunEvent is a run about which something is reported. Its methods may be called as long as
// the function has not returned.
type RunEvent struct {
	ID          string
	Workflow    string
	Group       string
	Status      store.Status `json:",omitzero"` // of RunEnded and RunStalled; otherwise as it was before
	Incarnation int          // counts the run's continue-as-new
	Generation  int          // counts its rewinds
	Created     time.Time    `json:",omitzero"`
	Started     time.Time    `json:",omitzero"` // zero: it was never executed
	Ended       time.Time    `json:",omitzero"` // of RunEnded; otherwise zero
	Node        string       // of the process that tells it: see Config.Node
	// Resumed is, for Waited and Sent, when a wait was last over during which nothing had
	// happened in the run for Observer.LongPause; zero: none was, as far as the history says
	// that a Loop keeps.
	Resumed time.Time `json:",omitzero"`

	run    *store.Run
	engine *Engine
}

// Headers returns the headers that the run was started with.
func (r RunEvent) Headers() Headers { return decodedHeaders(stored.Headers(r.run.Headers)) }

// Err returns why a run has failed or stalled, or that it was cancelled, as a *RunError; nil
// of another one.
func (r RunEvent) Err() error { return r.engine.runError(r.run) }

// Cause returns why a stalled run needs a person, in one word; "" of another one.
func (r RunEvent) Cause() Cause { return Cause(stored.CauseOf(r.run)) }

// Key returns 16 bytes that identify this life of the run in every process: the same after a
// continue-as-new, others after a rewind. They are derived from random bytes, and are no
// secret.
func (r RunEvent) Key() [16]byte { return stored.RunKey(r.run.FirstSeed(), r.Generation) }

// FormerKey returns what Key was before the run was last rewound; ok is false if it was not.
func (r RunEvent) FormerKey() (key [16]byte, ok bool) {
	if r.Generation == 0 {
		return key, false
	}
	return stored.RunKey(r.run.FirstSeed(), r.Generation-1), true
}

// TurnInfo is a turn of a run.
type TurnInfo struct {
	Entries int // that were written
	Sends   int // starts and items, to other runs and to entities
}

// WaitEnded is a wait that is over.
type WaitEnded struct {
	Location string
	Name     string    // of the operation, without key and occurrence
	Kind     string    // "sleep", "receive", "promise", "timer", "wait", "child", "run", "event"
	Failed   bool      // it ended with an error, such as ErrTimeout
	Since    time.Time `json:",omitzero"`
	Until    time.Time `json:",omitzero"`

	entry *store.Entry
}

// Received returns the headers of the messages that a wait of kind "receive" has received,
// one for each; none of another wait.
func (w WaitEnded) Received() []Headers {
	if w.entry.Kind != store.KindReceive || w.entry.State != store.Done {
		return nil
	}
	messages, err := stored.DecodeReceipt(w.entry.Value)
	if err != nil {
		return nil // a damaged record is found by its replay
	}
	headers := make([]Headers, len(messages))
	for i := range messages {
		headers[i] = decodedHeaders(messages[i].Headers)
	}
	return headers
}

// SentInfo is a message that the code of a run has sent.
type SentInfo struct {
	RunID string // to which it is sent; "" if that is not known
	Name  string
}

// CommitInfo is a batch that the store has written.
type CommitInfo struct {
	Took     time.Duration
	Turns    int
	Commands int // of callers: starts, messages, requests
	Bytes    int // of the values in it
}

// ClaimInfo is a claim that the store has answered.
type ClaimInfo struct {
	Took time.Duration
	Runs int // newly claimed
	Lags []ClaimLag
}

// ClaimLag is how long a run was ready before it was claimed: since its start or its oldest
// new item, but since the former claim if that has left nothing. Runs whose time has come are
// in none: see Woken.
type ClaimLag struct {
	Group string
	Lag   time.Duration
}

// LeaseEvent says what has become of leases.
type LeaseEvent string

// The events of leases.
const (
	LeaseTaken    = LeaseEvent(observe.LeaseTaken)
	LeaseReleased = LeaseEvent(observe.LeaseReleased) // given back
	LeaseLost     = LeaseEvent(observe.LeaseLost)     // not renewed in time, or taken by another process
	LeaseFenced   = LeaseEvent(observe.LeaseFenced)   // the store has refused what was written under it
)

// LeaseInfo says what has become of the leases of shards.
type LeaseInfo struct {
	Event  LeaseEvent
	Shards []store.Shard
}

// decodedHeaders decodes what Headers.encode has written.
func decodedHeaders(data []byte) Headers {
	h, _ := decodeHeaders(data)
	return h
}

// observation is an observer in an engine.
type observation struct {
	Observer
	engine *Engine
	log    *slog.Logger
	panics atomic.Int64
}

// caught is deferred around each call of the observer. Of many panics it logs the first, the
// second, the fourth and so on.
func (o *observation) caught(where string) {
	p := recover()
	if p == nil {
		return
	}
	if n := o.panics.Add(1); n&(n-1) == 0 {
		o.log.Error("the observer panicked", "function", where, "panic", p, "panics", n,
			"stack", stored.PanicFailure(p).Stack)
	}
}

// longPause returns the observer's. o may be nil.
func (o *observation) longPause() time.Duration {
	if o == nil {
		return 0
	}
	return o.LongPause
}

// attach says which engine it is. o may be nil.
func (o *observation) attach(e *Engine) {
	if o != nil && o.Attached != nil {
		defer o.caught("Attached")
		o.Attached(e)
	}
}

func (o *observation) event(run *store.Run) RunEvent {
	return RunEvent{
		ID: run.ID, Workflow: run.Workflow, Group: run.Shard.Group, Status: run.Status,
		Incarnation: run.Incarnation, Generation: run.Generation,
		Created: run.Created.Time(), Started: run.Started.Time(), Ended: run.Ended.Time(),
		Node: o.engine.node, run: run, engine: o.engine,
	}
}

// port returns the observer as the engine inside calls it; nil: there is none.
func (o *observation) port() *observe.Port {
	if o == nil {
		return nil
	}
	about := func(where string, f func(RunEvent), entities bool) func(*store.Run) {
		if f == nil {
			return nil
		}
		return func(run *store.Run) {
			defer o.caught(where)
			if entities || !store.IsEntity(run.Workflow) {
				f(o.event(run))
			}
		}
	}
	p := &observe.Port{
		RunBegan:   about("RunBegan", o.RunBegan, false),
		RunEnded:   about("RunEnded", o.RunEnded, false),
		RunStalled: about("RunStalled", o.RunStalled, true),
	}
	if f := o.Observer.Turn; f != nil {
		p.Turn = func(run *store.Run, turn *store.Turn) {
			defer o.caught("Turn")
			if store.IsEntity(run.Workflow) {
				return
			}
			sends := 0
			for _, list := range turn.Sent(store.Committed) {
				sends += len(list)
			}
			f(o.event(run), TurnInfo{Entries: len(turn.Entries), Sends: sends})
		}
	}
	if f := o.Observer.Waited; f != nil {
		p.Waited = func(run *store.Run, e *store.Entry, resumed store.Time) {
			defer o.caught("Waited")
			event := o.event(run)
			event.Resumed = resumed.Time()
			f(event, waitEnded(e))
		}
	}
	if f := o.Observer.Sent; f != nil {
		p.Sent = func(run *store.Run, c *store.Command, resumed store.Time) {
			defer o.caught("Sent")
			event := o.event(run)
			event.Resumed = resumed.Time()
			f(event, SentInfo{RunID: c.RunID, Name: c.Item.Name})
		}
	}
	if f := o.Observer.Woken; f != nil {
		p.Woken = func(run *store.Run, late time.Duration) {
			defer o.caught("Woken")
			f(o.event(run), late)
		}
	}
	o.addStore(p)
	return p
}

func waitEnded(e *store.Entry) WaitEnded {
	loc := location.Loc(e.Loc)
	name, _, _ := loc.Operation()
	return WaitEnded{
		Location: loc.String(), Name: name, Kind: e.Kind.String(), Failed: e.State == store.FailedEntry,
		Since: e.Started.Time(), Until: e.Ended.Time(), entry: e,
	}
}

// addStore adds what is reported of the store and of leases.
func (o *observation) addStore(p *observe.Port) {
	if f := o.Committed; f != nil {
		p.Committed = func(c observe.Commit) {
			defer o.caught("Committed")
			f(CommitInfo(c))
		}
	}
	if f := o.Claimed; f != nil {
		p.Claimed = func(c observe.Claim) {
			defer o.caught("Claimed")
			info := ClaimInfo{Took: c.Took, Runs: c.Runs}
			for _, lag := range c.Lags {
				info.Lags = append(info.Lags, ClaimLag(lag))
			}
			f(info)
		}
	}
	if f := o.Lease; f != nil {
		p.Lease = func(event observe.LeaseEvent, shards []store.Shard) {
			defer o.caught("Lease")
			f(LeaseInfo{LeaseEvent(event), shards})
		}
	}
	if f := o.Observer.Value; f != nil {
		p.Value = func(kind string, bytes int) {
			defer o.caught("Value")
			f(kind, bytes)
		}
	}
	if f := o.StoreError; f != nil {
		p.StoreError = func(act string, err error) {
			defer o.caught("StoreError")
			f(act, err)
		}
	}
}

// attempt observes an attempt: see steps.Env.Observe.
func (o *observation) attempt(ctx context.Context, a *steps.Attempt) (
	body context.Context, ended func(*stored.Failure),
) {
	body = ctx
	defer o.caught("Attempt")
	derived, done := o.Observer.Attempt(ctx, stepInfo(a))
	if derived != nil && steps.AttemptOf(derived) == a {
		body = derived
	}
	if done == nil {
		return body, nil
	}
	return body, func(f *stored.Failure) {
		defer o.caught("Attempt")
		switch {
		case f == nil:
			done(nil)
		case f == steps.ErrStopped:
			done(&Failure{Code: f.Code, Message: f.Message, Cause: context.Canceled})
		default:
			done(o.engine.errors.restore(f))
		}
	}
}

// starts observes starts that are valid, and adds headers to them. o may be nil.
func (o *observation) starts(ctx context.Context, starts []store.Command, options []startOptions) {
	if o == nil || o.Observer.Start == nil {
		return
	}
	one := func(i int) {
		defer o.caught("Start")
		start := starts[i].Start
		h, done := o.Observer.Start(ctx, StartInfo{RunID: start.ID, Workflow: start.Workflow})
		start.Headers, options[i].observed = h.underStored(start.Headers), o.ending("Start", done)
	}
	for i := range starts {
		one(i)
	}
}

// started says to the observer what has become of starts: the error of all of them, or those
// by index.
func started(options []startOptions, problems []error, err error) {
	for i := range options {
		if done := options[i].observed; done != nil {
			if err == nil {
				done(problems[i])
			} else {
				done(err)
			}
		}
	}
}

// send observes a message. o, the headers and the function may be nil.
func (o *observation) send(ctx context.Context, send SendInfo) (h Headers, done func(error)) {
	if o != nil && o.Observer.Send != nil {
		defer o.caught("Send")
		h, done = o.Observer.Send(ctx, send)
		return h, o.ending("Send", done)
	}
	return nil, nil
}

// ending is done, whose panics are caught.
func (o *observation) ending(where string, done func(error)) func(error) {
	if done == nil {
		return nil
	}
	return func(err error) {
		defer o.caught(where)
		done(err)
	}
}

// overStored returns the stored form of headers that replace stored ones by key, or what is
// stored if both together are too large.
func (h Headers) overStored(data []byte) []byte {
	if len(h) == 0 {
		return data
	}
	return mergedHeaders(decodedHeaders(data), h, data)
}

// underStored returns the stored form of headers that stored ones replace by key, or what is
// stored if both together are too large.
func (h Headers) underStored(data []byte) []byte {
	if len(h) == 0 {
		return data
	}
	return mergedHeaders(h, decodedHeaders(data), data)
}

func mergedHeaders(under, over Headers, otherwise []byte) []byte {
	all := make(Headers, len(under)+len(over))
	maps.Copy(all, under)
	maps.Copy(all, over)
	delete(all, "")
	data, err := json.Marshal(all)
	if err != nil || len(data) > store.MaxHeaders {
		return otherwise
	}
	return data
}
