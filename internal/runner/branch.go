package runner

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// ErrCancelled is what every operation of a cancelled branch returns.
var ErrCancelled = errors.New("cancelled")

// ErrTimeout is the outcome of a wait whose deadline won.
var ErrTimeout = errors.New("timeout")

// Branch is a thread of a run's code: the workflow's function or what Go began.
// Its methods are called by its own code only; another caller gets a failure
// that says so, and the run fails.
type Branch struct {
	run    *Run
	id     int64
	loc    location.Loc
	parent *scope
	place  int // in parent.children
	fn     func(*Branch) (any, error)
	future *Future

	resume    chan struct{}
	started   bool
	ended     bool
	stack     stack
	cancelled bool
	shielded  bool // begun under WithoutCancel: an ancestor's cancel does not reach it
	unwound   bool // its code was ended because it went on asking
	wait      *wait
	scopes    []*scope // outer to inner
	exits     []func()

	// What every branch has, in the same piece of memory.
	ownFuture Future
	ownScope  scope
	ownScopes [2]*scope
	ownWait   wait
}

// scope is a region of code that ends with all its branches, and in which names
// are counted.
type scope struct {
	owner    *Branch
	loc      location.Loc
	name     string // the first name that was used, counted in used
	used     use
	names    map[string]*use // the others
	children []*Branch       // in order of creation; nil: ended
	running  int
	failed   []*Future // of ended children
	runs     []*op     // started here, to end with the scope; some may have ended
	end      *wait     // of the branch that waits for the code of the children
	derived  int64     // values derived so far
	in       *stretch  // of a loop; nil: not in one
}

// use counts a name in a scope.
type use struct {
	count int
	site  uintptr
}

// Future is the outcome of a branch, or a failure to begin one.
type Future struct {
	source
	branch *Branch // nil: never begun
	value  any
	err    error
	groups []*group // composites that watch it
	taken  bool     // somebody has looked at the error
}

// Result returns the outcome of a settled future.
func (f *Future) Result() (any, error) {
	f.taken = true
	return f.value, f.err
}

// Settled reports whether the branch has ended.
func (f *Future) Settled() bool { return f.settled }

// Call says where and how an operation is asked for.
type Call struct {
	Name   string
	Key    string  // "": none
	Site   uintptr // 0: it may share its name with another place
	Shield bool    // under WithoutCancel
}

// Go begins a branch. The new branch is queued; the caller goes on.
func (b *Branch) Go(call Call, fn func(*Branch) (any, error)) *Future {
	if err := b.enter(call); err != nil {
		return &Future{source: source{settled: true}, err: err}
	}
	return b.begin(b.locate(call), call.Shield, fn)
}

func (b *Branch) begin(loc location.Loc, shield bool, fn func(*Branch) (any, error)) *Future {
	child := b.run.newBranch(b.scope(), loc, fn)
	child.shielded = shield || b.shielded
	return child.future
}

func (r *Run) newBranch(parent *scope, loc location.Loc, fn func(*Branch) (any, error)) *Branch {
	r.nextID++
	b := &Branch{run: r, id: r.nextID, loc: loc, parent: parent, fn: fn, resume: make(chan struct{}, 1)}
	b.ownFuture.branch, b.future = b, &b.ownFuture
	b.ownScope.owner, b.ownScope.loc = b, loc
	b.scopes = append(b.ownScopes[:0], &b.ownScope)
	if parent != nil {
		b.ownScope.in = parent.in
		b.place = len(parent.children)
		parent.children = append(parent.children, b)
		parent.running++
	}
	r.branches[b] = struct{}{}
	r.ready.push(b)
	return b
}

func (b *Branch) scope() *scope { return b.scopes[len(b.scopes)-1] }

// Location returns the scope in which the branch's next operation stands.
func (b *Branch) Location() location.Loc { return b.scope().loc }

// OnExit has fn called when the branch's code, or the iteration of a loop in which
// it stands, has ended, in whichever way, eviction included; the last one given is
// called first.
func (b *Branch) OnExit(fn func()) { b.exits = append(b.exits, fn) }

// enter begins an operation. It returns ErrCancelled in a cancelled branch.
func (b *Branch) enter(call Call) error {
	if err := b.check(call); err != nil {
		return err
	}
	return b.refuse(call)
}

// check makes sure that the operation is asked for by the branch's own code. In
// a branch that is being unwound it does not return.
func (b *Branch) check(call Call) error {
	r := b.run
	current := r.current.Load()
	if current != b || !b.stack.own() || b.ended {
		return r.misused(b, current, call)
	}
	if r.unwinding || b.unwound {
		runtime.Goexit()
	}
	return nil
}

// refuse returns ErrCancelled in a cancelled branch.
func (b *Branch) refuse(call Call) error {
	if !b.cancelled || call.Shield || b.shielded {
		return nil
	}
	r := b.run
	if r.refused++; r.refused > maxRefused {
		r.note(b.loc, "code of a cancelled run went on asking and was ended", nil)
		b.unwound = true
		runtime.Goexit()
	}
	return ErrCancelled
}

func (r *Run) misused(b, current *Branch, call Call) error {
	place, who := b.name(), "a step body or a foreign goroutine"
	if current != nil && current != b {
		who = "the code of " + current.name()
	}
	f := &stored.Failure{Code: stored.CodeMisuse, Message: fmt.Sprintf(
		"operation %q was called through the context of %s by %s: use the context that the branch's own function was given, only in it, and none inside a step",
		call.Name, place, who), Stack: stored.Stack()}
	r.misuse.CompareAndSwap(nil, f)
	return f
}

// locate returns the location of the next operation of that name and counts it.
func (b *Branch) locate(call Call) location.Loc {
	s := b.scope()
	if err := location.CheckName(call.Name); err != nil {
		b.misnamed(err)
	}
	if call.Key == "" {
		return b.bounded(s.loc.Name(call.Name, b.count(s, call.Name, call)))
	}
	if err := location.CheckKey(call.Key); err != nil {
		b.misnamed(err)
	}
	return b.bounded(s.loc.Name(call.Name, 1).Key(call.Key, b.count(s, keyed(call.Name, call.Key), call)))
}

// keyed is what a call with a key counts as: no name contains the separator.
func keyed(name, key string) string { return name + "\x00" + key }

// count returns the occurrence of a name in a scope.
func (b *Branch) count(s *scope, name string, call Call) int {
	u := s.uses(name)
	if u.site != 0 && call.Site != 0 && u.site != call.Site && !sameLine(u.site, call.Site) {
		b.fail(&stored.Failure{Code: stored.CodeMisuse, Message: fmt.Sprintf(
			"two places in the code use the name %q in one scope: %s and %s; give each its own name, or a key",
			call.Name, line(u.site), line(call.Site))})
	}
	u.count++
	if call.Site != 0 {
		u.site = call.Site
	}
	return u.count
}

// bounded returns a location that a store accepts.
func (b *Branch) bounded(loc location.Loc) location.Loc {
	if len(loc) > store.MaxLocation {
		b.misnamed(fmt.Errorf("location %.100s…: expected at most %d bytes, found %d: nest fewer scopes, or use shorter names",
			loc, store.MaxLocation, len(loc)))
	}
	return loc
}

func (b *Branch) misnamed(err error) {
	b.fail(&stored.Failure{Code: stored.CodeMisuse, Message: err.Error()})
}

// name returns the branch's location, in text form.
func (b *Branch) name() string {
	if b.loc == "" {
		return "the workflow's function"
	}
	return b.loc.String()
}

// uses returns the counter of a name. It is valid until the next call.
func (s *scope) uses(name string) *use {
	if s.name == name || s.name == "" {
		s.name = name
		return &s.used
	}
	u := s.names[name]
	if u == nil {
		if s.names == nil {
			s.names = map[string]*use{}
		}
		u = new(use)
		s.names[name] = u
	}
	return u
}

func line(site uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{site}).Next()
	return fmt.Sprintf("%s:%d", frame.File, frame.Line)
}

func sameLine(a, b uintptr) bool { return line(a) == line(b) }

// fail ends the run with f and does not return.
func (b *Branch) fail(f *stored.Failure) {
	b.run.fail(f)
	b.halt()
}

// fail ends the run with f. The code that has made what is recorded did not fail
// before the last completion, so a failure before it is a divergence.
func (r *Run) fail(f *stored.Failure) {
	switch {
	case r.over != nil:
	case r.returned, r.dropped:
		r.note("", "an operation was called by code that has ended", f)
	case r.undo.begun && r.undo.abrupt() && r.remaining() != nil:
		// As before: what follows is recorded. The branch goes no further.
	case r.undo.begun && r.undo.outcome != nil && !r.undo.abrupt():
		s := r.unended()
		s.Asked = "the failure of the run: " + f.Message
		r.stall(s)
	case !r.live && r.remaining() != nil:
		s := r.mismatch(r.remaining())
		s.Asked = "the failure of the run: " + f.Message
		r.stall(s)
	default:
		r.conclude(&Outcome{Status: store.Failed, Output: stored.EncodeFailure(f)})
	}
}

// halt blocks until the run is unwound.
func (b *Branch) halt() {
	for {
		b.park()
	}
}

// park passes the baton on and returns when it is back.
func (b *Branch) park() {
	r := b.run
	if next := r.next(); next != b {
		r.pass(next)
		<-b.resume
	}
	if r.unwinding {
		runtime.Goexit()
	}
}

// pass gives the baton to b, or with nil to the driver.
func (r *Run) pass(b *Branch) {
	switch {
	case b == nil:
		r.yield <- struct{}{}
	case b.started:
		b.resume <- struct{}{}
	default:
		b.started = true
		go b.main()
	}
}

// main is the goroutine of a branch.
func (b *Branch) main() {
	b.stack.grow()
	returned := false
	defer func() {
		if !b.ended { // unwound: the driver waits
			_ = recover() // a panic of a deferred function that ran while unwinding
			b.ended = true
			b.exit(0)
			b.run.yield <- struct{}{}
		}
	}()
	defer func() {
		if b.run.unwinding {
			return
		}
		switch p := recover(); {
		case p != nil:
			b.panicked(stored.PanicFailure(p))
		case !returned && b.unwound:
			b.future.err = ErrCancelled
		case !returned:
			b.panicked(&stored.Failure{Code: stored.CodePanic, Message: "workflow code called runtime.Goexit"})
		}
		b.finish()
	}()
	b.future.value, b.future.err = b.fn(b)
	returned = true
}

func (b *Branch) panicked(f *stored.Failure) {
	b.future.err = f
	if b == b.run.root {
		b.run.end(nil, f)
	}
}

// finish ends the branch's scopes, settles its future and passes the baton on.
func (b *Branch) finish() {
	r := b.run
	for len(b.scopes) > 0 {
		b.endScope()
	}
	delete(r.branches, b)
	switch b {
	case r.root:
		r.returned = true
		if r.finished(); r.over != nil {
			b.exit(0) // else compensations may need it
		}
	case r.undo.payer:
		r.paidUp()
		r.root.exit(0)
	default:
		b.exit(0)
		r.ended(b)
	}
	b.ended = true
	r.pass(r.next())
}

// endScope cancels what still runs in the innermost scope and waits for its code.
func (b *Branch) endScope() {
	s := b.scope()
	for _, child := range s.children {
		if child != nil && !child.shielded {
			b.run.cancel(child)
		}
	}
	if s.running > 0 {
		s.end = b.newWait(Call{})
		s.end.forCode = true
		b.wait = s.end
		b.park()
		b.wait, s.end = nil, nil
	}
	s.closeRuns()
	for _, f := range s.failed {
		if !f.taken && !b.Replaying() {
			b.run.note(f.branch.loc, "nobody has awaited the error of this branch", f.err)
		}
	}
	b.scopes = b.scopes[:len(b.scopes)-1]
}

// exit calls the functions given to OnExit, except the first n.
func (b *Branch) exit(n int) {
	for i := len(b.exits) - 1; i >= n; i-- {
		func() {
			defer func() {
				if p := recover(); p != nil {
					b.run.note(b.loc, "closing a local resource", stored.PanicFailure(p))
				}
			}()
			b.exits[i]()
		}()
	}
	b.exits = b.exits[:n]
}

// ended settles the future of b: who awaits it wakes first, then its composites
// decide, then its scope ends if b was the last.
func (r *Run) ended(b *Branch) {
	f := b.future
	r.settle(&f.source)
	for _, g := range f.groups {
		g.settledOne(f)
	}
	s := b.parent
	if f.err != nil && f.err != ErrCancelled {
		s.failed = append(s.failed, f)
	}
	s.children[b.place] = nil
	s.running--
	if s.running == 0 {
		s.children = s.children[:0]
		if s.end != nil {
			s.end.fill(nil, nil)
		}
	}
}

// cancel cancels a branch in pre-order: the branch, then its scopes from outer
// to inner, branches in order of creation.
func (r *Run) cancel(b *Branch) {
	if b.ended || b.cancelled {
		return
	}
	b.cancelled = true
	if w := b.wait; w != nil && !w.filled {
		w.cancel()
	}
	for _, s := range b.scopes {
		s.closeRuns()
		for _, child := range s.children {
			if child != nil && !child.shielded {
				r.cancel(child)
			}
		}
	}
}

func (r *Run) note(loc location.Loc, text string, err error) {
	r.notes = append(r.notes, Note{Location: loc, Text: text, Err: err})
}
