package stet

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Promise is assigned once, by success or failure, from anywhere, before or
// after somebody waits for it.
type Promise[T any] struct {
	inner *runner.Promise
	value *decoding[T]
	name  string
	token string
}

// NewPromise makes a promise in the run. Hand out its Token, which is the
// right to assign the promise with Engine.Resolve or Engine.Reject. A value that does not
// decode into a T does not assign it: it becomes a dead letter with the reason, is logged,
// and the promise can be assigned again.
func NewPromise[T any](ctx Context, name string) (*Promise[T], error) {
	d := decodingOf[T](ctx)
	p, err := ctx.branch.NewPromise(ctx.call(name, ""), d.check)
	if err != nil {
		return nil, err
	}
	return &Promise[T]{inner: p, value: d, name: name, token: makeToken(ctx.env.run, p.Location(), p.Secret())}, nil
}

// Token identifies the promise and is the right to assign it: it names the run
// and carries 128 bits that cannot be guessed.
func (p *Promise[T]) Token() string { return p.token }

// Await waits until the promise is assigned and returns its value, or the error
// it was rejected with. Further calls return the same at once. With Within a
// deadline that wins is ErrTimeout; the promise can still be assigned then.
func (p *Promise[T]) Await(ctx Context, opts ...WaitOption) (T, error) {
	var zero T
	o, err := waitOptionsOf(p.name, opts)
	if err != nil {
		return zero, err
	}
	call := ctx.call(o.as, o.key)
	if !o.hasWithin {
		data, err := ctx.branch.AwaitPromise(call, p.inner)
		return p.result(ctx, data, err)
	}
	call.Key, call.Site = "deadline", 0
	won, err := ctx.branch.Select(call, []runner.Case{
		{Promise: p.inner},
		{Timer: &runner.Timer{Call: call, At: ctx.branch.Now().Add(o.within)}},
	})
	switch {
	case err != nil:
		return zero, ctx.seen(err)
	case won.Index == 1:
		return zero, ErrTimeout
	case won.Failure != nil:
		return p.result(ctx, nil, won.Failure)
	}
	return p.result(ctx, won.Value, nil)
}

func (p *Promise[T]) result(ctx Context, data []byte, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, ctx.seen(err)
	}
	return p.value.result(ctx, p.name, data)
}

// ResolveOption is an option of Engine.Resolve and Engine.Reject: an Act, which says who
// assigns the promise, and why.
type ResolveOption interface {
	applyResolve(o *resolveOptions) error
}

type resolveOptions struct{ headers []byte }

// applyResolve keeps By and Why with the promise.
func (a Act) applyResolve(o *resolveOptions) (err error) {
	if err := a.check(); err != nil {
		return err
	}
	given := Headers{}
	if a.By != "" {
		given[stored.ByHeader] = a.By
	}
	if a.Why != "" {
		given[stored.WhyHeader] = a.Why
	}
	o.headers, err = given.encode(o.headers)
	return err
}

// Resolve assigns a value to the promise with the token. With an Act its By and Why are kept
// with the promise: see HistoryEntry.By. Errors: ErrInvalid for a bad Act;
// ErrAlreadyResolved while that is known; ErrTerminal if the run has ended or
// continued as new, or the promise was made in an iteration that its Loop has
// pruned; ErrNotFound if the token is of no promise; ErrTooLarge; and
// those of the store.
func (e *Engine) Resolve(ctx context.Context, token string, value any, opts ...ResolveOption) error {
	data, err := e.encodeValue("promise", value)
	if err != nil {
		return err
	}
	return e.assign(ctx, token, data, false, opts)
}

// Reject assigns a failure to the promise with the token. Errors are those of
// Resolve; a nil reason is ErrInvalid.
func (e *Engine) Reject(ctx context.Context, token string, reason error, opts ...ResolveOption) error {
	if reason == nil {
		return fmt.Errorf("reject: expected an error, found nil: %w", ErrInvalid)
	}
	return e.assign(ctx, token, stored.EncodeFailure(e.errors.record(reason)), true, opts)
}

func (e *Engine) assign(
	ctx context.Context, text string, value []byte, failed bool, opts []ResolveOption,
) error {
	var o resolveOptions
	for _, opt := range opts {
		if err := opt.applyResolve(&o); err != nil {
			return fmt.Errorf("assign a promise: %w", err)
		}
	}
	p, err := e.promiseOf(ctx, text)
	if err != nil {
		return err
	}
	_, err = e.put(ctx, p.runID, &store.Item{
		Kind: store.ItemResolution, ID: p.itemID(), Origin: uuid.NewString(),
		Incarnation: p.incarnation, Generation: p.generation, Loc: string(p.loc), Failed: failed, Value: value,
		Headers: o.headers,
	})
	if errors.Is(err, errDuplicate) {
		return fmt.Errorf("promise %s of run %q: %w", p.loc, p.runID, ErrAlreadyResolved)
	}
	return err
}

// foundPromise is the promise of a token.
type foundPromise struct {
	token
	run        store.Run
	generation int // of the run when the promise was made
}

// itemID returns the ID of the item that assigns the promise.
func (p *foundPromise) itemID() string {
	return stored.ResolutionID(string(p.loc), p.incarnation, p.generation)
}

// promiseOf returns the promise of a token that can be assigned, or was. ErrNotFound: no
// promise has the token, or it was taken back; the secret is compared first, so that a
// forged token learns nothing. ErrTerminal: the promise is of an earlier incarnation, or
// pruned.
func (e *Engine) promiseOf(ctx context.Context, text string) (*foundPromise, error) {
	t, err := parseToken(text)
	if err != nil {
		return nil, err
	}
	run, ok, err := e.inner.Get(ctx, t.runID)
	if err != nil {
		return nil, err
	}
	if !ok || t.incarnation > run.Incarnation {
		return nil, fmt.Errorf("promise of run %q: %w", t.runID, ErrNotFound)
	}
	generation, err := t.madeIn(ctx, e.store, &run)
	if err != nil {
		return nil, fmt.Errorf("promise of run %q: %w", t.runID, err)
	}
	switch gone, err := pruned(ctx, e.store, &run, t.loc); {
	case err != nil:
		return nil, err
	case gone:
		return nil, fmt.Errorf("promise %s of run %q: its iteration is pruned: %w", t.loc, t.runID, ErrTerminal)
	}
	return &foundPromise{t, run, generation}, nil
}

// madeIn returns the generation of the run in which the promise of a token was
// made. ErrNotFound: none has the token, or the promise was taken back since. ErrTerminal:
// it is of an earlier incarnation.
func (t *token) madeIn(ctx context.Context, s store.Store, run *store.Run) (int, error) {
	seed := stored.IncarnationSeed(run, t.incarnation)
	generation := run.Generation
	for ; generation >= 0; generation-- {
		secret := stored.PromiseSecret(seed, string(t.loc), generation)
		if subtle.ConstantTimeCompare(secret[:], t.secret[:]) == 1 {
			break
		}
	}
	switch {
	case generation < 0:
		return 0, ErrNotFound
	case t.incarnation < run.Incarnation:
		return 0, ErrTerminal
	case generation == run.Generation:
		return generation, nil
	}
	entries, err := s.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation,
		Locs: []string{string(t.loc)}})
	if err != nil {
		return 0, err
	}
	if len(entries) != 1 || entries[0].Kind != store.KindPromise || entries[0].Generation != generation {
		return 0, fmt.Errorf("promise %s was taken back: %w", t.loc, ErrNotFound)
	}
	return generation, nil
}

// pruned reports whether a location is in an iteration of a loop whose history is
// gone.
func pruned(ctx context.Context, s store.Store, run *store.Run, loc location.Loc) (bool, error) {
	iterations := map[string]int64{}
	for loop, n := range loc.Loops() {
		iterations[string(loop)] = n
	}
	if len(iterations) == 0 {
		return false, nil
	}
	entries, err := s.History(ctx, store.HistoryQuery{
		Run: run.No, Incarnation: run.Incarnation, Locs: slices.Collect(maps.Keys(iterations)), Values: true,
	})
	if err != nil {
		return false, err
	}
	for i := range entries {
		p, err := stored.DecodeLoop(entries[i].Value)
		if err != nil || iterations[entries[i].Loc] < p.Oldest {
			return true, err
		}
	}
	return false, nil
}

// token is what the text of a promise's token says.
type token struct {
	runID       string
	incarnation int
	loc         location.Loc
	secret      [16]byte
}

// makeToken returns the text of a promise's token: "p1." and three base64url
// fields, the run's ID, incarnation and location, and the secret.
func makeToken(run *store.Run, loc string, secret [16]byte) string {
	b64 := base64.RawURLEncoding
	return "p1." + b64.EncodeToString([]byte(run.ID)) + "." +
		b64.EncodeToString([]byte(strconv.Itoa(run.Incarnation)+":"+loc)) + "." + b64.EncodeToString(secret[:])
}

func parseToken(text string) (token, error) {
	bad := func(what string) (token, error) {
		return token{}, fmt.Errorf("promise token %.40q: expected p1.RUN.PLACE.SECRET as Promise.Token returns it, %s: %w",
			text, what, ErrNotFound)
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != "p1" {
		return bad("found another form")
	}
	var fields [3][]byte
	for i, part := range parts[1:] {
		data, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil {
			return bad("found a field that is not base64url")
		}
		fields[i] = data
	}
	number, loc, ok := strings.Cut(string(fields[1]), ":")
	incarnation, err := strconv.Atoi(number)
	if !ok || err != nil || incarnation < 0 || location.Check(loc) != nil || len(fields[2]) != 16 {
		return bad("found no location or secret")
	}
	return token{string(fields[0]), incarnation, location.Loc(loc), [16]byte(fields[2])}, nil
}
