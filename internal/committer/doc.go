// Package committer gathers the turns and commands of an engine and writes them to the
// store in batches. It knows what a batch is and when its outcome is certain, and nothing
// of activations, code or timers.
//
// # The way of a turn
//
// [Committer.SubmitTurn] takes a turn with the callback that receives its verdict. The
// turn is brought into its stored form, joins the next batch, and gets exactly one
// verdict, unless the committer ends before: then the turn is forgotten together with the
// activation that it belongs to. Commands go the same way, and each of them is answered,
// if need be with [ErrNotOwner].
//
// # Batches
//
// One batch at a time is on its way to the store. While it is, the next one fills. When
// its answer is here the next one goes on its way, while the results of the first are
// still delivered: batches overlap by that. Results are delivered in the order of the
// batches; within a batch turns come first, then commands.
//
// A small batch does not overlap with the next one: its results are delivered first, and the next
// batch waits a moment for the turns of the runs that go on with them. It waits for half of the
// time that the last commit took, at most 250 µs, and more and more rarely while they do not come.
// A run that is alone waits for nobody.
//
// Turns that the store writes much slower than others ([store.Separator]) are in batches of
// their own, which take turns with the others.
//
// When nothing is to be written and nothing to be delivered, the caller that submits
// writes its batch on its own goroutine, which saves two switches between goroutines. The
// committer's goroutine ([Committer.Run]) writes later submissions, and batches that failed
// at first.
//
// # Failures
//
//   - The store is away, or does not say what became of a batch: the batch is repeated
//     with its number until it is answered. The store knows by the number whether it has
//     applied it.
//   - No answer comes: the call is abandoned when all leases of the batch are lost, and
//     at the latest after the length of a lease. After that the outcome is unknown, as above.
//   - The store refuses the batch as a whole: it is bisected until the turn or command
//     that cannot be taken stands alone. The others are written. The one is tried again
//     alone, and refused once something else was written meanwhile: if nothing is, the
//     store may be the reason.
//   - The batch is too large, or takes the store too long: it is bisected too, and the
//     batches that follow are smaller until some have gone through. None has more than
//     16 MiB, unless a single turn has.
//   - A transaction of an application decides what becomes of a turn or command (the
//     verdict Busy, the outcome Undecided): the turn is retried in a batch of its own
//     after a pause, the command is applied outside of the batches, where it may wait.
//     Nothing else waits for it.
//   - The store went back: a batch names the last one whose result is known, and the store
//     does not have that. All shards are lost ([Owner].WentBack), and with them all turns;
//     commands are written again. From then on the store is held to no batch of before.
//   - A shard is lost: its turns that are not under way are answered as fenced. Those that
//     are under way are fenced by the store.
package committer
