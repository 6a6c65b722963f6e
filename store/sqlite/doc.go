// Package sqlite is the store in one SQLite file: the default, with nothing to
// install. Several processes may use the file at once; one of them owns its runs.
//
//	db, err := sqlite.Open(ctx, "shop.db")
//
// # What is durable
//
// The file is in WAL mode with synchronous=FULL: everything that was
// acknowledged survives the death of the process and of the machine, as long as
// the disk keeps what it has synced. With [AllowLoss] a power cut may roll back the
// last acknowledgements; the death of a process still loses nothing.
//
// Renewals of leases and heartbeats say only that a process lives, which a machine without
// power has lost too: their commits do not wait for the disk.
//
// A power cut is tried in the tests on a recording file system, at any change and
// with any subset of what was not synced; see power_test.go.
//
// # Connections
//
// A Store has one connection that writes, used by one goroutine at a time, and up
// to four that read. Every act that writes is one transaction begun with BEGIN
// IMMEDIATE, so it never fails half-way because another process writes: it waits
// for the write lock in pauses below a millisecond, for half a minute, and then
// returns store.ErrUnavailable, not a lock error. A process that
// commits without a break leaves a gap of half a millisecond every 20 commits.
//
// No snapshot of a reader lives for long: listings look at windows of run numbers
// and start a new transaction between them, so a listing of millions of runs does not
// show one moment. The committing connection moves the WAL into the file, and waits for
// readers if the WAL has grown all the same. Another process that keeps a transaction
// open can still make it grow: above 64 MiB that is logged, above 1 GiB runs
// cannot be started.
//
// # States and failures of a write
//
//   - Before BEGIN has returned, nothing happened.
//   - A failure before COMMIT rolls back: nothing happened. No room on the disk
//     is such a failure (ErrUnavailable), and goes away with the cause.
//   - After a failure of COMMIT it is unknown whether the act survives a crash:
//     ErrUnavailable and ErrUnknown. The connection is closed and another opened; a
//     failed sync is never repeated on it. A batch is repeated under its number,
//     which stands in the node's row if it was applied.
//   - A turn that breaks a law rolls back the transaction, which is then repeated
//     without it.
//
// # The owner of the file
//
// Leases and epochs are rows, and a commit checks the epoch in its transaction:
// that is what keeps two owners apart. Beside that, the owner holds a lock of the
// operating system on the file FILE-owner, which dies with its process, and its
// leases record it. A process that gets the lock knows that the holder of such a
// lease is dead, and takes the lease at once. A process that does not get the lock waits
// for the lease to end, because the owner may only be paused, and then takes the lease
// without the lock. It gets the lock with a later renewal; until then others wait for its
// lease to end.
//
// # Other tables in the file
//
// The names of the store's tables begin with stet_. An application may keep its
// own tables in the same file ([Shared]) and start runs and send messages in its
// own transactions ([Store.ApplyTx]), with any driver of database/sql.
package sqlite
