// Package topic holds the rules of the entities that are topics: which waiting run gets
// which event. Package event is the protocol between runs and topics. [Rooms] is for
// publishers: it remembers how much room a topic has.
//
// # What a topic holds
//
// Events by their number, which is that of the item that brought them: each is
// pending, or in flight to a wait (of a consumed one only that run may take it). A
// broadcast event is pending until it is dropped, however many runs have it.
//
// For every run that waits, or that was given an event, a reader. It has
//
//   - the run's waits, in the order of their arrival;
//   - the events that were given to it and may yet come back;
//   - its position, the number of the last broadcast event that it was given.
//
// A number below the position that has come back is a hole: the run did not take that
// event after all.
//
// # Matching
//
// The oldest wait gets the event with the lowest number that it may have. A wait may
// have an event that is
//
//   - pending;
//   - not published before the wait's Since;
//   - not past its deadline;
//   - if broadcast, above its run's position or in a hole.
//
// That is tried for a wait that arrives, and, in the order of the waits, for an event
// that arrives or comes back. Matching may go on over several turns. After a crash Load
// tries every wait again.
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
// dropped and at least one run got it. One that is dropped and that no run got is
// expired. A received event that is returned is not received.
//
// # What the cap counts
//
// The cap counts the events that are pending, without the broadcast ones that all readers
// have had: some run got it, no reader is before it, and none has it in a hole. What was
// published before the waits of a reader look is behind that reader.
//
// While more events are pending than the cap says, the oldest that all have had is
// dropped; not one that is on its way to a wait, which may refuse it. So a run that comes
// later sees up to the cap.
//
// A second cap counts bytes: of the events that are pending so, and of the consumed ones that
// are in flight. It bounds what a topic keeps in memory, but for
//
//   - one event, the last that was admitted;
//   - what publishers admit meanwhile, see [Rooms];
//   - what code of workflows publishes, which nobody refuses;
//   - events that all have had and that are on their way.
//
// A topic does not see runs end. A publisher that finds it full looks which readers that
// wait for nothing have ended, and notifies the topic. These want nothing, until they
// register or return an event again.
//
// # What is stored
//
//	m                 settings and counts
//	e/<number>        an event
//	n/<number>        how many runs got a broadcast event
//	r/<run number>    a reader
//
// A reader that holds nothing goes when no broadcast event is held that it may have
// had: its position means nothing then.
package topic
