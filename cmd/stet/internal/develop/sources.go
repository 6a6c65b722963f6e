package develop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// stampOf returns a text that changes when a source of a module changes: its Go files but
// those of tests, go.mod and its kin, and other files by name. What cannot be read counts as
// not there.
func stampOf(root string, files []string) string {
	sum := sha256.New()
	note := func(path string, info fs.FileInfo) {
		fmt.Fprintf(sum, "%s\x00%d\x00%d\n", path, info.Size(), info.ModTime().UnixNano())
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has gone, or may not be read
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" ||
				name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if isSource(name) {
			if info, err := d.Info(); err == nil {
				note(path, info)
			}
		}
		return nil
	})
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			note(path, info)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func isSource(name string) bool {
	switch name {
	case "go.mod", "go.sum", "go.work":
		return true
	}
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// embedded returns the files of a module that a package and those that it imports embed. If
// the go command does not say, because the sources are wrong, they are those of before.
func embedded(ctx context.Context, dir, pkg, root string, before []string) (files []string) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,EmbedFiles", pkg)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return before
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var found struct {
			Dir        string
			EmbedFiles []string
		}
		if err := decoder.Decode(&found); errors.Is(err, io.EOF) || err != nil {
			return files
		}
		if found.Dir != root && !strings.HasPrefix(found.Dir, root+string(filepath.Separator)) {
			continue
		}
		for _, name := range found.EmbedFiles {
			files = append(files, filepath.Join(found.Dir, name))
		}
	}
}
