// Package attempts takes the steps and compensations of one run from attempt to attempt:
// it waits for permits and for what they depend on to be durable, gives bodies out, looks
// at their ends, and decides between the end of the step and a retry. It starts no body
// and knows no run: an [Owner] pauses, stops and owes.
//
//	        permit          barrier          Bodies          Complete
//	start ──────────► queued ──────► may begin ─────► given ─────────► ended ──► done
//	  ▲                                                                  │
//	  └────────────────────── retry delay ◄──────────────────────────────┘ failed
//
// # Permits
//
// A step that uses a queue needs a permit of it for each attempt. When the attempt could
// begin, the turn asks for one with a ticket that is used once, which is in the step's
// entry from the same turn on; the run can be suspended then. The body is queued when the
// grant has come, which stays in the inbox for as long as the permit is held; and the turn
// that records the end of the attempt gives the permit back. An attempt that was lost with
// its process has left ticket and grant: the next activation executes it again with the
// same permit.
//
// So every ticket that was asked with is given back in some turn: with the end of the
// attempt, with that of the step or the run, or when the run goes live and nothing waits
// for it. What is reverted or edited gives it back in the turn that does that; a grant that
// nothing waits for goes back by itself.
package attempts
