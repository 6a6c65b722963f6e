package runner

import (
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Promise is assigned once, from outside.
type Promise struct {
	op *promiseOp
}

// promiseOp is a promise. It takes effect when it is made, because its token must not
// wait for a branch, and goes on when no branch waits for it any more.
type promiseOp struct {
	journal.Op
	promises *promises
	check    Check
	headers  []byte // of what has assigned it, in this activation
}

// promises are the promises of a run and what they were assigned.
type promises struct {
	j        *journal.Journal
	arrived  journal.Lane
	made     map[string]*promiseOp // by location
	resolved map[string]store.Item // resolutions that are not consumed, by location
}

// NewPromise makes a promise; its location identifies it. What is of no use by the check
// does not assign it.
func (b *Branch) NewPromise(call Call, check Check) (*Promise, error) {
	if err := b.Enter(call); err != nil {
		return nil, err
	}
	p := &b.run.promises
	o := &promiseOp{promises: p, check: check}
	p.j.Declare(&b.Branch, &o.Op, o, call, store.KindPromise)
	p.made[string(o.Loc)] = o
	o.In.OnPrune(func() { delete(p.made, string(o.Loc)) })
	if o.Rec == nil {
		o.Expect()
	}
	return &Promise{o}, nil
}

// Location returns the promise's encoded location.
func (p *Promise) Location() string { return string(p.op.Loc) }

// Secret returns 16 bytes that only the run can make for this promise.
func (p *Promise) Secret() [16]byte {
	return stored.PromiseSecret(p.op.J.Run.Seed, string(p.op.Loc), p.op.Generation)
}

// AwaitPromise waits until the promise is assigned. A *Failure is what it was
// rejected with. A settled promise gives its value also in a cancelled branch.
func (b *Branch) AwaitPromise(call Call, p *Promise) ([]byte, error) {
	err := b.Check(call)
	if err == nil {
		b.ownsPromise(p)
	}
	if err == nil && !p.op.Settled() {
		err = b.Refuse(call)
	}
	if err != nil {
		return nil, err
	}
	err = p.op.Wait(&b.Branch, call)
	return p.op.Value, err
}

// ownsPromise makes sure that a promise is of this run, in this activation.
func (b *Branch) ownsPromise(p *Promise) {
	if j := p.op.J; j != b.run.j {
		b.NotOwn("the promise at "+p.op.Loc.String(), j.Run.ID)
	}
}

func (o *promiseOp) Start() {
	if !o.Written() {
		o.Write(store.Entry{State: store.Open, Started: o.J.Now()})
	}
	o.arrive()
}

func (o *promiseOp) Abandon() bool { return false }

// arrive lists the promise if its resolution is there. One that does not decode is refused,
// and the promise can be assigned again.
func (o *promiseOp) arrive() {
	it, ok := o.promises.resolved[string(o.Loc)]
	switch {
	case !ok || !o.J.Live() || o.Settled():
	case !it.Failed && o.Refuses(&it, it.Value, o.check):
		delete(o.promises.resolved, string(o.Loc))
	default:
		o.promises.arrived.Add(o)
	}
}

func (o *promiseOp) Wanted() bool {
	_, ok := o.promises.resolved[string(o.Loc)]
	return ok && !o.Settled() && o.IsAwaited()
}

func (o *promiseOp) IsLate() bool { return o.Late(o.promises.resolved[string(o.Loc)].Sent) }

// take hands the resolution over.
func (o *promiseOp) Take() {
	it := o.promises.resolved[string(o.Loc)]
	delete(o.promises.resolved, string(o.Loc))
	o.J.Log.Consume(it.No, nil)
	o.Value, o.headers, o.Came = it.Value, it.Headers, it.Sent
	if it.Failed {
		failure, err := stored.DecodeFailure(it.Value)
		if err != nil {
			failure = &stored.Failure{Code: stored.CodeEncoding, Message: err.Error()}
		}
		o.Value, o.Failure = nil, failure
	}
	o.HandOver()
}

// Outcome keeps the headers of the assignment with the value, or with the failure.
func (o *promiseOp) Outcome(e store.Entry) store.Entry {
	switch {
	case len(o.headers) == 0:
	case o.Failure == nil:
		e.Value = stored.WithHeaders(o.headers, o.Value)
	default:
		failure := *o.Failure
		failure.Headers = o.headers
		e.Value = stored.EncodeFailure(&failure)
	}
	return e
}

// Recall takes the value without the headers of its assignment.
func (o *promiseOp) Recall(value []byte) error {
	_, value, err := stored.SplitHeaders(value)
	if err != nil {
		return err
	}
	return o.Op.Recall(value)
}

// deliver takes the assignment of a promise from the inbox. It reports whether it is kept.
func (p *promises) deliver(it *store.Item) bool {
	loc := location.Loc(it.Loc)
	if it.Incarnation != p.j.Run.Incarnation || p.j.IsPruned(loc) || it.Generation != p.madeIn(loc) {
		p.j.Log.DeadLetter(it.No) // nothing can await it any more
		return false
	}
	if _, twice := p.resolved[it.Loc]; twice {
		p.j.Answer(it.No, nil) // the first one stands
		return false
	}
	p.resolved[it.Loc] = *it
	if o := p.made[it.Loc]; o != nil {
		o.arrive()
	}
	_, kept := p.resolved[it.Loc]
	return kept
}

// madeIn returns the generation in which the promise at loc was made, or will be.
func (p *promises) madeIn(loc location.Loc) int {
	if o := p.made[string(loc)]; o != nil {
		return o.Generation
	}
	if rec := p.j.RecordAt(loc); rec != nil {
		return rec.Generation
	}
	return p.j.Run.Generation
}

// prune forgets what was resolved in a span of the history that is deleted.
func (p *promises) prune(span store.Span, dead func(store.ItemNo)) {
	for loc, it := range p.resolved {
		if span.Contains(loc) {
			delete(p.resolved, loc)
			dead(it.No)
		}
	}
}
