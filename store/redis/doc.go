// Package redis is the store on Redis or Valkey: one server, a server that sentinels
// watch over, or a cluster.
//
//	db, err := redis.Open(ctx, "redis://localhost:6379")
//
// # What is durable
//
// With appendonly yes and appendfsync always everything that was acknowledged survives
// the death of the server and of its machine. With appendfsync everysec about a second
// of acknowledgements may be lost, and with replicas the last ones in a failover; both
// are warned of, and told by Describe. A server without an append-only file is refused
// unless it is opened with [AllowLoss], one that evicts keys always, and so is a replica.
//
// A server that has lost acknowledgements may have forgotten who owns a shard. Two
// things keep that from doing harm. Epochs are taken from the clock where it is ahead
// of them, so that none is given twice; and a process that finds the epoch of a shard
// lower than it was touches that shard no more: every act on it is an error
// (store.ErrDamaged) until the process is started anew.
//
// # A server that is away
//
// An act on a server that cannot be reached fails at once with store.ErrUnavailable, and
// the same Store goes on when it is back. A server that stands still, and does not even
// close the connection, is given up after 12 seconds, or when the context ends: it is
// then unknown whether the act has happened.
//
// A single server sees two connections of a process: a shared one, and one on which it
// commits, see line.go.
//
// # Parts
//
// The keys of a store are in parts: those of a part have the same hash tag, so they are
// on one node of a cluster and one script can work on all of them. A slot belongs to
// the part of its number modulo their number; what belongs to a run is in the part of
// its slot, whatever its group.
//
// On a single server a store has one part: every method is one script, and so one act,
// as the contract has it. On a cluster it has as many parts as slots (256), and a
// method that concerns several is one act for each; [Spread] makes such a store on a
// single server, for those who will move it. Slots and parts are fixed when the store
// is made.
//
// # Acts on several parts
//
// A batch of Commit is one pipeline of scripts, for each part one, with its turns and
// commands. Each turn with all that belongs to it is of one part, and atomic; of a
// batch whose answer is lost some parts may be written. In each part the record of the
// node's boot has the number of the last batch there and what became of its turns, so
// that a repeat carries out what is missing and nothing twice. The record is beside the
// leases of the part and not in them, because a repeat gives the same answers after
// somebody else has taken the shard.
//
// What a turn sends to a run of another part is put, in the turn's act, into the
// part's outbox for that part, under the next number of the pair. Commit delivers it at
// once: the receiving part applies what follows the highest number that it has applied
// of the sender, and nothing else, so nothing is applied twice or out of order. If the
// receiving part cannot be reached the answer is left out (law 14), and a goroutine of
// the Store delivers it later; so does that of the next owner of a shard of the
// part, if this process has died. The answer to a Watch for nobody (law 15) comes back
// the same way. A batch is carried out in stages, so that what its turns send comes
// before a later turn of the receiving part, as if all were one act.
//
// Claim looks at all parts first and then claims the first of what it has found; only
// the owner can claim it meanwhile, which is the caller. Sweep asks parents in other
// parts before it deletes their children. List, Count and DeadLetters read the parts
// one after another, in windows, with one part too: they are not of one moment.
//
// # Numbers
//
// The number of a run or an item is a count multiplied by the number of slots, plus the
// slot; so it tells the part. Counts are dense with one part. With several each has its
// own, which begins above all that the process has seen: the numbers of what one
// process makes grow, and those that processes make at the same time may not be in the
// order of their making. Within a run, and within a slot, they always grow.
//
// A run that was replaced is addressed as ID@N. It stays in the part of its number,
// while a run that was started under that very name would be in the part of the name;
// both are looked at, and the replaced run comes first. With several parts the
// replacement looks for such a run beforehand, not in its act.
//
// # Keys
//
// All keys begin with {PREFIX:PART}. Times and numbers are decimal text, because a
// number of Lua is exact to 2^53 only. Values that may be missing begin with v.
//
//	n        hash    highest counts: r of runs, i of items
//	M        hash    of part 0: id, schema, oldest, slots, parts, created
//	N, W     hash, set  of part 0: nodes; names of workflows that were registered
//	L        hash    leases by slot:group, see base.lua
//	B        hash    with one part: fences by node and boot, see fence.go
//	b        hash    last batch by node and boot, see commit.lua
//	h        hash    of part 0: when a boot was heard of, by node and boot
//	id       hash    numbers of runs by ID
//	r:NO     hash    a run's row, see MAIN and ROW in base.lua
//	e:NO:IC  hash    entries of an incarnation by location, see head in pack.go
//	v:NO:IC  hash    their values of 4 KiB and more
//	i:ITEM   hash    an item
//	x:NO     hash    items of a run by ID
//	q:NO     hash    its items that are not finished, see inbox.lua
//	f:NO     hash    its values and streams; s:NO:NAME a list, items of a stream
//	a:NO     list    audits
//	R, w     sorted set of all runs, set of their workflows
//	l:ST:WF  sorted set of runs by status and workflow; c:NO of children; t:KEY=VALUE of tagged runs
//	k:GROUP  hash    incarnations of runs that are claimed
//	y:GROUP  sorted set of runs that are ready; d:GROUP with unexamined items
//	z:GROUP  sorted set of timers: idle runs by wake time
//	E:ST:WF  sorted set of ended runs by time; F of runs with former incarnations
//	D, C     sorted sets of dead letters and of consumed items
//	o:PART   list    outbox for a part; set ow, parts for which one is not empty; hashes oq, last numbers by receiver, and q, highest numbers applied by sender
//
// # Scripts
//
// The server carries out one script at a time, and a call of a command within one costs
// more than what the command does. So a batch is one script, which makes few calls: one
// for each turn that adds an entry, and for its indexes, names and counts one for all.
//
// The acts are the files in lua, each put behind those that it shares. They are loaded
// when the server does not have them. A script that runs out of memory, or finds that
// the disk is full, fails at its first write, so it is all or nothing as long as it has
// no error itself; it checks everything that could refuse a turn before it writes.
package redis
