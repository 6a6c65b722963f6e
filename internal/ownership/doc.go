// Package ownership knows which shards a process holds, and in which state.
//
// A [Shard] is one stay of a shard with this process. What runs there (activations,
// step bodies, turns under way) refers to the stay, not to the number of the shard: the
// same shard taken again is another Shard, and what belonged to the former one is over.
// A [Set] is all that the process holds now. Its content at one moment is a [Shards],
// which does not change, so that a goroutine which works with one sees one state
// throughout.
//
//		         Take
//		           │
//		           ▼     Close            Lose, when nothing is done in it
//		        ┌──────┐──────►┌──────────┐       ┌──────┐
//		        │ open │       │ draining │──────►│ lost │
//		        └──────┘◄──────└──────────┘       └──────┘
//		           │     Open                         ▲
//		           └──────────────────────────────────┘
//		             Lose: the lease is gone
//
//	  - Close: nothing new begins in the shard; what has begun may end.
//	  - Open: what has begun takes too long, and the shard goes on for now.
//	  - Release: a draining shard in which nothing is done is lost on purpose, and its
//	    lease is given back to the store afterwards.
//	  - Lose: the stay is over at once, and its context ends.
//
// A [Handover] decides when the shards that a process gives back are closed and opened.
//
// The package calls no store and starts no goroutine. Whether this process may still
// write is decided by the store, by the epoch of the lease.
package ownership
