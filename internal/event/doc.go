// Package event is the protocol between runs and topics, and its stored form. It
// decides nothing: package runner knows when a run sends what, package topic how a
// topic answers.
//
// A topic is an entity with the ID [EntityID]. Everything that is sent to it is an item
// of its inbox, written in the turn of the run that sends it:
//
//	event     a [Publication]
//	wait      a run waits: a [Registration], under a key that is used once
//	withdraw  the wait of that key is over; if it was given an event, the run has
//	          not taken it
//	ack       the run has taken the event that the wait of that key was given
//	return    the run had taken an event, and a rewind or retry has reverted that:
//	          a [Return]
//
// The topic answers a wait at most once, by a delivery to the run: a [Delivery],
// under the wait's key. A run that sends an ack never sends a withdraw of the same
// key, and the other way round. The topic receives the items of a run in the order in
// which the run sends them. So it learns what became of an event, also if a delivery was
// under way when the wait ended: such a delivery has no effect.
//
//	run                          topic
//	 │  wait (key)                 │
//	 ├────────────────────────────►│
//	 │            delivery (key)   │  at most one
//	 │◄────────────────────────────┤
//	 │  ack, or withdraw (key)     │  exactly one of the two
//	 ├────────────────────────────►│
//
// The IDs of the items of one wait follow from its key, so that a repeated turn sends
// nothing twice.
package event
