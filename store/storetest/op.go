package storetest

import (
	"time"

	"github.com/stet-run/stet/store"
)

// op is one operation of a script. Numbers of runs and items and epochs are those of the specification; one that does
// not exist there is like any other unknown number.
type op interface{ verb() string }

// leaseRef is a lease by the shard and the epoch.
type leaseRef struct {
	Shard store.Shard
	Epoch int64
}

type (
	// clockOp moves the clock.
	clockOp struct{ By time.Duration }
	// joinOp opens a further handle; handles are numbered from 0.
	joinOp struct{}
	// killOp ends the process of a handle.
	killOp struct{ Handle int }

	registerOp struct {
		Handle int
		Node   store.Node
	}
	acquireOp struct {
		Handle     int
		Node, Boot string
		Shards     []store.Shard
		TTL        store.Delay
		Replaces   bool `json:",omitempty"`
	}
	renewOp struct {
		Handle int
		Leases []leaseRef
		TTL    store.Delay
	}
	releaseOp struct {
		Handle int
		Leases []leaseRef
	}
	applyOp struct {
		Handle   int
		Commands []store.Command
	}
	// commitOp writes the next batch of a boot, or one with a former number.
	commitOp struct {
		Handle     int
		Node, Boot string
		Former     bool
		Leases     []leaseRef
		Turns      []store.Turn
		Commands   []store.Command
	}
	// repeatOp writes the last batch of a boot again.
	repeatOp struct{ Node, Boot string }
	claimOp  struct {
		Handle     int
		Node, Boot string
		Leases     []leaseRef
		Workflows  []string
		Build      string
		Unservable bool
		Limit      int
	}
	loadOp struct {
		Handle int
		Runs   []store.RunNo
	}
	// listOp reads all pages, or with a cursor one.
	listOp struct {
		Handle int
		Filter store.Filter
	}
	countOp struct {
		Handle int
		Filter store.Filter
	}
	historyOp struct {
		Handle int
		Query  store.HistoryQuery
	}
	inboxOp struct {
		Handle int
		Run    store.RunNo
		IDs    []string
	}
	pendingOp struct {
		Handle int
		Query  store.PendingQuery
	}
	feedsOp struct {
		Handle int
		Query  store.FeedQuery
	}
	streamOp struct {
		Handle int
		Query  store.StreamQuery
	}
	// deadOp reads all pages, or with a cursor one.
	deadOp struct {
		Handle int
		Filter store.DeadFilter
	}
	discardOp struct {
		Handle int
		Items  []store.ItemNo
	}
	// sweepOp carries out a whole pass, or deletes runs.
	sweepOp struct {
		Handle int
		Runs   []store.RunNo
		Leases []leaseRef
		Rules  []store.Retention
		Items  bool
		Most   int `json:",omitempty"`
	}
)

func (*clockOp) verb() string    { return "clock" }
func (*joinOp) verb() string     { return "join" }
func (*killOp) verb() string     { return "kill" }
func (*registerOp) verb() string { return "register" }
func (*acquireOp) verb() string  { return "acquire" }
func (*renewOp) verb() string    { return "renew" }
func (*releaseOp) verb() string  { return "release" }
func (*applyOp) verb() string    { return "apply" }
func (*commitOp) verb() string   { return "commit" }
func (*repeatOp) verb() string   { return "repeat" }
func (*claimOp) verb() string    { return "claim" }
func (*loadOp) verb() string     { return "load" }
func (*listOp) verb() string     { return "list" }
func (*countOp) verb() string    { return "count" }
func (*historyOp) verb() string  { return "history" }
func (*inboxOp) verb() string    { return "inbox" }
func (*pendingOp) verb() string  { return "pending" }
func (*feedsOp) verb() string    { return "feeds" }
func (*streamOp) verb() string   { return "stream" }
func (*deadOp) verb() string     { return "dead" }
func (*discardOp) verb() string  { return "discard" }
func (*sweepOp) verb() string    { return "sweep" }

// newOp returns an empty operation, or nil if there is none of the name.
func newOp(verb string) op {
	for _, o := range []op{
		&clockOp{}, &joinOp{}, &killOp{}, &registerOp{}, &acquireOp{}, &renewOp{}, &releaseOp{}, &applyOp{}, &commitOp{},
		&repeatOp{}, &claimOp{},
		&loadOp{}, &listOp{}, &countOp{}, &historyOp{}, &inboxOp{}, &pendingOp{}, &feedsOp{}, &streamOp{},
		&deadOp{}, &discardOp{}, &sweepOp{},
	} {
		if o.verb() == verb {
			return o
		}
	}
	return nil
}
