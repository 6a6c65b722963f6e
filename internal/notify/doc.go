// Package notify lets callers of this process wait for what happens to runs: an end, the
// answer to a request, or something new to read.
//
// What this process commits itself it says at once: [Waiters.RunEnded] and
// [Waiters.Committed] deliver it to those that wait. What other processes commit is found
// by reading the store. One goroutine reads for all, and lives only while somebody waits
// for more than this process will say by itself. It reads for a call of [Waiters.Wait] when
// that begins; then when the store hints at a change, and once per poll interval. So the
// cost depends on how much happens, not on how many wait, and a lost hint costs a poll
// interval.
//
// [Changes] are the hints: the store is asked for them by one goroutine, which lives only
// while somebody listens. The dispatcher and the cluster member listen as well.
//
// The package knows no run in memory and no lease. What it has to know of those comes by
// [Config].
package notify
