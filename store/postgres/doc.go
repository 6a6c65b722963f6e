// Package postgres is the store in a Postgres database: for several nodes that
// share the work, on a server that exists anyway.
//
//	db, err := postgres.Open(ctx, "postgres://app@db.example.com/shop")
//
// # What is durable
//
// An act is acknowledged after a commit with fsync and synchronous_commit on, which Open
// checks: it survives crashes of nodes and of the server. Whether a failover keeps it
// depends on the standby; [Store.Describe] says it in one line. A commit whose wait for a
// synchronous standby was cut short is reported as unknown.
//
// # Acts
//
// Every act is one transaction at read committed. Either it is one statement, or the
// server takes it back when this process stands still for a second in the middle. No act
// needs LISTEN, advisory locks or SKIP LOCKED.
//
// Times are the server's clock at the moment of the statement
// (clock_timestamp), never that of a transaction's begin.
//
// # Fencing
//
// A commit locks the row of its node's boot FOR KEY SHARE, and adds its number to another
// table (batches.go). An act that takes a lease from a boot, or raises its epoch, locks that
// row before the lease and gives it another fence, a random value. A commit of one statement
// reads no lease. It names the fence under which its process saw them all held: either it
// has ended before the fence changes, or it finds another fence and writes nothing. The
// batch is then written turn by turn, which reads the leases. A claim locks the boot's row,
// or its leases if some are not the boot's; a sweep locks its leases in share mode.
//
// Locks are taken in this order: boots, leases, runs and items; each in the order of its
// key.
//
// # Four ways to commit
//
// Commit knows four ways to write a batch, of which each later one writes more kinds of
// batches and takes longer: one turn or start by a statement without lists
// (commit_one.go), many by one statement (commit_batch.go), by one call of a function
// (commit_call.go), and turn by turn (commit.go, with package sqlstore). A way that finds
// that it does not fit has written nothing, and the next one is taken.
//
// # Plans
//
// The statements of the daily work are planned once for a session, and find rows by an
// index whatever the server believes of the tables; see plan.go. Listings are planned
// each time. Behind a pooler everything is.
//
// # Failover
//
// A store notices by the timeline of the server's log that another server has taken the
// place of the last one. If commits waited for every standby before, it goes on: the old
// primary has acknowledged nothing that is not here, and acknowledges nothing any more. If
// they did not, or this process does not find its own last commit, all acts give
// store.ErrUnavailable until the loss is confirmed ([ConfirmFailover]).
//
// # Waiting for locks
//
// An act that sends to a run only inserts: it locks and changes nothing that a turn
// writes. But an application's own transaction ([Store.ApplyTx]) may stay open with an
// item, or a run, whose ID the engine is about to insert too. A group commit waits for such
// a lock for 20 ms at most. It is then repeated without those turns and commands that wait
// (store.Busy, store.Undecided), which are tried again alone. An item that becomes visible
// after its run has ended is made a dead letter, or answered, by the next claim of the
// run's owner.
//
// # Hints
//
// After a commit that another process may wait for, a NOTIFY that names the shards is
// sent in a transaction of its own: at most every two milliseconds, and every eight
// while there are many commits. A Store whose Changed is called listens on a connection of
// its own. Hints may be lost; polling then finds the changes.
//
// Behind a pooler in transaction mode, such as PgBouncer, nothing is kept in a
// session: no prepared statements, no LISTEN. Open notices it by itself. One in session mode
// serves for listening and for the witness; acts keep nothing in a session there either.
//
// # Several databases
//
// [OpenAll] opens one store over several databases, see [Wide]: each has all tables and some of
// the slots (placement.go). What goes between them goes through the table outbox (posts.go), by
// package relay. Acts on several are composed of acts on each (widecommit.go, wideapply.go,
// widenodes.go, wideread.go), and an engine works on each for itself (widelane.go).
package postgres
