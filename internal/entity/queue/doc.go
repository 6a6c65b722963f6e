// Package queue is the rules of a queue's entity: who gets a permit, and when.
//
// Of the runs that wait and are due, those of the highest priority come first. Of
// these the keys take turns: the key that was served longest ago is next (of the
// last 1,000 permits; one that is not among them comes before the others). Of one
// key who came first, or was due first, is first. A key whose limit is reached lets
// the others pass, of whatever priority.
//
// A permit is an entry of the entity from the turn that grants it to the turn that
// takes it back. So the entries never are more than the limits allow, whoever owns
// the entity and whatever crashes. Of a rate the entity keeps the times of the last
// permits, so that no interval of its length, closed at its end, has more.
package queue
