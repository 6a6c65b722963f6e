package store

// Node is a process that has opened an engine on the store.
type Node struct {
	ID        string
	Boot      string // differs for every life of the process
	Build     string
	Host      string
	PID       int
	Workflows []string
	Groups    []string // whose shards it may own
	TTL       Delay    // of its leases; silent for longer, it counts as dead; 0: not known
	// Requirements say what the next owners of shards must be able to load.
	Requirements []Requirement `json:"Needs"` // the stored name
	// Draining says that the node must give its shards back and take none. Register with
	// it sets this mark of a listed boot and nothing else; it stays until the boot ends
	// (law 26).
	Draining bool
	// Bodies are steps' bodies that execute there for long, the oldest first, up to MaxBodies:
	// as of the last Register, so they may have returned since.
	Bodies []Body `json:",omitempty"`
	// Tasks are those for which the node has a function of its own, so that it offers none of
	// them to workers: nodes of one build should have the same.
	Tasks []string `json:",omitempty"`
	// Zones is a digest of the data of time zones that the process has: where two nodes differ, they may find
	// different instants for a schedule. "": not known.
	Zones string `json:",omitempty"`
	// Lines: the node knows of the lines of queues (laws 31 to 34).
	Lines bool `json:",omitempty"`
	// Lacks says in words what the process lacks to execute records of the store that it has read, such
	// as a time zone or a key, up to MaxLacks: as of the last Register.
	Lacks []string `json:",omitempty"`
	// Lost are lives of nodes from which this one has taken shards that they had not given back, the
	// latest last, up to MaxLost: so others need not find out by themselves that they are dead.
	Lost []Loss `json:",omitempty"`
	// Stopped says that the node ended cleanly: it is no longer listed, and its last batch
	// is forgotten (law 9).
	Stopped bool
	// Replaces says that earlier processes of this node have died (law 30). It is not stored.
	Replaces bool `json:"-"`
	// LastBatch is as Batch.Last (law 29). It is not stored.
	LastBatch int64 `json:"-"`

	SeenAt Time // set by the store
	// Gone says that the store knows that the process has died, so that nothing is to be kept for it. It is set by the
	// store, may come late, and is not stored: another process may not know it yet.
	Gone bool `json:"-"`
}

// Supersedes reports whether the node may take a lease that has not ended, because it replaces its
// holder (law 30).
func (n *Node) Supersedes(l *Lease) bool { return n.Replaces && l.Node == n.ID && l.Boot < n.Boot }

// Loss is a life of a node whose shards were taken.
type Loss struct {
	Node, Boot string
	SeenAt     Time // when it had been heard of; one that is heard of later lives
}

// MaxLost bounds the losses of a Node.
const MaxLost = 100

// MaxLacks bounds the Lacks of a Node, and MaxLack the bytes of each.
const MaxLacks, MaxLack = 20, 500

// MaxBodies bounds the bodies of a Node.
const MaxBodies = 100

// Body is an execution of a step's body.
type Body struct {
	RunID    string
	Workflow string // of the run
	Location string // of the step, as people read it
	Attempt  int    // from 1
	Since    Time
}

// Requirement says that a shard holds a run that only some nodes can load: those that have
// the workflow and whose build is not earlier.
type Requirement struct {
	Shard    Shard
	Workflow string
	Build    string // "": any
	Until    Time   // it counts until then
}

// Lease is a node's time-limited right to be the one writer of a shard.
type Lease struct {
	Shard Shard
	Epoch int64
	Node  string
	Boot  string
	Until Time // by the store's clock; not set by Commit's caller
}

// Acquired is the result of an attempt to take a shard.
type Acquired struct {
	Held  bool  // the caller holds Lease
	Lease Lease // the caller's, or that of the present holder
	// Clean says that the former owner gave the shard back, or that there was none. If
	// not, the Suspects runs that it had claimed are now ready and suspect.
	Clean    bool
	Suspects int
}

// ClaimRequest asks for what is ready.
type ClaimRequest struct {
	Node   string
	Boot   string
	Leases []Lease
	// Workflows are those whose code the node has. A run of another workflow is claimed
	// only for what needs no code:
	//   - an unexamined Terminate or Pause;
	//   - a Cancel of a run that is queued, paused, stalled or terminal;
	//   - another verb of a run that is paused, stalled or terminal.
	// For every node a queued run whose wake time has not come is claimed only for an
	// unexamined Terminate, Cancel or Pause, and a paused run only for a verb.
	Workflows []string
	// Build is the node's. Runs of a later build, compared as text byte by byte, are like
	// runs of workflows that the node does not have. "": no build is later (law 25).
	Build string
	// Unservable requests Claims.Unservable.
	Unservable bool
	// Limit bounds the runs that are newly claimed. 0 claims none; unexamined items of
	// claimed runs are returned nevertheless.
	Limit int
}

// Claimed is a run that the node has claimed, with the items that no turn has examined.
// New says that this call claimed it; otherwise only Items are news, and of Run only No is
// set.
type Claimed struct {
	New   bool
	Run   Run
	Items []Item
}

// Claims is the answer to a ClaimRequest.
type Claims struct {
	Runs []Claimed
	// Fenced lists the shards whose lease is not current; nothing was claimed in them.
	Fenced []Shard
	// More says that there are ready runs beyond Limit, or beyond what the store claims at once.
	More bool
	// MoreItems says that claimed runs have items beyond those of the answer, by the store's own bound.
	MoreItems bool
	// NextWake is the earliest wake time after Now of an unclaimed run in the
	// shards whose workflow the node has; 0: none.
	NextWake Time
	Now      Time // inboxes were read at this time or later
	// Unservable lists, if requested, the unclaimed runs that this call would have claimed
	// if the node had every workflow and the latest build: for each shard and workflow, in
	// this order, the latest of their builds. Of thousands a store may look at the first ones.
	Unservable []Unservable
}

// Unservable says that a shard holds ready runs of a workflow that the node cannot load.
type Unservable struct {
	Shard    Shard
	Workflow string
	Build    string // "": they have none
}
