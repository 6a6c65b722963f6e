package script

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/stet-run/stet"
)

// Types are the declarations of what a script has beside the language, for TypeScript: the
// text of stet.d.ts.
//
//go:embed stet.d.ts
var Types string

// Config is what a Library is made from. The zero Config is a library of scripts without
// tasks.
type Config struct {
	// Tasks are what Task.run of every script executes; their names must differ.
	Tasks []Task
	// Options are those of the scripts' definitions, as in stet.Define. A Retention among them
	// is not looked at: that of stet.Config counts. DiscardDeadLetters counts where the code of
	// a run ends it, and not where an operator does.
	Options []stet.DefineOption
	// Replay says that the engine only replays runs: a task that is not among Tasks is no
	// error of a script then, and is never executed.
	Replay bool
	// Cache is how many compiled versions stay in memory. Default 1,000.
	Cache int
	// Isolated executes the code of scripts in child processes of this one, as many as it has processors. Code that
	// exceeds a limit in a way that nothing interrupts then ends its child and not the program: its run stalls. Other
	// runs whose code was in that child go on in another one. The program calls Child first in its main.
	Isolated bool
}

// Library is the code of the scripts that are kept in a store (stet.Scripts), for
// stet.Config.Library. A run is bound to the version that is current when it first begins,
// or to the one that its header stet.ScriptHeader names: that is the first thing it records.
// It goes on with this version through deploys, evictions and failovers. A rewind to "/" and
// a continue-as-new begin with the one that is current then. Safe for concurrent use.
type Library struct {
	cfg   Config
	tasks map[string]Task

	mu       sync.Mutex
	compiled map[cached]*Workflow
}

type cached struct {
	engine *stet.Engine
	name   string
	number int
}

// Open returns a library. It reads nothing. ErrInvalid: two tasks of one name, or one
// without a name or function; Isolated in a program that does not call Child.
func Open(cfg Config) (*Library, error) {
	if cfg.Cache == 0 {
		cfg.Cache = 1000
	}
	tasks, err := byName(cfg.Tasks)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	if cfg.Cache < 1 {
		return nil, fmt.Errorf("script: Cache: expected 1 or more, or 0 (default), found %d: %w", cfg.Cache, stet.ErrInvalid)
	}
	if cfg.Isolated && !childCalled.Load() {
		return nil, fmt.Errorf("script: Isolated: expected a program that calls script.Child first in its main, found that "+
			"it does not: add the call, and in tests add it to TestMain: %w", stet.ErrInvalid)
	}
	return &Library{cfg: cfg, tasks: tasks, compiled: map[cached]*Workflow{}}, nil
}

// Names implements stet.Library.
func (l *Library) Names(ctx context.Context, e *stet.Engine) ([]string, error) {
	return stet.ScriptsOf(e).Names(ctx)
}

// Definition implements stet.Library.
func (l *Library) Definition(ctx context.Context, e *stet.Engine, run *stet.LibraryRun) (stet.Definition, error) {
	number, err := run.Version(stet.ScriptChange)
	if err != nil {
		return nil, err
	}
	if number == 0 {
		if number, err = l.first(ctx, e, run); err != nil {
			return nil, err
		}
	}
	return l.Version(ctx, e, run.Workflow, number)
}

// first returns the version with which a run begins.
func (l *Library) first(ctx context.Context, e *stet.Engine, run *stet.LibraryRun) (int, error) {
	if text := run.Header(stet.ScriptHeader(run.Workflow)); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("header %s: expected the number of a version, found %q: %w",
				stet.ScriptHeader(run.Workflow), text, stet.ErrInvalid)
		}
		return n, nil
	}
	n, err := stet.ScriptsOf(e).Current(ctx, run.Workflow)
	if err == nil && n == 0 || errors.Is(err, stet.ErrNotFound) { // the run waits for one
		return 0, fmt.Errorf("script %s has no current version: deploy one, or use a former one: %w", run.Workflow,
			stet.ErrUnknownWorkflow)
	}
	return n, err
}

// Version returns the definition that binds runs to a version of a script. Errors: those of
// stet.Scripts.Code and of Compile. An error of Compile wraps stet.ErrLacks, too: the process that has deployed the
// version has compiled it, and may be of another build.
func (l *Library) Version(ctx context.Context, e *stet.Engine, name string, number int) (*Workflow, error) {
	key := cached{e, name, number}
	l.mu.Lock()
	w := l.compiled[key]
	l.mu.Unlock()
	if w != nil {
		return w, nil
	}
	code, err := stet.ScriptsOf(e).Code(ctx, name, number)
	if err != nil {
		return nil, err
	}
	if w, err = l.compile(name, code.Code, number); err != nil {
		return nil, fmt.Errorf("version %d: %w: %w: %w", number, err, stet.ErrInvalid, stet.ErrLacks)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for former := range l.compiled { // any one: it is compiled again when it is needed
		if len(l.compiled) < l.cfg.Cache {
			break
		}
		delete(l.compiled, former)
	}
	l.compiled[key] = w
	return w, nil
}

// Candidate returns a definition of code that is no version yet, for stet.CheckQuery: runs
// of any version replay against it.
func (l *Library) Candidate(name, code string) (*Workflow, error) {
	return l.compile(name, code, math.MaxInt32)
}

func (l *Library) compile(name, code string, number int) (*Workflow, error) {
	program, err := parse(name, code)
	if err != nil {
		return nil, err
	}
	p := l.bind(compiled{name: name, version: number}, program, code)
	return define(name, p, l.cfg.Options), nil
}

// bind adds to a compiled script what the library has.
func (l *Library) bind(c compiled, program parsed, code string) *compiled {
	c.tasks, c.replay = l.tasks, l.cfg.Replay
	if l.cfg.Isolated {
		c.source, c.program = code, programIDs.Add(1)
		return &c
	}
	return newCompiled(c, program, code)
}

// Deploy compiles code, for its errors, and makes it the current version of a script. Errors
// wrap ErrSource, or are those of stet.Scripts.Deploy.
func Deploy(ctx context.Context, e *stet.Engine, name string, code stet.ScriptCode, act stet.Act) (int, error) {
	if _, err := parse(name, code.Code); err != nil {
		return 0, err
	}
	return stet.ScriptsOf(e).Deploy(ctx, name, code, act)
}

// errReplayOnly is what a task that is not there gives where runs are only replayed.
var errReplayOnly = errors.New("this process only replays runs")
