package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/sim"
	"github.com/stet-run/stet/internal/sim/box"
)

// chosen is the variable of a machine's environment that names the defect that it has.
const chosen = "STET_PLANTED"

// guard is what a changed package gets.
const guard = "package %s\n\nimport \"os\"\n\n// plantedDefect is the defect that this process has.\n" +
	"var plantedDefect = os.Getenv(%q)\n"

// word is how a change says "if this defect was chosen".
var word = regexp.MustCompile(`\bplanted\b`)

// compile compiles the program of the machines with all defects in it, each behind its name.
func compile(ctx context.Context, defects []defect) (*box.Program, error) {
	root, err := module(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stet-planted-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file, err := overlay(root, dir, defects)
	if err != nil {
		return nil, err
	}
	return sim.Compile(ctx, file)
}

// module returns the folder of the module under test.
func module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/stet-run/stet").Output()
	if err != nil {
		return "", fmt.Errorf("the folder of the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// overlay writes the changed files to a folder, and a file for the flag -overlay of go build.
func overlay(root, dir string, defects []defect) (file string, err error) {
	byFile := map[string][]defect{}
	for _, d := range defects {
		byFile[d.file] = append(byFile[d.file], d)
	}
	replaced := map[string]string{}
	write := func(at, text string) error {
		if replaced[filepath.Join(root, at)] != "" {
			return nil // of a package with several changed files
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replaced)))
		replaced[filepath.Join(root, at)] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	for name, of := range byFile {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		text, err := change(string(b), of)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		if err := write(name, text); err != nil {
			return "", err
		}
		if err := write(filepath.Join(filepath.Dir(name), "planted.go"), guardOf(parsed)); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

func guardOf(file *ast.File) string { return fmt.Sprintf(guard, file.Name.Name, chosen) }

// change makes the changes to the text of one file.
func change(text string, defects []defect) (string, error) {
	type place struct {
		at int
		defect
	}
	var places []place
	for _, d := range defects {
		if n := strings.Count(text, d.text); n != 1 {
			return "", fmt.Errorf("%s: expected its text once, found it %d times: %q", d.name, n, d.text)
		}
		if !word.MatchString(d.becomes) {
			return "", fmt.Errorf("%s: the change does not ask whether it is planted: %q", d.name, d.becomes)
		}
		places = append(places, place{strings.Index(text, d.text), d})
	}
	slices.SortFunc(places, func(a, b place) int { return a.at - b.at })
	var out strings.Builder
	end := 0
	for _, p := range places {
		if p.at < end {
			return "", fmt.Errorf("%s changes what another defect changes", p.name)
		}
		out.WriteString(text[end:p.at])
		out.WriteString(word.ReplaceAllString(p.becomes, fmt.Sprintf("(plantedDefect == %q)", p.name)))
		end = p.at + len(p.text)
	}
	out.WriteString(text[end:])
	return out.String(), nil
}
