package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

// ErrLost is the cause with which the context of a term ends when its leases are gone or
// could not be renewed.
var ErrLost = errors.New("lease lost")

// ErrHeld is wrapped by every HeldError.
var ErrHeld = errors.New("the store is held by another process")

// HeldError says that another node holds the store.
type HeldError struct {
	Holder store.Lease
}

// Error names the holder and when its lease ends.
func (e *HeldError) Error() string {
	return fmt.Sprintf("the store is held by node %s until %s: "+
		"stop it, or wait for its end with Run and without Exclusive", e.Holder.Node, e.Holder.Until)
}

// Unwrap returns ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// Keeper acquires and renews the leases of a fixed set of shards. All fields are
// required.
type Keeper struct {
	Store     store.Store
	Node      store.Node
	Names     func() []string     // the node's workflows, in place of those of Node; nil: these
	Bodies    func() []store.Body // what the node executes for long; nil: it does not say so
	Lacks     func() []string     // what the process lacks; nil: it does not say so
	Shards    []store.Shard
	TTL       time.Duration // of a lease
	Renew     time.Duration // interval of renewals and heartbeats; less than half of TTL
	Retry     time.Duration // of a standby
	Exclusive bool          // return a *HeldError instead of standing by
	Log       *slog.Logger
	// Observe receives the store's time with every answer, and when the request was sent.
	Observe func(sent time.Time, now store.Time)
	Last    func() int64 // the last batch that the store has acknowledged

	// WentBack is called when the store does not have the batch last, which it had
	// acknowledged. The term ends.
	WentBack func(last int64, err error)

	later later
	lost  losses
}

// Term is one stay of a node as the owner of all shards.
type Term struct {
	Leases   []store.Lease
	Clean    bool // the former owner gave the shards back, or there was none
	Suspects int  // runs that were claimed by an owner that did not

	acquired []store.Acquired
}

// Run waits for the leases, and calls serve for each term, until stop ends. serve must
// return soon after stop ends, and at once after held ends. Run renews while serve drains,
// releases the leases when it has returned, and returns its error; joined with one that wraps
// ErrReplaced if the leases are those of a process that replaces this one.
func (k *Keeper) Run(stop context.Context, serve func(stop, held context.Context, t Term) error) error {
	defer k.signOff()
	for {
		t, err := k.acquire(stop)
		if err != nil {
			if stop.Err() != nil {
				return nil
			}
			return err
		}
		held, lose := context.WithCancelCause(context.WithoutCancel(stop))
		served := make(chan error, 1)
		go func() { served <- serve(stop, held, t) }()
		err, ended := k.renew(t, served)
		if !ended {
			lose(ErrLost)
			if err = <-served; err != nil { // otherwise the next attempt says so
				err = errors.Join(k.later.replaced(&k.Node, k.describe(stop).Leases...), err)
			}
		}
		lose(nil)
		k.release(t)
		if err != nil || stop.Err() != nil {
			return err
		}
		k.Log.Warn("lease lost; standing by", "node", k.Node.ID)
	}
}

// acquire waits until all shards are held.
func (k *Keeper) acquire(ctx context.Context) (Term, error) {
	waiting := false
	var beat, warned time.Time
	var holder store.Lease       // that was in the way
	var before store.Description // as the store was then
	for {
		if time.Since(beat) >= k.Renew {
			beat = time.Now()
			k.announce(ctx)
		}
		if !slices.ContainsFunc(before.Leases, func(l store.Lease) bool { return l.Boot == holder.Boot }) {
			if before = k.describe(ctx); before.Now != 0 {
				k.later.saw(&k.Node, before.Leases...)
			}
		}
		t, by, err := k.try(ctx)
		if by != nil {
			holder = *by
			k.later.saw(&k.Node, holder)
		}
		if err := k.later.replaced(&k.Node, holder); err != nil {
			return Term{}, err
		}
		switch {
		case err == nil && by == nil:
			if !t.Clean {
				if now := k.describe(ctx); now.Now != 0 {
					before.Nodes = now.Nodes // the holder was heard of since it was seen first
				}
			}
			if lost := logLost(k.Log, k.Node.ID, &before, t.acquired); len(lost) > 0 {
				k.lost.add(lost)
				k.announce(ctx)
			}
			return t, nil
		case ctx.Err() != nil:
			return Term{}, context.Cause(ctx)
		case err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			return Term{}, fmt.Errorf("acquire leases: %w", err)
		case err != nil:
			k.Log.Error("acquiring leases", "error", err)
		case k.Exclusive:
			return Term{}, &HeldError{holder}
		case !waiting:
			waiting = true
			k.Log.Info("standing by", "holder", holder.Node, "until", holder.Until.Time())
			sayZones(k.Log, &k.Node, &before)
		}
		if waiting && time.Since(warned) >= sayEvery {
			if before := k.describe(ctx); k.strangers(&before, &holder) {
				warned = time.Now()
			}
		}
		if err := pause(ctx, k.Retry); err != nil {
			return Term{}, err
		}
	}
}

// strangers logs it if the holder of the store lacks workflows of this node, and reports whether it does: their runs
// wait as long as it holds the store.
func (k *Keeper) strangers(d *store.Description, holder *store.Lease) bool {
	i := slices.IndexFunc(d.Nodes, func(n store.Node) bool { return n.ID == holder.Node && n.Boot == holder.Boot })
	if i < 0 || len(d.Nodes[i].Workflows) == 0 { // a command, which holds the store for a moment
		return false
	}
	own := k.node()
	lacks := without(own.Workflows, d.Nodes[i].Workflows)
	if len(lacks) == 0 {
		return false
	}
	k.Log.Warn("the process that executes the runs of this store lacks workflows of this one: their runs wait; give each "+
		"service a store of its own, or one process all workflows", "holder", holder.Node, "workflows", lacks)
	return true
}

// describe returns how the store stands, for the log; nothing if that is not to be had.
func (k *Keeper) describe(ctx context.Context) store.Description {
	ctx, cancel := context.WithTimeout(ctx, k.Renew)
	defer cancel()
	d, _ := k.Store.Describe(ctx)
	return d
}

// try makes one attempt. Of a partial success the leases are released.
func (k *Keeper) try(ctx context.Context) (Term, *store.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, k.Renew)
	defer cancel()
	sent := time.Now()
	acquired, now, err := k.Store.Acquire(ctx, k.node(), k.Shards, delay(k.TTL))
	if err != nil {
		return Term{}, nil, err
	}
	k.Observe(sent, now)
	t := Term{Clean: true, acquired: acquired}
	var holder *store.Lease
	for i := range acquired {
		if !acquired[i].Held {
			holder = &acquired[i].Lease
			continue
		}
		t.Leases = append(t.Leases, acquired[i].Lease)
		t.Clean = t.Clean && acquired[i].Clean
		t.Suspects += acquired[i].Suspects
	}
	if holder != nil && len(t.Leases) > 0 {
		k.release(t)
	}
	return t, holder, nil
}

// renew keeps the leases until serve returns: then it returns that error and true. If
// they are lost before, it returns false.
func (k *Keeper) renew(t Term, served <-chan error) (error, bool) {
	renewed := time.Now()
	ticker := time.NewTicker(k.Renew)
	defer ticker.Stop()
	for {
		select {
		case err := <-served:
			return err, true
		case <-ticker.C:
		}
		sent := time.Now()
		ok, err := k.renewOnce(t, min(k.Renew, time.Until(renewed.Add(k.TTL*2/3))))
		switch {
		case err == nil && !ok:
			return nil, false
		case err == nil:
			renewed = sent
		case time.Since(renewed) >= k.TTL*2/3:
			k.Log.Error("leases could not be renewed in time", "error", err)
			return nil, false
		default:
			k.Log.Warn("renewing leases", "error", err)
		}
	}
}

func (k *Keeper) renewOnce(t Term, timeout time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent := time.Now()
	renewed, now, err := k.Store.Renew(ctx, t.Leases, delay(k.TTL))
	if err != nil {
		return false, err
	}
	k.Observe(sent, now)
	for _, a := range renewed {
		if !a.Held {
			k.Log.Error("lease taken by another node", "shard", a.Lease.Shard, "epoch", a.Lease.Epoch, "node", a.Lease.Node)
			return false, nil
		}
	}
	err = k.heartbeat(ctx)
	if err != nil {
		k.Log.Warn("heartbeat", "error", err)
	}
	return !errors.Is(err, store.ErrWentBack), nil
}

// announce is the heartbeat of a standby: it takes no longer than a renewal.
func (k *Keeper) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.Renew)
	defer cancel()
	if err := k.heartbeat(ctx); err != nil && !errors.Is(err, context.Canceled) {
		k.Log.Error("registering the node", "error", err)
	}
}

// node returns the node with the workflows that it has now.
func (k *Keeper) node() store.Node {
	n := k.Node
	if k.Names != nil {
		n.Workflows = k.Names()
	}
	return n
}

func (k *Keeper) heartbeat(ctx context.Context) error {
	n := k.node()
	n.TTL, n.LastBatch, n.Lost = delay(k.TTL), k.Last(), slices.Clone(k.lost)
	if k.Bodies != nil {
		n.Bodies = k.Bodies()
	}
	if k.Lacks != nil {
		n.Lacks = k.Lacks()
	}
	sent := time.Now()
	now, err := k.Store.Register(ctx, n)
	switch {
	case err == nil:
		k.Observe(sent, now)
	case errors.Is(err, store.ErrWentBack):
		k.WentBack(n.LastBatch, err)
	}
	return err
}

// release gives the leases back. It tries for as long as between two renewals.
func (k *Keeper) release(t Term) {
	ctx, cancel := context.WithTimeout(context.Background(), k.Renew)
	defer cancel()
	for {
		err := k.Store.Release(ctx, t.Leases)
		if err == nil || errors.Is(err, store.ErrClosed) {
			return
		}
		k.Log.Warn("releasing leases", "error", err)
		if pause(ctx, k.Renew/10) != nil {
			return
		}
	}
}

// signOff takes the node off the list.
func (k *Keeper) signOff() {
	ctx, cancel := context.WithTimeout(context.Background(), k.Renew)
	defer cancel()
	node := k.Node
	node.Stopped = true
	if _, err := k.Store.Register(ctx, node); err != nil && !errors.Is(err, store.ErrClosed) {
		k.Log.Warn("taking the node off the list", "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func delay(d time.Duration) store.Delay { return store.Delay(d.Microseconds()) }
