package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stet-run/stet/internal/testing/soak"
)

// Scripts are executed in two ways. In make faults each command line of stet is a process, as a user has it. In make
// test it is a call of execute within the test, one call at a time: to begin two thousand processes costs four times as
// much as all that they do.

// runScripts runs scripts of the command line, with scriptCommands and the condition faults: in make faults alone.
func runScripts(t *testing.T, p testscript.Params) {
	t.Helper()
	t.Parallel()
	p.Cmds = maps.Clone(scriptCommands)
	if p.Condition == nil {
		p.Condition = func(name string) (bool, error) {
			if name != "faults" {
				return false, fmt.Errorf("expected the condition faults, found %q", name)
			}
			return soak.WithFaults(), nil
		}
	}
	if soak.WithFaults() {
		testscript.Run(t, p)
		return
	}
	inProcess.Lock() // another script may have the folder
	defer inProcess.Unlock()
	w := &withinTest{variables: []string{
		"HOME", "PATH", "TMPDIR", "STET_DB", "STET_KEYS", "STET_OBJECTS", "STET_OIDC_SECRET", "STET_SERVER", "STET_TOKEN",
	}}
	if len(p.Files) == 0 {
		var err error
		if p.Files, err = filepath.Glob(filepath.Join(p.Dir, "*.txtar")); err != nil {
			t.Fatal(err)
		}
	}
	p.Files, p.Dir = slices.Clone(p.Files), "" // testscript takes Dir first
	dir := t.TempDir()
	for i, file := range p.Files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.Files[i] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(p.Files[i], []byte(w.rewrite(string(script))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Cmds["within"], p.Cmds["code"], p.Cmds["soon"], p.Cmds["register"] = w.succeeds, w.exitsWith, w.soon, w.register
	if deadline, ok := t.Deadline(); ok {
		p.Deadline = deadline
	}
	testscript.Run(t, p)
}

// inProcess is held by the script that has the folder and the variables of the process.
var inProcess sync.Mutex

// withinTest executes the command line in the process of the test, in the folder and with the variables of a script.
type withinTest struct {
	variables []string // names of variables that scripts set, and that stet reads
}

var (
	// lineOfStet is a line that executes stet, in three parts: what is before, the program, its arguments.
	lineOfStet  = regexp.MustCompile(`^((?:\[[^]]*\] )?(?:! )?(?:code \d+ |soon (?:'[^']*'|\S+) )?)((?:exec )?stet) (.*)$`)
	variableSet = regexp.MustCompile(`([A-Z][A-Z_]*)=`)
)

// ownProcess are the commands that start programs like themselves, or wait: for a signal, or for a run. Others would
// wait for inProcess meanwhile.
var ownProcess = []string{"bench", "torture", "dev", "serve", "mcp", "wait", "watch", "tail"}

// rewrite lets a script execute stet within the test, but where it has an input, is in the background or is one of
// ownProcess.
func (w *withinTest) rewrite(script string) string {
	for _, found := range variableSet.FindAllStringSubmatch(script, -1) {
		if !slices.Contains(w.variables, found[1]) {
			w.variables = append(w.variables, found[1])
		}
	}
	lines := strings.Split(script, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "-- ") {
			break // the script's files
		}
		if line == "exec app register" {
			lines[i] = "register"
		}
		parts := lineOfStet.FindStringSubmatch(line)
		if parts == nil || strings.HasSuffix(line, "&") || i > 0 && strings.HasPrefix(lines[i-1], "stdin ") {
			continue
		}
		if name, _, _ := strings.Cut(parts[3], " "); !slices.Contains(ownProcess, name) {
			lines[i] = parts[1] + "within " + parts[3]
		}
	}
	return strings.Join(lines, "\n")
}

// execute executes stet and returns its exit code.
func (w *withinTest) execute(ts *testscript.TestScript, out, errOut io.Writer, args []string) (code int) {
	w.as(ts, func(ctx context.Context) {
		local := func() int { return execute(ctx, args, strings.NewReader(""), out, errOut) }
		if ts.Getenv(byServerVar) != "" {
			code = executeByServer(ctx, args, strings.NewReader(""), out, errOut, local)
			return
		}
		code = local()
	})
	return code
}

// as calls fn in the folder and with the variables of a script.
func (w *withinTest) as(ts *testscript.TestScript, fn func(ctx context.Context)) {
	inProcess.Lock()
	defer inProcess.Unlock()
	here, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(here)) }()
	for _, name := range append(w.variables, byServerVar) {
		before, was := os.LookupEnv(name)
		if value := ts.Getenv(name); value != "" {
			ts.Check(os.Setenv(name, value))
		} else {
			ts.Check(os.Unsetenv(name))
		}
		if was {
			defer func() { ts.Check(os.Setenv(name, before)) }()
		} else {
			defer func() { ts.Check(os.Unsetenv(name)) }()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	fn(ctx)
}

// register is the command `register`: as `exec app register`.
func (w *withinTest) register(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: register")
	}
	w.as(ts, func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ts.Check(work(ctx, stop, true, ts.Stderr()))
	})
}

// succeeds is the command `[!] within ARGUMENT...`: as `[!] exec stet ARGUMENT...`.
func (w *withinTest) succeeds(ts *testscript.TestScript, neg bool, args []string) {
	if code := w.execute(ts, ts.Stdout(), ts.Stderr(), args); (code != exitDone) != neg {
		ts.Fatalf("found exit code %d", code)
	}
}

func (w *withinTest) exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "within" {
		exitsWith(ts, neg, args)
		return
	}
	if code := w.execute(ts, ts.Stdout(), ts.Stderr(), args[2:]); args[0] != strconv.Itoa(code) {
		ts.Fatalf("expected exit code %s, found %d", args[0], code)
	}
}

func (w *withinTest) soon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "within" {
		soon(ts, neg, args)
		return
	}
	var out bytes.Buffer
	soonPrints(ts, args[0], func() string {
		out.Reset()
		if code := w.execute(ts, &out, ts.Stderr(), args[2:]); code != exitDone {
			ts.Fatalf("found exit code %d", code)
		}
		return out.String()
	})
	_, err := out.WriteTo(ts.Stdout())
	ts.Check(err)
}
