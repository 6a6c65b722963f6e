// Package tasks is the side of the workers of tasks: it leases tasks from queues, renews and
// ends leases, and finds out which queue has something to lease. What a lease is, and what
// becomes of it, is decided by the rules of the queue: see packages permit and queue.
//
// A worker that waits for a task sends nothing: a [Desk] reads what the queues show, and asks a
// queue only when that has a task for the worker. The desk reads for all workers of the process
// that wait, when something changes and once per poll interval. So an idle worker costs no
// commit, whatever its number of polls.
//
// Each request of a worker is an update of its queue's record, known by what it is about:
//
//	lease    the worker's request and its round; a repeat finds the answer in the queue's inbox
//	end      the secret of the lease; a repeat, on any node, gets the same answer for 24 hours
//	append   the secret of the lease and the number of the request in it; a repeat likewise
//	beat     is repeated without harm
//	release  likewise
//
// A desk knows no run and no name of a right.
package tasks
