// Package cluster keeps a node's place in the store: its row, its leases, and the moment
// at which it must stop writing. It knows leases, nodes and time; what is done in a shard
// is behind the interface [Work], or a function.
//
// # Who decides
//
// The store decides, by leases. A lease gives one boot of one node the right to write in
// one shard until a time by the store's clock. Each acquisition by another owner raises
// the lease's epoch, and every write carries the epoch: the store refuses one that is
// stale, in the same act. So two nodes that both believe to hold a shard are no danger to
// the data. All else in this package is there so that this is rare, and so that a shard is
// not without an owner for long. There is no leader and no election: nodes that see the
// same come to the same result ([Assign]), and nodes that do not are sorted out by the
// leases.
//
// # The trust window
//
// A node trusts a lease for two thirds of its length (TTL), counted by its own monotonic
// clock from before the last successful request was sent. The other third is for the
// difference between that clock and the store's, and for what is still on its way when it
// stops. It renews all leases together every Renew, which is less than half of TTL.
//
//	 request sent                                      must stop        another may take
//	      │                                                │                 │
//	──────●───────────────┬────────────────────────────────●─────────────────●──────► time
//	      │◄── Renew ────►│ next renewal                   │                 │
//	      │◄─────────────── 2/3 TTL: may write ───────────►│                 │
//	      │◄──────────────────────── TTL, by the store's clock ─────────────►│
//
// # Two ways to take part
//
// A [Keeper] is for stores with one owner at a time. It holds all shards or none, for a
// [Term], and stands by meanwhile: it asks for the leases every Retry.
//
// A [Member] is for stores with many slots. A node takes part in three steps, in one
// goroutine, whenever a hint or a timer wakes it:
//
//	       ┌────────────── look: read who lives and who holds what ◄─────────────┐
//	       ▼                                                                     │
//	Assign: which shards are for this node?                                      │
//	       │                                                                     │
//	       ├─ it should have one that is free     → Acquire → Work.Begin         │
//	       ├─ it should have one that is held     → wait for its end or a hint ──┤
//	       └─ it has one that is for another node → Work.Drain ─► released       │
//	                                                     │      → store Release ─┘
//	                                                     ▼
//	                            (the other node gets a hint, looks, and takes it)
//
//	a shard of this node:   free ──Acquire──► held ──Drain──► draining ──► released
//	                                           │                 │
//	                                           └──────Lose───────┴───────► lost
//
// A shard is drained when another node should have it, or when this one stops. It is released
// at a moment when no work is under way in it; see package ownership. If this node must not keep
// it, because the node stops or lacks what a run in it needs, work that takes long is cancelled.
// It is lost, at once, when its lease is gone or cannot be trusted any longer.
//
// A node lives, for the others, if it was heard of within the length of its leases, holds
// no lease that has ended, and is not draining. A shard that holds a ready run which its
// owner cannot load is for the nodes that can: each node publishes such requirements in
// its row.
//
// # Failures
//
//   - The process dies: its leases end, at the latest after TTL. The others look at that
//     moment and take its shards. What it had claimed is found by the new epoch.
//   - The store does not answer: every call has a limit, and is made again. After two
//     thirds of TTL the node loses its shards by itself. It takes them again when the store
//     answers and the leases are free, or still its own.
//   - A node is cut off from the store, and others are not: as above, and the others take
//     its shards after TTL.
//   - The process is paused for long: by its clock the window is over when it goes on, and
//     its first write is fenced if another node has the lease by then.
//   - A call's answer is lost: what this boot holds without knowing it is found at the next
//     look, and is given back or taken for good.
//   - Work does not end in a shard that is drained: Work decides how long that may take,
//     and cancels it if the shard must go.
//   - Nodes of one build and group register different workflows: the later one is refused
//     ([DifferError]).
package cluster
