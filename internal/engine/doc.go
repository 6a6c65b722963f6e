// Package engine runs many runs: it claims those that are ready, keeps activations in
// memory, drives them, fires timers, and answers requests about runs. It owns goroutines
// and time. What a run does is decided in package runner, and what stands is decided by the
// store.
//
// # Who does what
//
//   - An [Engine] can always start, send and read. While it works on a store it has an
//     executor; all state about runs in memory belongs to the executor and dies with it.
//   - An executor holds shards. On a store with one slot it begins when they are all
//     taken and ends when one is lost. On a store with many slots it lasts as long as
//     Run, and shards come and go: each stay of a shard is an ownership.Shard, to which
//     the activations, bodies and turns of the shard's runs belong. One that is lost
//     takes no more of them; the same shard taken again is another one.
//   - A lane is one server of the store with its slots (store.Laned). Each has a dispatcher, a
//     committer and a member: one that is away stops none of the others. Mostly there is one.
//   - The dispatcher is one goroutine. It claims: on a hint, when a wake time has
//     come, and once per poll interval. Hints may be lost; the poll finds all.
//   - The memory (package activations) knows the activations: by number, by ID, and which
//     of them are parked.
//   - An activation is one run in memory. Events are posted to its queue. At most one
//     goroutine at a time, its driver, takes them from the queue and drives the runner.
//   - The committer (package committer) gathers turns and commands, writes them in batches,
//     and delivers the results: turns first, then commands, in the order of the batches.
//   - The pool (package steps) executes step bodies; the waiters (package notify) are
//     notified of ends, answers and feeds.
//   - While this process holds no shards its commands are applied with those of other callers
//     (package together).
//   - suspects decides which of the runs that may have ended a process is executed alone.
//
// # States of an activation
//
//	loading → active ⇄ suspending → parked → (claimed: active | evicted)
//	          active → ending → gone
//	          active → stalling → gone
//
// While a turn that suspends or ends the run is under way the runner is not
// advanced. Its verdict decides: committed (parked, gone), or still ready (active
// again, and a claim is made to fetch what is new). The field phase tells loading, live,
// stalling and over apart. Of a live run the interpreter knows whether it is suspended, and
// turnUnderWay whether that is committed.
//
// # Races
//
//   - An item against a suspend. Item first: the suspend gets StillReady. Suspend
//     first: the item's command claims the run, or the next claim finds the item
//     unexamined. The answers of a batch are delivered after its turns, so a run that
//     is suspended and claimed in one batch is parked before it is resumed.
//   - An item that arrives twice, by its command's answer and by a claim: the runner
//     knows items by their numbers.
//   - An item that the store has had for some time, because its sender has repeated it or
//     its batch was repeated, against the next one of that sender. Only a claim can tell
//     whether the run knows the first, so the next one waits for that.
//   - A timer against a suspend: while the suspend is under way timers rest.
//     Afterwards the store's wake time counts, and the run is claimed.
//   - A deadline against a message: the runner hands a deadline over only when the
//     inbox was read at a store time not before it. The dispatcher sets that time
//     after it has posted the items that the claim returned.
//   - A child's end against its parent's suspend: the end is an item like any
//     other, sent by the turn that ends the child, and claims the parent. An end
//     that is held back (by a cancel) sends nothing.
//   - A watch against the end of the watched run. A watch that the run has examined is
//     answered by the turn that ends it. One that arrives later is unexamined, makes the
//     ended run ready, and is answered by a decision about the run at rest. If the run does
//     not exist, the store answers.
//   - Eviction against a wake-up: an eviction counts only if nothing is queued
//     behind it. A post to an activation that is gone is refused, and the poster
//     loads the run from scratch.
//   - A lost lease: the shard's context ends, bodies are cancelled, activations are
//     unwound, nothing is submitted; turns under way are fenced. Where one process owns
//     everything, the executor ends.
//   - A shard that is given back against its runs: it drains, and nothing new begins in it.
//     It is released when no body runs, no code and no turn is under way, or when the grace
//     period is over. Its claimed runs are ready for the next owner.
//   - A shard that is lost and taken again against an activation that has not ended
//     yet: a claim, an answer and a post name their stay of the shard, so the former
//     activation gets nothing that is for the new one.
//   - A commit with an unknown outcome is repeated with its number until it is
//     answered or the executor ends. See package committer.
//   - A claim with an unknown outcome may have claimed runs that have no activation: they
//     are looked for after the next claim.
package engine
