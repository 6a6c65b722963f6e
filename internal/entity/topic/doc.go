// Package topic is the rules of the entities that are topics: which waiting run gets
// which event. What runs and topics say to each other is in package event.
//
// # What a topic holds
//
// Events by their number, which is that of the item that brought them: each is
// pending, or in flight to a wait (of a consumed one only that run may take it). A
// broadcast event is pending until it is dropped, however many runs have it.
//
// Of every run that waits, or has got something, a reader: its waits, in the order
// in which they came; what was given to it and may yet come back; and its position,
// the number of the last broadcast event that it was given. A number below the
// position that has come back is a hole: the run has not got that one after all.
//
// # Matching
//
// The wait that came first gets the event with the lowest number of those that it
// may have: pending, not published before what it asks for (Since), not past its
// deadline, and if broadcast above its run's position or in a hole. That is tried
// for a wait that comes, and, in the order of the waits, for an event that comes or
// comes back. Matching may go on over several turns; what was not tried before a
// crash is tried after Load, which tries every wait.
//
// # What comes back
//
// A withdrawal of a wait that was given an event says that it was not taken, and a
// return that it was taken and that this was undone. A consumed event is then
// pending again in its old place; a broadcast one is in a hole of the run's position.
//
// The topic forgets that a broadcast event was given to a wait when the run
// registers another wait and does not name that one as open: it was taken. A
// consumed one it forgets by the ack, with the event.
//
// # Counts
//
// At every commit
//
//	accepted = received + pending + in flight + expired
//
// A consumed event is received when it is acknowledged, a broadcast one when it is
// dropped and at least one run got it. What is dropped and was got by nobody is
// expired. A received event that is returned is not received.
//
// # What is stored
//
//	m                 settings and counts
//	e/<number>        an event
//	n/<number>        how many runs got a broadcast event
//	r/<run number>    a reader
//
// A reader that holds nothing goes when no broadcast event is held that it may have
// had: its position says nothing any more.
package topic
