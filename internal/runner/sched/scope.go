package sched

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Scope is a region of code that ends with all its branches, and in which names are
// counted.
type Scope struct {
	owner    *Branch
	loc      location.Loc
	value    any    // the run's own, inherited by the branches that are begun here
	name     string // the first name that was used, counted in used
	used     use
	names    map[string]int // the others, as places in uses
	uses     []use
	children []*Branch // in order of creation; nil: ended
	running  int
	failed   []*Future // of ended children
	owned    []Owned   // begun here, to end with the scope; some may be settled
	end      *Wait     // of the branch that waits for the code of the children
	derived  int64     // values derived so far

	cancelled bool  // it has failed, or one around it in its branch
	failure   error // with which it ends, whatever its code returns; nil: none
	ending    bool  // its code has ended
}

// use counts a name in a scope.
type use struct {
	count int
	site  uintptr
}

// Owned is something that ends with the scope in which it was begun.
type Owned interface {
	Settled() bool
	// CloseOwned ends it. It is called again for one that is settled.
	CloseOwned()
}

// Lingering is something that ends with its scope and whose end the scope waits for.
type Lingering interface {
	Owned
	// Linger returns what settles with its end; nil: nothing is waited for.
	Linger() *Source
}

// Location returns the location of the scope.
func (s *Scope) Location() location.Loc { return s.loc }

// Value returns what the scope was begun with, or the one around it.
func (s *Scope) Value() any { return s.value }

// Own adds something that ends with the scope.
func (s *Scope) Own(x Owned) {
	if len(s.owned) == cap(s.owned) {
		s.owned = slices.DeleteFunc(s.owned, Owned.Settled)
	}
	s.owned = append(s.owned, x)
}

// Open reports whether the scope's code is under way, and neither the scope nor its branch
// was cancelled.
func (s *Scope) Open() bool {
	return !s.ending && !s.cancelled && !s.owner.cancelled && !s.owner.dropped
}

// Fail cancels what the scope's code has begun and all that it calls until it ends, and
// fixes the error with which the scope ends. One that is not open stays as it is. The code
// around the scope goes on.
func (s *Scope) Fail(err error) {
	b := s.owner
	at := slices.Index(b.scopes, s)
	if !s.Open() || at < 0 {
		return
	}
	s.failure = err
	for _, inner := range b.scopes[at:] {
		inner.cancelled = true
	}
	if w := b.wait; w != nil && !w.filled {
		w.cancel(s)
	}
	b.sched.cancelIn(b.scopes[at:])
}

// holds reports whether a branch was begun in the scope, or in one inside of it, directly
// or not.
func (s *Scope) holds(b *Branch) bool {
	scopes := s.owner.scopes
	for ; b.parent != nil; b = b.parent.owner {
		if b.parent.owner == s.owner {
			return slices.Index(scopes, b.parent) >= slices.Index(scopes, s)
		}
	}
	return false
}

func (s *Scope) closeOwned() {
	for _, x := range s.owned {
		x.CloseOwned()
	}
}

// lingering returns what the scope waits for behind the end of its code.
func (s *Scope) lingering() []*Source {
	var list []*Source
	for _, x := range s.owned {
		if l, ok := x.(Lingering); ok && !x.Settled() {
			if src := l.Linger(); src != nil {
				list = append(list, src)
			}
		}
	}
	return list
}

// NextDerived counts the values that are derived in the scope, from 1.
func (s *Scope) NextDerived() int64 {
	s.derived++
	return s.derived
}

// Inside calls fn in a scope of its own, with a value. All that fn begins, and what
// it registers with OnExit, ends with it.
func (b *Branch) Inside(loc location.Loc, value any, fn func()) {
	depth, exits := len(b.scopes), len(b.exits)
	b.scopes = append(b.scopes, &Scope{owner: b, loc: loc, value: value, cancelled: b.Scope().cancelled})
	returned := false
	defer func() {
		s := b.sched
		if s.unwinding || b.unwound {
			return
		}
		if !returned && s.OnPanic != nil {
			if p := recover(); p != nil {
				if s.OnPanic(stored.PanicFailure(p), b.loc) {
					b.Halt()
				}
				defer panic(p)
			}
		}
		for len(b.scopes) > depth {
			b.endScope()
		}
		b.exit(exits)
	}()
	fn()
	returned = true
}

// endScope cancels what still runs in the innermost scope and waits for its code.
func (b *Branch) endScope() {
	s := b.Scope()
	s.ending = true
	for _, child := range s.children {
		if child != nil && !child.shielded {
			b.sched.Cancel(child)
		}
	}
	if s.running > 0 {
		s.end = b.NewWait(Call{})
		s.end.forCode = true
		b.wait = s.end
		b.park()
		b.wait, s.end = nil, nil
	}
	s.closeOwned()
	for _, x := range s.lingering() {
		w := b.NewWait(Call{Shield: true})
		w.Add(x)
		_, _ = b.Block(w) // no cancel reaches it
	}
	for _, f := range s.failed {
		if !f.taken {
			b.sched.owner.Unawaited(f)
		}
	}
	b.scopes = b.scopes[:len(b.scopes)-1]
}

// Locate returns the location of the next operation of that name and counts it.
func (b *Branch) Locate(call Call) location.Loc {
	s := b.Scope()
	if err := location.CheckName(call.Name); err != nil {
		b.Misnamed(err)
	}
	if call.Key == "" {
		return b.Bounded(s.loc.Name(call.Name, b.count(s, call.Name, call)))
	}
	if err := location.CheckKey(call.Key); err != nil {
		b.Misnamed(err)
	}
	return b.Bounded(s.loc.Name(call.Name, 1).Key(call.Key, b.count(s, keyed(call.Name, call.Key), call)))
}

// keyed is the name that a call with a key counts as: no name contains the separator.
func keyed(name, key string) string { return name + "\x00" + key }

// count returns the occurrence of a name in a scope.
func (b *Branch) count(s *Scope, name string, call Call) int {
	u := s.use(name)
	if u.site != 0 && call.Site != 0 && u.site != call.Site && !sameLine(u.site, call.Site) {
		what := fmt.Sprintf("the name %q", call.Name)
		remedy := "give each its own name (Named, for a wait or a child), or a key"
		if call.Key != "" {
			what = fmt.Sprintf("the name %q with the key %q", call.Name, call.Key)
			remedy = "give each place its own name: a key tells apart the calls of one place only"
		}
		b.Fail(&stored.Failure{Code: stored.CodeMisuse, Message: fmt.Sprintf(
			"two places in the code use %s in one scope: %s and %s; %s",
			what, line(u.site), line(call.Site), remedy)})
	}
	u.count++
	if call.Site != 0 {
		u.site = call.Site
	}
	return u.count
}

// Bounded returns loc if a store accepts it. Otherwise it fails the run.
func (b *Branch) Bounded(loc location.Loc) location.Loc {
	if len(loc) > store.MaxLocation {
		b.Misnamed(fmt.Errorf("location %.100s…: expected at most %d bytes, found %d: "+
			"nest fewer scopes, or use shorter names", loc, store.MaxLocation, len(loc)))
	}
	return loc
}

// Misnamed fails the run for a name and does not return.
func (b *Branch) Misnamed(err error) {
	b.Fail(&stored.Failure{Code: stored.CodeMisuse, Message: err.Error()})
}

// use returns the counter of a name. It is valid until the next call.
func (s *Scope) use(name string) *use {
	if s.name == name || s.name == "" {
		s.name = name
		return &s.used
	}
	i, known := s.names[name]
	if !known {
		if s.names == nil {
			s.names = map[string]int{}
		}
		i = len(s.uses)
		s.names[name] = i
		s.uses = append(s.uses, use{})
	}
	return &s.uses[i]
}

func line(site uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{site}).Next()
	return fmt.Sprintf("%s:%d", frame.File, frame.Line)
}

func sameLine(a, b uintptr) bool { return line(a) == line(b) }
