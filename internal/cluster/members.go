package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Members are the places of one node on all servers of a store: on each one of them, which
// joins, renews and settles without the others. A server that is away stops its member alone.
type Members []*Member

// Init makes all ready. It is called once, before any other method.
func (all Members) Init() {
	for _, m := range all {
		m.Init()
	}
}

// Run is Member.Run of all. If one is refused, or the store closed, the others stop as well.
func (all Members) Run(stop context.Context) error {
	if len(all) == 1 {
		return all[0].Run(stop)
	}
	stop, cancel := context.WithCancel(stop)
	defer cancel()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, m := range all {
		running.Go(func() {
			if errs[i] = m.Run(stop); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// SignOff is Member.SignOff of all.
func (all Members) SignOff() {
	var leaving sync.WaitGroup
	for _, m := range all {
		leaving.Go(m.SignOff)
	}
	leaving.Wait()
}

// Fenced is Member.Fenced of the one that holds the lease.
func (all Members) Fenced(l store.Lease) {
	for _, m := range all {
		if m.has(l.Shard.Slot) {
			m.Fenced(l)
		}
	}
}

// Settled reports whether all are settled, and when the first lease of another node ends that
// does not renew it; zero: there is none.
func (all Members) Settled() (settled bool, until time.Time) {
	settled = true
	for _, m := range all {
		is, at := m.Settled()
		settled = settled && is
		if until.IsZero() || !at.IsZero() && at.Before(until) {
			until = at
		}
	}
	return settled, until
}

// StoreClosed is Member.StoreClosed of all.
func (all Members) StoreClosed(err error) {
	for _, m := range all {
		m.StoreClosed(err)
	}
}
