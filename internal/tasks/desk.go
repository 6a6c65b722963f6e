package tasks

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// ErrNoLease says that a text is no lease.
var ErrNoLease = errors.New("expected a lease as a lease of tasks gives it, found another text")

// Config is what a Desk is made from. All fields are required.
type Config struct {
	Store  store.Store
	Client entity.Client
	// Follow calls read now and whenever the feeds of a run may have something new.
	Follow func(ctx context.Context, run store.RunNo, read func() (more bool, err error)) (bool, error)
	// States returns what queues show, by their entities.
	States func(ctx context.Context, entities []store.Run) ([]permit.State, error)
	// Poll is how long a change may go unnoticed.
	Poll time.Duration
}

// Desk leases tasks for the workers of a process. Make one with New. It is safe for concurrent
// use.
type Desk struct {
	cfg  Config
	wake chan struct{} // capacity 1: the watcher is to look

	mu      sync.Mutex
	waiting []*waiter         // in the order of coming
	asked   map[string]int    // leases that were sent to a queue and are not answered
	runs    map[string]string // whose task a lease is, of those that have added items; at most maxRuns
	stop    func()            // of the watcher; nil: nobody waits
}

// waiter is a lease that waits until a queue has a task for it.
type waiter struct {
	*Request
	queue chan string // capacity 1: the queue to ask
}

// New returns a desk.
func New(cfg Config) *Desk {
	return &Desk{cfg: cfg, wake: make(chan struct{}, 1), asked: map[string]int{}, runs: map[string]string{}}
}

// Request is what a worker wants.
type Request struct {
	Worker string
	Names  []string
	Max    int
	Wait   time.Duration
	For    time.Duration
	// ID tells the request from others; of two with the same ID, of the same worker, the second gets the answer of
	// the first. "": it has none.
	ID string
	// By tells workers of the same name from each other.
	By string
}

// worker returns the name by which queues know the worker.
func (r *Request) worker() string {
	if r.Worker == "" {
		return ""
	}
	return permit.WorkerOf(r.Worker, r.By)
}

// Task is a task that a worker has got.
type Task struct {
	Lease string
	permit.Leased
}

// Got is what a worker has got.
type Got struct {
	Tasks     []Task
	Cancelled []string // leases of the worker that are wanted no more
}

// slice is how long a lease waits in a queue whose limits let none of its tasks go. Another
// queue may have one.
const slice = 5 * time.Second

// grace is how long a queue may take to answer after the wait is over.
const grace = 10 * time.Second

// Lease waits until there is a task for a worker, and leases it and others. Without one it
// returns nothing when the wait is over. If ctx ends before, what waits is taken back; a
// repeat of the request gets what it has got.
func (d *Desk) Lease(ctx context.Context, r Request) (*Got, error) {
	id := uuid.NewString()
	if r.ID != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%d %s%s", len(r.Worker), r.Worker, len(r.By), r.By, r.ID))
		id = hex.EncodeToString(sum[:16])
	}
	until := time.Now().Add(r.Wait)
	for round := 0; ; round++ {
		item := fmt.Sprint("lease ", id, " ", round)
		queue, repeated, err := d.find(ctx, &r, item, until)
		if queue == "" {
			return &Got{}, err
		}
		var got *Got
		if err == nil {
			got, err = d.ask(ctx, queue, item, &r, time.Until(until))
		}
		if !repeated {
			d.answered(queue)
		}
		if err != nil || len(got.Tasks)+len(got.Cancelled) > 0 || !repeated && !time.Now().Before(until) {
			return got, err
		}
	}
}

// answered notes that a queue has answered a lease. Others may ask it now.
func (d *Desk) answered(queue string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked[queue]--; d.asked[queue] == 0 {
		delete(d.asked, queue)
	}
	if d.stop != nil {
		hint(d.wake)
	}
}

func hint(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// ask sends a lease to a queue and waits for the answer.
func (d *Desk) ask(ctx context.Context, queue, id string, r *Request, wait time.Duration) (*Got, error) {
	wait = max(min(wait, slice), 0)
	l := permit.Lease{Worker: r.worker(), Names: r.Names, Max: r.Max, Wait: store.Delay(wait / time.Microsecond),
		For: store.Delay(r.For / time.Microsecond), Seed: make([]byte, 16)}
	rand.Read(l.Seed)
	limited, cancel := context.WithTimeoutCause(ctx, wait+grace, errSlow)
	defer cancel()
	var leases permit.Leases
	if err := d.update(limited, queue, permit.LeaseTasks, id, permit.Encode(l), &leases); err != nil {
		if ctx.Err() != nil {
			d.forget(ctx, queue, id)
		}
		return nil, err
	}
	got := &Got{}
	for _, t := range leases.Tasks {
		if !slices.Contains(r.Names, t.Name) {
			continue // the request was repeated with other names; the lease expires
		}
		got.Tasks = append(got.Tasks, Task{permit.LeaseToken(queue, t.Secret), t})
	}
	for _, secret := range leases.Cancelled {
		got.Cancelled = append(got.Cancelled, permit.LeaseToken(queue, secret))
	}
	return got, nil
}

var errSlow = errors.New("the queue's node has not answered")

// forget takes back a lease that waits in a queue.
func (d *Desk) forget(ctx context.Context, queue, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	// If it fails the lease ends by itself, or a task that it gets expires.
	_ = entity.Tell(ctx, d.cfg.Client, permit.EntityID(queue), permit.ForgetLease, []byte(id))
}

// update sends an update to a queue and reads the answer. An ID that was sent before has the
// answer that was given then.
func (d *Desk) update(ctx context.Context, queue, name, id string, value []byte, answer any) error {
	item := store.Item{Kind: store.ItemUpdate, Name: name, ID: id, Origin: id, Value: value}
	told, err := d.cfg.Client.Tell(ctx, permit.EntityID(queue), item)
	if err != nil {
		return err
	}
	verdict, err := d.cfg.Client.Verdict(ctx, told.Run.No, told.Item, id)
	if err == nil {
		err = payload.Readable(verdict)
	}
	if err != nil {
		return err
	}
	reason, ok, err := permit.ReadAnswer(verdict, answer)
	if err == nil && !ok {
		err = fmt.Errorf("queue %q: %s", queue, reason)
	}
	return err
}

// stand is how a queue stands.
type stand struct {
	run   store.RunNo
	name  string
	state permit.State
}

// offers returns how many tasks the queue has for a worker that may be leased.
func (s *stand) offers(r *Request) (n int) {
	for _, c := range s.state.Tasks {
		if slices.Contains(r.Names, c.Name) {
			n += c.Offered
		}
	}
	return n
}

// knows reports whether the queue has tasks for a worker, leased ones too.
func (s *stand) knows(r *Request) bool {
	return slices.ContainsFunc(s.state.Tasks, func(c permit.TaskCount) bool { return slices.Contains(r.Names, c.Name) })
}

func (s *stand) tells(r *Request) bool {
	return r.Worker != "" && slices.Contains(s.state.Told, r.worker())
}

// look reads how all queues stand.
func (d *Desk) look(ctx context.Context) (stands []stand, err error) {
	f := store.Filter{Workflows: []string{permit.Workflow}, Limit: store.MaxPage}
	for {
		page, err := d.cfg.Store.List(ctx, f)
		if err != nil {
			return nil, err
		}
		states, err := d.cfg.States(ctx, page.Runs)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			if name, ok := permit.Queue(page.Runs[i].ID); ok {
				stands = append(stands, stand{page.Runs[i].No, name, states[i]})
			}
		}
		if f.Cursor = page.Next; page.Next == "" {
			slices.Reverse(stands) // the oldest first
			return stands, nil
		}
	}
}

// find returns the queue to ask; "": the wait is over. repeated says that it was asked already.
func (d *Desk) find(
	ctx context.Context, r *Request, item string, until time.Time,
) (queue string, repeated bool, err error) {
	stands, err := d.look(ctx)
	if err != nil {
		return "", false, err
	}
	for i := range stands {
		if s := &stands[i]; r.ID != "" && s.knows(r) {
			items, err := d.cfg.Store.Inbox(ctx, s.run, item)
			if err != nil || len(items) > 0 {
				return s.name, true, err
			}
		}
	}
	w := &waiter{r, make(chan string, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, w)
	d.dispatch(stands)
	d.mu.Unlock()
	select {
	case queue = <-w.queue:
		return queue, false, nil
	default:
	}
	if wait := time.Until(until); wait > 0 {
		d.watch(ctx)
		over := time.NewTimer(wait)
		defer over.Stop()
		select {
		case queue = <-w.queue:
		case <-over.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return d.leave(w, queue), false, err
}

// leave ends the waiting of a lease. It returns the queue that it was to ask.
func (d *Desk) leave(w *waiter, queue string) string {
	d.mu.Lock()
	d.waiting = slices.DeleteFunc(d.waiting, func(other *waiter) bool { return other == w })
	if queue == "" {
		select {
		case queue = <-w.queue:
		default:
		}
	}
	stop := d.stop
	if len(d.waiting) > 0 {
		stop = nil
	} else {
		d.stop = nil
	}
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
	return queue
}

// dispatch gives each queue that has tasks as many of the leases that wait as it has. d.mu is
// held.
func (d *Desk) dispatch(stands []stand) {
	left := make([]int, len(stands))
	for i := range stands {
		left[i] = -d.asked[stands[i].name]
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(w *waiter) bool {
		for i := range stands {
			s := &stands[i]
			if n := s.offers(w.Request); n > 0 && n+left[i] > 0 || s.tells(w.Request) {
				left[i]--
				d.asked[s.name]++
				w.queue <- s.name
				return true
			}
		}
		return false
	})
}

// watch lets a goroutine look at the queues for all leases that wait.
func (d *Desk) watch(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil {
		hint(d.wake)
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	d.stop = func() {
		cancel()
		<-done
	}
	go func() {
		defer close(done)
		d.watchAll(ctx)
	}()
}

func (d *Desk) watchAll(ctx context.Context) {
	var followers sync.WaitGroup
	defer followers.Wait()
	poll := time.NewTicker(min(d.cfg.Poll, slice)) // a queue that is made meanwhile gives no hint
	defer poll.Stop()
	followed := map[store.RunNo]bool{}
	for {
		stands, err := d.look(ctx)
		for i := range stands {
			no := stands[i].run
			if followed[no] {
				continue
			}
			followed[no] = true
			followers.Go(func() {
				// Without it, the next poll finds out.
				_, _ = d.cfg.Follow(ctx, no, func() (bool, error) {
					hint(d.wake)
					return true, nil
				})
			})
		}
		if err == nil {
			d.mu.Lock()
			d.dispatch(stands)
			d.mu.Unlock()
		}
		select {
		case <-d.wake:
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// Standing is how a lease stands: permit.LeaseHeld, LeaseCancelled or LeaseGone.
type Standing struct {
	How   byte
	Until store.Time // of one that is held
}

// Beat renews leases. The answers are in their order. A text that is no lease is gone. details
// is as long as leases, or nil.
func (d *Desk) Beat(ctx context.Context, leases []string, details [][]byte, length time.Duration) ([]Standing, error) {
	return d.several(ctx, leases, func(queue string, secrets []string, at []int) (permit.Beats, error) {
		b := permit.Beat{Secrets: secrets, For: store.Delay(length / time.Microsecond)}
		if details != nil {
			for _, i := range at {
				b.Details = append(b.Details, details[i])
			}
		}
		var answer permit.Beats
		err := d.update(ctx, queue, permit.BeatTasks, uuid.NewString(), permit.Encode(b), &answer)
		return answer, err
	})
}

// Release gives leases back. The answers are as of Beat.
func (d *Desk) Release(ctx context.Context, leases []string) ([]Standing, error) {
	return d.several(ctx, leases, func(queue string, secrets []string, _ []int) (permit.Beats, error) {
		var answer permit.Beats
		err := d.update(ctx, queue, permit.ReleaseTasks, uuid.NewString(),
			permit.Encode(permit.LeaseList{Secrets: secrets}), &answer)
		return answer, err
	})
}

// several asks each queue about its leases.
func (d *Desk) several(
	ctx context.Context, leases []string, ask func(queue string, secrets []string, at []int) (permit.Beats, error),
) ([]Standing, error) {
	out := make([]Standing, len(leases))
	secrets, places := map[string][]string{}, map[string][]int{}
	var names []string
	for i, lease := range leases {
		out[i].How = permit.LeaseGone
		queue, secret, ok := permit.ParseLeaseToken(lease)
		if !ok {
			continue
		}
		if secrets[queue] == nil {
			names = append(names, queue)
		}
		secrets[queue], places[queue] = append(secrets[queue], secret), append(places[queue], i)
	}
	for _, queue := range names {
		if there, err := d.exists(ctx, queue); err != nil || !there {
			if err != nil {
				return nil, err
			}
			continue
		}
		answer, err := ask(queue, secrets[queue], places[queue])
		if err != nil {
			return nil, err
		}
		if len(answer.Standing) != len(places[queue]) || len(answer.Until) != len(places[queue]) {
			return nil, fmt.Errorf("queue %q: %w: an answer about other leases", queue, store.ErrDamaged)
		}
		for k, i := range places[queue] {
			out[i] = Standing{answer.Standing[k], answer.Until[k]}
		}
	}
	return out, nil
}

// exists reports whether a queue was ever made: a forged lease makes none.
func (d *Desk) exists(ctx context.Context, queue string) (bool, error) {
	page, err := d.cfg.Store.List(ctx, store.Filter{IDs: []string{permit.EntityID(queue)}, Limit: 1})
	return err == nil && len(page.Runs) == 1, err
}

// End ends the attempt of a lease. The Secret of e is filled in. ErrNoLease: the text is none.
func (d *Desk) End(ctx context.Context, lease string, e permit.End) (permit.Ended, error) {
	queue, secret, ok := permit.ParseLeaseToken(lease)
	if !ok {
		return permit.Ended{}, ErrNoLease
	}
	if there, err := d.exists(ctx, queue); err != nil || !there {
		return permit.Ended{Standing: permit.LeaseGone}, err
	}
	e.Secret = secret
	var answer permit.Ended
	err := d.update(ctx, queue, permit.EndTask, "end "+secret, permit.Encode(e), &answer)
	return answer, err
}

// maxRuns bounds what a desk remembers of leases.
const maxRuns = 4096

// RunOf returns the ID of the run whose task a lease is; "": nothing was added by this desk.
func (d *Desk) RunOf(lease string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[lease]
}

// Append adds items to streams of the run whose task a lease is. A request of the lease with a
// number that was used has the answer that was given then. ErrNoLease: the text is none.
func (d *Desk) Append(ctx context.Context, lease string, number int64, items []byte) (permit.Appended, error) {
	queue, secret, ok := permit.ParseLeaseToken(lease)
	if !ok {
		return permit.Appended{}, ErrNoLease
	}
	if there, err := d.exists(ctx, queue); err != nil || !there {
		return permit.Appended{Standing: permit.LeaseGone}, err
	}
	var answer permit.Appended
	err := d.update(ctx, queue, permit.AppendTask, fmt.Sprint("append ", secret, " ", number),
		permit.Encode(permit.Append{Secret: secret, Number: number, Items: items}), &answer)
	if err == nil && answer.RunID != "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.runs) >= maxRuns {
			clear(d.runs)
		}
		d.runs[lease] = answer.RunID
	}
	return answer, err
}
