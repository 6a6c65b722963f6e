// Package permit is what runs and queues say to each other, and its stored form. It
// decides nothing: package engine says when a run asks for a permit and when it
// returns one, package queue whom a queue gives one to.
//
// A queue is a record with the ID [RecordID]. A run that is started on a queue has
// its [Place] in its row and is held by the store. What is said:
//
//	ask        (to the queue) the run waits for a permit, in the act that holds it
//	grant      (to the run) it has the permit, in the turn in which the queue notes that
//	give back  (to the queue) it has ended, or is suspended and holds none meanwhile,
//	           in the commit that ends or suspends it; or it waits no more
//
// Each ask has a ticket of its own, which names the permit too. A run has at most
// one ticket, the one in its place. So what is under way when a run ends or asks
// again does no harm: a grant for another ticket is worth nothing, and the queue has
// been, or will be, told that the ticket is given back.
//
// A step that uses a queue asks for each of its attempts: its ticket stands in its
// entry, and the grant says which step it is for. What is given back is so in the
// turn that records how the attempt has ended. A queue that does not exist tells the
// step so, while it lets a run wait until it is made.
//
// A run holds the permit of its ticket from when the queue has noted it until the
// queue has noted that it is given back. The grant stays in the run's inbox for as
// long: by it whoever loads the run knows that it may execute.
package permit
