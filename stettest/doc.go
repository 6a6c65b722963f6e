// Package stettest tests workflows: under virtual time, with steps replaced, with
// the process killed at every commit, and against histories that were recorded
// by former versions of the code.
//
// # Virtual time
//
// [Run] calls a test in a bubble of testing/synctest. Time stands still while
// anything runs and jumps to the next timer when nothing does, so a workflow that
// sleeps for a year is done in a millisecond: its sleeps, deadlines and delays
// between attempts, a step's timeout, and whatever the test itself waits for
// with package time. Step bodies begin one at a time, in the order of runs and
// locations, and a step body that is over or that waits makes room for the next, so a
// test sees the same order each time.
//
// The rules of a bubble hold: the test and what its steps call must not wait for
// goroutines, channels and timers that were made outside of it. A step that needs
// such a thing (a connection of a shared http.Client or sql.DB, a server that
// was started before) is replaced, or executed outside of the bubble with
// [Env.Outside], while time stands still.
//
// # Crashes
//
// [CrashEverywhere] runs a workflow again and again: once for each commit and each
// way in which a process can die there. Each time another process recovers it,
// and the result must be that of an undisturbed run, with no step executed again
// after its success was durable. It uses virtual time too.
//
// # Histories
//
// [Replay] replays an exported run against the code of today.
package stettest
