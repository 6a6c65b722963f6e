// Package store is the contract between the engine and persistence: the types that
// cross it and the [Store] interface. It imports the standard library only. A concrete
// store imports it, and package storekit, which holds what several stores do alike.
//
// # The model
//
// A store holds runs, the entries of their histories, their inboxes, the nodes that work
// on them, and the leases by which exactly one node may write for a shard. Every method
// is one whole act: it happens completely or not at all. No transaction, pool or lock
// crosses the interface.
//
// To a store a run is in one of three conditions, kept beside its status:
//
//   - idle: no node works on it;
//   - ready: the owner of its shard should claim it;
//   - claimed: the owner of its shard works on it.
//
// A run may be claimed when it is ready, when its wake time has passed, or when its inbox
// holds an item that no turn has examined. [Store.Claim] claims it, and so does a
// [Command] with Claim set. A turn that suspends, stalls or ends the run makes it idle.
// When a lease is lost, every claimed run of its shard becomes ready.
//
// # The laws
//
// The contract suite (package storetest) checks each law by its number. The laws stand
// here by subject; the numbers are those by which code and tests cite them.
//
// # Acts and time
//
// Law 1. Acts are atomic, and durable before they return.
//
// Law 9. The number of the last batch applied is kept for each node and boot.
//   - Repeating that batch changes nothing and gives the same results, with runs and
//     items as they are then. Only a command that found nothing to change is tried again.
//   - A boot that registers as stopped is forgotten. One that holds no lease and was
//     silent for 24 hours may be forgotten.
//
// Law 10. Times are read from the store's own clock at the moment of the act.
//   - A later act of the same process never has an earlier time.
//   - When the clock is set back, be it the machine's or a server's, the store's time in a
//     process goes on from the latest time it has read, about as fast as the steady clock
//     of the process: what is due in a second is due in about a second (storekit.Monotonic).
//
// Law 11. Unknown, oversized or malformed input changes nothing.
//
// Law 12. A store does not keep or change its arguments after a call returns. What it
// returns belongs to the caller.
//
// # Leases and nodes
//
// Law 2. A commit names, for each shard it writes, the epoch of its lease. If that is not
// the shard's current epoch, judged inside the same act, nothing of that shard's turns is
// written and each gets [Fenced].
//
// Law 3. An epoch only grows. Each Acquire that succeeds raises it by at least one.
//
// Law 25. Builds are ordered as text, byte by byte.
//   - A run that is claimed in the act that creates it has the build of its Start;
//     otherwise it has none.
//   - A turn raises its run's build and never lowers it. But one whose Update has AnyBuild
//     gives it the Update's Build, or none.
//   - A claim for a build treats a run of a later build like a run whose workflow the node
//     does not have.
//
// Law 26. A Register with Draining sets that mark of the node's boot and does nothing
// else; nothing at all if the boot is not listed. The mark stays as long as the boot is
// listed, whatever is registered for it later. Of all else Describe has what was registered last.
//
// Law 29. A Commit or Register whose sender names a last batch of its boot that is later than
// the one that the store has changes nothing and returns ErrWentBack.
//   - The sender then holds no lease, whatever the store says. It acquires its shards again,
//     and goes on from what is there, with Last 0 and numbers above all that it has used.
//   - A boot that was forgotten (law 9) has no batch.
//
// Law 30. An Acquire by a node that Replaces others takes also the leases of that node's boots whose
// names sort, byte by byte, before its own, as if they had ended. It takes no other lease sooner.
//
// # Entries
//
// Law 4. An entry that is Done or Failed does not change.
//   - An equal second write does nothing, except that an entry without a completion
//     number may get one.
//   - A different write refuses its turn ([Refused]); nothing of that turn is written.
//   - An Open or Withdrawn entry may be overwritten.
//   - [Turn].Insert is a hint: a wrong value must not change the outcome.
//
// Law 13. Before it writes its entries, a turn deletes every entry in the spans of its
// Prune, final or not, with its value; of its own run and incarnation only.
//
// Law 19. After Prune, Rewrites replace entries as given, final or not; the turn is
// refused where there is none to replace. Then Entries are written.
//
// # Inbox
//
// Law 6. An item is accepted at most once per run and item ID.
//   - A sender that repeats it gets the first answer, with [Answer].Repeated.
//   - Items of one run are numbered in the order in which they become visible to a claim.
//
// Law 7. Applying a command never waits for, and never changes, what a turn writes, unless
// it claims the run.
//
// Law 15. A Watch that a turn sends to a run that does not exist, or is Expiring, is
// answered by the store: in the same act the turn's own run gets an End, unless it has
// ended. That End is Failed, without a value, with the ID, Origin, Name, Incarnation and
// Loc of the Watch.
//
// Law 17. An update is answered once. The act that ends its run answers each update without
// an answer with [Unanswered], examined or not. The act with which its run continues as new
// answers those that are consumed so, also by itself; the next incarnation has the others.
//
// Law 20. A Returned item is new again, with the given value.
//   - It is the run's consumed item with its ID, where it was; or, if that was swept, one
//     with the given number, or with the next number if that is taken.
//   - An item that is not consumed, or was answered, refuses the turn. But an update that
//     was answered stays as it is.
//
// Law 23. From its acceptance on, an item is exactly one of new, seen, consumed and dead.
//   - A turn that ends its run makes dead letters of all its new and seen items that can
//     be dead, in the same act; with Discard it consumes them instead, with DiscardNames
//     the messages of these names.
//   - A turn that returns an item to a run that has ended, and stays so, returns a dead
//     letter.
//   - A turn that takes up an ended run makes its dead letters new, except those for an
//     older incarnation and those that were refused.
//   - A turn that refuses an item makes a dead letter of it, with the reason as its Verdict.
//     It may be one that can be dead, or a delivery. A resolution gives its ID up for
//     RefusedID, so that another one is accepted for its promise.
//
// # Turns and status
//
// Law 5. A turn leaves its run claimed and running, and says [StillReady], in two cases:
//   - it suspends the run, and after the turn's own marks the inbox has an unexamined item;
//   - it ends the run or begins to undo it (its Update has the mark Undoing and the run has
//     not), and a Cancel or Terminate item is unexamined.
//
// Entries and marks of the turn stand in both cases. What its Update consumes counts as examined for
// this, and is consumed only with the update: in both cases it stays as it was, and the Audits of the
// Update are not noted. So no verb is answered by an end that is not written.
//
// Law 8. A status changes only along [Status.CanBecome]; another change refuses the turn.
//
// Law 14. What a turn sends is sent in its act, after its entries, marks and update: its
// Sends if it is Committed or StillReady, those of its Update if it is Committed. In a
// repeat of the batch they are like commands (law 9).
//
// Law 16. A turn's appends get the positions after the last one of their stream, in their
// order. One with a Keep drops the items at its position minus Keep and before; positions
// stay. A value that a turn sets counts one more than before. Feeds and tags belong to the
// run, whatever its incarnation.
//
// Law 18. A run that is Paused is claimed only for an unexamined verb, never by a command.
//   - A Paused run, and a run with an unexamined Pause, is claimed at rest: it keeps its
//     status and its wake time, and losing its lease restores it.
//   - A turn whose Update says Paused unclaims its run whatever the status, and no item
//     holds it back from suspending the run.
//
// Law 21. Audits of a turn, of its Update and of a fork get the next numbers of their run and the time of
// the act. A run's generation only grows.
//
// Law 22. A turn whose Update has a Continuation raises the run's incarnation by one and
// gives it the workflow, input and seed of the Continuation, and no other randomness.
//   - The incarnation began at the time of the act, or at At if that is later.
//   - A run that is not Running refuses the turn.
//   - Load does not read entries of former incarnations.
//   - What is the run's, such as its inbox, feeds and tags, is left alone.
//   - How the run began stays known: a repeated start is compared with that.
//
// # Starts, queues and entities
//
// Law 27. A run whose workflow's name begins with [EntityPrefix] is an entity. A filter of
// List or Count selects it only by IDs, Nos, Workflows or Claimed. Otherwise an entity is
// to a store a run like any other.
//
// Law 28. A start with a Queue without a Line creates a run that is Held and sends the QueueEntry's Ask in
// the same act; a start that creates no run sends none.
//   - A Held run is neither due nor ready. An unexamined Grant makes it ready, unless it is
//     Paused; once claimed with the Grant it is Held no more.
//   - Without a Grant it is claimed as if it were delayed, at rest (law 18), and never by a
//     command.
//   - A turn whose Update says Held unclaims its run whatever the status, and no item holds
//     it back from suspending the run.
//
// # Lines
//
// These laws hold for a store whose Description says that it has Lines.
//
// Law 31. A start with a Line creates a run that is Held and waits in the line. It sends nothing, and changes no
// other run.
//   - The run is due at the At and After of its start, or at once.
//   - A turn whose Update makes a run Held that has a Line, and was not, lets it wait again. It is due at the time
//     of the act.
//   - Waiting reads the waiting runs of one moment, in the order of Waiter.Compare: runs of the line that are Held, and
//     neither Paused nor ended nor stalled.
//
// Law 32. An Admit makes a run Admitted, and Held no more, and ready, if it waits in the line of the queue and is
// not claimed. Its answer is Applied.
//   - If the run is Admitted, nothing changes, and the answer is Applied with Repeated.
//   - Otherwise nothing changes: NotFound if there is no such run, Ended if it has ended, otherwise Duplicate.
//   - With Claim it claims the run too, as a start does.
//
// Law 33. A run stays Admitted until a turn ends it, or has an Update with Yield or the mark Held. An Update cannot
// set Admitted.
//
// Law 34. An entity that is suspended, idle and not Paused is ready for a node with its workflow while a run waits in
// the line of its ID.
//
// # Retention
//
// Law 24. A Sweep deletes runs in the shards whose leases are current, with all that
// belongs to them, the run last. It deletes a run only if
//   - it ended as a rule says, at least as long ago as the rule says and at least a minute;
//     or, if the Update that ended it has a Keep, at least as long ago as that says and at
//     least a minute, whatever the rules say;
//   - it is idle and has no unexamined item;
//   - no live parent's present incarnation has an entry for it, that is, it was not created
//     after that incarnation began.
//
// A Sweep that names Runs needs no lease and no rule for them; it deletes those that have
// ended and that nothing else of this list keeps, and says of the others that they are Kept.
//
// A deletion that takes several acts marks the run Expiring in the first one; from then on
// it accepts no item. Of other runs a Sweep deletes entries of former incarnations, and
// items that are consumed and, if updates, answered: those sent at least 24 hours ago, and
// messages without a key (Item.Keyed) sent at least ten minutes ago. It judges all this
// within the act, and deletes at most as many rows in one as SweepRequest.Bound says. Numbers are not used again.
//
// # Several servers
//
// A store whose slots are on several servers cannot do in one act what concerns slots on
// more than one. Packages store/redis and store/postgres say when it is such a store. There a method is one
// act for each slot, and the laws hold as follows:
//
//   - A turn with all that belongs to its run is one act. Of a batch with an unknown
//     outcome the turns and commands of some slots may stand; its repeat carries out the
//     others, and nothing twice (1, 9).
//
//   - What a turn sends to another slot is noted in the turn's act and arrives there once,
//     in the order of sending, mostly before Commit returns. If it arrives later, its
//     answer is left out, or Posted (14). The same holds for the answer to a Watch (15).
//
//   - Numbers grow within a slot (6), and on one server. Those that are given at the same
//     time, or by several servers, may have any order in two slots; a list of runs is in the
//     order of their creation all the same.
//
//   - Load may exceed its bound by a run of each of several slots.
//
//   - Claim takes the first of what it saw of each slot a moment before. A Sweep asks a
//     parent in another slot before it deletes the child (24). Whether the name ID@N is free
//     in another slot is asked before a run is replaced.
//
//   - Such a store may be [Laned]: then each server can be worked on without the others.
//
// All methods are safe for concurrent use.
package store
