package stet

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/store"
)

// TxStep is Step in a transaction on the store's database: what fn writes with the
// transaction, and the record of the step's success, are there together or not at
// all. So the effect is exactly once, whatever crashes, and a step whose success is
// recorded is never executed again.
//
// begin begins the transaction, for example with the method Begin of a
// *pgxpool.Pool, or with
//
//	func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }
//
// TxStep commits it when fn returns no error, and otherwise rolls it back; fn must do
// neither, and a step whose fn has done so fails for good. Its isolation should be read
// committed: in a stricter one an attempt fails, and is tried again, whenever the
// node's lease was renewed meanwhile. fn may be called several times, as in Step; only
// one of the transactions is committed. Nothing that the engine needs is locked while
// fn runs.
//
// A cancel waits for the step's end, as with an Undo. A store that records no steps
// in transactions of the type gives a *StepError with an error that is ErrInvalid.
// Postgres does, for pgx.Tx and *sql.Tx.
func TxStep[Tx, T any](
	ctx Context, name string,
	begin func(context.Context) (Tx, error), fn func(context.Context, Tx) (T, error), opts ...StepOption,
) (T, error) {
	ctx.needs(begin != nil && fn != nil, "transactional step", name)
	o := stepOptionsOf(opts)
	o.result = reflect.TypeFor[T]()
	e := ctx.env.engine
	o.transaction = func() transaction { return &transactionOf[Tx]{engine: e, begin: begin} }
	data, _, err := ctx.step(ctx.call(name, o.key), o, bodyOf(func(c context.Context) (any, error) {
		tx, err := transactionIn(c).(*transactionOf[Tx]).start(c)
		if err != nil {
			return nil, err
		}
		return fn(c, tx)
	}))
	if err != nil {
		var zero T
		return zero, err
	}
	return decodeResult[T](ctx, name, data)
}

// transaction is that of one attempt.
type transaction interface {
	// record writes the attempt's success and commits.
	record(ctx context.Context, value []byte) (runner.BodyResult, error)
	// undo rolls back what was begun and not committed.
	undo(ctx context.Context) error
}

type transactionKey struct{}

func transactionIn(ctx context.Context) transaction {
	t, _ := ctx.Value(transactionKey{}).(transaction)
	return t
}

type transactionOf[Tx any] struct {
	engine   *Engine
	begin    func(context.Context) (Tx, error)
	recorder store.Recorder[Tx]
	tx       Tx
	open     bool
}

func (t *transactionOf[Tx]) start(ctx context.Context) (Tx, error) {
	var ok bool
	if t.recorder, ok = store.RecorderOf[Tx](t.engine.base); !ok {
		return t.tx, Permanent(fmt.Errorf("expected a store that records steps in transactions of type %s, found one of "+
			"kind %s: use Postgres, with pgx.Tx or *sql.Tx, or a Step: %w", reflect.TypeFor[Tx](), storeKind(ctx, t.engine),
			ErrInvalid))
	}
	var err error
	if t.tx, err = t.begin(ctx); err != nil {
		return t.tx, fmt.Errorf("begin the transaction: %w", err)
	}
	if isNil(t.tx) {
		return t.tx, Permanent(fmt.Errorf("begin the transaction: expected a %s, found nil: %w", reflect.TypeFor[Tx](),
			ErrInvalid))
	}
	t.open = true
	return t.tx, nil
}

// errLate: the attempt's time was over before it could commit.
var errLate = errors.New("the attempt's time was over before its transaction was committed")

func (t *transactionOf[Tx]) record(ctx context.Context, value []byte) (runner.BodyResult, error) {
	if !t.open { // the body was not called: something stood around it
		return runner.BodyResult{Value: value}, nil
	}
	attempt := steps.AttemptOf(ctx)
	rec, failure, ok, err := attempt.Recording(ctx, value)
	switch {
	case err != nil:
		return runner.BodyResult{}, err
	case failure != nil:
		return runner.BodyResult{Failure: failure, Final: true, Unrecorded: true}, nil
	case !ok:
		return runner.BodyResult{}, errLate
	}
	t.open = false
	verdict, former, err := t.recorder.RecordTx(ctx, t.tx, rec)
	if errors.Is(err, store.ErrUnknown) {
		verdict, former, err = t.resolve(ctx, rec, err)
	}
	switch {
	case errors.Is(err, ErrInvalid): // another attempt would do the same
		return runner.BodyResult{}, Permanent(fmt.Errorf("commit the step's transaction: %w", err))
	case err != nil:
		return runner.BodyResult{}, fmt.Errorf("commit the step's transaction: %w", err)
	case verdict != store.Committed:
		return runner.BodyResult{}, fmt.Errorf("commit the step's transaction: it is %s: this node may write for the run "+
			"no more", verdict)
	case former == nil:
		former = &rec.Entry
	case former.State != store.Done:
		return runner.BodyResult{}, errors.New("commit the step's transaction: the step has failed meanwhile")
	}
	return attempt.Recorded(ctx, *former)
}

// resolve finds out whether a transaction was committed whose end is unknown.
func (t *transactionOf[Tx]) resolve(
	ctx context.Context, rec *store.Recording, cause error,
) (store.Verdict, *store.Entry, error) {
	entries, err := t.engine.base.History(context.WithoutCancel(ctx),
		store.HistoryQuery{Run: rec.Run, Incarnation: rec.Incarnation, Locs: []string{rec.Entry.Loc}, Values: true})
	if err != nil {
		return 0, nil, errors.Join(cause, err)
	}
	if len(entries) == 1 && entries[0].State == store.Done {
		return store.Committed, &entries[0], nil
	}
	return 0, nil, cause
}

func (t *transactionOf[Tx]) undo(ctx context.Context) error {
	if !t.open {
		return nil
	}
	t.open = false
	return t.recorder.RollbackTx(ctx, t.tx)
}
