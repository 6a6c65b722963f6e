package engine

import (
	"context"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// Recording returns the record of the attempt's success, to be written by the body
// itself in a transaction. From then on the attempt does not end by its timeout. ok
// is false if it has: nothing may be committed then. A failure says that the value
// cannot be recorded.
func (a *Attempt) Recording(ctx context.Context, value []byte) (rec *store.Recording, f *runner.Failure, ok bool, err error) {
	e, f := a.body.Entry(a.started, a.engine.time.now(), value)
	if f != nil {
		return nil, f, true, nil
	}
	turn := &store.Turn{Run: a.run.No, Incarnation: a.run.Incarnation, Entries: []store.Entry{e}}
	sealed, err := a.engine.cfg.Payloads.SealTurn(ctx, turn)
	if err != nil {
		return nil, nil, true, err
	}
	if !a.settle() {
		return nil, nil, false, nil
	}
	return &store.Recording{Run: a.run.No, Incarnation: a.run.Incarnation, Lease: a.lease, Entry: sealed.Entries[0]}, nil, true, nil
}

// Recorded returns the end of an attempt whose record is in the store: the one that
// this attempt has written, or that a former one had.
func (a *Attempt) Recorded(ctx context.Context, e store.Entry) (runner.BodyResult, error) {
	entries := []store.Entry{e}
	if err := a.engine.cfg.Payloads.OpenEntries(ctx, a.run.No, a.run.Incarnation, entries); err != nil {
		return runner.BodyResult{}, err
	}
	return runner.BodyResult{Value: entries[0].Value, Recorded: &entries[0]}, nil
}
