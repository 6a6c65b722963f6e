package store

import (
	"context"
	"slices"
	"time"
)

// Store is what the engine needs of persistence. See the package documentation
// for the laws; each method names only what is particular to it.
//
// Every method that takes a context returns promptly when the context ends; the act may
// then have happened or not. An error is one of this package's sentinels, or wraps
// [ErrUnavailable] when the store cannot be reached now or has no room (worth trying
// again), or is the store's own.
type Store interface {
	// Describe returns what is known of the store and of the nodes that work on it.
	Describe(ctx context.Context) (Description, error)

	// Register writes the node's row and adds its workflows to those known. It is also
	// the heartbeat, and forgets nodes that hold no lease and were silent for 24 hours.
	// It returns the store's time. Other processes are notified when a node joins, leaves
	// or starts draining, and when leases are taken or released; not of heartbeats and
	// renewals.
	Register(ctx context.Context, n Node) (Time, error)

	// Acquire tries to take the shards for ttl, which must be positive. The
	// results are in the order of shards. A lease that is held and has not expired is
	// not taken, unless its holder is the same boot or the store knows that its holder is
	// dead. Runs that the former owner had claimed become ready, and Alone no more. If that
	// owner did not end cleanly, of a run that was Alone Suspect and Strikes are raised by
	// one; of another one Suspect is raised up to 2, or lowered by one down to 2, and Strikes
	// is cleared. A former lease of the same boot counts as clean.
	Acquire(ctx context.Context, n Node, shards []Shard, ttl Delay) ([]Acquired, Time, error)

	// Renew extends leases to ttl from now, expired or not, unless another node has taken
	// them. The results are in the order of leases. A lease that is no longer current has
	// Held false: the caller must stop writing for that shard at once.
	Renew(ctx context.Context, leases []Lease, ttl Delay) ([]Acquired, Time, error)

	// Release gives leases back, so that other nodes can take them at once. Claimed runs
	// become ready. Leases that are not current are left alone.
	Release(ctx context.Context, leases []Lease) error

	// Apply carries out commands; the answers are in their order. Either all are durable,
	// or the call returns an error and none is known to be.
	Apply(ctx context.Context, commands []Command) ([]Answer, Time, error)

	// Commit writes a batch. An error means that nothing of it was written, unless it
	// wraps ErrUnknown: then the batch may have been written, and the caller repeats the
	// same batch. An error that does not wrap ErrUnavailable is due to a turn or command
	// in the batch: the caller splits it.
	Commit(ctx context.Context, b Batch) (BatchResult, error)

	// Claim claims what is ready by turns, so that nothing waits for all of a backlog. Three kinds
	// of lines wait: of each workflow the runs whose wake time has passed, in the order of that
	// time; the runs with an item that makes them ready, by number; and of each workflow those
	// marked ready, by number. A turn takes the first of each line: lines in the order of their
	// kinds, and of one kind in the order of these runs. It returns the unexamined items of all
	// runs that the node has claimed, by run. A run that was queued or suspended is Running from then on and has no wake
	// time; Started is set the first time. Stalled and terminal runs keep their status, and
	// those at rest (law 18) their wake time too. Of items it leaves values out like Load.
	Claim(ctx context.Context, req ClaimRequest) (Claims, error)

	// Load returns the runs with the entries of their incarnation in the order
	// of locations, values shorter than LargeValue included, and the items of
	// their inboxes that are new or seen, or are updates without an answer, in
	// the order of their numbers. Values of messages and updates that are not shorter than
	// LargeValue are left out too: Item.Size says so, and Inbox returns them. Runs that do
	// not exist are left out. Once an answer has LoadBytes no further run is added to it: left
	// are the numbers that were not looked at, never all, in their order.
	Load(ctx context.Context, runs []RunNo) (snapshots []Snapshot, left []RunNo, err error)

	// List returns runs, newest first or with ByEnded by their ends, without Input and Output unless the
	// filter asks for them. ErrBadCursor: the cursor is not one of List's.
	List(ctx context.Context, f Filter) (Page, error)

	// Count counts the runs that match, by workflow and status, and of each status no more
	// than Filter.Most asks for.
	Count(ctx context.Context, f Filter) ([]Tally, error)

	// History returns entries of one run in the order of locations.
	History(ctx context.Context, q HistoryQuery) ([]Entry, error)

	// Inbox returns the items of a run that have one of the IDs, or with no IDs
	// all that are new or seen, these without the values that Load leaves out, in the order
	// of their numbers.
	Inbox(ctx context.Context, run RunNo, ids ...string) ([]Item, error)

	// Pending counts items of a run's inbox that are new or seen, and returns none of them.
	Pending(ctx context.Context, q PendingQuery) (Pending, error)

	// Waiting returns runs of the line of a queue (law 31), of one moment. A store without Lines returns none.
	Waiting(ctx context.Context, q WaitingQuery) ([]Waiter, error)

	// Feeds returns the feeds of runs: by run, values before streams, by name.
	// Values are left out unless the query asks for them.
	Feeds(ctx context.Context, q FeedQuery) ([]Feed, error)

	// Stream returns items of a stream.
	Stream(ctx context.Context, q StreamQuery) ([]StreamItem, error)

	// Audit returns the operators' acts on a run, in the order of their numbers.
	Audit(ctx context.Context, run RunNo) ([]Audit, error)

	// DeadLetters returns dead letters, newest first. ErrBadCursor: the cursor is
	// not one of DeadLetters'.
	DeadLetters(ctx context.Context, f DeadFilter) (DeadPage, error)

	// Discard makes dead letters consumed, all in one act. The answers are in the order of
	// items and say whether each was a dead letter.
	Discard(ctx context.Context, items []ItemNo) ([]bool, error)

	// Sweep deletes a part of the rows whose retention is over (law 24).
	Sweep(ctx context.Context, req SweepRequest) (Swept, error)

	// Changed blocks until another process may have changed something, and returns all
	// that may have changed since its last return. It returns the error of ctx when ctx
	// ends. It is a hint: it may return early, name too much, and miss a change. It costs
	// no query while it waits.
	Changed(ctx context.Context) (Change, error)

	// Close releases the resources of this process. A second call does nothing. Other
	// methods return ErrClosed afterwards.
	Close() error
}

// Transactor applies commands inside a transaction that the caller began and
// will commit or roll back. Tx is the transaction's type.
type Transactor[Tx any] interface {
	ApplyTx(ctx context.Context, tx Tx, commands []Command) ([]Answer, error)
}

// Transactors is implemented by a store that knows transactions of several types, beside
// [Transactor] or instead of it.
type Transactors interface {
	// TransactorAs sets target, a pointer to a Transactor or a Recorder of the wanted type,
	// and reports whether the store has one.
	TransactorAs(target any) bool
}

// TransactorOf returns the store's Transactor for transactions of type Tx, and whether
// there is one.
func TransactorOf[Tx any](s Store) (Transactor[Tx], bool) {
	if t, ok := s.(Transactor[Tx]); ok {
		return t, true
	}
	var t Transactor[Tx]
	if all, ok := s.(Transactors); ok && all.TransactorAs(&t) {
		return t, true
	}
	return nil, false
}

// Description is what is known of a store.
type Description struct {
	ID        string // made when the store was created
	Kind      string // "memory", "sqlite", …
	Schema    int
	Slots     int
	Durable   string   // one line: what survives, and what can be lost
	Workflows []string // every name that a node has ever registered, sorted
	Nodes     []Node   // not stopped, by ID
	Leases    []Lease  // held, expired or not, by shard
	Now       Time
	// Lanes is how many lanes the store has, see Laned; 0: one.
	Lanes int
	// Lines: runs can wait for a queue in their rows (laws 31 to 34).
	Lines bool
	// OwnClock: Now goes on at least as fast as the steady clock of this process. Say so only of a store
	// that lives in the process. Of others a node believes its steady clock to be a little too fast.
	OwnClock bool
}

// heardWithin is how long ago a node may have been heard of to count as alive that does not
// say how long its leases are: some heartbeats of an engine with the default lease.
const heardWithin = 45 * time.Second

// Alive reports whether the node lives, as far as the store knows: it was heard of within
// the length of its leases, holds none that has ended, and is not Lost. A process that has died is found
// out when its leases end at the latest.
func (d *Description) Alive(node *Node) bool {
	within := heardWithin
	if node.TTL > 0 {
		within = time.Duration(node.TTL) * time.Microsecond
	}
	over := func(l Lease) bool { return l.Node == node.ID && l.Boot == node.Boot && l.Until < d.Now }
	return !d.Lost(node) && d.Now.Sub(node.SeenAt) <= within && !slices.ContainsFunc(d.Leases, over)
}

// Lost reports whether the node is known to be dead: it is gone, or another node has taken its shards,
// which it had not given back, and it was not heard of since. A node that is neither alive nor lost is
// silent, and may be heard of again.
func (d *Description) Lost(node *Node) bool {
	return node.Gone || slices.ContainsFunc(d.Nodes, func(n Node) bool {
		return slices.ContainsFunc(n.Lost, func(l Loss) bool {
			return l.Node == node.ID && l.Boot == node.Boot && l.SeenAt >= node.SeenAt
		})
	})
}

// Executes reports whether the node lives and executes runs. On a store with one slot only the
// holder of the lease does, and while there is none every node may be next.
func (d *Description) Executes(node *Node) bool {
	if !d.Alive(node) || d.Slots > 1 {
		return d.Alive(node)
	}
	holds := func(n *Node) bool {
		return d.Alive(n) && slices.ContainsFunc(d.Leases, func(l Lease) bool {
			return l.Node == n.ID && l.Boot == n.Boot && l.Until > d.Now
		})
	}
	return holds(node) || !slices.ContainsFunc(d.Nodes, func(n Node) bool { return holds(&n) })
}

// Snapshot is a run with its history and inbox.
type Snapshot struct {
	Run     Run
	Entries []Entry
	Items   []Item
}

// LoadBytes is the number of bytes from which on an answer of Load is not added to.
const LoadBytes = 8 << 20

// rowBytes is what an entry or an item costs beside its value.
const rowBytes = 64

// Bytes returns about how much the snapshot has of what Load bounds.
func (s *Snapshot) Bytes() int {
	n := len(s.Run.Input) + len(s.Run.Output) + len(s.Run.Waits)
	for i := range s.Entries {
		n += s.Entries[i].Bytes()
	}
	for i := range s.Items {
		n += s.Items[i].Bytes()
	}
	return n
}

// Bytes returns about how much the entry has of what Load bounds.
func (e *Entry) Bytes() int { return rowBytes + len(e.Loc) + len(e.Value) }

// Bytes returns about how much the item has of what Load bounds.
func (it *Item) Bytes() int { return rowBytes + len(it.Value) + len(it.Headers) + len(it.Verdict) }

// HistoryQuery selects entries of one run.
type HistoryQuery struct {
	Run         RunNo
	Incarnation int
	Locs        []string // exactly these; nil: all
	After       string   // only locations after this one
	Limit       int      // at most so many; 0: all
	Values      bool     // with values, large ones too; else Size only
}
