package script

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/dop251/goja"
)

// The limits of a script.
const (
	maxFrames  = 2_000  // nested calls
	maxPending = 10_000 // operations under way
)

// interpreter executes a script. Its driver alone enters it.
type interpreter struct {
	*compiled
	host
	vm        *goja.Runtime
	id        string    // of the run
	now       time.Time // of the run, in this stretch
	result    *goja.Promise
	pending   map[int]*operation // by number
	numbered  int                // operations, so far
	calls     []*operation       // of this stretch, which begin at its end
	cancels   []int              // of this stretch
	order     []*operation       // that are pending, by call; and some that are not any more
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
	call
	promise *goja.Object
	resolve func(any) error
	reject  func(any) error
	begun   bool // in a former stretch
	ended   bool // the promise is settled
}

func newInterpreter(c *compiled, h host) *interpreter {
	r := &interpreter{
		compiled: c, host: h, vm: goja.New(), top: &scope{},
		pending: map[int]*operation{}, promises: map[*goja.Object]*operation{},
		errorKey: goja.NewSymbol("stet"), ownKey: goja.NewSymbol("own"),
	}
	r.scope = r.top
	r.vm.SetMaxCallStackSize(maxFrames)
	r.vm.SetRandSource(h.random)
	r.vm.SetTimeSource(func() time.Time { return r.now })
	r.vm.SetAsyncContextTracker((*tracker)(r))
	r.vm.SetPromiseRejectionTracker(r.track)
	return r
}

// end implements script. The interpreter is garbage then.
func (r *interpreter) end() {}

// enter implements script. It executes code within the limits of a stretch. Beyond them the run
// stalls, and nothing of the stretch is written.
func (r *interpreter) enter(e entry) left {
	r.now = e.Now
	var out left
	err := r.stretch(func() error { return r.execute(e, &out) })
	r.vm.ClearInterrupt()
	r.scope = r.top
	var cut *goja.InterruptedError
	if errors.As(err, &cut) {
		return left{Failure: faultf("%s", r.stopped.where(cut))}
	}
	out.Failure = r.failure(err)
	out.Calls, out.Cancels, r.cancels = r.called(), r.cancels, nil
	if r.result != nil {
		out.State, out.Owes = r.state(), r.owes()
	}
	return out
}

// state returns how far the result is.
func (r *interpreter) state() resultState {
	switch r.result.State() {
	case goja.PromiseStateFulfilled:
		return resultFulfilled
	case goja.PromiseStateRejected:
		return resultRejected
	}
	return resultPending
}

// execute executes the stretch of an entry. An interrupt outside of the interpreter's own code is a panic.
func (r *interpreter) execute(e entry, out *left) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *goja.InterruptedError:
			err = p
		default:
			panic(p)
		}
	}()
	switch {
	case e.Begin != nil:
		r.id = e.Begin.RunID
		return r.begin(e.Begin.Input)
	case e.Settle != nil:
		return r.settle(e.Settle)
	case e.Cancel:
		return r.cancel()
	}
	return r.finish(out)
}

// begin executes the script and calls its function.
func (r *interpreter) begin(input json.RawMessage) error {
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
		return faultf("expected a default export, or a function workflow; found none")
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
		r.result = p
		return nil
	}
	p, resolve, _ := r.vm.NewPromise()
	r.result = p
	return resolve(out)
}

// function is the default export of a bundle, or the function workflow.
func (r *interpreter) function() (goja.Callable, bool) {
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

// finish gives the result of the script.
func (r *interpreter) finish(out *left) error {
	if r.result.State() == goja.PromiseStateRejected {
		return r.thrown(r.result.Result())
	}
	if failed := r.unobserved(); failed != nil {
		return failed
	}
	if thrown := r.vm.Try(func() { out.Result = r.encoded(r.result.Result()) }); thrown != nil {
		return thrown
	}
	return nil
}

// called returns the operations that a stretch has called.
func (r *interpreter) called() []call {
	if len(r.calls) == 0 {
		return nil
	}
	calls := make([]call, len(r.calls))
	for i, o := range r.calls {
		calls[i] = o.call
		o.begun, o.Input = true, ""
	}
	clear(r.calls)
	r.calls = r.calls[:0]
	return calls
}

// owes reports whether operations with an effect are under way, though the script has its result: it has not awaited
// them. What only waits, for a time or a message, has no effect and ends with the run.
func (r *interpreter) owes() bool {
	return !r.cancelled && slices.ContainsFunc(r.order, func(o *operation) bool {
		return acts[o.Act].effect && !o.ended && !o.Unwanted
	})
}

// track is called for promises that are rejected without a handler, and for handlers that come later.
func (r *interpreter) track(p *goja.Promise, is goja.PromiseRejectionOperation) {
	if is == goja.PromiseRejectionReject {
		r.rejected = append(r.rejected, p)
	} else {
		r.rejected = slices.DeleteFunc(r.rejected, func(other *goja.Promise) bool { return other == p })
	}
}

// unobserved returns the failure with which a promise was rejected that nothing looks at; nil: there is none. What was
// cancelled because another member has won is no failure.
func (r *interpreter) unobserved() *failure {
	for _, p := range r.rejected {
		if f := r.thrown(p.Result()); f.Problem == nil || !f.Problem.cancels() {
			return f
		}
	}
	return nil
}

// settle gives the outcome of an operation to the script.
func (r *interpreter) settle(out *outcome) error {
	o := r.pending[out.Number]
	if o == nil {
		return nil
	}
	delete(r.pending, out.Number)
	delete(r.promises, o.promise)
	if o.ended {
		return nil
	}
	o.ended = true
	if out.Problem != nil {
		return o.reject(r.errorOf(out.Problem))
	}
	value, err := r.value(out.Value)
	if err != nil {
		return err
	}
	return o.resolve(value)
}

// cancel rejects all that is pending, in the order of the calls.
func (r *interpreter) cancel() error {
	r.cancelled = true
	for _, o := range r.order {
		if !o.ended {
			o.ended = true
			if err := o.reject(r.errorOf(cancelled)); err != nil {
				return err
			}
		}
	}
	return nil
}

// stretch calls f, which may end its goroutine, under the watch of the limits.
func (r *interpreter) stretch(f func() error) error {
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
func (r *interpreter) value(text json.RawMessage) (goja.Value, error) {
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
func (r *interpreter) jsonParse() goja.Callable {
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

// tracker keeps the scope of code over its awaits.
type tracker interpreter

func (t *tracker) Grab() any {
	t.stopped.note(t.vm)
	return t.scope
}

func (t *tracker) Resumed(obj any) { t.scope = obj.(*scope) }
func (t *tracker) Exited()         { t.scope = t.top }
