package script

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/dop251/goja"

	"github.com/stet-run/stet"
)

// The limits of a script.
const (
	maxFrames  = 2_000  // nested calls
	maxPending = 10_000 // operations under way
)

// run is one activation of a run: an interpreter, which the run's own branch alone enters.
type run struct {
	*compiled
	ctx       stet.Context
	vm        *goja.Runtime
	settled   stet.Settled[json.RawMessage]
	pending   map[*stet.Future[json.RawMessage]]*operation
	calls     []*operation // of this stretch, which begin at its end
	order     []*operation // that are pending, by call; and some that are not any more
	promises  map[*goja.Object]*operation
	rejected  []*goja.Promise // that no code handles
	scope     *scope          // of the code that executes
	top       *scope
	cancelled bool
	stopped   *stopped // of this stretch
	watch     *watch   // of the next one; nil: it needs another
	parseJSON goja.Callable
	joining   int  // nested joins
	encoding  bool // a value is written for the store, not for the script
	bound     map[*goja.Object]*bound
	lines     struct { // the text of which checkLines knows its lines
		text goja.String // kept, so that no other one takes its place
		at   identity
	}
	errorKey *goja.Symbol // of what an operation has failed with
	ownKey   *goja.Symbol // of an error that the script has made, and not the interpreter
}

// scope is what a function of all, any or race begins, with the scopes inside.
type scope struct {
	operations []*operation
	inner      []*scope
	stopped    bool // another member has won
	clean      bool // of Run.cleanup
}

// operation is one that the script has begun.
type operation struct {
	name, key string
	do        func(stet.Context) (json.RawMessage, error)
	clean     bool                          // of Run.cleanup
	future    *stet.Future[json.RawMessage] // nil: it begins at the end of the stretch
	promise   *goja.Object
	resolve   func(any) error
	reject    func(any) error
	effect    bool // it does something outside, and does not only wait
	ended     bool // the promise is settled
	unwanted  bool // it was cancelled in the stretch that has called it
}

func (c *compiled) run(ctx stet.Context, input json.RawMessage) (json.RawMessage, error) {
	if c.version > 0 {
		stet.Version(ctx, stet.ScriptChange, c.version)
	}
	r := &run{
		//stetvet:ignore leak the interpreter lives as long as the run is executed, in its branch
		//stetvet:ignore clock the interpreter has the clock and the numbers of the run, and reads no file
		//stetvet:ignore io the interpreter has the clock and the numbers of the run, and reads no file
		//stetvet:ignore random the interpreter has the clock and the numbers of the run, and reads no file
		compiled: c, ctx: ctx, vm: goja.New(), top: &scope{},
		pending: map[*stet.Future[json.RawMessage]]*operation{}, promises: map[*goja.Object]*operation{},
		errorKey: goja.NewSymbol("stet"), ownKey: goja.NewSymbol("own"),
	}
	r.scope = r.top
	r.vm.SetMaxCallStackSize(maxFrames)
	r.vm.SetRandSource(stet.Random(ctx).Float64)
	r.vm.SetTimeSource(func() time.Time { return stet.Now(ctx) })
	r.vm.SetAsyncContextTracker((*tracker)(r))
	r.vm.SetPromiseRejectionTracker(r.track)
	var result *goja.Promise
	//stetvet:ignore clock the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore io the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore random the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore channel the limits are of this process, and stall
	//stetvet:ignore global the limits are of this process, and stall
	//stetvet:ignore goroutine the limits are of this process, and stall
	if err := r.enter(func() error { return r.begin(input, &result) }); err != nil {
		//stetvet:ignore clock the interpreter has the clock and the numbers of the run, and reads no file
		//stetvet:ignore io the interpreter has the clock and the numbers of the run, and reads no file
		//stetvet:ignore random the interpreter has the clock and the numbers of the run, and reads no file
		return nil, r.failure(err)
	}
	//stetvet:ignore clock the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore io the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore random the interpreter has the clock and the numbers of the run, and reads no file
	//stetvet:ignore channel the limits are of this process, and stall
	//stetvet:ignore global the limits are of this process, and stall
	//stetvet:ignore goroutine the limits are of this process, and stall
	return r.drive(result)
}

// begin executes the script and calls its function.
func (r *run) begin(input json.RawMessage, result **goja.Promise) error {
	if r.used["JSON"] { // before the script can change it
		r.jsonParse()
	}
	if err := r.install(); err != nil {
		return err
	}
	if _, err := r.vm.RunProgram(r.code); err != nil {
		return err
	}
	fn, ok := r.function()
	if !ok {
		return r.stall("expected a default export, or a function workflow; found none")
	}
	in, err := r.value(input)
	if err != nil {
		return err
	}
	out, err := fn(goja.Undefined(), in)
	if err != nil {
		return err
	}
	if p, ok := out.Export().(*goja.Promise); ok {
		*result = p
		return nil
	}
	p, resolve, _ := r.vm.NewPromise()
	*result = p
	return resolve(out)
}

// function is the default export of a bundle, or the function workflow.
func (r *run) function() (goja.Callable, bool) {
	if module, ok := r.vm.Get("__script").(*goja.Object); ok {
		if fn, ok := goja.AssertFunction(module.Get("default")); ok {
			return fn, true
		}
		if fn, ok := goja.AssertFunction(module.Get("workflow")); ok {
			return fn, true
		}
	}
	return goja.AssertFunction(r.vm.Get("workflow"))
}

// drive waits for whichever operation ends next and settles its promise, until the script's
// own promise is settled, and what it has begun without an await has ended.
func (r *run) drive(result *goja.Promise) (json.RawMessage, error) {
	for result.State() == goja.PromiseStatePending || result.State() == goja.PromiseStateFulfilled && r.owes() {
		if r.settled.Len() == 0 {
			if r.cancelled {
				return nil, stet.ErrCancelled
			}
			return nil, r.stall("it awaits what nothing can settle: no operation is under way")
		}
		wait := r.ctx
		if r.cancelled {
			wait = stet.WithoutCancel(r.ctx)
		}
		f, err := r.settled.Next(wait)
		if errors.Is(err, stet.ErrCancelled) && !r.cancelled {
			err = r.enter(r.cancel)
			f = nil
		}
		if err != nil {
			return nil, r.failure(err)
		}
		if f == nil {
			continue
		}
		if err := r.enter(func() error { return r.settle(f) }); err != nil {
			return nil, r.failure(err)
		}
	}
	if r.cancelled {
		return nil, stet.ErrCancelled
	}
	var out json.RawMessage
	err := r.enter(func() error {
		if result.State() == goja.PromiseStateRejected {
			return r.thrown(result.Result())
		}
		if err := r.unobserved(); err != nil {
			return err
		}
		if thrown := r.vm.Try(func() { out = json.RawMessage(r.encoded(result.Result())) }); thrown != nil {
			return thrown
		}
		return nil
	})
	return out, r.failure(err)
}

// owes reports whether operations with an effect are under way, though the script has its result: it has not awaited
// them. What only waits, for a time or a message, has no effect and ends with the run.
func (r *run) owes() bool {
	return !r.cancelled && slices.ContainsFunc(r.order, func(o *operation) bool {
		return o.effect && !o.ended && !o.unwanted
	})
}

// track is called for promises that are rejected without a handler, and for handlers that come later.
func (r *run) track(p *goja.Promise, is goja.PromiseRejectionOperation) {
	if is == goja.PromiseRejectionReject {
		r.rejected = append(r.rejected, p)
	} else {
		r.rejected = slices.DeleteFunc(r.rejected, func(other *goja.Promise) bool { return other == p })
	}
}

// unobserved returns the error with which a promise was rejected that nothing looks at; nil: there is none. What was
// cancelled because another member has won is no failure.
func (r *run) unobserved() error {
	for _, p := range r.rejected {
		if err := r.thrown(p.Result()); !errors.Is(err, stet.ErrCancelled) {
			return err
		}
	}
	return nil
}

// settle gives the outcome of an operation to the script.
func (r *run) settle(f *stet.Future[json.RawMessage]) error {
	o := r.pending[f]
	delete(r.pending, f)
	if o != nil {
		delete(r.promises, o.promise)
		if r.trace != nil {
			r.trace.ended(o)
		}
	}
	if o == nil || o.ended {
		return nil
	}
	o.ended = true
	out, err := f.Result()
	if err != nil {
		return o.reject(r.errorOf(err))
	}
	value, err := r.value(out)
	if err != nil {
		return err
	}
	return o.resolve(value)
}

// cancel rejects all that is pending, in the order of the calls.
func (r *run) cancel() error {
	r.cancelled = true
	for _, o := range r.order {
		if !o.ended {
			o.ended = true
			if err := o.reject(r.errorOf(stet.ErrCancelled)); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter executes code of the script within the limits of a stretch. Beyond them the run
// stalls, and nothing of the stretch is written.
func (r *run) enter(f func() error) error {
	err := r.stretch(f)
	r.vm.ClearInterrupt()
	r.scope = r.top
	var stopped *goja.InterruptedError
	if errors.As(err, &stopped) {
		return r.stall(r.stopped.where(stopped))
	}
	r.beginCalled()
	return err
}

// stretch calls f, which may end its goroutine, under the watch of the limits.
func (r *run) stretch(f func() error) error {
	leave := beginStretch()
	defer leave()
	if r.watch == nil {
		s := new(stopped)
		r.stopped = s
		r.watch = &watch{ask: s.ask, interrupt: func(why string) { s.stop(r.vm, why) }}
	}
	r.watch.start(leave)
	defer func() {
		if !r.watch.end() {
			r.watch = nil
		}
	}()
	return f()
}

// value is JSON.parse. A plain value needs no interpreter.
func (r *run) value(text json.RawMessage) (goja.Value, error) {
	switch s := string(text); {
	case s == "":
		return goja.Undefined(), nil
	case s == "null":
		return goja.Null(), nil
	case s == "true", s == "false":
		return r.vm.ToValue(s == "true"), nil
	case plainNumber(s):
		n, err := strconv.Atoi(s)
		return r.vm.ToValue(n), err
	case plainText(s):
		return r.vm.ToValue(s[1 : len(s)-1]), nil
	}
	exact, found := withExact(string(text))
	v, err := r.jsonParse()(goja.Undefined(), r.vm.ToValue(exact))
	if err == nil && found {
		v = r.restored(v)
	}
	return v, err
}

// jsonParse returns JSON.parse.
func (r *run) jsonParse() goja.Callable {
	if r.parseJSON == nil {
		r.parseJSON, _ = goja.AssertFunction(r.vm.Get("JSON").ToObject(r.vm).Get("parse"))
	}
	return r.parseJSON
}

// plainNumber reports whether a text is a whole number that any notation writes so.
func plainNumber(s string) bool {
	if len(s) > 9 || len(s) > 1 && s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0
}

// plainText reports whether JSON is a text of ASCII in which nothing is escaped.
func plainText(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (r *run) log(level slog.Level, text string) {
	stet.Log(r.ctx).Log(context.Background(), level, text)
}

// tracker keeps the scope of code over its awaits.
type tracker run

func (t *tracker) Grab() any {
	t.stopped.note(t.vm)
	return t.scope
}

func (t *tracker) Resumed(obj any) { t.scope = obj.(*scope) }
func (t *tracker) Exited()         { t.scope = t.top }
