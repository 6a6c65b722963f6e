// Package permit is the protocol between runs and queues, and its stored form. It
// decides nothing: packages engine and runner know when a run asks for a permit and
// when it gives one back, package queue knows which run is granted one.
//
// A queue is an entity with the ID [EntityID]. A run that is started on a queue has its
// [Place] in its row, and the store holds it until it has a permit.
//
// # Runs in a line
//
// Where the store has lines (store.Description.Lines) the run waits in its row and sends nothing. The queue reads who
// waits, and admits runs by their rows (laws 31 to 34 of package store). The act that ends the run, or that suspends a
// run which holds no permit meanwhile, gives the permit back by itself. [Place.InLine] says so.
//
// # Asks
//
// Steps, tasks, and runs in a store without lines ask:
//
//	run, or a step of it               queue
//	 │  ask (ticket)                     │
//	 ├──────────────────────────────────►│  keeps the ask until there is room
//	 │                  grant (ticket)   │
//	 │◄──────────────────────────────────┤  counts the permit, in the same turn
//	 │  … executes; the grant stays      │
//	 │    in the inbox meanwhile …       │
//	 │  give back (ticket)               │
//	 ├──────────────────────────────────►│  forgets the permit, or the ask
//
//	ask        in the act that holds the run
//	grant      in the queue's turn that counts the permit
//	give back  in the commit that ends the run, that suspends a run which holds no
//	           permit meanwhile, or by which it stops waiting
//
// # Tickets
//
// Each ask has a ticket of its own, which is also the name of the permit. A run has at
// most one ticket, the one in its place. So messages that cross do no harm: a grant for
// another ticket is ignored, and that ticket is given back, or will be.
//
// A run holds the permit of its ticket from the turn in which the queue counts it to the
// turn in which the queue forgets it. The grant stays in the run's inbox for as long. An
// owner that loads the run finds it there, and knows that the run may execute.
//
// # Steps
//
// A step that uses a queue asks for each of its attempts: the ticket is in the step's
// entry, and the grant names the step. The turn that records the end of the attempt
// gives the permit back.
//
// # Settings
//
// The code declares the settings of a queue (Create), and the last declaration counts. A
// person may override them (Set), until that is taken back (Reset). Runs and steps that
// ask before a queue is created wait until it is.
package permit
