// Package redis is the store on Redis or Valkey: one server, a server that sentinels
// watch over, or a cluster.
//
//	db, err := redis.Open(ctx, "redis://localhost:6379")
//
// # What is durable
//
// With appendonly yes and appendfsync always all acknowledged acts survive the death of
// the server and of its machine. With appendfsync everysec about a second of
// acknowledgements may be lost, and with replicas the last ones in a failover. Both are
// logged as warnings, and shown by Describe. A server without an append-only file is
// refused unless it is opened with [AllowLoss]; one that evicts keys is always refused, and
// so is a replica.
//
// A server that has lost acknowledgements may have forgotten the owner of a shard. So epochs
// are taken from the clock where it is ahead of them: none is given twice. And a commit or
// heartbeat names the last batch whose result the node knows; if the part does not have it
// the answer is store.ErrWentBack, and the node begins again from what is there (law 29).
//
// # A server that is away
//
// An act on a server that cannot be reached fails at once with store.ErrUnavailable, and
// the same Store goes on when it is back. An act on a server that stands still, and does
// not even close the connection, fails after 12 seconds, or when the context ends: its
// outcome is then unknown. Where leases are held it fails after a third of their length, a
// second at least, so that they are renewed over another connection in time.
//
// After each new connection, and once a minute, the settings of the servers are read again. If
// they are such that Open would refuse them, nothing is acknowledged until they are right: acts
// fail with store.ErrUnavailable and name the setting.
//
// A single server sees three connections of a process: a shared one, one on which it commits,
// see commitconn.go, and one that receives hints. So an answer to a read does not count against
// the limit that servers have for what waits for a subscriber.
//
// # Parts
//
// The keys of a store are in parts: those of a part have the same hash tag, so they are
// on one node of a cluster and one script can work on all of them. A slot belongs to
// the part of its number modulo their number. A run and its belongings are in the part of
// its slot, whatever its group.
//
// On a single server a store has one part: every method is one script, and so one act,
// as the contract has it. On a cluster it has as many parts as slots (256), and a
// method that concerns several is one act for each; [Spread] makes such a store on a
// single server, for a store that will move to a cluster. Slots and parts are fixed when
// the store is made.
//
// While a cluster moves a part from server to server, a key that is on the other one looks
// as if it did not exist. So every script begins with whole.lua, which refuses the act
// (TRYAGAIN, store.ErrUnavailable) from the first step of the move to the last.
//
// # Lanes
//
// On a cluster the parts of each master are a lane, see store.Laned: a set of parts that is noted
// when the store is first opened on a cluster, see placing.go. An engine works on each lane by
// itself, so a master that is away stops the runs of its parts alone. The first part of a lane is its
// home, which has its nodes. A store on one server has one lane.
//
// # Acts on several parts
//
// A batch of Commit is one pipeline of scripts, for each part one, with its turns and
// commands. Each turn with all that belongs to it is of one part, and atomic; of a
// batch whose answer is lost some parts may be written. In each part the record of the
// node's boot has the number of the last batch there and the results of its turns, so that
// a repeat carries out the rest and nothing twice. The record is beside the leases of the
// part and not in them, because a repeat gives the same answers after another boot has
// taken the shard.
//
// A command that a turn sends to a run of another part is put, in the turn's act, into
// the outbox of its part for that part, under a number from the clock, with the number of the
// one before. Commit delivers it at once. The receiving part applies only numbers above the
// highest one that it has applied of the sender, and none whose predecessor is above it, so
// no command is applied twice or out of order. A receiver whose server has lost writes lacks
// the predecessor of the first command in the outbox: that is logged, and it goes on. If the receiving
// part cannot be reached the answer is left out (law 14), and a goroutine of the Store
// delivers the command later. If this process has died, the next owner of a shard of the
// part does. The answer to a Watch that no run gets (law 15) comes back the same way. A
// batch is carried out in stages, so that the sends of its turns arrive before a later
// turn of the receiving part, as if all were one act.
//
// Claim queries all parts first and then claims the first of the candidates. They are
// still there, because only the owner of their shards can claim them. Sweep asks parents in
// other parts before it deletes their children. List, Count and DeadLetters read the parts
// one after another, in windows, with one part too: they are not of one moment.
//
// # Numbers
//
// The number of a run or an item is a count multiplied by the number of slots, plus the
// slot; so it contains the part. Counts are dense with one part. With several parts each
// has its own, which begins above all that the process has seen. The numbers that one
// process gives grow; numbers that processes give at the same time may be in any order.
// Within a run, and within a slot, they always grow.
//
// A run that was replaced is addressed as ID@N. It stays in the part of its number,
// while a run that was started under that very name would be in the part of the name.
// Both parts are searched, and the replaced run comes first. With several parts the
// replacement searches for such a run beforehand, not in its act.
//
// # Keys
//
// All keys begin with {PREFIX:PART}. Times and numbers are decimal text, because a
// number of Lua is exact to 2^53 only. Values that may be missing begin with v.
//
//	n        hash    highest counts: r of runs, i of items
//	M        hash    of part 0: id, schema, oldest, slots, parts, created, lanes; copies, see note.lua
//	N, W     hash, set  of a lane's home: nodes; names of workflows that were registered
//	L        hash    leases by slot:group, see base.lua
//	B        hash    with one part: fences by node and boot, see fence.go
//	b        hash    last batch by node and boot, see commit.lua
//	h        hash    of a lane's home: time of the last heartbeat, by node and boot
//	g        hash    of a lane's home: witnesses by node and boot, see witness.go
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
//	l:ST:WF  sorted set of runs by status and workflow; c:NO of children
//	t:KEY=VALUE  sorted set of tagged runs
//	k:GROUP  hash    incarnations of runs that are claimed
//	y:SORT   sorted set of runs of a group, workflow and build that are ready
//	z:SORT   sorted set of timers: idle runs of a group and workflow by wake time
//	Y:GROUP, Z:GROUP  sets of such sorts, which may be empty; see base.lua
//	d:GROUP  sorted set of runs with unexamined items; p:GROUP of those where they rest
//	E:ST:WF  sorted set of ended runs by time; K:ST:WF of those with a retention of their own
//	X        sorted set of these by the time when it is over; F of runs with old incarnations
//	D, C     sorted sets of dead letters and of consumed items
//	o:PART   list    outbox for a part
//	ow       set     parts for which an outbox is not empty
//	oq, q    hashes  last numbers by receiver; highest numbers applied by sender
//
// # Scripts
//
// The server carries out one script at a time, and a call of a command within one costs
// more than the command's own work. So a batch is one script, which makes few calls: one
// for each turn that adds an entry, and one for all changes of an index.
//
// The acts are the files in lua, each put behind those that it shares. A word like
// STATUS.queued in them stands for a constant, see package words and protocol.go. They are
// loaded when the server does not have them. A script fails at its first write if memory or
// disk are full; those that free memory, and those of leases and heartbeats, go on with a
// full memory (full.lua). A script checks everything that could refuse a turn before it writes, so it is
// all or nothing as long as it has no error itself.
package redis
