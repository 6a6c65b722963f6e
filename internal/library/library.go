// Package library keeps the code of the workflows that a process executes: those that it was
// made with, and those of a [Source], whose names may become more while it works.
package library

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/definition"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Workflow is the code of one workflow.
type Workflow = definition.Workflow

// ErrNoCode says that there is no code for a run, now or later, unless a person provides it.
var ErrNoCode = errors.New("there is no code for this run")

// Source has code of workflows that the process was not made with. It is used concurrently.
type Source interface {
	// Names returns the names of its workflows.
	Names(ctx context.Context) ([]string, error)
	// Code returns the code for a run of one of them, whose history is given. After ErrNoCode it is not asked again.
	Code(ctx context.Context, s *store.Snapshot) (Workflow, error)
}

// VersionIn returns the version of a change that a history has outside of loops; 0: none.
func VersionIn(entries []store.Entry, change string) (int, error) {
	if i := VersionAt(entries, change); i >= 0 {
		return stored.DecodeVersion(entries[i].Value)
	}
	return 0, nil
}

// VersionPlace returns where the version of a change stands outside of loops.
func VersionPlace(change string) string { return string(journal.VersionLocation("", change)) }

// VersionAt returns the index of the entry of a version outside of loops, or -1.
func VersionAt(entries []store.Entry, change string) int {
	at := VersionPlace(change)
	return slices.IndexFunc(entries, func(e store.Entry) bool { return e.Loc == at })
}

// Shelf is all code of a process. Own, Source and Beside are set before its first use. It is
// safe for concurrent use.
type Shelf struct {
	Own    map[string]Workflow // what the process was made with: counts before what a Source has
	Source Source              // nil: none
	Beside []string            // other names that Executed returns

	told     sync.Map   // workflows whose code was lacking, and when that was logged
	changing sync.Mutex // held while the names are read and replaced
	names    atomic.Pointer[names]
}

// names is not changed once it is made.
type names struct {
	shared   []string // of the Source, without those of Own; sorted
	all      []string // and those of Own; sorted
	executed []string // and those beside
}

func (s *Shelf) now() *names {
	if n := s.names.Load(); n != nil {
		return n
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.names.Load() == nil {
		s.set(nil)
	}
	return s.names.Load()
}

// set replaces the names of the Source. s.changing must be held.
func (s *Shelf) set(found []string) {
	n := &names{}
	for _, name := range found {
		if _, own := s.Own[name]; !own {
			n.shared = append(n.shared, name)
		}
	}
	slices.Sort(n.shared)
	n.shared = slices.Compact(n.shared)
	for name := range s.Own {
		n.all = append(n.all, name)
	}
	n.all = append(n.all, n.shared...)
	slices.Sort(n.all)
	n.executed = slices.Concat(n.all, s.Beside)
	s.names.Store(n)
}

// Look asks the Source for its names. It reports whether they have changed.
func (s *Shelf) Look(ctx context.Context) (changed bool, err error) {
	if s.Source == nil {
		return false, nil
	}
	before := s.now().shared
	s.changing.Lock()
	defer s.changing.Unlock()
	found, err := s.Source.Names(ctx)
	if err != nil {
		return false, err
	}
	s.set(found)
	return !slices.Equal(before, s.names.Load().shared), nil
}

// Watch looks once per interval until ctx ends, and calls changed when there are other names.
func (s *Shelf) Watch(ctx context.Context, interval time.Duration, changed func(), log *slog.Logger) {
	if s.Source == nil {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		limited, done := context.WithTimeout(ctx, max(10*interval, time.Second))
		other, err := s.Look(limited)
		done()
		switch {
		case err != nil && ctx.Err() == nil:
			log.Error("reading the names of the library; trying again", "error", err)
		case other:
			changed()
		}
	}
}

// Names returns the names of all workflows, sorted. They must not be changed.
func (s *Shelf) Names() []string { return s.now().all }

// Executed returns the names of all workflows and those beside. They must not be changed.
func (s *Shelf) Executed() []string { return s.now().executed }

// Empty reports whether there is no code and no Source.
func (s *Shelf) Empty() bool { return len(s.Own) == 0 && s.Source == nil }

// Has reports whether there is code for a workflow.
func (s *Shelf) Has(name string) bool {
	if _, own := s.Own[name]; own {
		return true
	}
	_, found := slices.BinarySearch(s.now().shared, name)
	return found
}

// IsShared reports whether a workflow is known to be one of the Source.
func (s *Shelf) IsShared(name string) bool {
	if s.Source == nil {
		return false
	}
	_, found := slices.BinarySearch(s.now().shared, name)
	return found
}

// Shared reports whether a workflow is one of the Source, which is asked if it is not known.
func (s *Shelf) Shared(ctx context.Context, name string) bool {
	if !s.IsShared(name) && s.Source != nil {
		if _, err := s.Look(ctx); err != nil {
			return false
		}
	}
	return s.IsShared(name)
}

// Fetch puts the code for a run into w, within limit, unless the Source has an error.
func (s *Shelf) Fetch(ctx context.Context, limit time.Duration, of *store.Snapshot, w *Workflow) error {
	limited, done := context.WithTimeout(ctx, limit)
	defer done()
	code, err := s.Of(limited, of)
	if err == nil {
		*w = code
	}
	return err
}

// again is the time after which the lack of a workflow's code is logged again.
const again = time.Minute

// Tell reports whether the log is to be told at a time that the code of a workflow is lacking: once a minute, however
// many runs ask for it.
func (s *Shelf) Tell(workflow string, now time.Time) bool {
	last, told := s.told.Load(workflow)
	if told && now.Sub(last.(time.Time)) < again {
		return false
	}
	s.told.Store(workflow, now)
	return true
}

// Of returns the code for a run. It is zero for a workflow that nobody has here.
func (s *Shelf) Of(ctx context.Context, snapshot *store.Snapshot) (Workflow, error) {
	name := snapshot.Run.Workflow
	if w, own := s.Own[name]; own || !s.Has(name) {
		return w, nil
	}
	return s.Source.Code(ctx, snapshot)
}
