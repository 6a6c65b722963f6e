// Package shape computes from a recorded history how the operations of a run stand to
// each other, and which of them its time went to. It reads no store and no clock.
//
// # Boxes
//
// Locations give the nesting: each entry is a box, and so is each scope that entries
// stand in. What is directly in a box is laid out in stages, one after the other. A stage
// has lanes beside each other, and a lane has boxes in sequence.
//
// Two boxes are in sequence if one of them was requested after the last completion in the
// other. Otherwise they are parallel. That is a fact of the record, not of the code: two
// branches of which one ended before the other began are in sequence.
//
// # The critical path
//
// Each entry has a cause: the number of the last completion that was handed over before
// the code requested it (store.Entry.Born). The code of a run moves only when something
// is handed over to it, so the entry could not have been requested earlier. From the last
// completion of a run back to the first, cause by cause, that gives the one chain of
// operations that explains the run's time: whatever is not on it could have taken less
// time, and the run would not have ended earlier.
//
// For each operation on the path there are two times, and both together leave no gap: the
// time it took, and the time before it, from its cause's end until it began.
//
// # Shares
//
// The time of the path is also divided by what it went to: code, bodies, waits, permits, places and
// so on (Term). The shares leave no gap and overlap nowhere. A time in which the run was paused,
// stalled or over counts as that alone, whatever was open meanwhile.
//
// The path is cut where its history is gone: at the iterations of a loop that were pruned,
// and at a continue-as-new.
package shape
