package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/library"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Library gives an engine code that it was not made with: workflows that are kept in the
// store or in files, and become more while the engine runs. Package script has one for
// scripts. Its methods are called concurrently.
//
// Nodes of one build may know different names of a library at a time: nothing compares
// them. A definition of Config.Workflows counts before one of the library.
type Library interface {
	// Names returns the names of all its workflows. Run calls it when it begins, once per
	// Config.Poll, and for a start of a workflow that is not known. Names may come, and do not
	// go. An error is logged; the names of before stay.
	Names(ctx context.Context, e *Engine) ([]string, error)
	// Definition returns the code of a run, each time before that is loaded into memory: a
	// definition of the run's workflow. ErrNotFound and ErrInvalid, also wrapped, say that there
	// is no code for this run: it stalls with CauseCode, until a person has provided the code and
	// resumes the run, or ends it. ErrLacks says that the code is of no use to this process, but may be to another: the
	// run's shard goes to that one. After any other error the run stays as it is, and is asked for again after
	// Config.Poll. ctx ends with the length of a lease.
	Definition(ctx context.Context, e *Engine, run *LibraryRun) (Definition, error)
}

// LibraryRun is a run whose code a Library is asked for.
type LibraryRun struct {
	ID, Workflow string

	headers []byte
	entries []store.Entry
}

// Header returns the header of the run with the key, or "".
func (r *LibraryRun) Header(key string) string {
	h, _ := decodeHeaders(stored.Headers(r.headers)) // were written by encode
	return h[key]
}

// Version returns which version of a change the run has recorded outside of loops, as
// Version did when it was called; 0: none. A library that calls Version first in its code,
// with the number of what it gives, finds here what it has given the run before.
func (r *LibraryRun) Version(change string) (int, error) {
	n, err := library.VersionIn(r.entries, change)
	if err != nil {
		return 0, fmt.Errorf("run %q: version of %q: %w", r.ID, change, err)
	}
	return n, nil
}

// librarian asks a Library for the engine. It implements library.Source.
type librarian struct {
	engine  *Engine
	library Library

	mu    sync.Mutex
	names []string // as they were read last
}

var _ library.Source = (*librarian)(nil)

// namesWithin bounds a read of the names: Run begins without them if the store hangs.
const namesWithin = 10 * time.Second

// Names implements library.Source. Names that no workflow can have are left out.
func (l *librarian) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	names, err := l.library.Names(ctx, l.engine)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return location.CheckName(name) != nil || store.IsEntity(name)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = names
	return names, nil
}

// known returns the names as they were read last.
func (l *librarian) known() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names
}

// Code implements library.Source.
func (l *librarian) Code(ctx context.Context, s *store.Snapshot) (engine.Workflow, error) {
	d, err := l.definition(ctx, s)
	switch {
	case errors.Is(err, ErrLacks):
		return engine.Workflow{}, err
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalid):
		return engine.Workflow{}, fmt.Errorf("%w: %w", library.ErrNoCode, err)
	case err != nil:
		return engine.Workflow{}, err
	}
	return d.workflow(l.engine), nil
}

func (l *librarian) definition(ctx context.Context, s *store.Snapshot) (*definition, error) {
	run := &LibraryRun{ID: s.Run.ID, Workflow: s.Run.Workflow, headers: s.Run.Headers, entries: s.Entries}
	given, err := l.library.Definition(ctx, l.engine, run)
	switch {
	case err != nil:
		return nil, err
	case given == nil, given.inner().code == nil, given.Name() != run.Workflow:
		return nil, fmt.Errorf("expected a definition of workflow %q with code, found another one: %w", run.Workflow,
			ErrInvalid)
	}
	return given.inner(), nil
}

// definitionOf returns the code for a run whose history is given, or nil if the engine has
// none.
func definitionOf(ctx context.Context, e *Engine, s *store.Snapshot) (*definition, error) {
	if d := e.definitions[s.Run.Workflow]; d != nil || !e.inner.Workflows().Code.Has(s.Run.Workflow) {
		return d, nil
	}
	return e.library.definition(ctx, s)
}
