// Package entity holds the common part of topics, queues and schedules. Each of them
// is an entity: a run whose code is not a workflow but fixed rules. Claims, leases,
// fencing, inbox, turns, parking and behaviour in a crash are those of runs; there is no
// second way to write.
//
// A [Machine] does the work that all entities share: it delivers the items of the
// inbox in order, has one turn under way at a time, cuts turns that grow too large,
// suspends the entity when there is nothing to do, and stalls it when its entries are
// damaged. [Rules] are particular to a kind of entity. Code outside reaches an entity
// through a [Client], by [Send] and [Ask].
//
// An entity has no end. One that is deleted is an entity without entries.
package entity
