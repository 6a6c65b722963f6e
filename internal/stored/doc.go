// Package stored is the form in which a run's history, its answers and what it says
// to other runs are kept: the values of entries, of inbox items and of ended runs. It
// decides nothing; package runner says when something is written, package history what
// becomes of it.
//
//	entry of                     value
//	step, compensation           Progress while it is open, then the code's result
//	receive                      the messages that it consumed (EncodeReceipt)
//	child, awaited run           Link
//	event                        see package event
//	publication                  Published
//	version                      EncodeVersion
//	loop                         LoopProgress, and the state at an iteration
//	any that has failed          Failure
//
// An item of a stream is a value, or Emitted by the body of a step.
//
// Values are CBOR in its deterministic form. Keys keep their numbers for ever; a new
// field gets a new number, and older code skips it. Every Decode function returns an
// error that wraps store.ErrDamaged for bytes that it cannot read.
package stored
