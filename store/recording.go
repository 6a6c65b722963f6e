package store

import "context"

// Recording is the success of a step on its way into the store, in the transaction
// that holds what the step has done.
type Recording struct {
	Run         RunNo
	Incarnation int
	Lease       Lease // of the run's shard
	Entry       Entry // Done, without a completion number
}

// Recorder writes the success of a step in a transaction that the caller began, and
// ends the transaction. Tx is its type.
type Recorder[Tx any] interface {
	// RecordTx writes the entry and commits, if the lease is current, the run is
	// claimed, running and of the incarnation, and there is no entry, or one that is
	// not final and has fewer attempts. Otherwise it takes the transaction back: the
	// verdict is Fenced, or Refused, or, if there is a final entry, Committed with
	// that entry. Neither the lease nor the run changes from the check to the end of
	// the transaction; the locks for that live for one round trip. An error wraps
	// ErrUnknown if the transaction may have been committed; else it was taken back.
	RecordTx(ctx context.Context, tx Tx, r *Recording) (Verdict, *Entry, error)
	// RollbackTx takes the transaction back, whether ctx has ended or not.
	RollbackTx(ctx context.Context, tx Tx) error
}

// RecorderOf returns what records steps of a store in transactions of the type, and
// whether there is one.
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
