// Package entity is what topics, queues and schedules share. Each of them is a
// entity: a run whose code is not a workflow but fixed rules. Claims, leases,
// fencing, inbox, turns, parking and what happens in a crash are those of runs;
// there is no second way to write.
//
// A [Machine] does what all entities do: it delivers the items of the inbox in
// order, has one turn on its way at a time, cuts turns that grow too large,
// suspends the entity when there is nothing to do, and stalls it when its entries
// are damaged. What is particular to a kind of entity is [Rules].
//
// An entity has no end. One that is deleted is an entity without entries.
package entity
