package store

import "cmp"

// Line is a place among the runs that wait for a queue in their rows (law 31). A store has lines if
// Description.Lines says so; another one refuses a Line with ErrInvalid.
type Line struct {
	Queue    string // the ID of the queue's entity, not empty
	Key      string // opaque to the store; "": none
	Priority int    // the highest is first; from -2^31 to 2^31-1
}

// WaitingQuery selects runs of a queue's line.
type WaitingQuery struct {
	Queue    string  // the ID of the queue's entity
	Admitted bool    // the admitted runs, by number; otherwise the waiting ones, in the order of Waiter.Compare
	After    *Waiter // only runs after this one; nil: from the first
	Limit    int     // of runs; 0: all
}

// Waiter is a run of a queue's line.
type Waiter struct {
	No       RunNo
	ID       string
	Key      string
	Priority int
	Due      Time   // it does not wait before; of an admitted run, when it began to wait
	Place    []byte // the run's Queue
}

// Compare orders waiting runs: by priority, the highest first, then by when they are due, then by number.
func (w *Waiter) Compare(o *Waiter) int {
	return cmp.Or(cmp.Compare(o.Priority, w.Priority), cmp.Compare(w.Due, o.Due), cmp.Compare(w.No, o.No))
}
