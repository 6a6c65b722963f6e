package steps

import (
	"context"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Recording returns the record of the attempt's success, to be written by the body
// itself in a transaction. From then on the attempt does not end by its timeout.
//
// ok is false if the timeout has ended the attempt: nothing may be committed then. A
// failure says that the value cannot be recorded.
func (a *Attempt) Recording(ctx context.Context, value []byte) (
	rec *store.Recording, f *stored.Failure, ok bool, err error,
) {
	e, f := a.body.Entry(a.started, a.env.Now(), value)
	if f != nil {
		return nil, f, true, nil
	}
	turn := &store.Turn{Run: a.no, Incarnation: a.incarnation, Entries: []store.Entry{e}}
	sealed, err := a.env.Payloads.SealTurn(ctx, turn)
	if err != nil {
		return nil, nil, true, err
	}
	if !a.settle() {
		return nil, nil, false, nil
	}
	rec = &store.Recording{Run: a.no, Incarnation: a.incarnation, Lease: a.lease, Entry: sealed.Entries[0]}
	return rec, nil, true, nil
}

// Recorded returns the end of an attempt whose record is in the store, written by this
// attempt or by a former one.
func (a *Attempt) Recorded(ctx context.Context, e store.Entry) (runner.BodyResult, error) {
	entries := []store.Entry{e}
	if err := a.env.Payloads.OpenEntries(ctx, a.no, a.incarnation, entries); err != nil {
		return runner.BodyResult{}, err
	}
	t, err := stored.SplitTried(entries[0].Value)
	if err != nil {
		return runner.BodyResult{}, err
	}
	return runner.BodyResult{Value: t.Value, Recorded: &entries[0]}, nil
}
