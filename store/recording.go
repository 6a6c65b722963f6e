package store

import "context"

// Recording is the success of a step on its way into the store, in the transaction that
// holds the step's own effects.
type Recording struct {
	Run         RunNo
	Incarnation int
	Lease       Lease // of the run's shard
	Entry       Entry // Done, without a completion number
}

// Recorder writes the success of a step in a transaction that the caller began, and
// ends the transaction. Tx is its type.
type Recorder[Tx any] interface {
	// RecordTx writes the entry and commits, if
	//   - the lease is current,
	//   - the run is claimed, running and of the incarnation, and
	//   - no entry exists, or one that is not final and has fewer attempts.
	// Otherwise it rolls the transaction back: the verdict is Fenced or Refused, or, if a
	// final entry exists, Committed with that entry. Neither the lease nor the run changes
	// between the check and the end of the transaction; the locks for that live for one
	// round trip. An error wraps ErrUnknown if the transaction may have been committed;
	// otherwise it was rolled back.
	RecordTx(ctx context.Context, tx Tx, r *Recording) (Verdict, *Entry, error)
	// RollbackTx rolls the transaction back, also when ctx has ended.
	RollbackTx(ctx context.Context, tx Tx) error
}

// RecorderOf returns the store's Recorder for transactions of type Tx, and whether there
// is one.
func RecorderOf[Tx any](s Store) (Recorder[Tx], bool) {
	if r, ok := s.(Recorder[Tx]); ok {
		return r, true
	}
	var r Recorder[Tx]
	if all, ok := s.(Transactors); ok && all.TransactorAs(&r) {
		return r, true
	}
	return nil, false
}
