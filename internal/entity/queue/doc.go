// Package queue holds the rules of a queue's entity: which run or step gets a permit,
// and when.
//
// The order among those that wait and are due is
//
//   - by priority, the highest first;
//   - within a priority the keys take turns: the key that was served longest ago is
//     next, as far as the last 1,000 permits tell, and a key without a permit among
//     them comes before the others;
//   - within a key the one that was due first.
//
// A key whose limit is reached lets the others pass, of any priority.
//
// A permit is an entry of the entity from the turn that grants it to the turn that
// takes it back. So there are never more entries than the limits allow, with any owner
// of the entity and in any crash. For a rate the entity keeps the times of the last
// permits, so that no interval of the rate's length, closed at its end, has more.
package queue
