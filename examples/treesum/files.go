package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Page is a part of a listing: files in the order of the walk.
type Page struct {
	Files      []string     `json:"files"` // relative, with slashes
	Unreadable []Unreadable `json:"unreadable,omitempty"`
	Last       bool         `json:"last"`
}

// listFiles lists up to limit regular files that come after the given one. It
// follows no symbolic links and leaves out the paths in skip.
func listFiles(dir string, skip []string, after string, limit int) (Page, error) {
	page := Page{Last: true}
	err := walk(dir, skip, after, func(file string, _ fs.FileInfo, err error) error {
		switch {
		case err != nil:
			page.Unreadable = append(page.Unreadable, Unreadable{file, reason(err)})
		case len(page.Files) == limit:
			page.Last = false
			return fs.SkipAll
		default:
			page.Files = append(page.Files, file)
		}
		return nil
	})
	return page, err
}

// walk calls fn for every regular file after the given one, and for everything
// that cannot be read. Names in a folder come in byte order.
func walk(dir string, skip []string, after string, fn func(file string, info fs.FileInfo, err error) error) error {
	return filepath.WalkDir(dir, func(full string, entry fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, full)
		if relErr != nil {
			return relErr
		}
		file := filepath.ToSlash(rel)
		switch {
		case err != nil && file == ".":
			return err // the folder itself
		case slices.Contains(skip, full):
			return nil
		case err != nil && entry.IsDir():
			return fn(file, nil, err)
		case entry.IsDir():
			if file != "." && before(file, after) && !strings.HasPrefix(after, file+"/") {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !before(after, file):
			return nil
		}
		if !utf8.ValidString(file) {
			return fn(strings.ToValidUTF8(file, "\uFFFD"), nil, errors.New("the name is not UTF-8"))
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while walking
		}
		return fn(file, info, err)
	})
}

// before reports whether a comes before b in the order of the walk, which
// compares folder by folder.
func before(a, b string) bool {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) < 0
}

// defaultID derives a run's ID from the folder and its listing, so that the same
// tree gives the same run.
func defaultID(dir string, skip []string) (string, error) {
	var list []string
	err := walk(dir, skip, "", func(file string, info fs.FileInfo, err error) error {
		if err == nil {
			list = append(list, fmt.Sprintf("%s\x00%d\n", file, info.Size()))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(list)
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s", dir, strings.Join(list, ""))
	return "treesum-" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// extension returns the file's extension with its dot, or "" without one. The
// dot of a dotfile begins a name, not an extension.
func extension(file string) string {
	base := strings.TrimLeft(path.Base(file), ".")
	return path.Ext(base)
}

// checksumLine returns what sha256sum prints for the file: names with a
// backslash, a newline or a carriage return are escaped, and the line says so by
// a backslash at its beginning.
func checksumLine(s FileSum) string {
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(s.Path)
	mark := ""
	if escaped != s.Path {
		mark = `\`
	}
	return mark + s.SHA256 + "  " + escaped + "\n"
}

// reason is an error without the path, which stands beside it.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// checkDir returns the absolute path of a folder.
func checkDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", fmt.Errorf("expected a folder: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("expected a folder, found a file: %s", dir)
	}
	return filepath.EvalSymlinks(abs)
}
