package stet

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// AssignOption is an option of ResolveFrom and RejectFrom: Named, or a Key.
type AssignOption interface{ applyAssign(*assignOptions) }

type assignOptions struct{ as, key string }

func (n Named) applyAssign(o *assignOptions) { o.as = string(n) }
func (k Key) applyAssign(o *assignOptions)   { o.key = string(k) }

// ResolveFrom assigns a value to the promise with the token, from the code of a workflow. The
// assignment is part of the commit that records it, so no crash and no replay assigns twice; and
// what is rewound has assigned all the same. The name of the operation is "resolve", if Named does
// not say otherwise; give a Key where one scope resolves several.
//
// Whether the promise is assigned by it is not known here: if it was assigned before, or its run
// ends or is rewound meanwhile, the value is dropped and logged, or becomes a dead letter. Errors:
// ErrNotFound if the token is of no promise, and ErrTerminal if its run has ended or continued as
// new; both are recorded as the operation's outcome. And ErrCancelled and ErrTooLarge.
func ResolveFrom(ctx Context, token string, value any, opts ...AssignOption) error {
	ctx.mustBeGiven()
	data, err := ctx.encode("promise", value)
	if err != nil {
		return err
	}
	return ctx.assign("resolve", token, data, false, opts)
}

// RejectFrom assigns a failure to the promise with the token, from the code of a workflow. It is
// like ResolveFrom; the name of the operation is "reject". A nil reason is ErrInvalid.
func RejectFrom(ctx Context, token string, reason error, opts ...AssignOption) error {
	ctx.mustBeGiven()
	if reason == nil {
		return fmt.Errorf("reject: expected an error, found nil: %w", ErrInvalid)
	}
	return ctx.assign("reject", token, stored.EncodeFailure(ctx.env.engine.errors.record(reason)), true, opts)
}

func (c Context) assign(name, text string, value []byte, failed bool, opts []AssignOption) error {
	o := assignOptions{as: name}
	for _, opt := range opts {
		opt.applyAssign(&o)
	}
	t, err := parseToken(text)
	if err != nil {
		return err
	}
	_, err = c.branch.Send(runner.Send{
		Call: c.call(o.as, o.key), To: t.runID, Find: finding(c.env.engine, text),
		Item: store.Item{
			Kind: store.ItemResolution, Incarnation: t.incarnation, Loc: string(t.loc), Failed: failed, Value: value,
		},
	})
	return c.seen(err)
}

// finding returns a function that completes an item for the promise with a token.
func finding(e *Engine, token string) func(context.Context, *store.Item) (refused *stored.Failure, err error) {
	return func(ctx context.Context, it *store.Item) (refused *stored.Failure, err error) {
		p, err := e.promiseOf(ctx, token)
		if err == nil && p.run.Status.Terminal() {
			err = fmt.Errorf("promise %s of run %q, which is %s: %w", p.loc, p.runID, p.run.Status, ErrTerminal)
		}
		switch {
		case errors.Is(err, ErrNotFound):
			return &stored.Failure{Code: stored.CodeNotFound, Message: err.Error()}, nil
		case errors.Is(err, ErrTerminal):
			return &stored.Failure{Code: stored.CodeTerminal, Message: err.Error()}, nil
		case err != nil:
			return nil, err
		}
		it.ID, it.Generation = p.itemID(), p.generation
		return nil, nil
	}
}
