// Package steps executes the attempts of steps: it calls their bodies on the
// goroutines of a pool, each within its time.
//
// A [Pool] executes tasks, at most so many at once; it does not know what they do.
// An [Attempt] is the task of calling the body of a step once. It carries what the
// body may ask for through its context, ends at its timeout whether the body returns
// or not, and delivers its one end to the run that it belongs to, behind the port
// [Run].
//
// The package starts goroutines and timers, and reads the clock that it is given. It
// calls no store: what a body writes in a transaction of its own it gets as a value,
// by [Attempt.Recording].
package steps
