// Package stettest tests workflows: under virtual time, with steps replaced, with
// the process killed at every commit, and against histories that former versions of
// the code recorded.
//
// # Virtual time
//
// [Run] calls a test in a bubble of testing/synctest. Time stands still while
// anything runs and jumps to the next timer when nothing does, so a workflow that
// sleeps for a year ends within a millisecond. Virtual are its sleeps, its deadlines,
// the delays between attempts, a step's timeout, and all that the test itself does with
// package time.
//
// Step bodies begin one at a time, in the order of runs and locations. A body that has
// ended, or that waits, makes room for the next. So a test sees the same order each time.
//
// The rules of a bubble hold: the test and what its steps call must not wait for
// goroutines, channels and timers that were made outside of it, such as a connection
// of a shared http.Client or sql.DB, or a server that was started before. A step that
// needs one is replaced, or executed outside of the bubble with [Env.Outside], while
// time stands still.
//
// # Crashes
//
// [CrashEverywhere] runs a workflow again and again: once for each commit and each
// way in which a process can die there. Each time another process recovers the run.
// Its result must be that of an undisturbed run, and no step may be executed again
// after its success was durable. It uses virtual time too.
//
// # Histories
//
// [Replay] replays an exported run against the code of today.
package stettest
