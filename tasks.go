package stet

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/entity/queue"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/tasks"
	"github.com/stet-run/stet/store"
)

var (
	// ErrLeaseGone: the lease of a task counts no more. It was ended or released, or it has
	// expired and another worker has the task.
	ErrLeaseGone = errors.New("the lease is gone")
	// ErrLeaseCancelled: the task of a lease is wanted no more.
	ErrLeaseCancelled = errors.New("the task is cancelled")
)

// Tasks are the tasks of an engine's store, as workers execute them: in this process, or by the
// server's HTTP API, which does no more than to call these methods. Safe for concurrent use.
type Tasks struct{ engine *Engine }

// Tasks returns the tasks of the store.
func (e *Engine) Tasks() Tasks { return Tasks{e} }

// Bounds of a worker's requests.
const (
	MaxLeasedTasks = 100 // of one request
	maxTaskNames   = 1000
	maxTaskWait    = time.Minute
	minTaskLease   = time.Second
	maxTaskLease   = time.Hour
	maxWorker      = 255
)

// LeaseRequest is what a worker asks for.
type LeaseRequest struct {
	// Worker names it: a process, for people and for the notice of its cancelled leases. At
	// most 255 bytes.
	Worker string
	// Names are those of the tasks that it executes: 1 to 1,000.
	Names []string
	// Max is how many it has room for: 1 to MaxLeasedTasks. Default 1.
	Max int
	// Wait is how long to wait for the first one: up to a minute. Default: not at all.
	Wait time.Duration
	// For is the length of the leases: 1 s to 1 h. Default 30 s.
	For time.Duration
	// Request makes the request known, so that a repeat gets the same leases: a text that
	// the worker uses once, of at most 255 bytes. "": a repeat is another request.
	Request string
	// By tells workers of the same name from each other, as the server does by their identities: one gets no tasks and
	// no notices of cancelled leases of a worker with another By. Nobody sees it. "" is one like others.
	By string
}

func (r *LeaseRequest) check() error {
	pick(&r.Max, 1)
	pick(&r.For, 30*time.Second)
	bad := func(format string, args ...any) error {
		return fmt.Errorf("lease: "+format+": %w", append(args, ErrInvalid)...)
	}
	switch {
	case len(r.Worker) > maxWorker || len(r.Request) > maxWorker:
		return bad("expected a worker and a request of at most %d bytes, found %d and %d", maxWorker, len(r.Worker),
			len(r.Request))
	case len(r.Names) == 0 || len(r.Names) > maxTaskNames:
		return bad("expected 1 to %d names of tasks, found %d", maxTaskNames, len(r.Names))
	case r.Max < 1 || r.Max > MaxLeasedTasks:
		return bad("expected a max of 1 to %d, found %d", MaxLeasedTasks, r.Max)
	case r.Wait < 0 || r.Wait > maxTaskWait:
		return bad("expected a wait of 0 to %s, found %s", maxTaskWait, r.Wait)
	}
	for _, name := range r.Names {
		if err := checkName("lease: task", name); err != nil {
			return err
		}
	}
	return checkTaskLease(r.For)
}

func checkTaskLease(length time.Duration) error {
	if length < minTaskLease || length > maxTaskLease {
		return fmt.Errorf("lease: expected a length of %s to %s, found %s: %w", minTaskLease, maxTaskLease, length,
			ErrInvalid)
	}
	return nil
}

// LeasedTask is an attempt of a task that a worker is to execute.
type LeasedTask struct {
	// Lease is the right to renew, end and release it, and a secret.
	Lease    string
	Name     string
	Input    json.RawMessage
	Attempt  int    // from 1
	Key      string // IdempotencyKey of the step
	RunID    string
	Workflow string
	Location string
	Headers  Headers // of the run
	Queue    string
	// Detail is that of the last heartbeat of former workers; nil: none.
	Detail  json.RawMessage
	Expires time.Time `json:",omitzero"` // when the lease does, unless it is renewed
}

// Leased is the answer to a LeaseRequest.
type Leased struct {
	Tasks []LeasedTask
	// Cancelled are leases of the worker whose tasks are wanted no more. It ends their
	// execution, and need not end the leases.
	Cancelled []string
}

// Lease leases tasks for a worker: at once if there are any, otherwise as soon as there is one,
// and none when the wait is over. While it waits it costs no commit. Each task is a permit of
// its queue. A lease that ends before its task is one offers the same attempt to others.
//
// If ctx ends before, the error wraps its cause; what was leased meanwhile a repeat of the
// Request gets. Errors: ErrInvalid, ErrSealed where values cannot be read here, ErrPending if no
// node answers, and those of the store.
func (t Tasks) Lease(ctx context.Context, r LeaseRequest) (*Leased, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	got, err := t.engine.desk.Lease(ctx, tasks.Request{
		Worker: r.Worker, Names: r.Names, Max: r.Max, Wait: r.Wait, For: r.For, ID: r.Request, By: r.By})
	if err != nil {
		return nil, fmt.Errorf("lease tasks: %w", err)
	}
	out := &Leased{Cancelled: got.Cancelled}
	if out.Tasks, err = t.leased(ctx, got.Tasks); err != nil {
		return nil, fmt.Errorf("lease tasks: %w", err)
	}
	return out, nil
}

// leased reads what workers get of their tasks. Tasks whose steps want them no more are left
// out: their queues will know.
func (t Tasks) leased(ctx context.Context, got []tasks.Task) ([]LeasedTask, error) {
	if len(got) == 0 {
		return nil, nil
	}
	locs := map[string][]string{}
	for i := range got {
		locs[got[i].RunID] = append(locs[got[i].RunID], got[i].Loc)
	}
	ids := make([]string, 0, len(locs))
	for id := range locs {
		ids = append(ids, id)
	}
	e := t.engine
	page, err := e.store.List(ctx, store.Filter{IDs: ids, Limit: len(ids)})
	if err != nil {
		return nil, err
	}
	runs, entries := map[string]*store.Run{}, map[string]*store.Entry{}
	for i := range page.Runs {
		run := &page.Runs[i]
		found, err := e.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation,
			Locs: locs[run.ID], Values: true})
		if err != nil {
			return nil, err
		}
		runs[run.ID] = run
		for k := range found {
			entries[run.ID+"\x00"+found[k].Loc] = &found[k]
		}
	}
	var out []LeasedTask
	for i := range got {
		task := &got[i]
		run, entry := runs[task.RunID], entries[task.RunID+"\x00"+task.Loc]
		if run == nil || entry == nil || entry.State != store.Open {
			continue
		}
		if err := payload.Readable(entry.Value); err != nil {
			return nil, err
		}
		p, err := stored.DecodeProgress(entry.Value)
		if err != nil {
			return nil, err
		}
		if p.Permit == nil || p.Permit.Ticket != task.Ticket {
			continue
		}
		headers, err := decodeHeaders(stored.Headers(run.Headers))
		if err != nil {
			return nil, err
		}
		key := stored.Derive(stored.IncarnationSeed(run, run.Incarnation), "key", entry.Generation,
			location.Loc(entry.Loc), 0)
		detail := task.Detail
		if detail == nil {
			detail = p.Detail
		}
		queue, _, _ := permit.ParseLeaseToken(task.Lease)
		out = append(out, LeasedTask{
			Lease: task.Lease, Name: task.Name, Input: fromJSONFormat(p.Input), Attempt: task.Attempt,
			Key: hex.EncodeToString(key[:16]), RunID: run.ID, Workflow: run.Workflow,
			Location: location.Loc(entry.Loc).String(), Headers: headers, Queue: queue,
			Detail: fromJSONFormat(detail), Expires: task.Until.Time(),
		})
	}
	return out, nil
}

// fromJSONFormat returns a stored value of the format of JSON without its first byte.
func fromJSONFormat(data []byte) json.RawMessage {
	if len(data) < 2 {
		return nil
	}
	return json.RawMessage(data[1:])
}

// toJSONFormat is the inverse of fromJSONFormat. The error wraps ErrInvalid.
func toJSONFormat(what string, value json.RawMessage) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	if !json.Valid(value) {
		return nil, fmt.Errorf("%s: expected JSON, found %.40q: %w", what, value, ErrInvalid)
	}
	return append([]byte{JSON.Format()}, value...), nil
}

// TaskBeat renews a lease.
type TaskBeat struct {
	Lease string
	// Detail is there in the next attempt, and for a worker that gets this one after the lease
	// has expired. It is kept at most once a second. nil: none.
	Detail json.RawMessage
}

// LeaseState is how a lease stands.
type LeaseState string

const (
	LeaseIsHeld      LeaseState = "held"
	LeaseIsCancelled LeaseState = "cancelled" // its task is wanted no more
	LeaseIsGone      LeaseState = "gone"      // it has ended, or expired
	LeaseIsReleased  LeaseState = "released"  // it was given back, and its task is offered again
)

var leaseStates = map[byte]LeaseState{permit.LeaseHeld: LeaseIsHeld, permit.LeaseCancelled: LeaseIsCancelled,
	permit.LeaseGone: LeaseIsGone}

// LeaseStanding is how a lease stands after a heartbeat or a release.
type LeaseStanding struct {
	Lease   string
	State   LeaseState
	Expires time.Time `json:",omitzero"` // of one that was renewed
}

// Heartbeat renews leases to the length from now (1 s to 1 h, default 30 s), and with each the
// Retry.Timeout of its attempt. It takes up to MaxLeasedTasks. The answers are in their order.
// Errors: ErrInvalid, ErrTooLarge for a detail over Config.MaxValue, and as for Lease.
func (t Tasks) Heartbeat(ctx context.Context, length time.Duration, beats ...TaskBeat) ([]LeaseStanding, error) {
	pick(&length, 30*time.Second)
	if err := checkTaskLease(length); err != nil {
		return nil, err
	}
	leases, details := make([]string, len(beats)), make([][]byte, len(beats))
	for i := range beats {
		var err error
		if details[i], err = toJSONFormat("detail of a heartbeat", beats[i].Detail); err == nil {
			err = t.engine.checkSize("detail of a heartbeat", details[i])
		}
		if err != nil {
			return nil, err
		}
		leases[i] = beats[i].Lease
	}
	if err := checkLeases(leases); err != nil {
		return nil, err
	}
	return standings(leases)(t.engine.desk.Beat(ctx, leases, details, length))
}

// Release gives leases back, up to MaxLeasedTasks: their tasks are offered again, as the same
// attempts. The answers are in their order: LeaseIsReleased; LeaseIsCancelled where the run is
// cancelled; LeaseIsGone where there was none, so also of a repeat. A released task may have been
// begun: if its step has an Undo, a cancelled run waits until a worker has ended the task. Errors
// are those of Heartbeat.
func (t Tasks) Release(ctx context.Context, leases ...string) ([]LeaseStanding, error) {
	if err := checkLeases(leases); err != nil {
		return nil, err
	}
	out, err := standings(leases)(t.engine.desk.Release(ctx, leases))
	for i := range out {
		if out[i].State == LeaseIsHeld { // it was, until now
			out[i].State = LeaseIsReleased
		}
	}
	return out, err
}

func checkLeases(leases []string) error {
	if n := len(leases); n == 0 || n > MaxLeasedTasks {
		return fmt.Errorf("leases: expected 1 to %d, found %d: %w", MaxLeasedTasks, n, ErrInvalid)
	}
	return nil
}

func standings(leases []string) func([]tasks.Standing, error) ([]LeaseStanding, error) {
	return func(all []tasks.Standing, err error) ([]LeaseStanding, error) {
		if err != nil {
			return nil, fmt.Errorf("leases of tasks: %w", err)
		}
		out := make([]LeaseStanding, len(all))
		for i, s := range all {
			out[i] = LeaseStanding{Lease: leases[i], State: cmp.Or(leaseStates[s.How], LeaseIsGone), Expires: s.Until.Time()}
		}
		return out, nil
	}
}

// TaskItem is an item that a worker adds to a stream of the run whose task it has.
type TaskItem struct {
	Stream string
	Value  json.RawMessage // nil: no value
	Keep   Keep            // as of Stream.Emit
}

// maxTaskItems bounds the items of one request.
const maxTaskItems = 1000

// Append adds items to streams of the run whose task a lease is, as Stream.Emit does in Go: up to
// 1,000, in their order, with the location of the step and its attempt. They are durable when Append
// returns, in the streams soon after, and before the step ends. What former leases have added stays,
// and a mark (StreamItem.Again) stands before the first item that a later one adds.
//
// number is of the request in its lease: 1, 2, and so on. A repeat with the same number adds
// nothing and has the same answer, for 24 hours and from every process; so a worker repeats until it
// has the answer before it sends the next one. Errors: ErrLeaseGone, ErrLeaseCancelled, ErrInvalid,
// ErrTooLarge for items that together exceed Config.MaxValue, ErrInboxFull while the run does not
// take what was sent, and as for Lease.
func (t Tasks) Append(ctx context.Context, lease string, number int64, items ...TaskItem) error {
	e := t.engine
	data, err := encodeItems(items)
	switch {
	case err != nil:
		return fmt.Errorf("items of a task: %w", err)
	case number < 1:
		return fmt.Errorf("items of a task: expected a number of the request of 1 or more, found %d: %w", number, ErrInvalid)
	}
	if err := e.checkSize("items of a task", data); err != nil {
		return err
	}
	it := (&permit.Append{Number: number, Items: data}).Add("", "", "", "", 0).Item // of its kind and size
	if runID := e.desk.RunOf(lease); runID != "" {
		if err := admit(ctx, e, runID, it); err != nil {
			return fmt.Errorf("items of a task: %w", err)
		}
	}
	got, err := e.desk.Append(ctx, lease, number, data)
	if err := standingError("items of a task", got.Standing, err); err != nil {
		return err
	}
	e.inboxes.Sent(got.RunID, 0, it)
	return nil
}

// encodeItems returns the stored form of items. The error wraps ErrInvalid.
func encodeItems(items []TaskItem) ([]byte, error) {
	if n := len(items); n == 0 || n > maxTaskItems {
		return nil, fmt.Errorf("expected 1 to %d, found %d: %w", maxTaskItems, n, ErrInvalid)
	}
	out := make([]permit.Item, len(items))
	for i, it := range items {
		if err := checkName("stream", it.Stream); err != nil {
			return nil, err
		}
		keep, err := keepOf([]AppendOption{it.Keep})
		if err != nil {
			return nil, err
		}
		value, err := toJSONFormat("item of stream "+it.Stream, it.Value)
		if err != nil {
			return nil, err
		}
		out[i] = permit.Item{Stream: it.Stream, Value: value, Keep: keep}
	}
	return permit.EncodeItems(out), nil
}

// Complete ends the attempt of a lease with its result, as JSON; nil is no value. It is durable
// when Complete returns, and a repeat has the same answer for 24 hours, from every process.
// Errors: ErrLeaseGone, ErrLeaseCancelled, ErrInvalid, ErrTooLarge above Config.MaxValue, and as
// for Lease.
func (t Tasks) Complete(ctx context.Context, lease string, result json.RawMessage) error {
	data, err := toJSONFormat("result of a task", result)
	if err == nil {
		err = t.engine.checkSize("result of a task", data)
	}
	if err == nil {
		_, err = t.end(ctx, lease, permit.End{Result: data})
	}
	return err
}

// TaskFailure is how a worker's attempt has failed.
type TaskFailure struct {
	Message string
	// Code is that of a Sentinel in Config.Errors, or any other text. Default "error", also for
	// the codes of the engine's own failures and of error types.
	Code  string
	Stack string
	// Permanent says that no attempt follows.
	Permanent bool
	// After is the least delay before the next attempt. Default: none.
	After time.Duration
}

// Fail ends the attempt of a lease as failed. retry reports whether another one follows, as far
// as is known. It is repeated like Complete, and has its errors.
func (t Tasks) Fail(ctx context.Context, lease string, f TaskFailure) (retry bool, err error) {
	if f.After < 0 {
		return false, fmt.Errorf("failure of a task: expected a delay of 0 or more, found %s: %w", f.After, ErrInvalid)
	}
	record := stored.EncodeFailure(&stored.Failure{Code: cmp.Or(f.Code, stored.CodeError), Message: f.Message,
		Stack: f.Stack})
	if err := t.engine.checkSize("failure of a task", record); err != nil {
		return false, err
	}
	return t.end(ctx, lease, permit.End{Failure: record, Final: f.Permanent,
		After: store.Delay(min(f.After, longestDelay) / time.Microsecond)})
}

func (t Tasks) end(ctx context.Context, lease string, e permit.End) (retry bool, err error) {
	ended, err := t.engine.desk.End(ctx, lease, e)
	if err := standingError("end of a task", ended.Standing, err); err != nil {
		return false, err
	}
	if ended.Failed != (e.Failure != nil) {
		return false, fmt.Errorf("end of a task: it was ended otherwise before: %w", ErrLeaseGone)
	}
	return ended.Retry, nil
}

// standingError returns the error of a request with a lease that stands so; nil: it is held.
func standingError(what string, standing byte, err error) error {
	switch {
	case errors.Is(err, tasks.ErrNoLease):
		return fmt.Errorf("%w: %w", err, ErrLeaseGone)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case standing == permit.LeaseCancelled:
		return fmt.Errorf("%s: %w", what, ErrLeaseCancelled)
	case standing != permit.LeaseHeld:
		return fmt.Errorf("%s: %w", what, ErrLeaseGone)
	}
	return nil
}

// TaskState is where an attempt of a task stands.
type TaskState string

const (
	TaskOffered TaskState = "offered"
	TaskLeased  TaskState = "leased"
	TaskExpired TaskState = "expired" // offered again, after a lease has expired
)

// TaskInfo is an attempt of a task that has not ended.
type TaskInfo struct {
	Queue    string
	Name     string
	State    TaskState
	RunID    string
	Location string
	Attempt  int
	Key      string // of its Permit
	Priority int
	// Worker has it, or of an expired one had it last; "": nobody, or one without a name.
	Worker string
	Since  time.Time `json:",omitzero"` // it was offered, or leased
	Until  time.Time `json:",omitzero"` // of a leased one: when the lease expires
	Lost   int       // leases of the attempt that have expired
	// Cancelling: the run is cancelled, and waits for the end of the task.
	Cancelling bool
}

// List returns the tasks of a queue that are leased, those whose lease expires first before the
// others, then those that are offered, the oldest first: at most limit of each; 0: 1,000.
// ErrNoQueue: there is no queue of the name.
func (t Tasks) List(ctx context.Context, name string, limit int) ([]TaskInfo, error) {
	run, err := t.engine.find(ctx, permit.EntityID(name))
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("queue %q: %w", name, ErrNoQueue)
	}
	if err != nil {
		return nil, fmt.Errorf("tasks of queue %q: %w", name, err)
	}
	entries, err := t.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation,
		Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	var all []queue.TaskStanding
	if err == nil {
		all, err = queue.ReadTasks(entries)
	}
	if err != nil {
		return nil, fmt.Errorf("tasks of queue %q: %w", name, err)
	}
	pick(&limit, 1000)
	var out []TaskInfo
	count := map[bool]int{}
	for _, s := range all {
		leased := s.Until != 0
		if count[leased]++; count[leased] > limit {
			continue
		}
		info := TaskInfo{Queue: name, Name: s.Name, State: TaskOffered, RunID: s.RunID,
			Location: location.Loc(s.Loc).String(), Attempt: s.Attempt, Key: s.Key, Priority: s.Priority, Worker: s.Worker,
			Since: s.Since.Time(), Lost: s.Lost, Cancelling: s.Recalled}
		switch {
		case leased:
			info.State, info.Until = TaskLeased, s.Until.Time()
		case s.Lost > 0:
			info.State = TaskExpired
		}
		out = append(out, info)
	}
	return out, nil
}

// TaskCount is how many tasks of a name a queue has that are due.
type TaskCount struct {
	Name            string
	Offered, Leased int
}

func taskCounts(counts []permit.TaskCount) []TaskCount {
	return slices.Collect(func(yield func(TaskCount) bool) {
		for _, c := range counts {
			if !yield(TaskCount(c)) {
				return
			}
		}
	})
}
