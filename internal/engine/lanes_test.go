package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// servers is a store whose even slots are on one server and whose odd ones on another. What
// is sent from one to the other arrives at once, and is answered as posted.
type servers struct {
	*memory.Store
	lanes []store.Store
}

func newServers(slots int) *servers {
	s := &servers{Store: memory.New(memory.Slots(slots))}
	for i := range 2 {
		s.lanes = append(s.lanes, &server{Store: s.Store, all: s, lane: i})
	}
	return s
}

func (s *servers) Lanes() []store.Store { return s.lanes }
func (s *servers) LaneOf(slot int) int  { return slot % 2 }
func (s *servers) SlotOf(run store.RunNo) int {
	page, err := s.List(context.Background(), store.Filter{Nos: []store.RunNo{run}})
	if err != nil || len(page.Runs) != 1 {
		panic(fmt.Sprint("run number ", run, ": ", err))
	}
	return page.Runs[0].Shard.Slot
}

// server is one of them. While it is away nothing is answered. Boots have a name of their own
// on each, because each counts their batches.
type server struct {
	store.Store
	all  *servers
	lane int

	mu   sync.Mutex
	back chan struct{} // nil: it is there
}

// goAway makes the server silent until the returned function is called.
func (s *server) goAway() (comeBack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := make(chan struct{})
	s.back = back
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.back = nil
		close(back)
	}
}

// call waits until the server is there.
func (s *server) call(ctx context.Context) error {
	s.mu.Lock()
	back := s.back
	s.mu.Unlock()
	if back == nil {
		return nil
	}
	select {
	case <-back:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
}

func (s *server) boot(of string) string { return fmt.Sprint(of, "/", s.lane) }

func (s *server) node(n store.Node) store.Node {
	n.ID, n.Boot = s.boot(n.ID), s.boot(n.Boot)
	return n
}

func (s *server) Describe(ctx context.Context) (store.Description, error) {
	if err := s.call(ctx); err != nil {
		return store.Description{}, err
	}
	d, err := s.Store.Describe(ctx)
	own := fmt.Sprint("/", s.lane)
	d.Nodes = slices.DeleteFunc(d.Nodes, func(n store.Node) bool { return !strings.HasSuffix(n.ID, own) })
	for i := range d.Nodes {
		d.Nodes[i].ID, d.Nodes[i].Boot = strings.TrimSuffix(d.Nodes[i].ID, own), strings.TrimSuffix(d.Nodes[i].Boot, own)
	}
	d.Leases = slices.DeleteFunc(d.Leases, func(l store.Lease) bool { return l.Shard.Slot%2 != s.lane })
	for i := range d.Leases {
		l := &d.Leases[i]
		l.Node, l.Boot = strings.TrimSuffix(l.Node, own), strings.TrimSuffix(l.Boot, own)
	}
	return d, err
}

func (s *server) Register(ctx context.Context, n store.Node) (store.Time, error) {
	if err := s.call(ctx); err != nil {
		return 0, err
	}
	return s.Store.Register(ctx, s.node(n))
}

func (s *server) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	if err := s.call(ctx); err != nil {
		return nil, 0, err
	}
	for _, shard := range shards {
		if shard.Slot%2 != s.lane {
			return nil, 0, fmt.Errorf("%w: shard %s is asked of server %d", store.ErrInvalid, shard, s.lane)
		}
	}
	return s.Store.Acquire(ctx, s.node(n), shards, ttl)
}

func (s *server) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	if err := s.call(ctx); err != nil {
		return nil, 0, err
	}
	return s.Store.Renew(ctx, leases, ttl)
}

func (s *server) Release(ctx context.Context, leases []store.Lease) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.Store.Release(ctx, leases)
}

func (s *server) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := s.call(ctx); err != nil {
		return store.Claims{}, err
	}
	for _, l := range req.Leases {
		if l.Shard.Slot%2 != s.lane {
			return store.Claims{}, fmt.Errorf("%w: lease of %s is named to server %d", store.ErrInvalid, l.Shard, s.lane)
		}
	}
	req.Node, req.Boot = s.boot(req.Node), s.boot(req.Boot)
	return s.Store.Claim(ctx, req)
}

func (s *server) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := s.call(ctx); err != nil {
		return store.BatchResult{}, err
	}
	b.Node, b.Boot = s.boot(b.Node), s.boot(b.Boot)
	for _, t := range b.Turns {
		if t.Shard.Slot%2 != s.lane {
			return store.BatchResult{}, fmt.Errorf("%w: turn in %s", store.ErrInvalid, t.Shard)
		}
	}
	result, err := s.Store.Commit(ctx, b)
	for i := range result.Turns {
		for k := range result.Turns[i].Sends {
			if a := &result.Turns[i].Sends[k]; a.Run.Shard.Slot%2 != s.lane {
				if a.Claimed {
					return result, errors.New("a run of another server was to be claimed")
				}
				*a = store.Answer{Outcome: store.Posted}
			}
		}
	}
	return result, err
}

func (s *server) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if err := s.call(ctx); err != nil {
		return store.Swept{}, err
	}
	return s.Store.Sweep(ctx, req)
}

// idsOf returns so many IDs of runs in a lane.
func idsOf(e *engine.Engine, s store.Laned, lane, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprint("run", i); s.LaneOf(e.Slot(id)) == lane {
			ids = append(ids, id)
		}
	}
	return ids
}

// Of two servers one is away for longer than leases last: the runs on the other one start,
// receive and end meanwhile as if nothing were, and those of the first go on when it is back.
func TestAServerThatIsAwayStopsItsSlotsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(8)
		e := newEngine(t, s, "n", with("w", hears(2)), func(cfg *engine.Config) { cfg.MaxRuns = 100 })
		defer serve(t, e)()
		time.Sleep(time.Minute) // it takes the shards in steps
		here, there := idsOf(e, s, 0, 6), idsOf(e, s, 1, 3)
		start(t, e, "w", slices.Concat(here[:3], there)...)
		for _, id := range slices.Concat(here[:3], there) {
			send(t, e, id, "one")
		}
		synctest.Wait()
		comeBack := s.lanes[1].(*server).goAway()
		begun := time.Now()
		for minute := range 3 { // leases last half a minute
			time.Sleep(time.Minute)
			send(t, e, here[minute], "two")
			expectEnd(t, e, here[minute], store.Succeeded, "one two")
			id := here[3+minute]
			start(t, e, "w", id)
			send(t, e, id, "one")
			send(t, e, id, "two")
			expectEnd(t, e, id, store.Succeeded, "one two")
		}
		if late := time.Since(begun) - 3*time.Minute; late > 0 {
			t.Errorf("the runs on the server that is there were %s late", late)
		}
		if shards := e.Stats().Shards[store.DefaultGroup]; shards != 4 {
			t.Errorf("%d shards are held; want the 4 of the server that is there", shards)
		}
		comeBack()
		time.Sleep(time.Minute)
		if shards := e.Stats().Shards[store.DefaultGroup]; shards != 8 {
			t.Errorf("%d shards are held once the server is back; want 8", shards)
		}
		for _, id := range there {
			send(t, e, id, "two")
			expectEnd(t, e, id, store.Succeeded, "one two")
		}
	})
}

// A node that finds one of the servers away when it begins works on the other, and joins the
// first when that is back.
func TestANodeBeginsWithTheServersThatAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(8)
		e := newEngine(t, s, "n", with("w", hears(1)))
		comeBack := s.lanes[0].(*server).goAway()
		defer serve(t, e)()
		time.Sleep(time.Minute)
		id := idsOf(e, s, 1, 1)[0]
		start(t, e, "w", id)
		send(t, e, id, "word")
		expectEnd(t, e, id, store.Succeeded, "word")
		comeBack()
		time.Sleep(time.Minute)
		id = idsOf(e, s, 0, 1)[0]
		start(t, e, "w", id)
		send(t, e, id, "word")
		expectEnd(t, e, id, store.Succeeded, "word")
	})
}

// children returns the code that starts so many children and returns their results.
func children(n int) code {
	return func(b *runner.Branch) ([]byte, error) {
		futures := make([]*runner.RunFuture, n)
		for i := range futures {
			child := runner.Child{Workflow: "child", Input: []byte(fmt.Sprint(i))}
			child.Call.Name = fmt.Sprint("child", i)
			var err error
			if futures[i], err = b.StartChild(child); err != nil {
				return nil, err
			}
		}
		var said []string
		for i, f := range futures {
			out, err := b.AwaitRun(runner.Call{Name: fmt.Sprint("end", i)}, f)
			if err != nil {
				return nil, err
			}
			said = append(said, string(out))
		}
		return []byte(strings.Join(said, " ")), nil
	}
}

// A parent and its children on two servers: what one sends to the other is posted, and is
// found by the lane that has it.
func TestChildrenOnAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers(8)
		child := func(cfg *engine.Config) {
			cfg.Workflows["child"] = engine.Workflow{
				Code: func(run *store.Run) func(*runner.Branch) ([]byte, *stored.Failure) {
					return func(*runner.Branch) ([]byte, *stored.Failure) { return run.Input, nil }
				},
			}
		}
		e := newEngine(t, s, "n", with("parent", children(20)), child, func(cfg *engine.Config) { cfg.MaxRuns = 100 })
		defer serve(t, e)()
		time.Sleep(time.Minute)
		begun := time.Now()
		start(t, e, "parent", "p")
		expectEnd(t, e, "p", store.Succeeded, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		page, err := s.List(t.Context(), store.Filter{Workflows: []string{"child"}})
		if err != nil {
			t.Fatal(err)
		}
		on := [2]int{}
		for i := range page.Runs {
			on[page.Runs[i].Shard.Slot%2]++
		}
		if on[0] == 0 || on[1] == 0 || on[0]+on[1] != 20 {
			t.Errorf("%v children are on the two servers", on)
		}
	})
}
