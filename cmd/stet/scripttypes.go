package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stet-run/stet/script"
)

// typesWithin bounds how long the compiler may look at one script.
const typesWithin = time.Minute

// checkTypes has the TypeScript compiler check a file and what it imports, and returns what it finds, a line each. The
// compiler is that of a node_modules in a folder above, or the tsc of the PATH. checked: there is one, or the file is
// JavaScript, which has no types. No tsconfig.json counts, as for the code of a script.
func checkTypes(ctx context.Context, path string) (problems []string, checked bool, err error) {
	if end := filepath.Ext(path); end != ".ts" && end != ".mts" {
		return nil, true, nil
	}
	compiler := typeScript(path)
	if compiler == "" {
		return nil, false, nil
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, false, err
	}
	dir, err := os.MkdirTemp("", "stet-types-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	types, project := filepath.Join(dir, "stet.d.ts"), filepath.Join(dir, "tsconfig.json")
	config, err := json.Marshal(map[string]any{
		"compilerOptions": map[string]any{
			"strict": true, "noEmit": true, "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
			"types": []string{}, "allowImportingTsExtensions": true,
		},
		"files": []string{types, file},
	})
	if err == nil {
		err = errors.Join(os.WriteFile(types, []byte(script.Types), 0o600), os.WriteFile(project, config, 0o600))
	}
	if err != nil {
		return nil, false, err
	}
	limited, cancel := context.WithTimeout(ctx, typesWithin)
	defer cancel()
	cmd := exec.CommandContext(limited, compiler, "--pretty", "false", "-p", project)
	cmd.Dir = filepath.Dir(file)
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || limited.Err() != nil || len(out) == 0) {
		return nil, false, fmt.Errorf("check the types of %s with %s: %w", path, compiler, err)
	}
	if err == nil {
		return nil, true, nil
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			problems = append(problems, line)
		}
	}
	return problems, true, nil
}

// typeScript returns the compiler for a file, or "".
func typeScript(path string) string {
	if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		for {
			if found, err := exec.LookPath(filepath.Join(dir, "node_modules", ".bin", "tsc")); err == nil {
				return found
			}
			if dir == filepath.Dir(dir) {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	found, err := exec.LookPath("tsc")
	if err != nil {
		return ""
	}
	return found
}
