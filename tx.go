package stet

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/stet-run/stet/store"
)

// StartTx is Start inside a transaction that the caller has begun on the store's
// database, for example a *sql.Tx: the run exists if and only if the transaction
// commits. It begins when the owner notices that, at the latest after Poll. The
// transaction must not stay open for long. A store that knows no transactions of
// the type gives ErrInvalid.
//
// Each call of StartTx and SendTx is a savepoint of its own, so that what fails leaves the
// transaction as it was. On Postgres more than 64 in one transaction slow down the whole
// server for as long as it is open, because its cache of a session's savepoints has so many
// places: start several runs with [StartAllTx], which takes one.
func StartTx[Tx, In, Out any](
	ctx context.Context, tx Tx, e *Engine, w *Workflow[In, Out], input In, opts ...StartOption,
) (*Run[Out], error) {
	runs, err := startTx(ctx, tx, e, w, []In{input}, func(int) []StartOption { return opts })
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// StartAllTx is StartAll inside a transaction that the caller has begun, as in StartTx: a run
// for each input, with the options that each gives for its index; each may be nil. However
// many they are, up to MaxStarts with MaxStartBytes together, they are one savepoint of the
// transaction; with a FirstMessage whose run exists there may be a second one. The errors are
// those of StartAll: the runs that could be started are started in the transaction, and the
// others nil. With an error of the store, or bad options or inputs, none is.
func StartAllTx[Tx, In, Out any](
	ctx context.Context, tx Tx, e *Engine, w *Workflow[In, Out], inputs []In, each func(i int) []StartOption,
) ([]*Run[Out], error) {
	if err := w.checkCount(len(inputs)); err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		return []*Run[Out]{}, nil
	}
	return startTx(ctx, tx, e, w, inputs, each)
}

func startTx[Tx, In, Out any](
	ctx context.Context, tx Tx, e *Engine, w *Workflow[In, Out], inputs []In, each func(i int) []StartOption,
) ([]*Run[Out], error) {
	return w.startBy(ctx, e, inputs, each, admitTx,
		func(ctx context.Context, commands []store.Command) ([]store.Answer, error) {
			return applyTx(ctx, tx, e, commands)
		})
}

// SendTx is Message.Send inside a transaction that the caller has begun on the
// store's database, as in StartTx, whose word on many calls counts here too. So that it needs no connection beside the
// transaction's, ErrInboxFull is known only after this process has sent 200 messages to the
// run. What this process sends to the run after the commit comes after it, if the commit is
// not later than 10 minutes after SendTx.
func SendTx[Tx, T any](
	ctx context.Context, tx Tx, e *Engine, m Message[T], runID string, value T, opts ...SendOption,
) error {
	if err := checkNotEntity(runID); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	data, err := e.encodeValue("message "+string(m), value)
	if err != nil {
		return err
	}
	headers, done := e.observation.send(ctx, SendInfo{RunID: runID, Name: string(m)})
	err = sendTx(ctx, tx, e, runID, string(m), data, opts, headers)
	if done != nil {
		done(err)
	}
	return err
}

func sendTx[Tx any](
	ctx context.Context, tx Tx, e *Engine, runID, name string, data []byte, opts []SendOption, observed Headers,
) error {
	item, err := sendItem(ctx, name, data, opts, observed)
	if err != nil {
		return err
	}
	if err := admitTx(ctx, e, runID, item); err != nil {
		return err
	}
	answers, err := applyTx(ctx, tx, e, []store.Command{{RunID: runID, Item: item}})
	if err != nil {
		return fmt.Errorf("%s to run %q: %w", item.Kind, runID, err)
	}
	e.inboxes.Sent(runID, answers[0].Run.No, item)
	if err := checkPut(&answers[0], runID, item); !errors.Is(err, errDuplicate) {
		return err
	}
	return e.sameMessage(ctx, runID, answers[0].Run.No, item)
}

func applyTx[Tx any](ctx context.Context, tx Tx, e *Engine, commands []store.Command) ([]store.Answer, error) {
	transactor, ok := store.TransactorOf[Tx](e.base)
	if !ok {
		return nil, fmt.Errorf("expected a transaction of the store, which is of kind %s, found a %s: use *sql.Tx on "+
			"SQLite, pgx.Tx or *sql.Tx on Postgres: %w", storeKind(ctx, e), reflect.TypeFor[Tx](), ErrInvalid)
	}
	if isNil(tx) {
		return nil, fmt.Errorf("expected a %s that has begun, found nil: %w", reflect.TypeFor[Tx](), ErrInvalid)
	}
	sealed, err := e.payloads.SealCommands(ctx, commands)
	if err != nil {
		return nil, err
	}
	answers, err := transactor.ApplyTx(ctx, tx, sealed)
	if err != nil {
		return nil, err
	}
	e.payloads.OpenAnswers(ctx, answers)
	e.inner.SentOutside(commands, answers)
	return answers, nil
}

// isNil reports whether a transaction is a nil pointer or interface.
func isNil[Tx any](tx Tx) bool {
	v := reflect.ValueOf(&tx).Elem()
	if v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil()
}

// storeKind returns the kind of the engine's store, for messages.
func storeKind(ctx context.Context, e *Engine) string {
	d, err := e.base.Describe(ctx)
	if err != nil {
		return "unknown"
	}
	return d.Kind
}
