// Package store is the contract between the engine and persistence: the types
// that cross it and the [Store] interface. It imports the standard library
// only; a concrete store imports it and nothing else of stet.
//
// # The model
//
// A store holds runs, the entries of their histories, their inboxes, the nodes
// that work on them and the leases by which exactly one node may write for a
// shard. Every method is one whole act: it happens completely or not at all,
// and no transaction, pool or lock crosses the interface.
//
// A run is, to the store, in one of three conditions, kept beside its status:
//
//   - idle: nobody works on it;
//   - ready: an owner should take it up;
//   - claimed: the owner of its shard has it in hand.
//
// A run may be claimed when it is ready, when its wake time has passed, or when
// its inbox holds an item that no turn has examined. [Store.Claim] and an
// adopting [Command] make it claimed; a turn that suspends, stalls or ends it
// makes it idle; losing the lease makes every claimed run of the shard ready.
//
// # The laws
//
// The contract suite (package storetest) checks each by its number.
//
//  1. Acts are atomic and durable before they return.
//  2. A commit names, for each shard it writes, the epoch of its lease. If that
//     is not the shard's current epoch, judged inside the same act, nothing of
//     that shard's turns is written and each gets [Fenced].
//  3. An epoch only grows. Each Acquire that succeeds raises it by one at least.
//  4. An entry, once Done or Failed, does not change: an equal second write is
//     a no-op, a different one refuses its turn ([Refused]), with nothing of
//     that turn written, except that an entry without a completion number may
//     get one. An Open or Withdrawn entry may be overwritten. What a
//     turn says by Insert changes nothing, be it wrong.
//  5. A turn that suspends its run leaves it claimed and running, and says
//     [StillReady], when after the turn's own marks an unexamined item is in
//     the run's inbox. A turn that ends its run, or begins to undo it (its
//     Update has the mark Undoing and the run has not), does so when a Cancel
//     or Terminate item is unexamined. Entries and marks of the turn stand.
//  6. An item is accepted at most once per run and item ID; whoever sends it again is
//     answered like the first time, and told so ([Answer].Repeated). Items of one run
//     are numbered in the order in which they become visible to a claim.
//  7. Applying a command never waits for, or changes, anything that a turn
//     writes, except when it adopts the run.
//  8. A status changes only along [Status.CanBecome]; another change refuses
//     the turn.
//  9. The number of the last batch applied is kept per node and boot. Repeating
//     that batch changes nothing and gives the same results, with runs and items as
//     they are then; only a command that found nothing to change is tried anew. A boot that registers as stopped is
//     forgotten, and so may be one that holds no lease and was not heard of for 24 hours.
//  10. Times are the store's own clock, read at the moment of the act. It is not
//     earlier in a later act of the same process. A store that reads the clock of
//     the machine goes on with what it has read where that is set back ([Steady]).
//  11. Unknown, oversized or malformed input changes nothing.
//  12. What is given to a store is not kept or changed by it after the call
//     returns; what it returns belongs to the caller.
//  13. A turn that stands has deleted, before it wrote its entries, every entry
//     in the spans of its Prune, final or not, with its value; of its run and
//     incarnation alone.
//  14. What a turn sends is sent in its act, after its entries, marks and update:
//     its Sends if it is Committed or StillReady, those of its Update if it is
//     Committed. In a repeat of the batch they are like commands (law 9).
//  15. A Watch that a turn sends to a run that does not exist, or is Expiring, is
//     answered by the store: in the same act the turn's own run, unless it has ended, gets an End,
//     Failed and without a value, with the ID, Origin, Name, Incarnation and Loc of the Watch.
//  16. A turn's appends get the positions that follow the last one of their
//     stream, in their order; a value that a turn sets counts one more than
//     before. Feeds and tags belong to the run, whatever its incarnation.
//  17. An update is answered once. When its run ends, or continues as new, the
//     same act answers each update that has no answer with [Unanswered],
//     examined or not.
//  18. A run that is Paused is claimed for an unexamined verb alone, and is not
//     adopted. It, and a run with an unexamined Pause, is claimed at rest: it
//     keeps its status and its wake time, and losing its lease puts it back as it
//     was. A turn whose Update says Paused gives its run back whatever the status,
//     and is not held back from suspending it.
//  19. After Prune, Rewrites replace entries as they are given, final or not;
//     where there is none the turn is refused. Then Entries are written.
//  20. A Returned item is new again, with the value that is given: the run's
//     consumed item with its ID, where it was, or, if that was swept, one with
//     the given number, or the next if that is not free. One that is not
//     consumed, or was answered, refuses the turn; but an update that was
//     answered stays as it is.
//  21. Audits of a turn and of a fork get the next numbers of their run and the
//     time of the act. A run's generation only grows.
//  22. A turn whose Update has a Continuation raises the run's incarnation by one
//     and gives it the workflow, input and seed of that, and no other randomness;
//     it began at the time of the act, or at At if that is later. A run that was not
//     Running refuses it. Entries of former incarnations are
//     not read by Load. What is the run's, its inbox, feeds and tags among it, is
//     left alone. How the run began stays known: a start is compared with that.
//  23. An item that was accepted is from then on exactly one of new, seen,
//     consumed and dead. A turn that ends its run makes dead letters of all
//     its items that are new or seen and letters, or with Discard consumes them, in
//     the same act; one that returns an item to a run that has ended and stays so
//     returns a dead letter. A turn that takes an ended run up again makes its dead letters new,
//     except those for an older incarnation.
//  24. A Sweep deletes, in the shards whose leases are current, of runs that have
//     ended as a rule says, for as long as it says and for a minute at least, that
//     are idle, have no unexamined item, and are not the child that an entry of a
//     live parent's incarnation is for, which is one that was created after that
//     began: what belongs to them, and the run last.
//     What takes several acts has the mark Expiring from the first on, accepts no
//     item and is gone in the end. Of other runs it deletes entries of former
//     incarnations and items that were consumed, and if updates answered, and
//     sent 24 hours ago. It judges that within the act, and deletes at most
//     SweepRows rows in one. Numbers are not used again.
//  25. Builds are ordered as text, byte by byte. A run that is claimed in the act that
//     makes it has its start's; else it has none. A turn raises its run's build and
//     never lowers it. A claim for a build leaves a run of a later one as it leaves
//     a run whose workflow the node does not have.
//  26. The mark Draining of a node's boot is set by a Register that says so, which
//     does nothing else, and not at all if that boot is not listed. It stays as long
//     as the boot is listed, whatever else is registered for it.
//  27. A run whose workflow's name begins with [EntityPrefix] is a record. A filter
//     of List or Count selects it only if it has IDs, Nos or Workflows. Else a
//     record is to a store a run like any other.
//  28. A start with a Place makes a run that is Held, and sends the Place's Ask in
//     the same act; a start that makes no run sends none. A run that is Held is
//     neither due nor ready. Unless it is Paused, an unexamined Grant makes it so,
//     and claimed or adopted with one it is Held no more. Else it is claimed as if
//     it were delayed, at rest (law 18), and not adopted. A turn whose Update says
//     Held gives its run back whatever the status, and is not held back from
//     suspending it.
//
// # Several servers
//
// A store whose slots are on several servers cannot do as one act what concerns slots
// on more than one; package store/redis says when it is such a store. There a method
// is one act for each slot, and of the laws holds:
//
//   - A turn with all that belongs to its run is one act. Of a batch whose outcome is
//     unknown the turns and commands of some slots may stand; its repeat carries out
//     the others, and nothing twice (1, 9).
//   - What a turn sends to another slot is noted in the turn's act and comes there
//     once, in the order of sending, mostly before Commit returns; if later, its answer
//     is left out (14). So does the answer to a Watch (15).
//   - Numbers grow within a slot (6), and with all that one process does; what two
//     processes make at the same time in two slots may have them in any order.
//   - Claim takes the first of what it has seen of each slot a moment before. A Sweep
//     asks a parent in another slot before it deletes the child (24). Whether the name
//     ID@N is free in another slot is asked before a run is replaced.
//
// All methods are safe for concurrent use.
package store
