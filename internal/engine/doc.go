// Package engine runs many runs: it claims what is ready, keeps activations in
// memory, executes step bodies, gathers turns into group commits, fires timers,
// and answers requests about runs. It owns all goroutines and all time; what a
// run does is decided in package runner, what stands is decided by the store.
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
//   - The committer gathers turns and commands that are ready, writes them in one
//     batch at a time, and tells the results in the order of the batches, and in that
//     of the batch: turns first, then commands. While it tells them the next batch may
//     be on its way.
//   - The dispatcher is one goroutine. It claims: on a hint, when a wake time has
//     come, and once per poll interval. Hints may be lost; the poll finds all.
//   - An activation is one run in memory. What happens to it is posted to its
//     queue; at most one goroutine at a time, its driver, takes from the queue
//     and drives the runner.
//
// # States of an activation
//
//	loading → active ⇄ suspending → parked → (claimed: active | evicted)
//	active → ending → gone
//
// While a turn that suspends or ends the run is under way the runner is not
// advanced. Its verdict decides: committed (parked, gone), or still ready (active
// again, and a claim is made to fetch what is new).
//
// # Races
//
//   - An item against a suspend. Item first: the suspend gets StillReady. Suspend
//     first: the item's command claims the run, or the next claim finds the item
//     unexamined. The answers of a batch are told after its turns, so a run that
//     is suspended and claimed in one batch is parked before it is resumed.
//   - An item told twice (by its command's answer and by a claim): the runner
//     knows items by their numbers.
//   - An item that the store has had for some time (its sender sends it again, or the
//     batch that it came with is repeated) against the next one of that sender: whether
//     the run knows the first only a claim can tell, so the next one waits for that.
//   - A timer against a suspend: while the suspend is under way timers rest.
//     Afterwards the store's wake time counts, and the run is claimed.
//   - A deadline against a message: the runner hands a deadline over only when the
//     inbox was read at a store time not before it. The dispatcher tells that time
//     after it has posted what the claim returned.
//   - A child's end against its parent's suspend: the end is an item like any
//     other, sent by the turn that ends the child, and claims the parent. An end
//     that is held back (by a cancel) sends nothing.
//   - A watch against the end of the watched run: a watch that the run has examined
//     is told by the turn that ends it. One that comes later is unexamined, makes
//     the ended run ready, and is told by who decides about it. A run that does not
//     exist is told of by the store.
//   - Eviction against a wake-up: an eviction counts only if nothing is queued
//     behind it; a post to an activation that is gone is refused, and the poster
//     loads the run anew.
//   - A lost lease: the holding's context ends, bodies are cancelled, activations
//     are unwound, nothing is submitted; what is under way is fenced. Where one owns
//     everything, it ends.
//   - A shard that is given back against its runs: nothing new begins in it; when no
//     body runs, no code and no turn is under way, or the grace period is over, the
//     holding ends and then the lease is released. Runs that were claimed are ready
//     for the next owner.
//   - A shard that is lost and taken again against an activation that has not ended
//     yet: a claim, an answer and a post name their holding, so what is for the new
//     one does not reach the old.
//   - A commit with an unknown outcome is repeated with its number until it is
//     answered or it ends. One that is not answered is given up when its
//     leases are over, and after the length of one.
//   - A claim with an unknown outcome may have taken runs in hand that nobody has in
//     memory: they are looked for after the next one.
package engine
