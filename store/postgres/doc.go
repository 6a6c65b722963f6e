// Package postgres is the store in a Postgres database: for several nodes that
// share the work, on a server that is there anyway.
//
//	db, err := postgres.Open(ctx, "postgres://app@db.example.com/shop")
//
// # What is durable
//
// What was acknowledged was committed with fsync and synchronous_commit on, which
// Open makes sure of: it survives crashes of nodes and of the server. Whether a
// failover keeps it depends on the standby; [Store.Describe] says it in one line. A
// commit whose wait for a synchronous standby was cut short is not believed.
//
// # Acts
//
// Every act is one transaction at read committed. Those that may be long are sent
// by one statement or are taken back by the server when this process stands still
// for a second in the middle. No act needs LISTEN, advisory locks or SKIP
// LOCKED.
//
// Times are the server's clock at the moment of the statement
// (clock_timestamp), never that of a transaction's begin.
//
// # Fencing
//
// A commit locks the row of its node's boot, which it changes anyway (the number of
// the batch). Whoever takes a lease from a boot, or raises its epoch, locks that row
// before the lease and gives it another fence, a random value. A commit of the usual
// kind reads no lease: it says under which fence its process saw them all held, and
// either has ended before the fence changes, or sees it changed, writes nothing, and
// goes the careful way, which reads the leases. A claim locks the boot's row in share
// mode, or its leases where some are not the boot's; a sweep locks its leases so. Locks are taken in this order: boots, leases, runs and
// items; each in the order of its key.
//
// # Plans
//
// The statements of the daily work are planned once for a session, and find rows by an
// index whatever the server believes of the tables; see plan.go. Listings are planned
// each time. Behind a pooler everything is.
//
// # Failover
//
// A store notices that another server has taken the place of the one it was on, by
// the timeline of the server's log. If commits waited for every standby before, it goes
// on: the former primary has promised nothing that is not here, and promises nothing any
// more. If they did not, or this process does not find its own last commit, all acts
// give store.ErrUnavailable until the loss is confirmed ([ConfirmFailover]).
//
// # Who waits for whom
//
// Who sends to a run only inserts: it locks and changes nothing that a turn writes.
// An application's own transaction ([Store.ApplyTx]) may stay open all the same
// with an item, or a run, whose ID the engine is about to insert too. A group
// commit waits for such a lock for 20 ms at most; then it is repeated without those
// turns and commands that wait (store.Busy, store.Undecided), which are tried again
// alone. What became visible after its run had ended is made a dead letter, or
// answered, when the run's owner next looks.
//
// # Hints
//
// After a commit that another process may wait for, a NOTIFY that names the shards is
// sent in a transaction of its own: at most every two milliseconds, and every eight
// while much happens. A Store that is asked for changes listens on a connection of
// its own. Hints may be lost; then the poll finds what they would have told.
//
// Behind a pooler in transaction mode, such as PgBouncer, nothing is kept in a
// session: no prepared statements, no LISTEN. Open notices it by itself.
package postgres
