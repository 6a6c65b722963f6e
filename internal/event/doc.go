// Package event is what runs and topics say to each other, and its stored form.
// It decides nothing: package runner says when a run says what, package topic what
// a topic makes of it.
//
// A topic is a record with the ID [RecordID]. All that is addressed to it is an
// item of its inbox, in the turn of the run that says it:
//
//	event     somebody has published: a [Publication]
//	wait      a run waits: a [Registration], under a key that is used once
//	withdraw  the wait of that key is over; if it was given an event, the run has
//	          not taken it
//	ack       the run has taken the event that the wait of that key was given
//	return    the run has taken an event, and that was taken back: a [Return]
//
// The topic answers a wait at most once, by a delivery to the run: a [Delivery],
// under the wait's key. A run that sends an ack never sends a withdraw of the same
// key, and the other way round. So whatever is under way when a wait is over, the
// topic learns what became of the event by what the run says, in the order in which
// the run says it, and a delivery that comes too late is worth nothing.
//
// Items of one wait have IDs that follow from its key, so that no repeat of a turn
// says anything twice.
package event
