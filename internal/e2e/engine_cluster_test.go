package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// wire is a node's way to a store, which can be cut. While it is cut, calls wait until their context ends or the wire
// is repaired; with late set, commits are then still delivered, however long ago they were sent.
type wire struct {
	store.Store

	mu   sync.Mutex
	cut  chan struct{} // closed when the wire is repaired; nil: it is not cut
	late bool
}

func (w *wire) set(cut, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != nil && !cut {
		close(w.cut)
		w.cut = nil
	} else if w.cut == nil && cut {
		w.cut = make(chan struct{})
	}
	w.late = late
}

func (w *wire) pass(ctx context.Context, commit bool) error {
	w.mu.Lock()
	cut, late := w.cut, w.late
	w.mu.Unlock()
	if cut == nil {
		return nil
	}
	if commit && late {
		<-cut
		return nil
	}
	select {
	case <-cut:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the wire is cut: %w: %w", store.ErrUnavailable, ctx.Err())
	}
}

func (w *wire) Describe(ctx context.Context) (store.Description, error) {
	if err := w.pass(ctx, false); err != nil {
		return store.Description{}, err
	}
	return w.Store.Describe(ctx)
}

func (w *wire) Register(ctx context.Context, n store.Node) (store.Time, error) {
	if err := w.pass(ctx, false); err != nil {
		return 0, err
	}
	return w.Store.Register(ctx, n)
}

func (w *wire) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	if err := w.pass(ctx, false); err != nil {
		return nil, 0, err
	}
	return w.Store.Acquire(ctx, n, shards, ttl)
}

func (w *wire) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := w.pass(ctx, false); err != nil {
		return nil, 0, err
	}
	return w.Store.Renew(ctx, leases, ttl)
}

func (w *wire) Release(ctx context.Context, leases []store.Lease) error {
	if err := w.pass(ctx, false); err != nil {
		return err
	}
	return w.Store.Release(ctx, leases)
}

func (w *wire) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := w.pass(ctx, false); err != nil {
		return store.Claims{}, err
	}
	return w.Store.Claim(ctx, req)
}

func (w *wire) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	if err := w.pass(ctx, false); err != nil {
		return nil, nil, err
	}
	return w.Store.Load(ctx, runs)
}

func (w *wire) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := w.pass(ctx, true); err != nil {
		return store.BatchResult{}, err
	}
	return w.Store.Commit(context.WithoutCancel(ctx), b)
}

// fleet is nodes on one store with many slots, in a bubble.
type fleet struct {
	t      *testing.T
	first  *memory.Store
	outer  *stet.Engine // a client
	cfg    stet.Config  // of all nodes
	nodes  map[string]*member
	slots  int
	number int

	mu      sync.Mutex
	bodies  map[string][]string // nodes that have executed a step, by run and step
	running map[string]string   // the node, by run and step
	faults  int                 // after which bodies may be executed again
}

// member is one node of a fleet.
type member struct {
	*stet.Engine
	name  string
	wire  *wire
	stop  context.CancelFunc
	ended chan error
}

const fleetLease = 3 * time.Second

func newFleet(t *testing.T, slots int, opts ...memory.Option) *fleet {
	f := &fleet{
		t: t, first: memory.New(append(opts, memory.Slots(slots))...), slots: slots,
		nodes: map[string]*member{}, bodies: map[string][]string{}, running: map[string]string{},
	}
	f.cfg = stet.Config{Workflows: []stet.Definition{f.workflow()}, LeaseTTL: fleetLease, MaxParkedBytes: 400_000,
		Grace: 10 * time.Second, PoisonLimit: stet.None, Build: "1"}
	var err error
	if f.outer, err = stet.New(t.Context(), stet.Config{Store: f.first, Node: "client"}); err != nil {
		t.Fatal(err)
	}
	return f
}

var fleetWord = stet.Message[string]("word")

// fleetRef is the workflow of a fleet: steps, a branch, sleeps, a message.
var fleetRef = stet.Ref[int, string]("fleet")

func (f *fleet) workflow() stet.Definition {
	return stet.Define("fleet", func(ctx stet.Context, n int) (string, error) {
		a, err := f.step(ctx, "a", n)
		if err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "nap", time.Duration(n%5)*700*time.Millisecond); err != nil {
			return "", err
		}
		both, err := stet.Map(ctx, "both", []int{1, 2},
			func(ctx stet.Context, i int) (string, error) { return f.step(ctx, "b", n+i) })
		if err != nil {
			return "", err
		}
		word, err := fleetWord.Receive(ctx)
		if err != nil {
			return "", err
		}
		c, err := f.step(ctx, "c", n)
		return a + strings.Join(both, "") + word + c, err
	})
}

func fleetResult(n int) string { return fmt.Sprintf("a%db%db%dword%dc%d", n, n+1, n+2, n, n) }

// step is a step that takes a while.
func (f *fleet) step(ctx stet.Context, name string, n int) (string, error) {
	return stet.Step(ctx, name, func(ctx context.Context) (string, error) {
		select {
		case <-time.After(time.Duration(1+n%7) * 90 * time.Millisecond):
			return fmt.Sprint(name, n), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
}

// note notes an execution of a body by a node.
func (f *fleet) note(node string) func(context.Context, stet.StepInfo, func(context.Context) error) error {
	return func(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
		key := step.RunID + " " + step.Location
		f.mu.Lock()
		f.bodies[key] = append(f.bodies[key], node)
		if other := f.running[key]; other != "" && f.faults == 0 {
			f.t.Errorf("%s is executed by %s and by %s at once", key, other, node)
		}
		f.running[key] = node
		f.mu.Unlock()
		err := next(ctx)
		f.mu.Lock()
		delete(f.running, key)
		f.mu.Unlock()
		return err
	}
}

// join starts a node.
func (f *fleet) join(change ...func(*stet.Config)) *member {
	f.t.Helper()
	f.number++
	m := &member{name: fmt.Sprintf("node%d", f.number), wire: &wire{Store: f.first.Join()}, ended: make(chan error, 1)}
	cfg := f.cfg
	cfg.Around = f.note(m.name)
	cfg.Node, cfg.Store, cfg.Logger = m.name, m.wire, slog.New(slog.NewTextHandler(f.t.Output(), nil)).With("at", m.name)
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if m.Engine, err = stet.New(context.Background(), cfg); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	m.stop = cancel
	go func() { m.ended <- m.Run(ctx) }()
	f.nodes[m.name] = m
	return m
}

// leave stops a node and waits for its end.
func (f *fleet) leave(m *member) {
	f.t.Helper()
	m.stop()
	if err := <-m.ended; err != nil {
		f.t.Errorf("%s: %v", m.name, err)
	}
	delete(f.nodes, m.name)
}

// done stops all nodes.
func (f *fleet) done() {
	for _, m := range f.nodes {
		m.wire.set(false, false)
		f.leave(m)
	}
}

// owned returns how many shards each node holds by the store.
func (f *fleet) owned() map[string]int {
	d, err := f.first.Describe(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	n := map[string]int{}
	for _, l := range d.Leases {
		if l.Shard.Group == store.DefaultGroup && l.Until > d.Now {
			n[l.Node]++
		}
	}
	return n
}

// settle waits until the given nodes share all shards evenly, and returns how long
// that took.
func (f *fleet) settle(limit time.Duration, nodes ...*member) time.Duration {
	f.t.Helper()
	begun := time.Now()
	for {
		n, least, most, sum := f.owned(), f.slots, 0, 0
		for _, m := range nodes {
			least, most, sum = min(least, n[m.name]), max(most, n[m.name]), sum+n[m.name]
		}
		if sum == f.slots && most-least <= 1 {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			f.t.Fatalf("after %s the shards are with %v", limit, n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// start starts runs and sends them what they wait for.
func (f *fleet) start(from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		r, err := fleetRef.Start(f.t.Context(), f.outer, i, stet.ID(fmt.Sprint("run-", i)))
		if err == nil {
			err = fleetWord.Send(f.t.Context(), f.outer, r.ID(), fmt.Sprint("word", i))
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// finish waits for the ends of runs, and checks their results.
func (f *fleet) finish(from, to int, limit time.Duration) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	for i := from; i < to; i++ {
		got, err := fleetRef.Handle(f.outer, fmt.Sprint("run-", i)).Wait(ctx)
		if err != nil || got != fleetResult(i) {
			f.tell(fmt.Sprint("run-", i))
			f.t.Fatalf("run %d: got %q, %v; want %q", i, got, err, fleetResult(i))
		}
	}
}

// tell logs all that is known of a run.
func (f *fleet) tell(id string) {
	info, err := f.outer.Runs().Info(context.Background(), id)
	if err != nil {
		f.t.Log(err)
		return
	}
	d, err := f.first.Describe(context.Background())
	if err != nil {
		f.t.Log(err)
		return
	}
	history, err := f.outer.Runs().History(context.Background(), id, stet.HistoryQuery{})
	inbox, _ := f.first.Inbox(context.Background(), info.Number)
	f.t.Logf("%+v\n%+v\n%+v %v\nat %s", info, history, inbox, err, d.Now)
	for _, l := range d.Leases {
		if l.Shard == info.Shard {
			f.t.Logf("%+v", l)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, nodes := range f.bodies {
		if strings.HasPrefix(key, id+" ") {
			f.t.Log(key, nodes)
		}
	}
}

// once checks that no body was executed twice.
func (f *fleet) once() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, nodes := range f.bodies {
		if len(nodes) > 1 {
			f.t.Errorf("%s was executed by %v", key, nodes)
		}
	}
}

// Nodes that join and leave share the shards again, and no step is executed twice.
func TestNodesJoinAndLeave(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{16, 256} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, slots)
				a := f.join()
				f.settle(time.Second, a)
				f.start(0, 60)
				b := f.join()
				f.settle(5*time.Second, a, b)
				c := f.join()
				f.start(60, 120)
				f.settle(5*time.Second, a, b, c)
				f.start(120, 160)
				f.leave(a)
				if took := f.settle(time.Second, b, c); took > 500*time.Millisecond {
					t.Errorf("after a graceful stop the others have all shards in %s", took)
				}
				d := f.join()
				f.settle(5*time.Second, b, c, d)
				f.leave(b)
				f.leave(c)
				f.settle(time.Second, d)
				f.finish(0, 160, time.Minute)
				f.once()
				f.done()
				if n := f.owned(); len(n) != 0 {
					t.Errorf("at the end shards are with %v", n)
				}
			})
		})
	}
}

// When a node dies, the others own its shards within the lease's time and a second,
// and go on with its runs.
func TestANodeDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 64)
		a, b, c := f.join(), f.join(), f.join()
		f.settle(5*time.Second, a, b, c)
		f.faults++
		f.start(0, 100)
		time.Sleep(300 * time.Millisecond)
		c.wire.set(true, false)
		took := f.settle(fleetLease+time.Second, a, b)
		t.Logf("the others have the shards after %s", took)
		f.finish(0, 100, time.Minute)
		if c.Owner() {
			t.Error("the node that is cut off still takes itself for an owner")
		}
		c.wire.set(false, false)
		f.settle(5*time.Second, a, b, c)
		f.start(100, 150)
		f.finish(100, 150, time.Minute)
		f.done()
	})
}

// A commit that arrives when its lease was taken by another changes nothing, and
// a step whose success is durable is not executed again.
func TestLateCommitsAreFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		a, b := f.join(), f.join()
		f.settle(5*time.Second, a, b)
		f.faults++
		random := rand.New(rand.NewPCG(1, 2))
		from := 0
		for range 10 {
			f.start(from, from+30)
			from += 30
			victim := []*member{a, b}[random.IntN(2)]
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			victim.wire.set(true, true)
			time.Sleep(time.Duration(random.IntN(int(2 * fleetLease))))
			victim.wire.set(false, false)
		}
		f.finish(0, from, time.Minute)
		f.settle(10*time.Second, a, b)
		f.done()
	})
}

// The clock of the store may jump: nothing is executed twice because of it, and
// nothing is stuck.
func TestTheStoresClockJumps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ahead time.Duration
		f := newFleet(t, 16, memory.Clock(func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		}))
		jump := func(by time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			ahead += by
		}
		a, b, c := f.join(), f.join(), f.join()
		f.settle(5*time.Second, a, b, c)
		f.faults++
		from := 0
		for _, by := range []time.Duration{time.Hour, -30 * time.Minute, 10 * time.Second, -time.Hour, 2 * time.Hour} {
			f.start(from, from+30)
			from += 30
			time.Sleep(200 * time.Millisecond)
			jump(by)
			time.Sleep(2 * time.Second)
		}
		f.finish(0, from, 3*time.Hour)
		f.settle(3*time.Hour, a, b, c)
		f.done()
	})
}

// Nodes come, go, die and are cut off in random order.
func TestNodesInRandomWeather(t *testing.T) {
	t.Parallel()
	for seed := range crashSeeds(t, "memory", 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 3))
				f := newFleet(t, []int{16, 256}[seed%2])
				f.faults++
				f.settle(time.Second, f.join())
				from := 0
				for range 25 {
					f.start(from, from+8)
					from += 8
					all := make([]*member, 0, len(f.nodes))
					for _, m := range f.nodes {
						all = append(all, m)
					}
					slices.SortFunc(all, func(a, b *member) int { return strings.Compare(a.name, b.name) })
					m := all[random.IntN(len(all))]
					switch what := random.IntN(6); {
					case what < 2 && len(all) < 5:
						f.join()
					case what == 2 && len(all) > 1:
						m.wire.set(false, false)
						f.leave(m)
					case what == 3:
						m.wire.set(true, random.IntN(2) == 0)
					default:
						m.wire.set(false, false)
					}
					time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
				}
				for _, m := range f.nodes {
					m.wire.set(false, false)
				}
				f.finish(0, from, time.Minute)
				all := make([]*member, 0, len(f.nodes))
				for _, m := range f.nodes {
					all = append(all, m)
				}
				f.settle(15*time.Second, all...)
				f.done()
			})
		})
	}
}

// Nodes of one build and group have the same workflows, otherwise the later one is refused.
func TestNodesOfABuildHaveTheSameWorkflows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		a := f.join()
		f.settle(time.Second, a)
		extra := stet.Define("extra", func(stet.Context, int) (int, error) { return 0, nil })
		with := func(build string, groups ...string) func(*stet.Config) {
			return func(cfg *stet.Config) {
				cfg.Workflows, cfg.Build, cfg.Groups = []stet.Definition{extra}, build, groups
			}
		}
		b := f.join(with("1"))
		err := <-b.ended
		delete(f.nodes, b.name)
		if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(), `lacks ["fleet"] and has ["extra"]`) {
			t.Errorf("got %v; want a refusal that names the difference", err)
		}
		f.join(with("2"))
		f.join(with("1", "other"))
		time.Sleep(time.Second)
		for _, m := range f.nodes {
			select {
			case err := <-m.ended:
				t.Errorf("%s: %v", m.name, err)
			default:
			}
		}
		f.done()
	})
}
