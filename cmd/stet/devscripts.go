package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/script"
)

// isScripts reports whether a path is a folder with scripts and without Go files.
func isScripts(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false, nil // a package by its import path
	}
	programs, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil || len(programs) > 0 {
		return false, err
	}
	found, err := scriptsIn(path)
	return len(found) > 0, err
}

// scriptFolder is a folder whose scripts are deployed when they change: a project.
type scriptFolder struct {
	dir    string
	engine *stet.Engine
	say    func(format string, args ...any)

	mu    sync.Mutex
	state map[string]string // of each script, for people
}

// lookAtScripts is how often a folder is looked at.
const lookAtScripts = 200 * time.Millisecond

// Run implements project.
func (d *scriptFolder) Run(ctx context.Context) error {
	seen := map[string]string{} // what was tried last, by path
	tick := time.NewTicker(lookAtScripts)
	defer tick.Stop()
	for {
		paths, err := scriptsIn(d.dir)
		if err != nil {
			return err
		}
		for _, path := range paths {
			d.deploy(ctx, path, seen)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// deploy deploys a script unless it was tried as it is. What it imports counts, too, so it is
// bundled each time.
func (d *scriptFolder) deploy(ctx context.Context, path string, seen map[string]string) {
	name, code, err := bundledScript(path, "")
	tried := code.Code
	if err != nil {
		tried = err.Error()
	}
	if seen[path] == tried {
		return
	}
	if err == nil {
		var n int
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if n, err = script.Deploy(limited, d.engine, name, code, stet.Act{Why: "stet dev"}); err == nil {
			text := fmt.Sprintf("version %d of %s", n, name)
			if warnings, err := script.Warnings(name, code.Code); err == nil && len(warnings) > 0 {
				text += "; " + strings.Join(warnings, "; ")
			}
			d.note(name, text)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.note(name, err.Error())
	}
	if err == nil || !errors.Is(err, stet.ErrPending) {
		seen[path] = tried
	}
}

func (d *scriptFolder) note(name, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == nil {
		d.state = map[string]string{}
	}
	d.state[name] = text
	d.say("%s", text)
}

// Page implements project.
func (d *scriptFolder) Page(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		var lines []string
		for _, text := range d.state {
			lines = append(lines, text)
		}
		slices.Sort(lines)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = fmt.Fprintln(w, strings.Join(lines, "\n")) // the client has gone
	})
}
