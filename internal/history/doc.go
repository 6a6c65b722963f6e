// Package history changes a run's recorded history, as a retry, a rewind, a fork, an
// edit and the end of a run whose code does not run do. Everything here is computed
// from the entries; nothing is executed and nothing is read or written: the caller
// puts what comes out into a turn.
//
//	Retry, Rewind   which entries go, which are open again, and what comes back to the
//	                inbox, the topics and the queues: a Revert
//	Fork            what a new run begins with
//	Edit            an entry with another outcome
//	Forsake,        what the turn that ends a run withdraws and cancels
//	Orphans
//	Owed            which completed steps have compensations that were not executed
//
// What an entry has handed out and consumed depends on its kind of operation; all such
// questions stand in one table.
package history
